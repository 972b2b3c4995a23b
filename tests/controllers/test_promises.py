"""Promised slots start on time: their pool grows for them, and nobody else takes their room."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from virtual_time import play
from world import ADMIN, MACHINE, World, later, world

from labfleet.controllers import promises
from labfleet.controllers.scheduler import CYCLE, KEY, Scheduler
from labfleet.engine.cache import Cache
from labfleet.engine.controller import Again
from labfleet.engine.election import AlwaysLeader
from labfleet.interfaces.store import Fence
from labfleet.resources import conditions, fleet_alerts
from labfleet.resources.amounts import Claim
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import SessionCondition, WaitReason
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker
from labfleet.service.core import event_types
from labfleet.service.core.service_context import Refused
from labfleet.service.kinds import indices
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import objects

PAIRS = {"cpu": 64, "memory": "64Gi", "storage": "400Gi", "labs": 2, "ports": 500}
EXAM = 4 * 60


async def fleet(w: World, workers: int, **pool: Any) -> None:
    """A pool of at most so many workers, each of which holds two labs."""
    await w.start()
    await w.make("Template", "pairs", {"machine": {**MACHINE, "capacity": PAIRS}})
    await w.pool(template="pairs", scaling={"maxWorkers": workers, **pool})
    await w.definition()


async def booked(w: World, names: str, minutes: int = EXAM, **spec: Any) -> None:
    """Sessions of ten minutes from a minute on, one for each letter."""
    for name in names:
        await w.session(name, slot={"start": later(w, minutes)}, **spec)
    await w.services.fresh()


def claims(w: World) -> dict[str, Claim | None]:
    return {each.name: each.status.claim for each in w.cache.all(Session)}


async def start_of(w: World, name: str) -> float:
    """Wait until a session has ended; return how many seconds after its slot's start it ran."""
    await w.until(w.in_phase(name, "COMPLETED"), hours=8)
    status = w.get_session(name).status
    assert status.started_at is not None
    assert status.start is not None
    return (status.started_at - status.start).total_seconds()


def test_a_full_exam_starts_on_time() -> None:
    """All that the maximum holds is accepted and starts on time, workers made several at a step."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 3)
            await booked(w, "abcdef")
            with pytest.raises(Refused, match="which may have 3 workers, is short 1 lab slot"):
                await booked(w, "g")
            await w.until(lambda: len(w.cache.all(Worker)) > 0, hours=5)
            await w.until(lambda: len(w.cache.all(Worker)) == 3, hours=0.01)
            assert [await start_of(w, name) < 30 for name in "abcdef"] == [True] * 6
            assert {each.metadata.name for each in w.cache.all(Worker)} <= {
                f"lab-worker-default-{number:03d}" for number in (1, 2, 3)
            }
            w.check()

    play(story)


def test_a_session_at_once_takes_nothing_that_is_promised() -> None:
    """One that would run into promised time waits beside an idle worker, or gets a worker of its own."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1, minWorkers=1)
            await w.until(w.in_phase("lab-worker-default-001", "READY"))
            await booked(w, "ab", minutes=60)
            await w.definition("long", defaultDurationMinutes=90)
            await w.session("greedy", definition="long")
            await w.session("quick")
            await w.until(w.in_phase("quick", "RUNNING"), hours=0.5)
            await w.until(lambda: w.get_session("greedy").status.decision is not None)
            decision = w.get_session("greedy").status.decision
            assert decision is not None
            assert decision.reason == WaitReason.PROMISED
            assert "is promised to others from" in decision.message
            assert [await start_of(w, name) < 30 for name in "ab"] == [True] * 2
            await w.until(w.in_phase("greedy", "RUNNING"))
            w.check()

    play(story)


def test_a_pool_grows_for_what_is_promised_when_its_worker_is_taken() -> None:
    """A session at once takes a worker that stands free when another can be made for who is promised."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2, minWorkers=1)
            await w.until(w.in_phase("lab-worker-default-001", "READY"))
            await booked(w, "ab", minutes=60)
            await w.definition("long", defaultDurationMinutes=90)
            await w.session("greedy", definition="long")
            await w.until(w.in_phase("greedy", "RUNNING"), hours=0.2)
            assert {each.place for each in claims(w).values() if each} == {0, 1}
            assert [await start_of(w, name) < 30 for name in "ab"] == [True] * 2
            w.check()

    play(story)


def test_the_waiting_list_moves_up() -> None:
    """Who waits for room gets a promise when one is given back, first come first."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1)
            await booked(w, "ab")
            await booked(w, "cd", whenFull="wait")
            await w.let_pass(60)
            assert [name for name, claim in claims(w).items() if claim is None] == ["c", "d"]
            await w.delete("Session", "a")
            await w.until(lambda: claims(w)["c"] is not None, hours=0.1)
            assert claims(w)["d"] is None
            assert await start_of(w, "c") < 30
            assert await start_of(w, "d") > 300
            w.check()

    play(story)


