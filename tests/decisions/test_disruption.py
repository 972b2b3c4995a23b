"""The disruption budget: trouble and upkeep never add up, and nobody is held back for nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import disruption
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import Disruption
from labfleet.resources.worker import Drain, Health, Worker, WorkerPhase, WorkerSpec, WorkerStatus

budgets = st.builds(
    Disruption, max_percent=st.integers(0, 100), max_workers=st.integers(0, 50)
)  # fmt: skip
counts = st.integers(0, 300)


@given(budgets, counts, counts)
def test_never_more_are_away_than_the_budget_allows(
    budget: Disruption, serving: int, away: int
) -> None:
    """What is away already counts, and only what serves can go."""
    left = disruption.room(budget, serving=serving, away=away).left
    assert 0 <= left <= serving
    if left:
        assert away + left <= disruption.allowance(budget, serving + away)


@given(budgets, counts, counts)
def test_more_trouble_never_gives_more_room(budget: Disruption, serving: int, away: int) -> None:
    """One serving worker that fails takes room away and never makes some."""
    if serving:
        before = disruption.room(budget, serving=serving, away=away).left
        after = disruption.room(budget, serving=serving - 1, away=away + 1).left
        assert after <= before


@given(budgets, counts)
def test_a_refusal_says_why(budget: Disruption, away: int) -> None:
    """No room for a pool that has workers comes with the numbers."""
    room = disruption.room(budget, serving=5, away=away)
    assert bool(room.left) != bool(room.why)


def worker(phase: WorkerPhase, *, health: Health = Health.HEALTHY, drain: bool = False) -> Worker:
    """Return a worker in a phase."""
    made = Worker(metadata=Metadata(name="w"), spec=WorkerSpec(), status=WorkerStatus(phase=phase))
    if drain:
        wanted = Drain(deadline=datetime(2026, 11, 28, tzinfo=UTC))
        made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, drain=wanted))
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, health=health))


def test_drained_failed_and_silent_workers_are_away() -> None:
    """Ten workers, three of them away: a budget of four has room for one."""
    fleet = [worker(WorkerPhase.READY) for _ in range(7)]
    fleet += [
        worker(WorkerPhase.READY, drain=True),
        worker(WorkerPhase.FAILED),
        worker(WorkerPhase.ACTIVE, health=Health.UNREACHABLE),
        worker(WorkerPhase.TERMINATING_EC2),
        worker(WorkerPhase.STOPPED),
    ]
    assert disruption.of_workers(Disruption(max_workers=4), fleet).left == 1
    assert disruption.of_workers(Disruption(max_workers=3), fleet).left == 0


HOSTING = {WorkerPhase.READY, WorkerPhase.READY_UNLICENSED, WorkerPhase.ACTIVE}
ON_THE_WAY = {
    WorkerPhase.DRAINING, WorkerPhase.UNLICENSING, WorkerPhase.STOPPING, WorkerPhase.FAILED,
}  # fmt: skip
workers = st.builds(
    worker,
    st.sampled_from(list(WorkerPhase)),
    health=st.sampled_from([Health.HEALTHY, Health.UNREACHABLE]),
    drain=st.booleans(),
)


@given(budgets, st.lists(workers, max_size=12))
def test_each_worker_serves_is_away_or_counts_for_neither(
    budget: Disruption, fleet: list[Worker]
) -> None:
    """A well worker that hosts serves; one sick, drained, failed or on its way down is away."""
    hosts = [each for each in fleet if each.status.phase in HOSTING]
    serving = [
        each for each in hosts if each.status.health is Health.HEALTHY and each.spec.drain is None
    ]
    down = sum(each.status.phase in ON_THE_WAY for each in fleet)
    away = down + len(hosts) - len(serving)
    found = disruption.of_workers(budget, fleet)
    assert found == disruption.room(budget, serving=len(serving), away=away)
