"""Scheduler, pools, garbage and upkeep: who gets what, how many there are, what goes.

The numbered cases are rows of facts/fleet-bugs.md."""

from __future__ import annotations

import pytest
from fleet_cases import HOME, big, ready, touch
from virtual_time import play
from world import ADMIN, later, world

from labfleet.controllers import assembly, scheduler
from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.service.verbs import lifecycle as verbs


def test_a_binding_takes_session_ports_and_ledger_in_one_commit() -> None:
    """No revision shows the session placed without its ports, and the ledger row has moved."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.session()
            await w.until(w.told("s1", "worker='w1'"))
            rows = await w.store.ports("default/w1")
            assert {row.owner for row in rows} == {w.get_session().metadata.uid}
            assert [row.number for row in rows] == [HOME, HOME + 1]
            [bound] = [
                event
                for event in await w.store.events_of(w.get_session().key)
                if b'"SCHEDULED"' in event.doc and event.actor == "scheduler"
            ]
            from labfleet.service.core import ledger_rows

            row = ledger_rows.of(w.get_worker().key)
            with pytest.raises(errors.Conflict):
                await process.services.objects.save(
                    w.get_worker(),
                    cause=process.services.cause(ADMIN, "x"),
                    preconditions=(ledger_rows.untouched(row, bound.revision - 1),),
                )

    play(story)


def test_urgent_sessions_go_first_then_the_older_ones() -> None:
    """With room for one, priority decides, and age among equals."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await w.definition("big", **big())
            for name, priority in (("old", 0), ("new", 0), ("urgent", 5)):
                await w.session(name, definition="big", priority=priority)
                await w.let_pass(2)
            await verbs.cordon(w.services, ADMIN, "w1", "default", closed=False)
            await w.until(w.ended, hours=4)
            begun = {
                name: w.get_session(name).status.started_at for name in ("old", "new", "urgent")
            }
            assert sorted(begun, key=lambda name: begun[name]) == ["urgent", "old", "new"]
            w.check()

    play(story)


def test_a_large_request_does_not_hold_up_small_ones() -> None:
    """One that waits for a whole worker lets small ones by; one too large is refused (T20)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("half", **big(30))
            await w.definition("never", **big(64))
            await w.session("first", definition="half")
            await w.session("waits", definition="half")
            await w.session("never", definition="never")
            for number in range(9):
                await w.session(f"s{number}")
            await w.until(lambda: all(w.phase(f"s{n}") == "RUNNING" for n in range(9)))
            assert w.phase("never") == "FAILED"
            assert w.get_session("never").status.decision.reason == "NeverFits"
            assert w.phase("waits") == "PENDING"
            assert "short" in w.get_session("waits").status.message
            await w.until(w.ended)
            assert w.phase("waits") == "COMPLETED"
            w.check()

    play(story)


def test_a_later_slot_that_can_never_fit_is_refused_today() -> None:
    """Tomorrow's session is judged once at once: refused, or told when a worker is looked for."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("never", **big(64))
            slot = {"start": later(w, 600), "end": later(w, 660)}
            await w.session("never", definition="never", slot=slot)
            await w.session("fits", slot=slot)
            await w.until(lambda: w.phase("never") == "FAILED", hours=1)
            await w.until(lambda: w.get_session("fits").status.decision is not None, hours=1)
            assert w.get_session("never").status.decision.reason == "NeverFits"
            assert w.phase("fits") == "PENDING"
            assert w.get_session("fits").status.decision.reason == "SlotAhead"
            revision = w.get_session("fits").revision
            await w.let_pass(60)
            assert w.get_session("fits").revision == revision
            await w.until(lambda: w.phase("fits") == "RUNNING", hours=12)
            await w.until(w.ended, hours=14)
            w.check()

    play(story)


def test_a_head_of_hundreds_that_waits_does_not_hide_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cycle is bounded, and yet everybody is looked at in turn."""
    monkeypatch.setattr(scheduler, "CYCLE_LIMIT", 5)
    monkeypatch.setattr(scheduler, "HEAD", 3)

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("half", **big(40), defaultDurationMinutes=120)
            for number in range(12):
                await w.session(f"a{number}", definition="half", priority=1)
            await w.session("last")
            await w.until(w.in_phase("last", "RUNNING"), hours=0.5)
            w.check()

    play(story)


def test_a_decision_is_recorded_only_when_it_changes() -> None:
    """An hour of waiting for the same reason is one event."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.definition()
            await w.session()
            await w.until(lambda: w.get_session().status.decision is not None)
            before = await w.events("Session", "s1")
            await w.let_pass(3600)
            assert await w.events("Session", "s1") == before

    play(story)