def test_the_waiting_list_is_first_come_first_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more who want the same than a cycle looks at, those who came first get what is freed."""
    monkeypatch.setattr(promises, "WAITING_LIMIT", 3)

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abcd")
            for name in "efghijkl":
                await booked(w, name, whenFull="wait")
                await w.let_pass(2)
            for name in "abcd":
                await w.delete("Session", name)
            await w.until(lambda: sum(claims(w)[name] is not None for name in "efghijkl") == 4)
            assert [name for name in "efghijkl" if claims(w)[name] is not None] == list("efgh")
            w.check()

    play(story)


def test_who_finds_no_room_does_not_block_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """One behind more different slots without room than a cycle looks at has its turn."""
    monkeypatch.setattr(promises, "WAITING_LIMIT", 3)

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1)
            await booked(w, "ab")
            await booked(w, "xy", minutes=EXAM + 60)
            for minute, name in enumerate("cdefgh"):
                await booked(w, name, minutes=EXAM + minute, whenFull="wait")
                await w.let_pass(2)
            await booked(w, "z", minutes=EXAM + 60, whenFull="wait")
            await w.delete("Session", "x")
            await w.until(lambda: claims(w)["z"] is not None, hours=0.1)
            assert {claims(w)[name] for name in "cdefgh"} == {None}
            w.check()

    play(story)


def test_slots_from_before_there_were_claims_get_one() -> None:
    """A slot that an earlier version accepted is promised at the first look, if it can be held."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1)
            await booked(w, "abc", whenFull="wait")
            assert w.process is not None
            w.process.kill()
            await w.let_pass(5)
            for name in "abc":
                await w.status(w.get_session(name), claim=None)
            await w.start()
            await w.until(lambda: sum(each is not None for each in claims(w).values()) == 2)
            await w.let_pass(60)
            assert claims(w)["c"] is None
            w.check()

    play(story)


def test_many_callers_and_the_scheduler_overbook_nothing() -> None:
    """Bookings and sessions at once, while the scheduler binds, never pack more than the pool has."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2, minWorkers=2)
            await w.until(w.in_phase("lab-worker-default-002", "READY"))

            async def book(name: str) -> bool:
                try:
                    await w.session(name, slot={"start": later(w, 40)})
                except Refused:
                    return False
                return True

            answers = []
            for number in range(4):
                await w.session(f"now{number}", definition="two")
                answers += await asyncio.gather(book(f"x{number}"), book(f"y{number}"))
                await w.let_pass(7)
            assert sum(answers) == 4
            names = [each.name for each in w.cache.all(Session) if each.name[0] in "xy"]
            assert [await start_of(w, name) < 30 for name in names] == [True] * 4
            await w.until(w.ended, hours=4)
            w.check()

    play(story)


def test_a_worker_that_is_lost_takes_no_promise_with_it() -> None:
    """The sessions of a lost worker keep their claims, and another worker serves their place."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abcd", minutes=90)
            await w.until(w.in_phase("a", "SCHEDULED"), hours=2)
            host, before = w.get_session("a").status.worker, claims(w)["a"]
            w.compute.end(w.compute.alive(host or "")[0])
            await w.until(w.in_phase("a", "PENDING"))
            assert claims(w)["a"] == before
            [pool] = w.cache.all(Pool)
            assert pool.spec.scaling.max_workers == 2
            await w.until(lambda: w.get_session("a").status.worker not in {host, None}, hours=1)
            after = claims(w)["a"]
            assert after is not None
            assert before is not None
            assert msgspec.structs.replace(after, start=before.start) == before
            assert before.end - before.start > timedelta(minutes=20)
            w.check()

    play(story)


async def scaled(w: World, most: int) -> None:
    """Set the pool's greatest number of workers."""
    body = {"spec": {"scaling": {"maxWorkers": most}}}
    await objects.patch(w.services, ADMIN, KINDS["Pool"], "p1", body, namespace="default")


def alerts(w: World) -> list[tuple[str, str]]:
    [pool] = w.cache.all(Pool)
    return [(each.condition, each.reason) for each in fleet_alerts.raised(pool)]


