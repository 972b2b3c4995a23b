"""Labs of running sessions as living things: ordered off and on, and changed by others' hands."""

from __future__ import annotations

import itertools

import pytest
from fleet_cases import ready
from test_crashes import MODES, striker
from test_port_looks import nodes
from virtual_time import play
from world import ADMIN, World, world

from cml_simulator.core import lifecycle as cml
from labfleet.resources import conditions
from labfleet.resources.session import Session
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import lab_orders
from labfleet.service.verbs.lab_orders import LabOrderRequest


async def running(w: World, name: str = "s1") -> None:
    """A session that runs, with a lab of two nodes."""
    await w.session(name, durationMinutes=480)
    await w.until(w.in_phase(name, "RUNNING"))


async def order(w: World, verb: str, node: str = "", name: str = "s1") -> Session:
    sent = LabOrderRequest(order=verb, node=node, confirm=True)  # type: ignore[arg-type]
    return await lab_orders.order(w.services, ADMIN, (name, "default"), sent)


def progress(w: World, name: str = "s1") -> str:
    known, wanted = w.get_session(name).status.lab_order, w.get_session(name).spec.lab_order
    given = known is not None and wanted is not None and known.id == wanted.id
    return known.state if known is not None and given else "none"


async def done(w: World, verb: str, node: str = "") -> None:
    given = (await order(w, verb, node)).spec.lab_order
    await w.until(lambda: w.get_session().spec.lab_order == given, hours=0.1)
    await w.until(lambda: progress(w) in {"done", "refused"})
    assert progress(w) == "done", w.get_session().status.lab_order


def fact(w: World, kind: str) -> tuple[str, str, str]:
    found = conditions.find(w.get_session().status.conditions, kind)
    return ("", "", "") if found is None else (found.status, found.reason, found.message)


def states(w: World) -> list[str]:
    return [str(node.state(w.hosts.now)) for _, node in sorted(nodes(w).items())]


def acts(w: World) -> list[str]:
    """What was asked of labs and nodes, without whose."""
    verbs = {"start", "stop", "wipe", "start_node", "stop_node", "wipe_node"}
    return [each.split()[0] for each in w.hosts.calls if each.split()[0] in verbs]


async def events(w: World) -> list[str]:
    return [each.reason for each in await w.store.events_of(w.get_session().key)]


