"""Pausing and resuming while the controllers run: what stops, what goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from virtual_time import play
from world import ADMIN, World, world

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import conditions, fleet_alerts, kinds
from labfleet.resources.fleet_settings import NAME, Settings, SettingsSpec
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects, settings_verbs


def pool(w: World) -> Pool:
    found = w.cache.get(Pool, "p1", "default")
    assert found is not None
    return found


def workers(w: World) -> list[Worker]:
    return list(w.cache.all(Worker))


def test_a_paused_pool_makes_no_worker_until_it_is_resumed() -> None:
    """The pool says since when and why, keeps its condition, and acts soon after the resume."""

    async def story() -> None:
        async with world() as w:
            await settings_verbs.pause(w.services, ADMIN, reason="network work")
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.let_pass(1800)
            assert workers(w) == []
            assert "network work" in pool(w).status.message
            assert "0 of at least 1 worker" in pool(w).status.message
            assert conditions.is_true(pool(w).status.conditions, "Paused")
            await settings_verbs.resume(w.services, ADMIN)
            await w.until(lambda: len(workers(w)) == 1, hours=0.1)
            await w.until(
                lambda: not conditions.is_true(pool(w).status.conditions, "Paused"), hours=0.1
            )

    play(story)


def test_the_alert_of_a_pause_names_the_command_that_ends_it() -> None:
    """A fleet's pause ends with `resume`, a pool's own with its name; of both the fleet's first."""

    async def story() -> None:
        async with world() as w:

            def fix() -> list[str]:
                found = fleet_alerts.raised(pool(w))
                return [each.fix for each in found if each.condition == "Paused"]

            await settings_verbs.pause(w.services, ADMIN)
            await w.start()
            await w.pool(scaling={"minWorkers": 0})
            await w.let_pass(60)
            assert fix() == ["`labfleet resume`."]
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default")
            await w.let_pass(60)
            assert fix() == ["`labfleet resume`."]
            await settings_verbs.resume(w.services, ADMIN)
            await w.until(lambda: fix() == ["`labfleet resume --pool p1`."], hours=0.1)
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", paused=False)
            await w.until(lambda: fix() == [], hours=0.1)

    play(story)


def test_a_pause_survives_a_restart() -> None:
    """A process that starts while the pool is paused acts no more than the one before."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 0})
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", reason="firmware")
            await set_minimum(w, 2)
            await w.start()
            await w.let_pass(900)
            assert workers(w) == []
            assert "firmware" in pool(w).status.message

    play(story)


def test_workers_on_their_way_and_running_ones_go_on() -> None:
    """A worker that was asked for before the pause becomes READY; a failed one is not replaced."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.until(lambda: len(workers(w)) == 1)
            await settings_verbs.pause(w.services, ADMIN)
            await w.until(lambda: workers(w)[0].status.phase is WorkerPhase.READY)
            await w.status(workers(w)[0], phase=WorkerPhase.FAILED, message="broken by hand")
            await w.let_pass(120)
            assert len(workers(w)) == 1
            assert workers(w)[0].spec.desired == "Ready"

    play(story)


def test_an_asked_end_of_a_pool_goes_on_while_paused() -> None:
    """Deleting a pool is a person's word: its workers leave although everything is paused."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.until(lambda: [each.status.phase for each in workers(w)] == ["READY"])
            await settings_verbs.pause(w.services, ADMIN)
            await w.delete("Pool", "p1")
            await w.until(lambda: not w.cache.all(Pool))
            assert not any(each.spec.desired == "Ready" for each in workers(w))

    play(story)


def test_a_forced_drain_waits_for_the_resume() -> None:
    """Past its deadline the session goes on while everything is paused, and ends after it."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.definition(defaultDurationMinutes=240)
            await w.until(w.in_phase("w1", "READY"))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await settings_verbs.pause(w.services, ADMIN, reason="exam")
            deadline = w.clock.now() + timedelta(minutes=2)
            await verbs.drain(w.services, ADMIN, "w1", "default", deadline=deadline, force=True)
            await w.let_pass(900)
            assert w.phase("s1") == "RUNNING"
            await settings_verbs.resume(w.services, ADMIN)
            await w.until(lambda: w.phase("s1") == "FAILED", hours=0.5)

    play(story)


@pytest.mark.parametrize("of_pool", [False, True])
def test_a_pause_that_comes_between_decision_and_commit_wins(of_pool: bool) -> None:
    """A worker decided on before the pause is not made after it: the commit fails."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=[])
            await w.pool(scaling={"minWorkers": 1})
            await w.until(lambda: process.cache.get(Pool, "p1", "default") is not None)
            slipped: list[str] = []

            def race(name: str, _: int) -> str | None:
                if name == "commit" and not slipped:
                    slipped.append(name)
                    w.store_now(paused_by_others(w, of_pool=of_pool))
                return None

            w.strike = race
            with pytest.raises(errors.Conflict):
                await process.reconcile("pool", Key("Pool", "default", "p1"))
            w.strike = None
            assert slipped == ["commit"]
            await w.let_pass(5)
            assert workers(w) == []
            await process.reconcile("pool", Key("Pool", "default", "p1"))
            assert workers(w) == []

    play(story)


def paused_by_others(w: World, *, of_pool: bool) -> stores.Commit:
    """Return the commit with which another process pauses the pool, or everything."""
    if of_pool:
        old = pool(w)
        new: Any = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, paused=True))
    else:
        spec = SettingsSpec(automation={"paused": True})
        new = Settings(metadata=Metadata(name=NAME, uid=w.ids.uid()), spec=spec)
    put = stores.Put(new.key, new.metadata.uid, kinds.encode(new))
    return stores.Commit(stores.Cause("other", w.clock.now()), (put,))


async def set_minimum(w: World, count: int) -> None:
    """Change the pool's minimum, as a person would."""
    body: dict[str, Any] = {"spec": {"scaling": {"minWorkers": count}}}
    changed = await objects.patch(w.services, ADMIN, KINDS["Pool"], "p1", body, namespace="default")
    assert msgspec.to_builtins(changed)["spec"]["scaling"]["minWorkers"] == count
