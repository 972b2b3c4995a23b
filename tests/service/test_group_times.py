"""What a group's times mean once its seats differ: verbs, manifests, seats' own changes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World, who
from hypothesis import given
from hypothesis import strategies as st
from test_service_claims import packs
from test_service_groups import HOUR, MORNING, ROW, TEACHER, book, change, fleet, seats, slot

from labfleet.kernel import errors
from labfleet.resources.group import Group, lasting
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import SessionPhase
from labfleet.service.core import warned
from labfleet.service.core.service_context import Caller, Refused
from labfleet.service.kinds import group_times
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import applying, group_verbs, lifecycle, objects

MINUTE = timedelta(minutes=1)
BODY: dict[str, Any] = {"kind": "Group", "metadata": {"name": "exam"},
        "spec": {"definition": "two", "slot": slot(), "size": 3,
                 "seats": [{"person": "ana", "factor": 1.5}]}}  # fmt: skip


async def applied(world: World, mode: str = "apply", **spec: Any) -> applying.Applied:
    """Apply the manifest of three seats, changed as told."""
    await world.services.fresh()
    body = {**BODY, "spec": {**BODY["spec"], **spec}}
    how = applying.Mode(mode)
    (done,) = await applying.apply(world.services, TEACHER, [body], mode=how)
    await world.services.fresh()
    return done


async def ends(world: World) -> dict[str, Any]:
    """Return after how many minutes from the slot's start each seat ends."""
    found = await seats(world)
    return {name: (each.status.end - MORNING) / MINUTE for name, each in sorted(found.items())}


async def group_now(world: World) -> Group:
    """Return the group as it is read."""
    await world.services.fresh()
    found = await objects.get(world.services, ADMIN, ROW, "exam", "default")
    assert isinstance(found, Group)
    return found


async def extended(world: World, minutes: float, caller: Caller = TEACHER) -> Group:
    """Let all seats last until so many minutes after the slot's start."""
    end = MORNING + minutes * MINUTE
    return await group_verbs.extend(world.services, caller, "exam", "default", end=end)


@pytest.mark.asyncio
async def test_a_manifest_applied_again_changes_no_seat_back(world: World) -> None:
    """After a longer end, a move and a seat's own time the same contents change nothing at all."""
    await fleet(world)
    await applied(world)
    assert await ends(world) == {"001": 90, "002": 60, "003": 60}
    await extended(world, 120)
    assert await ends(world) == {"001": 180, "002": 120, "003": 120}
    name = (await seats(world))["002"].name
    await lifecycle.extend(world.services, TEACHER, name, "default", by=10 * MINUTE)
    start = MORNING + 30 * MINUTE
    await group_verbs.move(world.services, TEACHER, "exam", "default", start=start)
    before = await ends(world)
    assert before == {"001": 210, "002": 160, "003": 150}
    for mode in ("dry-run", "apply"):
        done = await applied(world, mode)
        assert (done.result, await ends(world)) == ("unchanged", before)
    told = warned.warnings(world.services, done.obj)
    assert "moved, extended or shortened since they were booked" in told[0]

    # A manifest that says what is so now changes what is asked for, and no seat.
    now = {"start": start.isoformat(), "end": (start + 120 * MINUTE).isoformat()}
    done = await applied(world, slot=now)
    assert (done.result, await ends(world)) == ("configured", before)
    assert done.obj.status.changes == ()
    assert warned.warnings(world.services, done.obj) == ()


@pytest.mark.asyncio
async def test_another_end_is_that_end_and_every_seat_it_changes_is_named(world: World) -> None:
    """Not so much later than the manifest said, but then; the preview says what the apply says."""
    await fleet(world)
    await applied(world)
    await extended(world, 120)
    wanted = {**slot(), "end": (MORNING + 90 * MINUTE).isoformat()}
    look = await applied(world, "dry-run", slot=wanted)
    assert await ends(world) == {"001": 180, "002": 120, "003": 120}
    done = await applied(world, slot=wanted)
    assert await ends(world) == {"001": 135, "002": 90, "003": 90}
    assert look.obj.status.changes == done.obj.status.changes
    told = [group_times.words(each) for each in done.obj.status.changes]
    assert told == [
        "1 seat (001): end earlier, at 2026-12-11 11:15Z instead of 2026-12-11 12:00Z",
        "2 seats (002, 003): end earlier, at 2026-12-11 10:30Z instead of 2026-12-11 11:00Z",
    ]


