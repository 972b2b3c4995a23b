"""Sessions whose worker's CML does not answer: what was never imported leaves, the rest waits.

Found by readers of the seeds: a session placed on a worker whose core had just gone down failed
BootTimeout beside an empty READY worker.
"""

from __future__ import annotations

from typing import Any

import pytest
from virtual_time import play
from world import ADMIN, World, later, world

from cml_simulator.core.server_conditions import ServerConditions
from cml_simulator.core.world import set_conditions
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import TERMINAL
from labfleet.resources.worker import Worker
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import lifecycle as verbs

DOWN = ServerConditions(core_connected=False)


async def two_workers(w: World, **definition: Any) -> None:
    """Two workers that are READY, of which w1 gets the first session, and the definition `two`."""
    await w.start()
    await w.worker("w1")
    await w.worker("w2")
    await w.definition(**definition)
    await w.until(lambda: w.phase("w1") == w.phase("w2") == "READY")


async def mute(w: World, how: str, worker: str = "w1") -> None:
    """Take a worker's CML away, so that the next session is still placed there."""
    if how == "core":
        set_conditions(w.hosts.of(worker), DOWN, w.hosts.now)
        await w.until(lambda: not w.get_worker(worker).status.cml.ready)
    else:
        w.hosts.cut.add(worker)


def imports(w: World) -> int:
    """Return how many imports reached a server."""
    return sum(each.startswith("import") for each in w.hosts.calls)


@pytest.mark.parametrize("how", ["core", "cut"])
def test_what_was_never_imported_leaves_a_worker_that_does_not_answer(how: str) -> None:
    """It is placed on the READY worker beside, counted, long before its boot limit."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w)
            await mute(w, how)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"), hours=0.08)
            status = w.get_session().status
            assert (status.worker, status.placements, imports(w)) == ("w2", 2, 1)
            assert w.phases["s1"][2:5] == ["INSTANTIATING", "PENDING", "SCHEDULED"]
            w.check()

    play(story)


@pytest.mark.parametrize("how", ["core", "cut"])
def test_its_definition_may_say_that_it_fails_instead(how: str) -> None:
    """With `onWorkerLoss: fail` it ends at once, though its server is still down, and names it."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w, onWorkerLoss="fail")
            await mute(w, how)
            await w.session()
            await w.until(w.ended, hours=0.08)
            status = w.get_session().status
            assert (status.phase, status.reason, status.worker) == ("FAILED", "WorkerUnfit", "w1")
            assert status.message in {
                "w1: CML starts nothing: core_connected is false: no new sessions",
                "w1: CML does not answer: system_information: no connection",
            }
            assert status.reservation is None
            assert await w.store.ports() == ()
            w.check()

    play(story)


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_an_end_does_not_wait_for_a_server_that_has_nothing_of_the_session(end: str) -> None:
    """STOPPING needs no answer of a server to which no import was ever sent."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w)
            await mute(w, "cut")
            await w.session()
            await w.until(w.in_phase("s1", "INSTANTIATING"))
            if end == "cancel":
                await verbs.cancel(w.services, ADMIN, "s1", "default")
                await w.until(w.in_phase("s1", "CANCELLED"), hours=0.01)
            else:
                await w.delete("Session", "s1")
                await w.until(lambda: w.phase("s1") is None, hours=0.01)
            assert await w.store.ports() == ()
            w.check()

    play(story)


def test_an_import_of_unknown_outcome_counts_as_made_until_it_was_looked_up() -> None:
    """Its session stays, waits without losing boot time, and finds its one lab by the marker."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w)
            w.strike = lambda name, _: "hang-after" if name == "import_lab" else None
            await w.session()
            await w.until(lambda: w.hosts.labs_made == 1)
            w.hosts.cut.add("w1")
            await w.let_pass(250)
            status = w.get_session().status
            assert (status.phase, status.worker, status.lab.id) == ("INSTANTIATING", "w1", None)
            assert "CML on w1 does not answer" in status.message
            told = await explain(w.services, ADMIN, KINDS["Session"], "s1", "default")
            assert "an answer of CML on w1" in told.waiting_for
            w.strike = None
            w.hosts.cut.clear()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert (w.get_session().status.placements, w.hosts.labs_made) == (1, 1)
            w.check()

    play(story)


