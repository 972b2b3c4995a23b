"""What was written in earlier spellings is read as if it had been written today."""

from __future__ import annotations

import msgspec
import pytest

from labfleet.resources import kinds, spellings
from labfleet.resources.meta import Metadata
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.worker import FINALIZER_MACHINE, Worker

OLD = {
    "metadata": {"name": "w1", "finalizers": ["labfleet/ec2-instance", "labfleet/cml-licence"]},
    "spec": {
        "machine": {
            "aws": {"region": "eu-west-1", "amiId": "ami-1"},
            "cml": {"adminPassword": {"env": "P"}},
        }
    },
    "status": {
        "phase": "PROVISIONING_EC2",
        "ec2": {"instanceId": "i-1", "state": "shutting-down", "publicIp": "10.0.0.1"},
        "conditions": [
            {
                "type": "EC2Provisioned",
                "status": "True",
                "reason": "x",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
            {
                "type": "Ready",
                "status": "True",
                "reason": "x",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
        ],
    },
}


def test_a_stored_worker_of_an_earlier_spelling_is_read() -> None:
    """Provider, machine, conditions and promises have today's names; the phase keeps its own."""
    found: Worker = kinds.decode("Worker", msgspec.json.encode(OLD), 7)
    assert found.spec.machine is not None
    assert found.spec.machine.provider == AwsSettings(region="eu-west-1", ami_id="ami-1")
    seen = found.status.machine
    assert (seen.id, seen.state, seen.public_address) == ("i-1", "ending", "10.0.0.1")
    assert [each.type for each in found.status.conditions] == ["MachineProvisioned", "Ready"]
    assert found.metadata.finalizers == (FINALIZER_MACHINE, "labfleet/cml-licence")
    assert found.status.phase == "PROVISIONING_EC2"


def test_todays_spelling_is_left_as_it_is() -> None:
    """A document in today's spelling is the same object and the same bytes."""
    doc = kinds.encode(kinds.decode("Worker", msgspec.json.encode(OLD), 7))
    raw = msgspec.json.decode(doc)
    assert spellings.present("Worker", raw) is raw
    assert kinds.present("Worker", doc) is doc
    assert not spellings.earlier("Worker", doc)


def test_other_kinds_are_left_alone() -> None:
    """A session may say aws and ec2 as it likes."""
    raw = {"spec": {"machine": {"aws": {}}}, "status": {"ec2": {}}}
    assert spellings.present("Session", raw) is raw
    assert not spellings.earlier("Session", b'{"ec2":1}')


def test_readers_of_raw_events_get_todays_spelling() -> None:
    """An event of the log that is handed on as it is stored has today's field names."""
    told = msgspec.json.decode(kinds.present("Worker", msgspec.json.encode(OLD)))
    assert told["status"]["machine"]["id"] == "i-1"
    assert told["spec"]["machine"]["provider"]["kind"] == "aws"


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": 1},
        {"spec": {"machine": 1}},
        {"spec": {"machine": {"aws": 1}}},
        {"status": {"ec2": None, "conditions": [1, {"type": 2}]}},
        {"metadata": {"finalizers": [1, None]}},
    ],
)
def test_what_is_no_mapping_is_left_to_the_decoder(odd: dict[str, object]) -> None:
    """Any value where a mapping belongs passes, so that the decoder can say what is wrong."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"metadata": {"name": "w"}, **spellings.present("Worker", odd)}, Worker)


def test_both_spellings_at_once_are_refused() -> None:
    """Which of the two would be meant is not guessed."""
    both = {
        "metadata": {"name": "t"},
        "spec": {"machine": {**OLD["spec"]["machine"], "provider": {"kind": "aws"}}},  # type: ignore[index,dict-item]
    }
    with pytest.raises(msgspec.ValidationError, match="aws"):
        kinds.decode("Template", msgspec.json.encode(both), 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("status.ec2.publicIp", "status.machine.publicAddress"),
        ("status.ec2", "status.machine"),
        (".items[*].status.ec2.instanceId", ".items[*].status.machine.id"),
        ("spec.machine.aws.region", "spec.machine.provider.region"),
        ('status.conditions[?(@.type=="EC2Started")].status',
         'status.conditions[?(@.type=="MachineStarted")].status'),
        ("status.ec2x.a", "status.ec2x.a"),
        ("metadata.name", "metadata.name"),
    ],
)  # fmt: skip
def test_paths_that_people_kept_still_lead_there(old: str, new: str) -> None:
    """Columns, filters and expressions of earlier scripts mean today's fields."""
    assert spellings.path(old) == new


def test_a_new_worker_costs_no_second_decoding() -> None:
    """What is stored today has none of the marks of an earlier spelling."""
    assert not spellings.earlier("Worker", kinds.encode(Worker(metadata=Metadata(name="w"))))
