"""The session controller on bad days: CML's noes, lost workers, outside hands, cancels.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_cases import HOME
from virtual_time import play
from world import ADMIN, MACHINE, TOPOLOGY, World, later, world

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import conditions, topology
from labfleet.resources.definition import Definition
from labfleet.resources.session import Session, SessionAccess
from labfleet.service.core import views
from labfleet.service.verbs import lifecycle as verbs

PHASES = ("PENDING", "SCHEDULED", "INSTANTIATING", "READY", "RUNNING", "COLLECTING", "STOPPING")


async def ready(w: World, **definition: Any) -> None:
    """A worker that is READY, and the definition `two`."""
    await w.start()
    await w.worker()
    await w.definition(**definition)
    await w.until(w.in_phase("w1", "READY"))


async def reach(w: World, phase: str) -> None:
    """Bring s1 into a phase on a worker that is READY."""
    if phase == "PENDING":
        await verbs.cordon(w.services, ADMIN, "w1", "default")
    if phase == "SCHEDULED":
        w.hosts.cut.add("w1")
        slot = {"start": later(w, 30), "end": later(w, 60)}
        await w.session(slot=slot)
        w.hosts.cut.clear()
    elif phase == "READY":
        await w.session(slot={"start": later(w, 10), "end": later(w, 30)})
    else:
        w.hosts.hang_observe = phase == "COLLECTING"
        w.hosts.set(stop_seconds=300.0 if phase == "STOPPING" else 15.0)
        await w.session()
    await w.until(w.in_phase("s1", phase))


async def nothing_left(w: World) -> None:
    w.hosts.hang_observe = False
    await w.until(w.ended)
    await w.until(lambda: w.hosts.labs_left() == [])
    assert await w.store.ports() == ()
    assert w.get_session().status.reservation is None
    assert w.get_session().metadata.finalizers == ()
    w.check()


# --- ends --------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_session_is_cancelled_in_every_phase(phase: str) -> None:
    """A cancel ends the session wherever it is, and gives everything back."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, phase)
            await verbs.cancel(w.services, ADMIN, "s1", "default", reason="enough")
            await nothing_left(w)
            if phase not in {"COLLECTING", "STOPPING"}:
                assert w.phase("s1") == "CANCELLED"
                assert "enough" in w.get_session().status.message

    play(story)


@pytest.mark.parametrize("phase", PHASES)
def test_a_deleted_session_goes_only_after_its_lab(phase: str) -> None:
    """Deleting is accepted in every phase; the record goes when the lab is gone."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, phase)
            await w.delete("Session", "s1")
            while w.phase("s1") is not None:
                w.hosts.hang_observe = False
                await w.let_pass(2)
            assert w.hosts.labs_left() == []
            assert await w.store.ports() == ()
            w.check()

    play(story)


def test_a_worker_that_was_stopped_and_started_shows_its_new_address() -> None:
    """The machine's own address is told at each moment, and none while it is stopped."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, "RUNNING")
            machine = w.compute.alive("w1")[0]

            def told() -> SessionAccess | None:
                found: Session = views.of(w.services, ADMIN.principal, w.get_session())
                return found.status.access

            first = told()
            assert first is not None
            assert first.host == machine.public_ip
            w.compute.stop_outside(machine)
            await w.until(lambda: told() is None or told().host is None)  # type: ignore[union-attr]
            halted = told()
            assert halted is not None
            assert "its address is told when it runs" in halted.message
            await w.until(lambda: told() is not None and told().host is not None)  # type: ignore[union-attr]
            again = told()
            assert again is not None
            assert again.host == machine.public_ip != first.host
            await w.until(w.ended)
            assert told() is None
            w.check()

    play(story)


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_lost_in_any_phase_ends_or_moves_the_session(phase: str) -> None:
    """A machine that ends outside loses no session: it is placed again or ends FAILED."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, phase)
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            w.hosts.hang_observe = False
            await w.worker("w2")
            await w.until(w.ended)
            moved = phase in {"PENDING", "SCHEDULED", "INSTANTIATING", "READY"}
            if moved:
                assert w.phase("s1") == "COMPLETED"
                assert w.get_session().status.worker == "w2"
            elif phase == "RUNNING":
                assert (w.phase("s1"), w.get_session().status.reason) == ("FAILED", "WorkerLost")
            await w.until(lambda: w.hosts.labs_left() == [])
            assert await w.store.ports() == ()
            w.check()

    play(story)


@pytest.mark.parametrize("phase", ["INSTANTIATING", "READY", "RUNNING", "COLLECTING", "STOPPING"])
def test_a_worker_out_of_reach_holds_the_end_until_it_is_back(phase: str) -> None:
    """Capacity is not given back while the lab may exist; after the outage it is."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, phase)
            w.hosts.cut.add("w1")
            await w.let_pass(60)
            await verbs.cancel(w.services, ADMIN, "s1", "default")
            await w.let_pass(1800)
            assert w.phase("s1") == "STOPPING"
            assert len(await w.store.ports()) == 2
            w.hosts.cut.clear()
            await nothing_left(w)

    play(story)


