"""Running labs are looked at for ports that people add, remove or change by hand."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_cases import HOME, ready
from virtual_time import play
from world import ADMIN, World, world

from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.service.verbs import held_ports
from labfleet.service.verbs import lifecycle as verbs


def drift(w: World, name: str = "s1") -> Condition | None:
    """The fact about drift of a session."""
    return conditions.find(w.get_session(name).status.conditions, "PortDrift")


def status_of(fact: Condition | None) -> str:
    """Its status, in a word."""
    return "none" if fact is None else fact.status


async def running(w: World, name: str = "s1") -> Any:
    """A running session's nodes on its server."""
    await w.session(name)
    await w.until(w.in_phase(name, "RUNNING"))
    return nodes(w, name)


def nodes(w: World, name: str = "s1") -> Any:
    """The nodes of a session's lab, by label."""
    lab = w.get_session(name).status.lab
    return {node.label: node for node in w.hosts.of("w1").labs[lab.id].nodes.values()}


def test_a_port_added_by_hand_is_drift_quarantined_and_free_again_when_gone() -> None:
    """Found within the worker's own look, given to nobody, and taken back without anybody's word."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            labs = await running(w)
            added = HOME + 2
            labs["r1"].tags.append(f"serial:{added}")
            began = w.clock.now()
            await w.until(lambda: status_of(drift(w)) == "True")
            assert (w.clock.now() - began).total_seconds() <= 60
            assert f"added r1_serial@{added} {added}" in drift(w).message
            held = w.get_worker().status.held_ports
            assert [(each.first, each.lab) for each in held] == [
                (added, w.get_session().status.lab.id)
            ]
            await running(w, "s2")
            others = [port.number for port in w.get_session("s2").status.ports]
            assert added not in others
            labs["r1"].tags.remove(f"serial:{added}")
            await w.until(lambda: status_of(drift(w)) == "False")
            await w.until(lambda: w.get_worker().status.held_ports == ())
            assert not w.get_session().status.port_drift_detected
            w.check()

    play(story)


def test_a_port_that_was_taken_away_is_found_by_the_light_look() -> None:
    """No record of the worker tells it: within observation.portsSeconds, for one request a lab."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            labs = await running(w)
            labs["r2"].tags.clear()
            began = w.clock.now()
            await w.until(lambda: status_of(drift(w)) == "True")
            assert (w.clock.now() - began).total_seconds() <= 330
            assert drift(w).message == f"removed r2_serial {HOME + 1}"
            assert w.get_session().status.observation_count == 0
            await w.until(w.ended)
            assert drift(w) is None
            assert w.get_session().status.port_drift_detected

    play(story)


def test_a_look_that_fails_or_sees_no_node_clears_nothing() -> None:
    """The drift that was known stays, with its words, and no session ends for it."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            labs = await running(w)
            labs["r1"].tags.append("serial:5041")
            await w.until(lambda: status_of(drift(w)) == "True")
            known = drift(w)
            labs["r1"].tags.remove("serial:5041")
            w.hosts.fail("nodes", "all nodes")
            await w.let_pass(400)
            assert drift(w) == known
            w.hosts.fail()
            await w.until(lambda: status_of(drift(w)) == "False")

    play(story)


@pytest.mark.parametrize("fails", [False, True])
def test_a_look_that_somebody_asked_for_says_who_and_whether_it_saw_anything(fails: bool) -> None:
    """Collected is of the newest look; the end makes its own, whatever the one before has said."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await running(w)
            w.hosts.hang_observe = fails
            await verbs.observe(w.services, ADMIN, "s1", "default")
            again = await verbs.observe(w.services, ADMIN, "s1", "default")
            asked = again.spec.observe_requested
            await w.until(lambda: w.get_session().status.observe_handled == asked)
            seen = w.get_session().status
            fact = conditions.find(seen.conditions, "Collected")
            assert fact.status == ("False" if fails else "True")
            if fails:
                assert "no answer" in fact.message
                assert seen.observed_resources is None
            else:
                assert seen.observed_resources.observer == "manual:ada"
            w.hosts.hang_observe = False
            await w.until(w.ended)
            last = w.get_session().status
            assert last.observed_resources.observer == "session-controller"
            assert conditions.find(last.conditions, "Collected").status == "True"

    play(story)


def test_a_released_port_is_given_out_and_held_anew_when_it_is_named_anew() -> None:
    """A person's word ends with what it was for: taken away and added again it is quarantined."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            theirs = w.hosts.edit("w1", f"serial:{HOME}")
            await w.until(lambda: w.get_worker().status.foreign_ports == (f"tcp/{HOME}",))
            assert w.get_worker().status.held_ports[0].owner
            await w.let_pass(90)
            sent = held_ports.ReleaseRequest(first=HOME, lab=theirs.id, reason="it is off")
            await held_ports.release(w.services, ADMIN, "w1", "default", sent)
            await w.let_pass(90)
            (kept,) = w.get_worker().status.held_ports
            assert (kept.released.by, kept.released.reason) == ("ada", "it is off")
            await running(w)
            assert w.get_session().status.ports[0].number == HOME
            node = next(iter(w.hosts.of("w1").labs[theirs.id].nodes.values()))
            node.tags.clear()
            await w.until(lambda: w.get_worker().status.held_ports == ())
            node.tags.append(f"serial:{HOME}")
            await w.until(lambda: w.get_worker().status.foreign_ports == (f"tcp/{HOME}",))

    play(story)


def test_a_worker_says_whose_labs_have_drifted() -> None:
    """Its alert names the session, and goes when the ports are as they were given."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            labs = await running(w)
            labs["r1"].tags.append("serial:5041")

            def alert() -> Condition | None:
                return conditions.find(w.get_worker().status.conditions, "PortDrift")

            await w.until(lambda: status_of(alert()) == "True")
            assert "s1" in alert().message
            (held,) = w.get_worker().status.held_ports
            assert held.owner == "ada"
            labs["r1"].tags.remove("serial:5041")
            await w.until(lambda: status_of(alert()) == "False")

    play(story)
