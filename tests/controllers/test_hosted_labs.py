"""Labs on a worker's server: recorded as they are seen, told with whose they are, left alone if asked."""

from __future__ import annotations

import itertools

import pytest
from test_crashes import MODES, striker
from test_found_workers import by_hand, looking
from test_stray_labs import LOST, NOTES, changes, fact, strays
from virtual_time import play
from worker_cases import up
from world import ADMIN, World, world

from labfleet.kernel import errors
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import labs
from labfleet.service.verbs import ignored_labs, lab_orders
from labfleet.service.verbs.lab_orders import LabOrderRequest


async def reading(w: World, worker: str = "w1") -> labs.LabsReading:
    return await labs.labs_of_worker(w.services, ADMIN, worker, "default")


def named(w: World, worker: str = "w1") -> bool:
    """Tell whether a lab of nobody was asked for its title."""
    return any(each.title for each in w.get_worker(worker).status.hosted_labs or ())


async def ignore(w: World, lab: str, worker: str = "w1") -> None:
    await ignored_labs.ignore(w.services, ADMIN, worker, "default", lab, reason="needed")


def test_each_lab_is_told_with_its_state_and_whose_it_is() -> None:
    """A session's, a person's and one that a lost session left stand side by side, names and all."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            theirs = w.hosts.edit("w1", title="my own", nodes=2)
            left = w.hosts.run("w1", notes=NOTES, nodes=3)
            await w.until(lambda: fact(w)[0] == "True", hours=0.1)
            await w.until(lambda: named(w))
            found = await reading(w)
            rows = {each.whose: each for each in found.labs or ()}
            assert (found.count, found.more) == (3, 0)
            ours = rows["session"]
            assert (ours.session, ours.state, ours.nodes) == ("s1", "STARTED", 2)
            assert ours.owner == w.get_session().spec.owner
            own = rows["nobody"]
            assert (own.id, own.title, own.owner) == (theirs.id, "my own", "admin")
            assert (own.state, own.running, own.nodes) == ("DEFINED_ON_CORE", 0, 2)
            stray = rows["left-behind"]
            assert (stray.id, stray.running) == (left.id, 3)
            assert LOST in stray.why
            w.check()

    play(story)


def test_labs_that_were_not_seen_are_not_told_as_none() -> None:
    """Unknown is no empty list: before the first look, and of a machine that is gone."""

    async def story() -> None:
        async with world() as w:
            await w.worker()
            await w.start()
            assert (await reading(w)).labs is None
            await w.until(w.in_phase("w1", "READY"))
            assert (await reading(w)).labs == ()
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            found = await reading(w)
            assert (found.labs, found.count) == (None, None)

    play(story)


def test_an_ignored_lab_is_never_removed_and_its_room_stays_counted() -> None:
    """Until it is heeded again; then it goes as any lab that a lost session left."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            lab = w.hosts.run("w1", "serial:2000", notes=NOTES, nodes=3)
            await w.until(lambda: fact(w)[0] == "True", hours=0.1)
            await ignore(w, lab.id)
            revision = w.get_worker().revision
            await ignore(w, lab.id)
            assert w.get_worker().revision == revision
            await w.let_pass(3600)
            assert changes(w) == []
            assert strays(w).held.nodes == 3
            assert w.get_worker().status.foreign_ports == ("tcp/2000",)
            assert fact(w)[:2] == ("False", "NoStrays")
            [row] = (await reading(w)).labs or ()
            assert (row.whose, row.why) == ("ignored", "ignored by ada: needed")
            await ignored_labs.heed(w.services, ADMIN, "w1", "default", lab.id)
            await w.until(lambda: lab.id not in w.hosts.of("w1").labs, hours=0.5)
            w.check()

    play(story)