def test_a_lowered_maximum_says_whose_promises_are_in_danger() -> None:
    """An alert names them hours ahead, and ends when the maximum is raised again."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abcd", minutes=11 * 60)
            await scaled(w, 1)
            await w.until(lambda: alerts(w) == [("PromisesKept", "PlacesGone")], hours=0.1)
            [pool] = w.cache.all(Pool)
            fact = conditions.find(pool.status.conditions, "PromisesKept")
            assert fact is not None
            assert "2 promised sessions are in danger, the first from 2026-11-27" in fact.message
            assert "c, d" in fact.message
            told = (await explain(w.services, ADMIN, KINDS["Pool"], "p1", "default")).lines
            assert "4 sessions promised from" in str(told)
            assert "0 of 2 workers up; when 1 of the others will be is not known" in str(told)
            assert "at risk: c, d" in str(told)
            assert "in danger" in str(told)
            await scaled(w, 2)
            await w.until(lambda: alerts(w) == [], hours=0.1)
            w.check()

    play(story)


def facts(w: World) -> dict[str, str]:
    """Return the sessions that have been in danger, and whether they are not any more."""
    known = {
        each.name: conditions.find(each.status.conditions, SessionCondition.PROMISE_KEPT)
        for each in w.cache.all(Session)
    }
    return {name: fact.status for name, fact in known.items() if fact is not None}


def test_owners_of_what_is_in_danger_are_told_and_a_wavering_maximum_is_not_told_each_time() -> (
    None
):
    """Lowered and raised five times in a quarter of an hour: in danger once, out of it once."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abcd", minutes=11 * 60)
            notices: list[tuple[str, str]] = []

            def heard(old: Session | None, new: Session | None) -> None:
                told = event_types.notices(old, new)
                notices.extend((each.type, each.data["session"]["name"]) for _, each in told)

            w.cache.on_change(Session, heard)
            for _ in range(5):
                await scaled(w, 1)
                await w.let_pass(90)
                await scaled(w, 2)
                await w.let_pass(90)
            await w.until(lambda: set(facts(w).values()) == {"True"}, hours=0.5)
            assert facts(w) == {"c": "True", "d": "True"}
            assert sorted(notices) == [
                (kind, name)
                for kind in ("notice.in_danger", "notice.promise_kept")
                for name in ("c", "d")
            ]
            w.check()

    play(story)


def test_a_promise_moves_only_where_it_must() -> None:
    """What its place can hold no more gets another place, with the reason; the others stay."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abc")
            before = claims(w)
            [template] = w.cache.all(Template)
            size = msgspec.structs.replace(template.spec.machine.capacity, labs=1)
            machine = msgspec.structs.replace(template.spec.machine, capacity=size)
            body = {"spec": {"machine": msgspec.to_builtins(machine)}}
            await scaled(w, 3)
            kind = KINDS["Template"]
            await objects.patch(w.services, ADMIN, kind, "pairs", body, namespace="default")
            await w.until(
                lambda: {e.place for e in claims(w).values() if e} == {0, 1, 2}, hours=0.1
            )
            after = claims(w)
            moved = [name for name in after if after[name] != before[name]]
            assert len(moved) == 1
            events = await w.store.events_of(Key("Session", "default", moved[0]))
            told = [each.reason for each in events]
            assert any(
                "promise moved to place 2 of pool p1: Its workers have less" in e for e in told
            )
            assert [await start_of(w, name) < 30 for name in "abc"] == [True] * 3
            w.check()

    play(story)


def test_promises_of_a_deleted_pool_move_or_are_withdrawn() -> None:
    """What a deleted pool had promised goes to another pool that has room; the rest is told."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "abc")
            await w.pool("p2", template="pairs", scaling={"maxWorkers": 1})
            assert {each.pool for each in claims(w).values() if each} == {"p1"}
            with pytest.raises(Refused, match="promised a place to 3 sessions, the last until 20"):
                await w.delete("Pool", "p1")
            body = {"spec": {"desired": "Terminated"}}
            await objects.patch(w.services, ADMIN, KINDS["Pool"], "p1", body, namespace="default")
            await w.delete("Pool", "p1")
            await w.until(lambda: claims(w)["c"] is None, hours=0.1)
            assert [each and each.pool for each in claims(w).values()] == ["p2", "p2", None]
            for name, told in (("a", "a place in pool p2; pool p1 is gone"), ("c", "withdrawn")):
                events = await w.store.events_of(Key("Session", "default", name))
                assert any(told in each.reason for each in events)
            with pytest.raises(Refused):
                await booked(w, "d")
            assert await start_of(w, "a") < 30
            w.check()

    play(story)


def test_a_new_leader_decides_on_all_that_was_stored() -> None:
    """The first cycle of a term waits for a cache that lags: bindings of before are in it."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            assert w.process is not None
            context, late = w.process.contexts["scheduler"], Cache(w.store)
            late.declare(*indices.declared())
            late.caught_up(await late.reset())
            await w.definition()
            led = replace(context, cache=late, leadership=AlwaysLeader(Fence("scheduler", 1)))
            cycle = asyncio.create_task(Scheduler(led, w.store).reconcile(KEY))
            await w.let_pass(5)
            assert not cycle.done()
            late.caught_up(await late.reset())
            await w.let_pass(5)
            assert cycle.done()
            assert await cycle == Again(CYCLE)

    play(story)
