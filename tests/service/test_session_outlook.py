"""When a waiting session will start: told from what lives, never stored, and judged afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest
from counting_cache import CountingCache
from fleet_world import ADMIN, START, World, who
from fleet_world import world as opened
from loop_time import leap
from waiting_fleet import fleet, labs, looked, past, runs, waits, worker

from labfleet.interfaces import store as stores
from labfleet.resources.history import RunKind
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Metadata
from labfleet.resources.session import (
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
)
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.waiting import SessionOutlook
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.kinds import session_outlook
from labfleet.service.reads import explain, listing, predictions
from labfleet.service.verbs import lifecycle, objects

BOOTS = [15.0, 16, 16, 17, 17, 17, 18, 18, 19, 20, 21, 17]
LABS = [3.0, 3, 4, 4, 4, 4, 4, 5, 5, 6]
ENDS = [30.0, 45, 60, 70, 80, 90, 95, 100, 110, 120, 200, 230]


async def outlook(world: World, name: str) -> SessionOutlook | None:
    """Return the outlook of a session as a reader gets it."""
    row = KINDS["Session"]
    found = await objects.get(world.services, ADMIN, row, name, "default")
    assert isinstance(found, Session)
    return found.status.outlook


async def minutes(world: World, name: str) -> tuple[float, float]:
    """Return between how many minutes from now and how many a session starts."""
    found = await outlook(world, name)
    assert found is not None
    assert found.earliest is not None
    assert found.latest is not None
    now = world.clock.now()
    return (found.earliest - now) / timedelta(minutes=1), (found.latest - now) / timedelta(
        minutes=1
    )


async def learned(world: World) -> None:
    """Have it known how long boots, sessions and the starts of labs take."""
    await past(world, RunKind.BOOT, "metal", BOOTS)
    await past(world, RunKind.SESSION, "two", ENDS)
    await worker(world, "w-far", "ACTIVE")
    await labs(world, "w-far", LABS)


@pytest.mark.asyncio
async def test_a_waiting_session_is_told_place_range_and_what_it_depends_on(world: World) -> None:
    """The first waits for a boot, judged by its age; the second for the end of the slot after it."""
    await fleet(world, workers=3)
    await learned(world)
    await worker(world, "w-eu-5", "LICENSING", minutes=6)
    await waits(world, "late")
    await waits(world, "first", priority=80)
    await looked(world)
    first, late = await outlook(world, "first"), await outlook(world, "late")
    assert first is not None
    assert late is not None
    assert (first.line, first.position, first.waiting, late.position) == ("exam-eu", 1, 2, 2)
    assert first.because == "w-eu-5 boots (LICENSING, 6 of ~17 min)"
    assert first.coverage == 0.8
    early, latest = await minutes(world, "first")
    assert 1 <= early < latest <= 32
    assert (await minutes(world, "late"))[0] > early


@pytest.mark.asyncio
async def test_what_is_only_declared_states_no_coverage_and_says_so(world: World) -> None:
    """Without past boots, sessions and labs the range is one of bounds, and what is missing is named."""
    await fleet(world, workers=2)
    await worker(world, "w-eu-3", "ACTIVE")
    await runs(world, "busy", "w-eu-3", begun=230)
    await waits(world, "one")
    await looked(world)
    found = await outlook(world, "one")
    assert found is not None
    assert found.coverage is None
    assert found.earliest is not None
    assert "not known yet: how long a worker boots" in found.because
    assert "how long sessions really last" in found.because


@pytest.mark.asyncio
async def test_where_nothing_comes_nobody_can_tell(world: World) -> None:
    """A pool without workers that is paused, or at its maximum: a place, no range, and the reason."""
    await fleet(world, workers=1)
    await waits(world, "one")
    await looked(world)
    told = await outlook(world, "one")
    assert told is not None
    assert told.because.startswith("pool exam-eu adds a worker")
    await objects.patch(
        world.services, ADMIN, KINDS["Pool"], "exam-eu", {"spec": {"paused": True}},
        namespace="default",
    )  # fmt: skip
    leap(60)
    await looked(world)
    told = await outlook(world, "one")
    assert told is not None
    assert (told.position, told.earliest, told.latest, told.coverage) == (1, None, None, None)
    assert told.because == "no worker that is there, or that may be added now, could take it"


@pytest.mark.asyncio
async def test_nothing_of_it_is_stored(world: World) -> None:
    """However often it is worked out and read, no object gets another revision."""
    await fleet(world)
    made = await waits(world, "one")
    before = (await world.services.log.head()).revision
    for _ in range(3):
        leap(60)
        await looked(world)
        assert await outlook(world, "one") is not None
    assert (await world.services.log.head()).revision == before
    kept = await world.services.objects.get(Session, "one", "default")
    assert (kept.revision, kept.status.outlook) == (made.revision, None)


@pytest.mark.asyncio
async def test_a_slot_that_is_promised_has_no_place_in_the_line(world: World) -> None:
    """What is looked for later is not counted among those that wait now."""
    await fleet(world)
    begin = world.clock.now() + timedelta(hours=3)
    slot = {"start": begin.isoformat(), "end": (begin + timedelta(hours=1)).isoformat()}
    await world.session("later", slot=slot)
    await waits(world, "one")
    await looked(world)
    assert await outlook(world, "later") is None
    found = await outlook(world, "one")
    assert found is not None
    assert found.waiting == 1
    told = await explain.explain(world.services, ADMIN, KINDS["Session"], "later", "default")
    assert told.headline == "Promised: a place in pool exam-eu"
    assert told.expected is not None
    assert (told.expected.earliest, told.expected.latest) == (begin, begin)


@pytest.mark.asyncio
async def test_a_list_shows_places(world: World) -> None:
    """Each row of a list of sessions has its place, by priority."""
    await fleet(world)
    for name, priority in (("a", 0), ("b", 5), ("c", 9)):
        await waits(world, name, priority=priority)
    await looked(world)
    found = await listing.listed(world.services, ADMIN, KINDS["Session"], listing.Query())
    places = [(each.name, each.status.outlook.position) for each in found.items]
    assert places == [("a", 3), ("b", 2), ("c", 1)]


@pytest.mark.asyncio
@pytest.mark.parametrize(("late", "share"), [(15, 1.0), (200, 0.0)])
async def test_what_became_of_a_range_is_counted(world: World, late: float, share: float) -> None:
    """The first range that a session was told is judged by its start: inside, or not."""
    await fleet(world, workers=3)
    await learned(world)
    await worker(world, "w-eu-5", "LICENSING", minutes=6)
    made = await waits(world, "one")
    await looked(world)
    at = world.clock.now() + timedelta(minutes=late)
    await world.status(made, phase=SessionPhase.RUNNING, started_at=at)
    await world.services.fresh()
    (found,) = world.services.starts.achieved()
    assert (found.kind, found.resource, found.stated) == (RunKind.SESSION, "start", 0.8)
    assert (found.runs, found.share) == (1, share)
    told, _ = await predictions.achieved(world.services, ADMIN)
    assert found in told


@pytest.mark.asyncio
async def test_who_never_starts_was_told_wrong_and_who_leaves_was_not(world: World) -> None:
    """A session that expires without a start counts against its range; a cancelled one is left out."""
    await fleet(world, workers=3)
    await learned(world)
    await worker(world, "w-eu-5", "LICENSING", minutes=6)
    await worker(world, "w-eu-6", "LICENSING", minutes=6)
    left, stays = await waits(world, "left"), await waits(world, "stays")
    await looked(world)
    assert world.services.starts.told(left.metadata.uid) is not None
    await lifecycle.cancel(world.services, ADMIN, "left", "default", reason="not needed")
    reason = str(PhaseReason.NEVER_STARTED)
    await world.status(stays, phase=SessionPhase.EXPIRED, reason=reason)
    await world.services.fresh()
    (found,) = world.services.starts.achieved()
    assert (found.runs, found.share) == (1, 0.0)


@pytest.mark.asyncio
async def test_help_is_in_words_that_its_reader_may_act_on(world: World) -> None:
    """An operator is told to raise the maximum and to change the definition; a user is not."""
    await fleet(world, workers=1)
    await worker(world, "w-eu-3", "ACTIVE")
    pool = await world.services.objects.get(KINDS["Pool"].type, "exam-eu", "default")
    await world.status(pool, workers=1)
    await waits(world, "one", caller=who("user", "carol"))
    await world.services.fresh()

    async def told(role: str, owner: str) -> tuple[str, ...]:
        caller = who(role, owner)
        found = await explain.explain(world.services, caller, KINDS["Session"], "one", "default")
        return found.earlier

    assert await told("operator", "olga") == (
        "let definition two ask for 0.5 CPU instead of 2 CPU: that fits w-eu-3 now",
        "a further worker: raise maxWorkers of pool exam-eu above 1",
    )
    assert await told("user", "carol") == (
        "take a definition that asks for 0.5 CPU instead of 2 CPU: that fits now",
        "a further worker: ask whoever runs the fleet for one",
    )


@pytest.mark.asyncio
async def test_what_has_ended_costs_a_look_nothing() -> None:
    """A month of ended sessions and workers is not read: the look grows with what lives."""
    async with opened(CountingCache) as world:
        cache = world.services.cache
        assert isinstance(cache, CountingCache)
        await fleet(world)
        await worker(world, "w-eu-3", "ACTIVE")
        await waits(world, "one")

        async def look() -> int:
            leap(120)
            await looked(world)
            before = cache.touched
            leap(120)
            await session_outlook.kept(world.services).look("default")
            return cache.touched - before

        first = await look()
        gone = [
            Session(
                metadata=Metadata(name=f"old-{number}", uid=f"old-{number}"),
                spec=SessionSpec(definition="two", owner="bob"),
                status=SessionStatus(phase=SessionPhase.COMPLETED, worker="w-eu-3", ended_at=START),
            )
            for number in range(150)
        ]
        dead = [
            Worker(
                metadata=Metadata(name=f"w-{number}", uid=f"w-{number}"),
                spec=WorkerSpec(pool="exam-eu", template="metal"),
                status=WorkerStatus(phase=WorkerPhase.TERMINATED),
            )
            for number in range(50)
        ]
        cause = stores.Cause("past", world.clock.now())
        await world.services.objects.save(*gone, *dead, cause=cause)
        assert 0 < await look() == first


@pytest.mark.asyncio
async def test_one_answer_serves_all_who_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ask, it is played once in two seconds; nobody looks, and it is once a minute."""
    await fleet(world)
    await waits(world, "one")
    await world.services.fresh()
    kept, played = session_outlook.kept(world.services), 0
    real = session_outlook.foresee

    def counted(*args, **named):
        nonlocal played
        played += 1
        return real(*args, **named)

    monkeypatch.setattr(session_outlook, "foresee", counted)
    for _ in range(20):
        await session_outlook.of(world.services, await waiting_one(world))
        await kept.round()
    assert played == 1
    for _ in range(10):
        leap(3)
        await kept.round()
    assert played == 11  # somebody looks
    leap(61)
    for _ in range(20):
        leap(30)
        await kept.round()
    assert 16 <= played <= 21  # ten minutes in which nobody looks


