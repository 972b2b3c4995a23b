"""The life of a slot under its controllers: its end stays where it is, its start may move.

T04 is a row of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta

from test_session_trouble import nothing_left, ready
from virtual_time import play
from world import ADMIN, later, world

from labfleet.resources.kinds import KINDS
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects


def test_the_end_of_a_slot_stays_where_it_is() -> None:
    """An edit, a restart of the product and a node that boots again move no end (T04)."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await w.worker()
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            end = w.get_session().status.end
            changes = {"metadata": {"labels": {"title": "new"}}, "spec": {"priority": 5}}
            await objects.patch(
                w.services, ADMIN, KINDS["Session"], "s1", changes, namespace="default"
            )
            await w.let_pass(600)
            process.kill()
            await w.start()
            await w.let_pass(600)
            assert w.get_session().status.end == end
            await w.until(w.ended)
            late = w.get_session().status.ended_at - end
            assert timedelta() <= late < timedelta(minutes=5)
            await nothing_left(w)

    play(story)


def test_a_slot_that_moves_runs_at_its_new_time() -> None:
    """A worker that was booked for it is given back, and the lab runs from the new start."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session(slot={"start": later(w, 40), "end": later(w, 70)})
            await w.until(w.in_phase("s1", "SCHEDULED"))
            start = w.get_session().status.start + timedelta(hours=2)
            moved = await verbs.move(w.services, ADMIN, "s1", "default", start=start)
            assert (moved.status.worker, moved.status.ports) == (None, ())
            await w.until(w.in_phase("s1", "RUNNING"), hours=4)
            assert start <= w.get_session().status.started_at < start + timedelta(minutes=1)
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            await nothing_left(w)

    play(story)


def test_who_never_came_gives_the_lab_back() -> None:
    """Asked for, a lab without its person is released with the reason; who checked in keeps it."""

    async def story() -> None:
        async with world() as w:
            await ready(w, noShowMinutes=5)
            await w.session()
            await w.session("came")
            await w.until(w.in_phase("s1", "RUNNING"))
            await w.until(w.in_phase("came", "RUNNING"))
            assert (await verbs.check_in(w.services, ADMIN, "came", "default")).status.checked_in_by
            await w.until(w.in_phase("s1", "CANCELLED"), hours=0.5)
            assert w.get_session().status.reason == "NoShow"
            assert w.phase("came") == "RUNNING"
            await w.until(w.ended)
            assert w.phase("came") == "COMPLETED"
            await nothing_left(w)

    play(story)