def test_only_a_lab_of_nobody_can_be_ignored() -> None:
    """A session's lab and one that no look has seen are refused."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            ours = w.get_session().status.lab
            assert ours is not None
            assert ours.id is not None
            with pytest.raises(Refused, match="'s1'") as of_session:
                await ignore(w, ours.id)
            assert of_session.value.reason == "LabOfSession"
            with pytest.raises(errors.Gone):
                await ignore(w, "no-such-lab")

    play(story)


def test_labs_of_a_server_that_is_only_observed_are_named_and_left_alone() -> None:
    """Who adopts a server sees what is on it; each lab is asked for its name once."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            other = await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            lab = w.hosts.run(other.request.worker, title="a class", notes=NOTES)
            await w.until(lambda: named(w, "lab-1"))
            await w.let_pass(3600)
            [row] = (await reading(w, "lab-1")).labs or ()
            assert (row.id, row.title, row.whose) == (lab.id, "a class", "nobody")
            assert changes(w) == []

    play(story)


async def order(w: World, lab: str, verb: str, node: str = "") -> None:
    """Order something of a lab of nobody, and wait until it is done or refused."""
    sent = LabOrderRequest(order=verb, node=node, confirm=True)  # type: ignore[arg-type]
    made = await lab_orders.order_of_worker(w.services, ADMIN, ("w1", "default"), lab, sent)
    given = made.spec.lab_order
    assert given is not None

    def over() -> bool:
        known = w.get_worker().status.lab_order
        return known is not None and known.id == given.id and known.state in {"done", "refused"}

    await w.until(over, hours=1)


def ended(w: World) -> str:
    known = w.get_worker().status.lab_order
    return "" if known is None else known.state


def test_an_operator_stops_wipes_and_starts_a_lab_that_is_nobodys() -> None:
    """Under an open effect, by the states of its nodes; the worker's own work goes on beside it."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            lab = w.hosts.run("w1", title="theirs", nodes=2)
            await w.until(lambda: bool(w.get_worker().status.hosted_labs))

            def states() -> set[str]:
                return {str(node.state(w.hosts.now)) for node in lab.nodes.values()}

            w.hosts.set(converged_early=True)
            for verb, then in (
                ("stop", {"STOPPED"}), ("wipe", {"DEFINED_ON_CORE"}), ("restart", {"BOOTED"}),
            ):  # fmt: skip
                await order(w, lab.id, verb)
                assert (ended(w), states()) == ("done", then)
            await order(w, lab.id, "stop", "x1")
            assert states() == {"BOOTED", "STOPPED"}
            w.hosts.fail("stop")
            await order(w, lab.id, "stop")
            known = w.get_worker().status.lab_order
            assert known is not None
            assert known.state == "refused"
            assert "stop: 500" in known.message
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


@pytest.mark.parametrize("mode", MODES)
def test_an_operators_restart_survives_a_strike_at_any_call(mode: str) -> None:
    """Killed, deaf or refused at each changing call: the lab is up again and the order is done."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(stop_seconds=3.0)
            await up(w)
            lab = w.hosts.run("w1", title="theirs", nodes=2)
            await w.until(lambda: bool(w.get_worker().status.hosted_labs))
            for number in itertools.count(1):
                struck: list[str] = []
                w.strikes, w.strike = 0, striker(mode, number, struck)
                await order(w, lab.id, "restart")
                w.strike = None
                assert ended(w) == "done"
                assert {str(node.state(w.hosts.now)) for node in lab.nodes.values()} == {"BOOTED"}
                w.check()
                if not struck:
                    break
            assert number > 3

    play(story)


def test_a_lab_of_a_session_takes_its_orders_by_its_session() -> None:
    """What belongs to somebody is not ordered about past their session's rules."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            lab = w.get_session().status.lab
            assert lab is not None
            assert lab.id is not None
            with pytest.raises(Refused) as refused:
                await order(w, lab.id, "stop")
            assert refused.value.reason == "LabOfSession"
            with pytest.raises(errors.Gone):
                await order(w, "nothing", "stop")
            left = w.hosts.run("w1", notes=NOTES)
            await w.until(lambda: fact(w)[0] == "True", hours=0.1)
            with pytest.raises(Refused) as behind:
                await order(w, left.id, "start")
            assert behind.value.reason == "LeftBehind"

    play(story)
