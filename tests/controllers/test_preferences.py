"""Which worker a session gets by its pool's strategy, and that this outlives a restart."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest
from test_scheduler_index import same_as_anew
from virtual_time import play
from world import ADMIN, World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import SessionCondition
from labfleet.resources.strategy import Strategy
from labfleet.service.core.service_context import retried

SCALING = {"policy": "NONE", "minWorkers": 3, "maxWorkers": 3}


async def three(w: World, strategy: str) -> None:
    """A pool of three workers that are ready."""
    await w.pool(strategy=strategy, scaling=SCALING)
    await w.definition()
    await w.until(lambda: sum(w.phase(each) == "READY" for each in NAMES) == 3)


NAMES = ("lab-worker-default-001", "lab-worker-default-002", "lab-worker-default-003")


def test_round_robin_goes_on_after_a_restart() -> None:
    """Each of three workers gets one of three sessions, the next process takes the fourth's turn."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await three(w, "ROUND_ROBIN")
            for name in ("s1", "s2", "s3"):
                await w.session(name)
                await w.until(placed(w, name))
            hosts = [w.get_session(name).status.worker for name in ("s1", "s2", "s3")]
            assert sorted(hosts) == list(NAMES)
            assert await same_as_anew(w, process) == list(NAMES)
            await w.start()
            for name in ("s4", "s5"):
                await w.session(name)
                await w.until(placed(w, name))
            assert [w.get_session(name).status.worker for name in ("s4", "s5")] == hosts[:2]
            w.check()

    play(story)


def test_a_pool_that_changes_its_strategy_places_by_it_at_once() -> None:
    """PACKED sessions share a worker; once the pool says LEAST_LABS the next goes to another."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await three(w, "PACKED")
            for name in ("s1", "s2"):
                await w.session(name)
                await w.until(placed(w, name))
            first = w.get_session("s1").status
            assert first.worker == w.get_session("s2").status.worker
            assert first.decision is not None
            assert (first.decision.strategy, first.decision.evaluated) == ("PACKED", 3)
            assert first.decision.latency_ms is not None
            pool = await w.services.objects.get(Pool, "p1", "default")
            assert pool is not None
            spec = msgspec.structs.replace(pool.spec, strategy=Strategy.LEAST_LABS)
            changed = msgspec.structs.replace(pool, spec=spec)
            await w.services.objects.save(changed, cause=w.services.cause(ADMIN, "spread"))
            await w.session("s3")
            await w.until(placed(w, "s3"))
            third = w.get_session("s3").status
            assert third.worker != first.worker
            assert third.decision is not None
            assert third.decision.strategy == "LEAST_LABS"
            w.check()

    play(story)


def test_a_choice_of_less_than_a_millisecond_is_not_told_as_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Measured by the machine's clock, not by the loop's, which counts whole milliseconds."""

    async def story() -> None:
        async with world(rate=2.0) as w:
            await w.start()
            await three(w, "PACKED")
            plain, looks = w.clock.monotonic, itertools.count()
            monkeypatch.setattr(w.clock, "monotonic", lambda: plain() + 0.0005 * next(looks))
            await w.session("s1")
            await w.until(placed(w, "s1"))
            decision = w.get_session("s1").status.decision
            assert decision is not None
            # Half a millisecond of fleet time at a rate of two.
            assert decision.latency_ms == pytest.approx(0.25, abs=0.01)

    play(story)


def test_a_session_says_whether_it_has_a_worker() -> None:
    """WorkerAssigned is False with the decision's reason, then True with the worker's name."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.definition()
            await w.session()
            await w.until(w.told("s1", "no worker"))
            assert assigned(w) == ("False", "NoPlace", "NoWorkersAvailable")
            await w.worker()
            await w.until(placed(w, "s1"))
            assert assigned(w) == ("True", "Placed", "on w1")
            w.check()

    play(story)


def assigned(w: World) -> tuple[str, str, str]:
    """Status, reason and message of the condition WorkerAssigned of s1."""
    held = w.get_session("s1").status.conditions
    fact = conditions.find(held, SessionCondition.WORKER_ASSIGNED)
    assert fact is not None
    return fact.status, fact.reason, fact.message


@pytest.mark.parametrize("kind", ["CONTAINER", "VM", "HYBRID"])
def test_labs_of_other_types_are_refused_by_name(kind: str) -> None:
    """No adapter runs such labs: a session is refused, and one that is stored already fails."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.definition("odd", labType=kind)
            with pytest.raises(errors.Invalid, match=f"labs of type {kind}") as refused:
                await w.session(definition="odd")
            assert refused.value.reason == "NoMatchingType"
            await w.definition()
            await w.session()

            async def earlier() -> None:
                stored = await w.services.objects.get(Session, "s1", "default")
                assert stored is not None
                spec = msgspec.structs.replace(stored.spec, definition="odd")
                changed = msgspec.structs.replace(stored, spec=spec)
                await w.services.objects.save(changed, cause=w.services.cause(ADMIN, "earlier"))

            await retried(earlier)  # the scheduler looks at it too
            await w.until(lambda: w.phase("s1") == "FAILED")
            assert w.get_session().status.reason == "NoMatchingType"

    play(story)


def placed(w: World, name: str) -> Callable[[], bool]:
    """Whether a session has a worker."""

    def holds() -> bool:
        found = w.cache.get(Session, name, "default")
        return found is not None and found.status.worker is not None

    return holds
