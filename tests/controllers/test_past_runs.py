"""Past runs of sessions and workers' boots: one row each, in the commit of their end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_cases import ready
from virtual_time import play
from world import ADMIN, HOUR, World, world

from labfleet.controllers import upkeep
from labfleet.interfaces import store as s
from labfleet.resources.history import Run, RunKind
from labfleet.service.verbs import lifecycle as verbs


async def kept(w: World, kind: RunKind) -> list[Run]:
    """Return the runs of a kind that the history has, the oldest first."""
    return [each.run for each in await w.store.history(0) if each.run.kind is kind]


def test_a_session_that_ran_is_kept_with_its_end() -> None:
    """Its time of running, what it was given, and what was measured of its use are told."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("two-v2", family="two")
            await w.session("s2", definition="two-v2")
            await w.until(w.in_phase("s2", "COMPLETED"))
            [run] = await kept(w, RunKind.SESSION)
            session = w.get_session("s2")
            begun, over = session.status.started_at, session.status.ended_at
            assert begun is not None
            assert over is not None
            assert (run.uid, run.name, run.owner) == (session.metadata.uid, "s2", "ada")
            assert (run.family, run.place, run.censored) == ("two", "w1", "")
            assert run.duration_seconds == (over - begun).total_seconds() > 590
            assert (run.started_at, run.ended_at) == (begun, over)
            assert run.use == session.status.used
            assert set(run.use) == {"cpu_milli", "memory_mib", "storage_mib"}
            assert run.allocation["labs"] == 1
            assert run.parameters == {"definition": "two-v2", "nodes": 2.0}
            [end] = [
                event
                for event in await w.store.events_of(session.key)
                if event.at == over and b'"COMPLETED"' in event.doc
            ]
            assert end.actor == "session-controller"

    play(story)


def test_a_session_cut_off_says_why_and_one_that_never_ran_is_none() -> None:
    """A cancelled run is censored; its family is its definition when that names none."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session("ran")
            await w.until(w.in_phase("ran", "RUNNING"))
            await w.let_pass(60)
            await verbs.cancel(w.services, ADMIN, "ran", "default", reason="enough")
            await w.session("early")
            await verbs.cancel(w.services, ADMIN, "early", "default", reason="wrong one")
            await w.until(w.ended)
            [run] = await kept(w, RunKind.SESSION)
            assert (run.name, run.family, run.censored) == ("ran", "two", "Cancelled")
            assert run.duration_seconds is not None
            assert 60 <= run.duration_seconds < 590

    play(story)


def test_a_boot_is_kept_once_however_often_its_machine_starts_again() -> None:
    """From the launch to the first time that it could host; a stop and a start add no boot."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            [boot] = await kept(w, RunKind.BOOT)
            worker = w.get_worker()
            assert boot.uid == f"{worker.metadata.uid}/1"
            assert (boot.name, boot.censored) == ("w1", "")
            assert boot.started_at == worker.status.provisioning_started_at
            assert boot.ended_at == worker.status.ready_since
            assert boot.parameters["provider"] == "aws"
            assert boot.parameters["type"] == "m1"
            assert boot.allocation == boot.use == {}
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert await kept(w, RunKind.BOOT) == [boot]

    play(story)


def test_a_boot_that_fails_or_is_cut_off_says_so() -> None:
    """The failure's own word stands there, and one that somebody ended is no failure."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            w.hosts.boot(10 * HOUR)
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"), hours=6)
            await w.worker("w2")
            await w.until(w.in_phase("w2", "STARTING"))
            await w.desire("w2", "Terminated")
            await w.until(w.in_phase("w2", "TERMINATED"))
            failed, ended = await kept(w, RunKind.BOOT)
            assert (failed.name, failed.censored) == ("w1", "BootTimeout")
            assert (ended.name, ended.censored) == ("w2", "Ended")
            assert failed.duration_seconds is not None

    play(story)


def test_old_runs_are_dropped_by_upkeep_and_younger_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 400 days, the oldest first, in bites: a full one is followed by the next at once."""
    monkeypatch.setattr(upkeep, "HISTORY_BITE", 1)

    async def story() -> None:
        async with world() as w:
            now = w.clock.now()
            runs = [Run(kind=RunKind.BOOT, uid=f"u{n}", family="m", ended_at=now) for n in range(3)]
            for age, run in zip((402, 401, 400), runs, strict=True):
                cause = s.Cause("tester", now - timedelta(days=age, seconds=-1))
                await w.store.commit(s.Commit(cause, (s.Teach(run),)))
            process = await w.start(run=())
            for left in (runs[1:], runs[2:], runs[2:]):
                await process.reconcile("upkeep", upkeep.KEY)
                assert await kept(w, RunKind.BOOT) == left

    play(story)