@pytest.mark.parametrize("phase", ["INSTANTIATING", "READY", "RUNNING", "COLLECTING", "STOPPING"])
def test_a_lab_deleted_outside_is_noticed(phase: str) -> None:
    """A lab that is not there any more never hangs its session."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await reach(w, phase)
            await w.until(
                lambda: (
                    w.get_session().status.lab is not None and bool(w.get_session().status.lab.id)
                )
            )
            w.hosts.remove("w1")
            w.hosts.hang_observe = False
            await w.until(w.ended)
            if phase in {"READY", "RUNNING"}:
                assert w.get_session().status.reason == "LabDeletedOutside"
            await nothing_left(w)

    play(story)


# --- import ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["lost-after", "hang-after", "crash-after"])
def test_an_import_of_unknown_outcome_is_found_by_its_marker(mode: str) -> None:
    """Whatever becomes of the answer, one lab is imported."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            struck = []

            def strike(name: str, _: int) -> str | None:
                if name == "import_lab" and not struck:
                    struck.append(name)
                    return mode
                return None

            w.strike = strike
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert w.hosts.labs_made == 1
            await nothing_left(w)

    play(story)


@pytest.mark.parametrize("started", [False, True])
def test_of_two_labs_with_one_marker_one_is_kept(started: bool) -> None:
    """A second lab with our marker is removed step by step, and only it."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.strike = lambda name, _: "hang-after" if name == "import_lab" else None
            await w.session()
            await w.until(lambda: w.hosts.labs_made == 1)
            w.strike = None
            assert w.get_session().status.lab.id is None
            server = w.hosts.of("w1")
            [first] = server.labs.values()
            twin = w.hosts.run if started else w.hosts.edit
            twin("w1", title=first.title, notes=first.notes)
            await w.until(w.in_phase("s1", "RUNNING"))
            assert list(server.labs) == [first.id]
            await nothing_left(w)

    play(story)


@pytest.mark.parametrize(
    ("call", "words"),
    [("import", "node definition xyz is unknown"), ("start", "image is missing")],
)
def test_what_cml_refuses_fails_with_its_words_and_leaves_no_lab(call: str, words: str) -> None:
    """A refused import or start ends in FAILED with CML's text; neither is tried again."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.refusals[call] = errors.Invalid(words)
            await w.session()
            await w.until(w.ended)
            assert w.phase("s1") == "FAILED"
            assert words in w.get_session().status.message
            assert sum(each.startswith(call) for each in w.hosts.calls) == 1
            await nothing_left(w)

    play(story)


def test_what_cml_refuses_of_a_lab_is_told_in_its_authors_words() -> None:
    """A definition of before the check fails with labels and a line, and no path of CML's API."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            old = await w.services.objects.get(Definition, "two", "default")
            text = TOPOLOGY.replace("links: []", "links: [{id: l, n1: n0, i1: i9, n2: n1, i2: i0}]")
            spec = msgspec.structs.replace(old.spec, topology=text)
            cause = stores.Cause("an earlier revision", w.clock.now())
            await w.services.objects.save(msgspec.structs.replace(old, spec=spec), cause=cause)
            await w.session()
            await w.until(w.ended)
            told = w.get_session().status.message
            assert told.startswith("w1: CML does not take the lab: line 6, the link from 'i9' of ")
            assert "node 'r1'" in told
            assert "body" not in told
            await nothing_left(w)

    play(story)


def test_a_server_without_room_is_tried_gently_until_the_budget_is_over() -> None:
    """A start that finds no licence room is a bounded number of events and then BootTimeout."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.refusals["start"] = errors.OutOfCapacity("no licence for more nodes")
            await w.session()
            await w.until(w.ended)
            assert w.get_session().status.reason == "BootTimeout"
            assert await w.events("Session", "s1") < 60
            await nothing_left(w)

    play(story)


# --- ready, running ----------------------------------------------------------------------


def test_a_lab_whose_ports_do_not_answer_is_not_ready() -> None:
    """All nodes booted is not READY; the silent port is named, and answering makes it READY."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.set(patty_first=HOME + 2)
            await w.session()
            await w.until(w.told("s1", "do not answer yet"))
            await w.let_pass(60)
            assert w.phase("s1") == "INSTANTIATING"
            assert f"r1_serial (tcp {HOME})" in w.get_session().status.message
            w.hosts.set(patty_first=2000)
            await w.until(w.in_phase("s1", "RUNNING"))
            assert w.get_session().status.ready_at is not None

    play(story)


def test_a_lab_that_never_boots_fails_in_its_budget() -> None:
    """Boot time has a deadline by the definition, and its end says how far it came."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.node_boot(1e6)
            await w.session()
            await w.until(w.ended, hours=0.5)
            assert w.get_session().status.reason == "BootTimeout"
            assert "0 of 2 nodes" in w.get_session().status.message
            await nothing_left(w)

    play(story)