@pytest.mark.asyncio
async def test_all_seats_move_or_none(world: World) -> None:
    """A full pool moves by half an hour in one commit; what has begun, or meets others, stops all."""
    await fleet(world)
    made = await book(world, caller=TEACHER, size=10)
    services, later = world.services, MORNING + 30 * MINUTE

    async def move(start: Any) -> Group:
        return await group_verbs.move(services, TEACHER, "exam", "default", start=start)

    done = await move(later)
    found = await seats(world)
    assert {each.status.start for each in found.values()} == {later}
    assert {each.status.claim.start - later for each in found.values()} == {
        each.status.claim.start - each.status.start for each in found.values()
    }
    revisions = sorted([done.revision, *(each.revision for each in found.values())])
    assert revisions == list(range(done.revision, done.revision + 11))
    assert (done.status.start, done.status.end) == (later, later + HOUR)
    assert done.spec == made.spec
    assert (await move(later)).revision == done.revision
    await packs(world, 1)

    await book(world, "next", size=1, slot=slot(3))
    with pytest.raises(Refused) as full:
        await move(MORNING + 3 * HOUR)
    assert full.value.reason == "NoCapacity"
    assert "9 of 10 seats fit" in full.value.message
    assert "whenFull" not in full.value.message
    assert all(what.endswith(" fits all 10 seats") for _, what in full.value.problems)
    await world.status(found["004"], phase=SessionPhase.RUNNING)
    await services.fresh()
    with pytest.raises(Refused) as begun:
        await move(MORNING + 5 * HOUR)
    assert begun.value.problems == (("seat 004", "has begun (RUNNING)"),)
    assert "labfleet move exam-001 --later 30m" in begun.value.message
    assert {each.status.start for each in (await seats(world)).values()} == {later}


@pytest.mark.asyncio
async def test_seats_that_have_a_worker_give_it_back_when_all_are_moved(world: World) -> None:
    """A booked worker is looked for anew; a cancelled seat stays where it was."""
    await fleet(world)
    await book(world, caller=TEACHER, size=3)
    found = await seats(world)
    await lifecycle.cancel(world.services, TEACHER, "exam-003", "default")
    await world.status(found["001"], phase=SessionPhase.SCHEDULED, worker="w1", placements=1)
    await world.services.fresh()
    to = MORNING + 2 * HOUR
    done = await group_verbs.move(world.services, TEACHER, "exam", "default", start=to)
    found = await seats(world)
    moved = found["001"].status
    assert (moved.phase, moved.worker, moved.placements) == (SessionPhase.PENDING, None, 0)
    assert [found[name].status.start for name in ("001", "002", "003")] == [to, to, MORNING]
    (told,) = done.status.changes
    assert told.seats == ("001", "002")
    assert group_times.words(told).startswith("2 seats (001, 002): later, 2026-12-11 11:00Z to ")


@pytest.mark.asyncio
async def test_a_moved_group_takes_nothing_that_is_promised_meanwhile(world: World) -> None:
    """While six seats move to an hour, seven others ask for it: ten places hold whoever got them."""
    await fleet(world)
    await book(world, caller=TEACHER, size=6)
    to = MORNING + 3 * HOUR
    done = await asyncio.gather(
        group_verbs.move(world.services, TEACHER, "exam", "default", start=to),
        *(world.session(f"s{number}", slot=slot(3)) for number in range(7)),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, Refused)]
    assert refused
    assert {each.reason for each in refused} == {"NoCapacity"}
    assert not [each for each in done if isinstance(each, Exception) and each not in refused]
    await packs(world, 1)
    found = {each.status.start for each in (await seats(world)).values()}
    assert found == {MORNING if isinstance(done[0], Refused) else to}