async def waiting_one(world: World) -> Session:
    """Return the session that waits."""
    return await world.services.objects.get(Session, "one", "default")


@pytest.mark.asyncio
async def test_a_session_that_waits_no_more_has_no_outlook(world: World) -> None:
    """Placed, it shows none; and nothing is kept of a namespace where nobody waits."""
    await fleet(world)
    made = await waits(world, "one")
    await looked(world)
    assert await outlook(world, "one") is not None
    await world.status(made, phase=SessionPhase.SCHEDULED, worker="w-eu-3")
    await world.services.fresh()
    assert await outlook(world, "one") is None
    leap(120)
    await session_outlook.kept(world.services).round()
    assert world.services.starts.of("default", made.metadata.uid) is None


@pytest.mark.asyncio
async def test_a_share_that_was_not_achieved_is_not_stated(world: World) -> None:
    """Once enough ranges were judged and fewer held than were to, readers are told how many did."""
    await fleet(world, workers=3)
    await learned(world)
    await worker(world, "w-eu-5", "LICENSING", minutes=6)
    starts = world.services.starts
    now = world.clock.now()
    told = SessionOutlook(
        line="p", position=1, waiting=1, earliest=now, latest=now, coverage=0.8, at=now
    )
    for number in range(20):
        starts.put("past", {str(number): (1, told)}, 0.8)
        starts.over(str(number), now if number % 2 else None)
    await waits(world, "one")
    await looked(world)
    found = await outlook(world, "one")
    assert found is not None
    assert found.coverage == 0.5
    assert found.words.endswith("(50 %)")