def test_a_lab_that_its_owner_stops_stays_off_and_its_session_goes_on() -> None:
    """Nobody heals it and nobody takes it for a fault; a start brings it back as it was."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.calls.clear()
            await done(w, "stop")
            assert set(states(w)) == {"STOPPED"}
            off = w.get_session().status.lab_off
            assert off is not None
            assert (off.whole, off.by) == (True, "ada")
            await w.let_pass(1200)
            assert w.phase("s1") == "RUNNING"
            assert acts(w) == ["stop"]
            assert fact(w, "LabStarted")[:2] == ("False", "OffAsOrdered")
            assert fact(w, "LabChanged")[0] != "True"
            assert fact(w, "PortsOpen") == ("", "", "")
            await done(w, "start")
            assert set(states(w)) == {"BOOTED"}
            assert w.get_session().status.lab_off is None
            assert fact(w, "LabStarted")[0] == "True"
            w.check()

    play(story)


def test_a_wipe_waits_until_every_node_was_seen_off_whatever_converged_says() -> None:
    """CML says that the lab has converged before its nodes have stopped (facts/fleet-bugs.md#t47)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.set(converged_early=True, stop_seconds=40.0)
            w.hosts.calls.clear()
            await done(w, "wipe")
            assert set(states(w)) == {"DEFINED_ON_CORE"}
            assert acts(w)[-1] == "wipe"
            assert set(acts(w)[:-1]) == {"stop"}
            assert w.phase("s1") == "RUNNING"
            w.check()

    play(story)


def test_one_node_is_restarted_and_the_others_are_left_alone() -> None:
    """By its label or by CML's name; one that is not there is refused in words."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.calls.clear()
            other = nodes(w)["r2"].booted_at
            await done(w, "restart", "r1")
            assert acts(w) == ["stop_node", "start_node"]
            assert nodes(w)["r2"].booted_at == other
            await done(w, "stop", nodes(w)["r1"].id)
            off = w.get_session().status.lab_off
            assert off is not None
            assert (off.whole, off.nodes) == (False, ("r1",))
            await w.let_pass(900)
            assert fact(w, "LabChanged")[0] != "True"
            await done(w, "start")
            assert w.get_session().status.lab_off is None
            await done(w, "stop")
            await done(w, "start", "r2")
            off = w.get_session().status.lab_off
            assert off is not None
            assert (off.whole, off.nodes) == (False, ("r1",))
            await w.let_pass(600)
            assert fact(w, "LabChanged")[0] != "True"
            await order(w, "stop", "r9")
            await w.until(lambda: progress(w) == "refused")
            known = w.get_session().status.lab_order
            assert known is not None
            assert "'r9'" in known.message
            w.check()

    play(story)


def test_two_orders_at_once_are_one_order_or_a_refusal() -> None:
    """The same one is given once; another has to wait until the first is over."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            first = await order(w, "restart")
            again = await order(w, "restart")
            assert first.spec.lab_order == again.spec.lab_order
            with pytest.raises(Refused, match="restart of the lab is under way") as refused:
                await order(w, "stop")
            assert refused.value.reason == "OrderOpen"

    play(story)


def test_an_order_that_cml_cannot_carry_out_ends_with_its_words() -> None:
    """It is tried until it is given up, the session runs on, and then others may be given."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.fail("stop")
            await order(w, "stop")
            await w.until(lambda: progress(w) == "refused", hours=2)
            known = w.get_session().status.lab_order
            assert known is not None
            assert "stop: 500" in known.message
            assert w.phase("s1") == "RUNNING"
            w.hosts.refusals = {}
            await done(w, "stop")

    play(story)


def test_the_end_of_a_session_ends_its_order() -> None:
    """No order outlives the lab that it is about."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.hosts.fail("stop")
            await order(w, "stop")
            await w.until(w.in_phase("s1", "COLLECTING", "STOPPING"))
            assert progress(w) == "refused"
            w.hosts.refusals = {}
            await w.until(w.in_phase("s1", "COMPLETED"))
            w.check()

    play(story)


@pytest.mark.parametrize("mode", MODES)
def test_a_restart_survives_a_strike_at_any_call(mode: str) -> None:
    """Killed, deaf or refused at each changing call: the lab is up again, and nothing is done out of turn."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(stop_seconds=3.0)
            await ready(w)
            await running(w)
            for number in itertools.count(1):
                struck: list[str] = []
                w.strikes, w.strike = 0, striker(mode, number, struck)
                await done(w, "restart")
                w.strike = None
                assert set(states(w)) == {"BOOTED"}
                w.check()
                if not struck:
                    break
            assert number > 4

    play(story)


def test_a_lab_that_is_stopped_or_wiped_by_hand_is_told_and_not_healed() -> None:
    """Its session goes on; what happened is said in a condition and an event, and ends with a start."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.calls.clear()
            server = w.hosts.of("w1")
            [lab] = server.labs.values()
            cml.stop_lab(server, lab, w.hosts.now)
            await w.until(lambda: fact(w, "LabChanged")[1] == "StoppedOutside", hours=0.1)
            cml.wipe_lab(w.hosts.of("w1"), lab, w.hosts.now)
            await w.until(lambda: fact(w, "LabChanged")[1] == "WipedOutside", hours=0.1)
            assert "is lost" in fact(w, "LabChanged")[2]
            await w.let_pass(600)
            assert (w.phase("s1"), acts(w)) == ("RUNNING", [])
            await done(w, "start")
            await w.until(lambda: fact(w, "LabChanged")[:2] == ("False", "AsItWas"), hours=0.1)
            w.check()

    play(story)


def test_nodes_that_are_added_removed_renamed_or_stopped_by_hand_are_named() -> None:
    """Found by the look that is made for ports anyway; put back, nothing is told any more."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            server = w.hosts.of("w1")
            own = nodes(w)
            own["r2"].label = "gone-astray"
            cml.stop_node(server, own["r1"], w.hosts.now)
            await w.until(lambda: fact(w, "LabChanged")[1] == "EditedOutside", hours=0.2)
            told = fact(w, "LabChanged")[2]
            assert "node renamed: r2 to gone-astray" in told
            assert "node off: r1" in told
            own["r2"].label = "r2"
            cml.start_node(w.hosts.of("w1"), own["r1"], w.hosts.now)
            await w.until(lambda: fact(w, "LabChanged")[0] == "False", hours=0.2)
            assert w.phase("s1") == "RUNNING"

    play(story)