def test_an_import_that_certainly_did_nothing_keeps_nobody() -> None:
    """A server that goes away as the lab is sent to it is left like one that went before."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w)
            w.hosts.refusals["import"] = errors.Unreachable("no route", reason="NoRoute")
            await w.session()
            await w.until(w.told("s1", "import: no route"))
            w.hosts.cut.add("w1")
            w.hosts.refusals.clear()
            await w.until(w.in_phase("s1", "RUNNING"), hours=0.1)
            assert w.get_session().status.worker == "w2"
            w.check()

    play(story)


@pytest.mark.parametrize("may", [True, False])
def test_what_is_imported_waits_and_then_moves_by_its_definitions_word(may: bool) -> None:
    """Until its boot limit it waits; then it moves once its lab was seen gone, or waits on."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w, onWorkerLoss="replace" if may else "fail")
            w.hosts.node_boot(300.0)
            await w.session()
            await w.until(lambda: w.hosts.labs_made == 1)
            await w.let_pass(20)
            w.hosts.cut.add("w1")
            await w.let_pass(300)
            assert w.phase("s1") == "INSTANTIATING"
            await w.let_pass(1200)
            status = w.get_session().status
            assert status.worker == "w1"
            assert "CML on w1 does not answer" in status.message
            if may:
                assert (status.phase, status.outcome) == ("STOPPING", "PENDING")
                assert status.reason == "WorkerSilent"
                w.hosts.cut.clear()
                await w.until(w.in_phase("s1", "RUNNING"))
                assert w.get_session().status.placements == 2
            else:
                assert status.phase == "INSTANTIATING"
                w.hosts.cut.clear()
                await w.until(w.in_phase("s1", "RUNNING"))
                assert w.get_session().status.placements == 1
            w.check()

    play(story)


def test_what_waits_for_a_silent_worker_ends_at_its_deadline() -> None:
    """A definition that forbids the move does not make anybody wait for ever."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w, onWorkerLoss="fail", graceMinutes=10)
            w.hosts.node_boot(300.0)
            await w.session(slot={"start": later(w, 1), "end": later(w, 300)})
            await w.until(lambda: w.hosts.labs_made == 1)
            w.hosts.cut.add("w1")
            await w.until(w.in_phase("s1", "STOPPING"), hours=0.5)
            status = w.get_session().status
            assert (status.outcome, status.reason) == ("EXPIRED", "NeverStarted")
            assert "w1" in status.message
            w.hosts.cut.clear()
            await w.until(w.ended)
            w.check()

    play(story)


@pytest.mark.parametrize("rate", [1.0, 40.0])
def test_a_silence_of_800_seconds_is_told_in_time_and_fails_no_start(rate: float) -> None:
    """The worker is Unreachable within silentSeconds, and nobody's start is failed for it."""

    async def story() -> None:
        async with world(rate) as w:
            await two_workers(w)
            w.hosts.node_boot(300.0)
            await w.session("s1")
            await w.until(lambda: w.hosts.labs_made == 1)
            await w.let_pass(15)
            w.hosts.cut.add("w1")
            begun, told = w.clock.now(), []
            w.cache.on_change(
                Worker,
                lambda _, new: new.status.health == "Unreachable" and told.append(w.clock.now()),
            )
            await w.session("s2")
            await w.let_pass(300)
            assert told, w.get_worker().status
            assert (told[0] - begun).total_seconds() <= 300
            assert not phases.accepting(w.get_worker())
            await w.let_pass(500)
            w.hosts.cut.clear()
            await w.until(w.ended)
            assert {w.phase(each) for each in ("s1", "s2")} == {"COMPLETED"}
            w.check()

    play(story)


@pytest.mark.parametrize("poll", [30, 120, 300])
def test_a_worker_that_is_looked_at_rarely_is_unreachable_in_time_too(poll: int) -> None:
    """Silence counts from the last answer, not in looks."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.make("Settings", "fleet", {"monitoring": {"pollIntervalSeconds": poll}})
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(2 * poll)
            w.hosts.cut.add("w1")
            begun = w.clock.now()
            await w.until(lambda: w.get_worker().status.health == "Unreachable")
            assert (w.clock.now() - begun).total_seconds() <= 310

    play(story)


def test_a_session_waits_for_an_effect_of_a_worker_out_of_reach_no_longer_than_its_call() -> None:
    """An import of unknown outcome on a server that is cut off does not shut out a cancel."""

    async def story() -> None:
        async with world() as w:
            await two_workers(w)
            w.strike = lambda name, _: "hang-after" if name == "import_lab" else None
            await w.session()
            await w.until(lambda: w.hosts.labs_made == 1)
            w.hosts.cut.add("w1")
            await verbs.cancel(w.services, ADMIN, "s1", "default")
            await w.until(w.in_phase("s1", "STOPPING"), hours=0.05)
            assert w.get_session().status.phase not in TERMINAL
            w.hosts.cut.clear()
            w.strike = None
            await w.until(w.ended)
            await w.until(lambda: w.hosts.labs_left() == [])
            assert w.get_session().metadata.finalizers == ()
            w.check()

    play(story)
