"""What was refused is not asked for again too soon, by nobody in the process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from labfleet.adapters.aws.offers import CAPACITY, Offers, options
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings

NOW = datetime(2026, 11, 28, 3, 0, tzinfo=UTC)
NO = errors.OutOfCapacity("none left", reason="InsufficientInstanceCapacity")
LIMIT = errors.QuotaExceeded("limit of 96 vCPU", reason="VcpuLimitExceeded")


def settings(**aws: object) -> AwsSettings:
    """Return settings with two types and two subnets."""
    fields = {"instance_types": ("m1", "m2"), "subnet_ids": ("sub-a", "sub-b"), **aws}
    return AwsSettings(**fields)  # type: ignore[arg-type]


def after(minutes: float) -> datetime:
    """Return a moment of the test."""
    return NOW + timedelta(minutes=minutes)


def test_options_are_types_times_subnets_in_order() -> None:
    """The first type is looked for in every zone before the second one is."""
    assert options(settings()) == [
        ("m1", "sub-a"), ("m1", "sub-b"), ("m2", "sub-a"), ("m2", "sub-b"),
    ]  # fmt: skip
    assert options(settings(subnet_ids=())) == [("m1", None), ("m2", None)]


def test_a_full_zone_is_full_for_every_worker() -> None:
    """Who asks next gets the next zone at once, for three minutes."""
    offers = Offers()
    assert offers.choose(settings(), NOW) == ("m1", "sub-a")
    offers.refused(settings(), ("m1", "sub-a"), NO, NOW)
    other = settings(tags={"team": "another"})
    assert offers.choose(other, after(1)) == ("m1", "sub-b")
    assert offers.choose(other, after(3)) == ("m1", "sub-a")


def test_another_region_is_another_place() -> None:
    """The same names elsewhere are not full."""
    offers = Offers()
    offers.refused(settings(), ("m1", "sub-a"), NO, NOW)
    assert offers.choose(settings(region="eu-west-1"), NOW) == ("m1", "sub-a")


def test_noes_in_a_row_double_up_to_half_an_hour() -> None:
    """3, 6, 12, 24, 30 and 30 minutes."""
    offers, now, waits = Offers(), NOW, []
    for _ in range(6):
        offers.refused(settings(), ("m1", "sub-a"), NO, now)
        opens = offers.capacity.opens(("us-east-1", "m1", "sub-a"), now)
        assert opens is not None
        waits.append((opens - now) / timedelta(minutes=1))
        now = opens
    assert waits == [3, 6, 12, 24, 30, 30]


def test_noes_to_calls_under_way_only_extend() -> None:
    """Ten calls refused together are one no, counted from the last of them."""
    offers = Offers()
    for number in range(10):
        offers.refused(settings(), ("m1", "sub-a"), NO, NOW + timedelta(seconds=number))
    opens = offers.capacity.opens(("us-east-1", "m1", "sub-a"), NOW)
    assert opens == NOW + timedelta(seconds=9) + CAPACITY[0]


def test_one_asks_again_while_the_others_wait() -> None:
    """After the wait one worker tries the full zone; the rest goes on to the next."""
    offers = Offers()
    offers.refused(settings(), ("m1", "sub-a"), NO, NOW)
    assert offers.choose(settings(), after(3)) == ("m1", "sub-a")
    assert offers.choose(settings(), after(3)) == ("m1", "sub-b")
    offers.worked(settings(), ("m1", "sub-a"))
    assert offers.choose(settings(), after(3)) == ("m1", "sub-a")


def test_nothing_left_is_told_with_what_was_tried_and_when_again() -> None:
    """The message names types, zones, words and the next time; nothing is chosen."""
    offers = Offers()
    for option in options(settings()):
        offers.refused(settings(), option, NO, NOW)
    problem = offers.held(settings(), after(1))
    assert isinstance(problem, errors.OutOfCapacity)
    assert problem.retry_after == 120
    assert "m1 in sub-a: InsufficientInstanceCapacity" in problem.message
    assert "m2 in sub-b" in problem.message
    assert "asked again at 03:03:00 UTC" in problem.message
    with pytest.raises(errors.OutOfCapacity):
        offers.choose(settings(), after(1))


def test_a_limit_stops_the_template_and_not_a_changed_one() -> None:
    """Every worker with these settings waits; other settings are asked for at once."""
    offers = Offers()
    offers.refused(settings(), ("m1", "sub-a"), LIMIT, NOW)
    problem = offers.held(settings(), after(1))
    assert isinstance(problem, errors.QuotaExceeded)
    assert problem.reason == "VcpuLimitExceeded"
    assert "limit of 96 vCPU" in problem.message
    assert offers.held(settings(instance_types=("m2",)), after(1)) is None
    assert offers.choose(settings(), after(6)) == ("m1", "sub-a")


def test_a_no_of_long_ago_counts_for_nothing() -> None:
    """An hour of silence after a no, and the next one is a first one."""
    offers = Offers()
    for minute in (0, 4):
        offers.refused(settings(), ("m1", "sub-a"), NO, after(minute))
    offers.refused(settings(), ("m1", "sub-a"), NO, after(120))
    assert offers.capacity.opens(("us-east-1", "m1", "sub-a"), after(122)) == after(123)