def test_ports_seen_on_a_server_are_not_given_out() -> None:
    """A port that somebody edited into a lab is avoided, and free again when it is gone (T41)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            theirs = w.hosts.edit("w1", f"serial:{HOME}", f"vnc:{HOME + 2}")
            named = (f"tcp/{HOME}", f"tcp/{HOME + 2}")
            await w.until(lambda: w.get_worker().status.foreign_ports == named)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert [port.number for port in w.get_session().status.ports] == [HOME + 1, HOME + 3]
            w.hosts.remove("w1", theirs.id)
            await w.until(lambda: w.get_worker().status.foreign_ports == ())
            await w.session("s2")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert [port.number for port in w.get_session("s2").status.ports] == [HOME, HOME + 2]
            w.check()

    play(story)


def test_a_number_that_a_stranger_took_too_stays_held_after_its_session() -> None:
    """A session's own number in somebody else's lab is given to nobody until that lab is gone (T41)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            theirs = w.hosts.edit("w1", f"serial:{HOME}", "serial:5041")
            named = (f"tcp/{HOME}", "tcp/5041")
            await w.until(lambda: w.get_worker().status.foreign_ports == named)
            since = [each.since for each in w.get_worker().status.held_ports]
            await verbs.cancel(w.services, ADMIN, "s1", "default")
            await w.until(w.in_phase("s1", "CANCELLED"))
            await w.session("s2")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert HOME not in [port.number for port in w.get_session("s2").status.ports]
            held = w.get_worker().status.held_ports
            assert [(each.first, each.lab) for each in held] == [
                (HOME, theirs.id),
                (5041, theirs.id),
            ]
            assert [each.since for each in held] == since
            w.hosts.remove("w1", theirs.id)
            await w.until(lambda: w.get_worker().status.held_ports == ())
            w.check()

    play(story)


def test_ports_of_labs_that_were_there_are_known_before_a_worker_takes_sessions() -> None:
    """What somebody made while a worker was stopped is seen before the first lab is placed there."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            theirs = w.hosts.edit("w1", f"serial:{HOME}", f"serial:{HOME + 1}")
            await w.session()
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("s1", "RUNNING"))
            mine = {port.number for port in w.get_session().status.ports}
            assert not mine & {HOME, HOME + 1}
            assert {each.lab for each in w.get_worker().status.held_ports} == {theirs.id}
            w.check()

    play(story)


def test_a_person_finds_a_lab_at_the_same_ports_again() -> None:
    """The next session of one person and definition has the numbers of the last, if they are free."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            given = {}
            for name, ended in (("s1", True), ("s2", False), ("s3", True)):
                await w.session(name)
                await w.until(w.in_phase(name, "RUNNING"))
                given[name] = [port.number for port in w.get_session(name).status.ports]
                if ended:
                    await verbs.cancel(w.services, ADMIN, name, "default")
                    await w.until(w.in_phase(name, "CANCELLED"))
            assert given["s1"] == given["s2"] == [HOME, HOME + 1]
            assert given["s3"] == [HOME + 2, HOME + 3]
            w.check()

    play(story)


def test_a_lost_race_for_a_worker_waits_for_the_next_cycle() -> None:
    """A ledger that moved after the snapshot makes the binding fail, and then succeed."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w, run=("worker", "session"))
            await w.session()
            await w.until(lambda: process.cache.get(Session, "s1", "default") is not None)
            done = []

            def race(name: str, _: int) -> str | None:
                if name == "commit" and not done:
                    done.append(name)
                    w.store_now(touch(w.get_worker()))
                return None

            w.strike = race
            await process.reconcile("scheduler", assembly.SCHEDULER)
            assert w.phase("s1") == "PENDING"
            await w.let_pass(2)
            await process.reconcile("scheduler", assembly.SCHEDULER)
            await w.until(lambda: w.get_session().status.worker == "w1")
            w.check()

    play(story)