def test_sixty_starts_in_one_minute_time_none_out() -> None:
    """A crowd that boots one after the other gets budgets that grow with it (T46)."""

    async def story() -> None:
        async with world() as w:
            crowd = {**MACHINE, "cml": {**MACHINE["cml"], "startsAtOnce": 20}}
            await w.start()
            await w.worker(machine=crowd)
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.node_boot(400.0)
            for number in range(20):
                await w.session(f"s{number}")
            await w.until(lambda: all(w.phase(f"s{n}") == "INSTANTIATING" for n in range(20)))
            at = w.hosts.now
            await w.until(lambda: len(w.hosts.labs_left()) == 20)
            await w.let_pass(10)
            for number, lab in enumerate(w.hosts.of("w1").labs.values()):
                for node in lab.nodes.values():
                    node.booted_at = at + 60.0 * (number + 1)
            await w.until(w.ended, hours=3)
            assert {w.phase(f"s{n}") for n in range(20)} == {"COMPLETED"}
            w.check()

    play(story)


def test_a_session_ends_when_its_extended_end_has_come() -> None:
    """Extending moves the end of a running session, once."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            before = w.get_session().status.end
            await verbs.extend(w.services, ADMIN, "s1", "default", by=timedelta(minutes=20))
            await w.let_pass(11 * 60)
            assert w.phase("s1") == "RUNNING"
            await w.until(w.ended)
            assert w.get_session().status.ended_at - before >= timedelta(minutes=20)
            assert w.phase("s1") == "COMPLETED"
            await nothing_left(w)

    play(story)


def test_a_session_that_is_never_placed_expires_with_the_reason() -> None:
    """Its grace over, a session that found no place is EXPIRED and says what was missing."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.definition(graceMinutes=5)
            await w.session(slot={"start": later(w, 1), "end": later(w, 60)})
            await w.until(w.ended)
            assert w.phase("s1") == "EXPIRED"
            assert "no worker" in w.get_session().status.message

    play(story)


# --- observation -------------------------------------------------------------------------


def test_an_observation_that_hangs_blocks_no_teardown() -> None:
    """Thirty seconds without an answer end the observation, and the session completes."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.hang_observe = True
            await w.session()
            await w.until(w.in_phase("s1", "COMPLETED"))
            found = conditions.find(w.get_session().status.conditions, "Collected")
            assert (found.status, found.reason) == ("False", "NotObserved")
            assert "no answer" in found.message
            await nothing_left(w)

    play(story)


def test_an_observation_on_demand_changes_no_phase() -> None:
    """An observation asked for while RUNNING is recorded; the end makes a second one."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await verbs.observe(w.services, ADMIN, "s1", "default")
            await w.until(lambda: w.get_session().status.observation_count == 1)
            assert w.phase("s1") == "RUNNING"
            assert w.get_session().status.observe_handled == w.get_session().spec.observe_requested
            assert w.get_session().status.observed_ports == {
                "r1_serial": HOME,
                "r2_serial": HOME + 1,
            }
            await w.until(w.ended)
            assert w.get_session().status.observation_count == 2

    play(story)


# --- teardown ----------------------------------------------------------------------------


def test_a_lab_is_wiped_only_when_its_nodes_stand_still() -> None:
    """A lab that says STOPPED while nodes still run is not wiped yet (T47)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.stopped_early = True
            w.hosts.set(stop_seconds=120.0)
            await w.session()
            await w.until(w.in_phase("s1", "COMPLETED"))
            await nothing_left(w)

    play(story)


def test_the_lab_carries_title_marker_and_the_given_ports() -> None:
    """What is imported bears the session's marker, a unique short title and its own ports."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session("x" * 60)
            await w.until(lambda: w.hosts.labs_left() != [])
            [lab] = w.hosts.of("w1").labs.values()
            session = w.get_session("x" * 60)
            assert topology.marker_of(lab.notes) == session.metadata.uid
            assert len(lab.title) <= 64
            tags = [node.tags for node in lab.nodes.values()]
            assert tags == [[f"serial:{HOME}"], [f"serial:{HOME + 1}"]]
            assert [node.tags for node in topology.parse(TOPOLOGY).nodes] == [
                ("serial:1",),
                ("serial:2",),
            ]

    play(story)
