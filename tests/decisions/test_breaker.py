"""When a pool stops replacing what others end."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, worker

from labfleet.decisions import breaker
from labfleet.resources import conditions
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import LOSSES_KEPT, Loss
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus


def lost(name: str, minutes: float, reason: str = "InstanceTerminated") -> Worker:
    at = START + timedelta(minutes=minutes)
    facts = conditions.put((), "Failed", "True", reason, now=at)
    status = WorkerStatus(phase=WorkerPhase.FAILED, phase_since=at, conditions=facts)
    made = worker(status)
    return Worker(metadata=Metadata(name=name), spec=made.spec, status=status)


def losses(*minutes: float) -> tuple[Loss, ...]:
    return tuple(
        Loss(worker=f"w{n}", at=START + timedelta(minutes=each)) for n, each in enumerate(minutes)
    )


def test_only_ended_machines_count_and_each_once() -> None:
    """No room at EC2 is no loss; a worker seen twice is one, also when its record is gone."""
    some = [lost("a", 0), lost("b", 1), lost("c", 2, "LaunchTimeout")]
    now = START + timedelta(minutes=3)
    first = breaker.noted((), some, now)
    assert [each.worker for each in first] == ["a", "b"]
    assert breaker.noted(first, some, now) == first
    assert breaker.noted(first, [], now) == first
    assert breaker.noted(first, [], START + timedelta(minutes=40)) == ()


@given(st.lists(st.floats(0, 29), max_size=30), st.none() | st.floats(0, 29))
def test_it_trips_at_three_since_it_last_did(minutes: list[float], last: float | None) -> None:
    """Ends from before the last time count no more, so resuming does not trip it at once."""
    since = None if last is None else START + timedelta(minutes=last)
    found = losses(*minutes)
    names = [each.worker for each in breaker.trips(found, since)]
    fresh = [each for each in found if since is None or each.at > since]
    assert bool(names) == (len(fresh) >= 3)
    assert len(breaker.noted(found, [], START + timedelta(minutes=29))) <= LOSSES_KEPT


def boots(*minutes: float) -> tuple[Loss, ...]:
    return tuple(
        Loss(worker=f"w{n}", at=START + timedelta(minutes=each), why="BootTimeout")
        for n, each in enumerate(minutes)
    )


def test_five_workers_in_a_row_that_never_came_up_trip_it() -> None:
    """One that came up in between says that the template is sound."""
    found = boots(0, 30, 60, 90, 120)
    assert len(breaker.trips(found, None)) == breaker.BOOTS
    assert breaker.trips(found[1:], None) == ()
    assert breaker.trips(found, None, START + timedelta(minutes=45)) == ()
    assert breaker.trips(found, START + timedelta(minutes=10)) == ()
    assert breaker.noted(found, [], START + timedelta(hours=6)) != ()
    assert breaker.noted(found, [], START + timedelta(hours=9)) == ()


@given(st.lists(st.sampled_from([*breaker.NEVER_UP, "InstanceTerminated", "Other"]), max_size=8))
def test_what_failed_to_boot_is_kept_with_its_reason(reasons: list[str]) -> None:
    """Each kind of loss is told apart, and failures that prove nothing are left out."""
    some = [lost(f"w{n}", n, reason) for n, reason in enumerate(reasons)]
    kept = breaker.noted((), some, START + timedelta(minutes=10))
    told = [each.why or "InstanceTerminated" for each in kept]
    assert told == [each for each in reasons if each != "Other"]