@pytest.mark.asyncio
async def test_a_start_in_the_manifest_names_the_verb_that_moves(world: World) -> None:
    """It is refused with the command, unless the seats were moved there already."""
    await fleet(world)
    await applied(world)
    later = slot(1)
    done = await applied(world, slot=later)
    assert isinstance(done.error, errors.Invalid)
    assert done.error.reason == "FrozenField"
    assert "labfleet move group/exam --to 2026-12-11T10:00:00Z" in done.error.problems[0][1]
    start = MORNING + HOUR
    await group_verbs.move(world.services, TEACHER, "exam", "default", start=start)
    assert (await applied(world, slot=later)).result == "configured"


@pytest.mark.asyncio
async def test_a_seat_gets_another_factor_later(world: World) -> None:
    """More time for one, and back; beside another end in the same change; nothing else is touched."""
    await fleet(world)
    await applied(world)
    name = (await seats(world))["002"].name
    await lifecycle.extend(world.services, TEACHER, name, "default", by=5 * MINUTE)
    people = [{"name": "001", "person": "ana", "factor": 2}, {"name": "002", "factor": 1.25}]
    done = await applied(world, seats=people)
    assert await ends(world) == {"001": 120, "002": 80, "003": 60}
    assert [each.seats for each in done.obj.status.changes] == [("001",), ("002",)]
    found = await seats(world)
    assert [found[each].spec.time_factor for each in sorted(found)] == [2, 1.25, 1]
    longer = {**slot(), "end": (MORNING + 80 * MINUTE).isoformat()}
    await applied(world, seats=[{"name": "001", "person": "ana"}], slot=longer)
    assert await ends(world) == {"001": 80, "002": 85, "003": 80}
    await book(world, "next", size=8, slot=slot(2))
    await book(world, "last", size=2, slot=slot(2))
    with pytest.raises(Refused, match="seat 001: ") as full:
        await change(world, {"seats": [{"name": "001", "factor": 3}]}, TEACHER)
    assert full.value.reason == "NoCapacity"


@pytest.mark.asyncio
async def test_a_booker_gives_no_longer_lab_than_its_author_allows(world: World) -> None:
    """A factor of a booker bounds nothing anew: who booked may not pass the definition's longest."""
    await fleet(world)
    await applied(world)
    definition = KINDS["Definition"]
    longest = {"spec": {"maxDurationMinutes": 100}}
    await objects.patch(world.services, ADMIN, definition, "two", longest, namespace="default")
    with pytest.raises(Refused, match=r"seat 001: .*at most 100 minutes"):
        await extended(world, 80)
    with pytest.raises(Refused, match=r"seat 002: .*at most 100 minutes"):
        await change(world, {"seats": [{"name": "001", "person": "ana", "factor": 1.5},
                                       {"name": "002", "factor": 2}]}, TEACHER)  # fmt: skip
    assert await ends(world) == {"001": 90, "002": 60, "003": 60}
    await extended(world, 80, ADMIN)
    assert await ends(world) == {"001": 120, "002": 80, "003": 80}


@pytest.mark.asyncio
async def test_an_operators_factor_of_a_seat_counts_once_and_is_told(world: World) -> None:
    """It multiplies the group's length, not what the seat has of its own; the group says who differs."""
    await fleet(world)
    await applied(world)
    services, row = world.services, KINDS["Session"]
    name = (await seats(world))["002"].name
    await lifecycle.extend(services, TEACHER, name, "default", by=20 * MINUTE)

    async def factor(number: float) -> None:
        body = {"spec": {"timeFactor": number}}
        await objects.patch(services, ADMIN, row, name, body, namespace="default")
        await services.fresh()

    await factor(1.5)
    assert (await ends(world))["002"] == 110
    assert (await group_now(world)).status.times.differ == 1
    await extended(world, 80)
    assert await ends(world) == {"001": 120, "002": 140, "003": 80}
    told = await explain(services, TEACHER, ROW, "exam", "default")
    said = "Seats with times of their own: 002 ends 2026-12-11 11:20Z (1.5 times as long)."
    assert said in told.more
    assert said in told.lines
    await factor(1)
    assert (await ends(world))["002"] == 100


