"""Credentials and clocks: who is turned away, with which code, and by whom it is decided.

The numbered cases are rows of facts/aws-bugs.md.
"""

import datetime as dt

import pytest
from aws_simulator_process import code_of

from aws_simulator import callers
from aws_simulator.calls import Call
from aws_simulator.settings import Config

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()


def call(signed=0.0, service="ec2", key="me"):
    """Return a call whose clock differs from ours by some seconds."""
    date = dt.datetime.fromtimestamp(NOW + signed, tz=dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    return Call(service, "X", "us-east-1", "", {}, is_json=False, key=key, date=date)


@pytest.mark.parametrize(
    ("signed", "service", "code"),
    [
        (0, "ec2", None),
        (-299, "ec2", None),
        (-301, "ec2", "RequestExpired"),
        (301, "ec2", "AuthFailure"),
        (-301, "monitoring", "ExpiredToken"),
        (301, "monitoring", "SignatureDoesNotMatch"),
    ],
)
def test_a_clock_may_be_five_minutes_wrong(signed, service, code):
    """Beyond five minutes a slow clock is expired and a fast one cannot be authenticated."""
    found = callers.check(Config(), call(signed, service), NOW)
    assert (found[1] if found else None) == code


def test_an_unsigned_call_is_let_in():
    """Without a date nothing is judged."""
    unsigned = Call("ec2", "X", "us-east-1", "", {}, is_json=False)
    assert callers.check(Config(), unsigned, NOW) is None


@pytest.mark.parametrize(("offset", "code"), [(600, "RequestExpired"), (-600, "AuthFailure")])
def test_the_wire_clock_can_be_moved(fake, ec2, offset, code):
    """Ten minutes either way turn every call away until the clock is right again (case 31)."""
    fake.ask("POST", "clock", {"offset": offset})
    assert code_of(ec2.describe_instances)[1] == code
    assert code_of(fake.client("cloudwatch").list_metrics)[0] == 403
    fake.ask("POST", "clock", {"offset": 0})
    assert ec2.describe_instances()["Reservations"] == []


def test_credentials_of_one_key_expire(fake, ec2):
    """A key that has expired is turned away, another one is not."""
    fake.config(credentials={"OLDKEY": 1.0})
    old = fake.client(key="OLDKEY")
    assert code_of(old.describe_instances) == (400, "RequestExpired")
    assert ec2.describe_instances()["Reservations"] == []
    assert {entry["key"] for entry in fake.journal()} == {"OLDKEY", "any"}


def test_one_action_of_one_key_may_be_forbidden(fake, ec2, launch):
    """A rule on an action and a key leaves other actions and keys alone."""
    ids = {"InstanceIds": launch()}
    fake.rule("unauthorized", action="TerminateInstances", key="WEAK")
    weak = fake.client(key="WEAK")
    assert weak.describe_instances(**ids)["Reservations"]
    assert code_of(weak.terminate_instances, **ids) == (403, "UnauthorizedOperation")
    ec2.terminate_instances(**ids)
