"""The rule that pools give back what nobody needs: what it counts, and what begins anew."""

from __future__ import annotations

import msgspec
import pytest

from labfleet.rehearsal.rules.surplus import SLACK_SECONDS, Surplus
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import Pool, PoolSpec, Scaling, ScalingPolicy
from labfleet.resources.worker import Health, Worker, WorkerPhase, WorkerSpec, WorkerStatus

SCALING = Scaling(
    policy=ScalingPolicy.NEED_BASED, min_workers=0, empty_seconds=600, cooldown_down_seconds=300
)
POOL = Pool(metadata=Metadata(name="p"), spec=PoolSpec(template="t", scaling=SCALING))
MOST = 600 + 300 + SLACK_SECONDS


def worker(phase: WorkerPhase = WorkerPhase.READY) -> Worker:
    return Worker(
        metadata=Metadata(name="w"),
        spec=WorkerSpec(pool="p"),
        status=WorkerStatus(phase=phase, health=Health.HEALTHY),
    )


class Watched:
    """The rule with a clock of its own."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.rule = Surplus(lambda rule, text: self.found.append(rule))
        self.now = 0.0

    def minutes(
        self, count: float, one: Worker | None = None, *, step: float = 1, **given: object
    ) -> None:
        workers = [worker() if one is None else one]
        hungry, paused = bool(given.get("hungry")), bool(given.get("paused"))
        for _ in range(int(count / step)):
            self.now += step * 60
            self.rule.look(
                self.now, [POOL], workers, lambda each: bool(given.get("used")),
                hungry=hungry, held=lambda pool: paused,
            )  # fmt: skip


@pytest.mark.parametrize("step", [1, 10])
def test_an_empty_worker_may_stand_so_long_and_no_longer(step: float) -> None:
    """However often somebody looks, the time is the same."""
    watched = Watched()
    watched.minutes(MOST / 60 - 10, step=step)
    assert watched.found == []
    watched.minutes(20, step=step)
    assert watched.found[0] == "surplus"


def test_time_in_which_something_kept_it_does_not_count() -> None:
    """A pause, somebody who waits, and a worker in use hold a pool."""
    watched = Watched()
    for reason in ("hungry", "paused", "used"):
        watched.minutes(MOST / 30, **{reason: True})
        assert watched.found == []


def test_what_was_stopped_or_is_another_begins_anew() -> None:
    """A worker that the idle rule stopped a day ago was given back meanwhile."""
    watched = Watched()
    watched.minutes(MOST / 60 - 10)
    watched.minutes(10, worker(WorkerPhase.STOPPED))
    watched.minutes(MOST / 60 - 10)
    assert watched.found == []


def test_fewer_than_the_least_are_no_surplus() -> None:
    """A pool keeps the workers that it is to have."""
    watched = Watched()
    spec = msgspec.structs.replace(SCALING, min_workers=1)
    pool = msgspec.structs.replace(POOL, spec=PoolSpec(template="t", scaling=spec))
    for _ in range(500):
        watched.now += 60
        watched.rule.look(
            watched.now, [pool], [worker()], lambda each: False, hungry=False, held=lambda _: False
        )
    assert watched.found == []