@pytest.mark.asyncio
async def test_a_group_says_from_when_to_when_its_seats_are(world: World) -> None:
    """First start, last end and how many differ are worked out when it is read, and never stored."""
    await fleet(world)
    await applied(world)
    found = (await group_now(world)).status.times
    assert (found.first_start, found.last_end, found.differ) == (MORNING, MORNING + 1.5 * HOUR, 0)
    name = (await seats(world))["003"].name
    later = MORNING + 3 * HOUR
    await lifecycle.move(world.services, TEACHER, name, "default", start=later)
    found = (await group_now(world)).status.times
    assert (found.first_start, found.last_end, found.differ) == (MORNING, later + HOUR, 1)
    stored = await world.services.objects.get(Group, "exam", "default")
    assert stored.status.times is None
    await lifecycle.cancel(world.services, TEACHER, name, "default")
    assert (await group_now(world)).status.times.differ == 0


@pytest.mark.asyncio
async def test_who_did_not_book_changes_no_times_of_a_group(world: World) -> None:
    """A stranger and whoever sits there do not see the group; an earlier end must be earlier."""
    await fleet(world)
    await applied(world)
    services, end = world.services, MORNING + 2 * HOUR
    for caller in (who("user", "ana"), who("user", "eve")):
        for deed in (
            lambda who=caller: group_verbs.extend(services, who, "exam", "default", end=end),
            lambda who=caller: group_verbs.shorten(services, who, "exam", "default", end=end),
            lambda who=caller: group_verbs.move(services, who, "exam", "default", start=end),
        ):
            with pytest.raises(errors.Gone):
                await deed()
    with pytest.raises(errors.Denied):
        await group_verbs.extend(services, who("controller", "c"), "exam", "default", end=end)
    with pytest.raises(errors.Invalid) as wrong:
        await group_verbs.shorten(services, TEACHER, "exam", "default", end=end)
    assert wrong.value.reason == "OnlyEarlier"
    with pytest.raises(errors.Gone):
        await group_verbs.extend(services, TEACHER, "exam", "default", end=end, uid="another")
    soon = MORNING + HOUR / 2
    await group_verbs.shorten(services, TEACHER, "exam", "default", end=soon)
    assert await ends(world) == {"001": 45, "002": 30, "003": 30}


@pytest.mark.asyncio
async def test_seats_of_an_earlier_release_keep_their_factor(world: World) -> None:
    """Their sessions have none of their own: the group's counts, once."""
    await fleet(world)
    await applied(world)
    old = (await seats(world))["001"]
    plain = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, time_factor=1.0))
    await world.services.objects.save(plain, cause=world.services.cause(ADMIN, "as before"))
    await extended(world, 120)
    assert (await ends(world))["001"] == 180
    assert (await group_now(world)).status.times.differ == 0


@given(
    st.lists(st.integers(min_value=1, max_value=600), min_size=1, max_size=6),
    st.floats(min_value=1, max_value=4),
)
def test_extending_step_by_step_ends_where_one_step_does(lengths: list[int], factor: float) -> None:
    """What a factor adds is rounded once, of the whole length, however often the end was moved."""
    end = lasting(lengths[0] * MINUTE, factor)
    for before, after in pairwise(lengths):
        end += lasting(after * MINUTE, factor) - lasting(before * MINUTE, factor)
    assert end == lasting(lengths[-1] * MINUTE, factor)


def test_every_seat_is_named_and_numbers_in_a_row_are_short() -> None:
    """Three or more that follow each other stand as from-to; other names as they are."""
    names = ["001", "002", "003", "005", "006", "desk-7", "099", "100", "spare-1"]
    assert group_times.ranges(names) == [
        "001-003", "005", "006", "desk-7", "099", "100", "spare-1",
    ]  # fmt: skip
    assert group_times.ranges(["9", "10", "11"]) == ["9", "10", "11"]
