"""Courses: a class that meets on many dates is booked, changed and called off in one step each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from fleet_world import ADMIN, START, World
from test_service_groups import ANA, TEACHER, book, fleet

from labfleet.kernel import errors
from labfleet.resources.course import Course
from labfleet.resources.group import Group
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.service_context import Caller, Refused
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import applying, group_verbs, objects

pytestmark = pytest.mark.asyncio
ROW = KINDS["Course"]
ZURICH = ZoneInfo("Europe/Zurich")


def weekly(**spec: Any) -> dict[str, Any]:
    """A class of three at nine in Zurich on four Mondays, of which clocks change before the last."""
    slot = {"start": "2027-03-08T09:00", "end": "2027-03-08T11:00", "zone": "Europe/Zurich"}
    return {"definition": "two", "slot": slot, "repeat": "FREQ=WEEKLY;COUNT=4", "size": 3, **spec}


async def course(world: World, caller: Caller = ADMIN, **spec: Any) -> Course:
    """Book a course."""
    made = await world.make("Course", "ccnp", weekly(**spec), caller)
    assert isinstance(made, Course)
    return made


async def change(world: World, spec: dict[str, Any], caller: Caller = ADMIN) -> Course:
    """Patch the course."""
    done = await objects.patch(
        world.services, caller, ROW, "ccnp", {"spec": spec}, namespace="default"
    )
    assert isinstance(done, Course)
    return done


async def groups(world: World) -> dict[str, Group]:
    """The groups that are there, by name."""
    await world.services.fresh()
    return {each.name: each for each in world.services.cache.all(Group)}


async def sessions(world: World) -> list[Session]:
    """The sessions that are not called off."""
    await world.services.fresh()
    return [each for each in world.services.cache.all(Session) if each.spec.cancel is None]


async def test_a_course_is_booked_at_one_wall_clock_time_in_one_commit(world: World) -> None:
    """Four groups of three, at nine in Zurich before and after clocks change, two hours each."""
    await fleet(world)
    made = await course(world)
    found = await groups(world)
    assert sorted(found) == [f"ccnp-2027-03-{day:02d}" for day in (8, 15, 22, 29)]
    local = [each.start.astimezone(ZURICH).strftime("%d %H:%M") for each in made.status.dates]
    assert local == ["08 09:00", "15 09:00", "22 09:00", "29 09:00"]
    assert [each.start.hour for each in made.status.dates] == [8, 8, 8, 7]
    assert {each.end - each.start for each in made.status.dates} == {timedelta(hours=2)}
    booked = await sessions(world)
    assert len(booked) == 12
    assert all(each.status.claim is not None for each in booked)
    assert {each.metadata.labels["labfleet.dev/course"] for each in booked} == {"ccnp"}
    revisions = sorted(each.revision for each in (made, *found.values(), *booked))
    assert revisions == list(range(made.revision, made.revision + 17))
    shown = await objects.get(world.services, ADMIN, ROW, "ccnp", "default")
    assert isinstance(shown, Course)
    assert (shown.status.ahead, shown.status.next) == (4, made.status.dates[0].start)


async def test_all_dates_or_none_and_each_that_is_full_is_named(world: World) -> None:
    """Two full Mondays refuse the course with what is missing and the nearest; `some` books the rest."""
    await fleet(world)
    for day, hour in ((15, 8), (29, 7)):
        start = datetime(2027, 3, day, hour, tzinfo=UTC)
        await book(world, f"other-{day}", slot={"start": start.isoformat()}, size=9)
    with pytest.raises(Refused) as refusal:
        await course(world)
    told = refusal.value
    assert told.reason == "NoCapacity"
    assert told.message.startswith(
        "2 of 4 dates cannot be had, so nothing was booked: 2027-03-15, 2027-03-29; on 2027-03-15 "
        "1 of 3 seats fit from "
    )
    assert [where for where, _ in told.problems] == [
        "spec.repeat 2027-03-15",
        "spec.repeat 2027-03-29",
    ]
    assert all("the nearest slots that fit all 3 seats" in what for _, what in told.problems)
    assert len(await groups(world)) == 2
    made = await course(world, whenFull="some")
    assert [each.booked for each in made.status.dates] == [3, 1, 3, 1]
    assert made.status.message == "4 of 4 dates booked, 8 of 12 seats in all"


async def test_a_look_books_nothing(world: World) -> None:
    """A dry run answers as booking would, with each date, and leaves nothing behind."""
    await fleet(world)
    body = {"kind": "Course", "metadata": {"name": "ccnp"}, "spec": weekly(skip=["2027-03-22"])}
    (done,) = await applying.apply(world.services, ADMIN, [body], mode=applying.Mode.DRY_RUN)
    assert done.error is None
    assert isinstance(done.obj, Course)
    assert [each.day[-2:] for each in done.obj.status.dates] == ["08", "15", "29"]
    assert await groups(world) == {}
    for expected in (applying.ApplyResult.CREATED, applying.ApplyResult.UNCHANGED):
        (again,) = await applying.apply(world.services, ADMIN, [body])
        assert again.result is expected
    assert len(await sessions(world)) == 9


async def test_dates_are_skipped_ended_early_and_extended(world: World) -> None:
    """What is dropped is called off, what is added booked; other dates keep group and claim."""
    await fleet(world)
    await course(world)
    before = await groups(world)
    done = await change(world, {"skip": ["2027-03-15"]})
    assert done.status.message == "1 date called off"
    assert len(await sessions(world)) == 9
    done = await change(world, {"skip": [], "repeat": "FREQ=WEEKLY;UNTIL=20270405"})
    assert done.status.message == "2 of 2 dates added"
    after = await groups(world)
    assert len(after) == 5
    same = ("ccnp-2027-03-08", "ccnp-2027-03-22", "ccnp-2027-03-29")
    assert all(after[name].revision == before[name].revision for name in same)
    done = await change(world, {"repeat": "FREQ=WEEKLY;UNTIL=20270314"})
    assert done.status.message == "4 dates called off"
    assert len(await sessions(world)) == 3


async def test_a_date_that_was_called_off_by_itself_stays_off(world: World) -> None:
    """Deleting one group calls one date off; what is changed later does not book it again."""
    await fleet(world)
    await course(world)
    row = KINDS["Group"]
    await objects.delete(world.services, ADMIN, row, "ccnp-2027-03-15", namespace="default")
    await change(world, {"repeat": "FREQ=WEEKLY;COUNT=5"})
    assert sorted(await groups(world)) == [
        "ccnp-2027-03-08", "ccnp-2027-03-22", "ccnp-2027-03-29", "ccnp-2027-04-05",
    ]  # fmt: skip
    shown = await objects.get(world.services, ADMIN, ROW, "ccnp", "default")
    assert isinstance(shown, Course)
    assert [each.stands for each in shown.status.dates] == [
        "ahead", "called off", "ahead", "ahead", "ahead",
    ]  # fmt: skip
    told = await explain(world.services, ADMIN, ROW, "ccnp", "default")
    assert any("2027-03-15 09:00 Europe/Zurich" in each and "called off" in each
               for each in told.lines)  # fmt: skip


async def test_all_dates_to_come_get_another_end_and_other_people(world: World) -> None:
    """A later end moves every claim; a substitute sits on the seat on every date that is not over."""
    await fleet(world)
    await course(world, seats=[{"person": "ana"}])
    slot = {"end": "2027-03-08T12:00"}
    done = await change(world, {"slot": slot})
    assert {each.end - each.start for each in done.status.dates} == {timedelta(hours=3)}
    assert {each.status.end - each.status.start for each in await sessions(world)} == {
        timedelta(hours=3)
    }
    await change(world, {"seats": [{"person": "bo", "name": "001"}]})
    seated = [each for each in await sessions(world) if each.spec.owner]
    assert [each.spec.owner for each in seated] == ["bo"] * 4
    with pytest.raises(errors.Invalid, match="one after the other"):
        await change(world, {"slot": {"end": None}, "repeat": "FREQ=WEEKLY;COUNT=5"})


async def test_a_date_whose_group_was_changed_alone_is_shown_as_it_is(world: World) -> None:
    """Its group's own end is shown, keeps it from being over, and is moved with all others by as much."""
    await fleet(world)
    made = await course(world)
    row, later = KINDS["Group"], made.status.dates[0].end + timedelta(minutes=30)
    body = {"spec": {"slot": {"end": later.isoformat()}}}
    await objects.patch(world.services, ADMIN, row, "ccnp-2027-03-08", body, namespace="default")
    shown = await objects.get(world.services, ADMIN, ROW, "ccnp", "default")
    assert isinstance(shown, Course)
    assert shown.status.dates[0].end == later
    await change(world, {"slot": {"end": "2027-03-08T11:15"}})
    found = await groups(world)
    ends = [found[f"ccnp-2027-03-{day:02d}"].status.end for day in (8, 15)]
    assert ends == [
        later + timedelta(minutes=15),
        made.status.dates[1].end + timedelta(minutes=15),
    ]


async def test_a_date_that_was_extended_by_itself_is_shortened_with_the_others(
    world: World,
) -> None:
    """Also back to the end that its group's manifest says, which is no change of the manifest."""
    await fleet(world)
    made = await course(world)
    later = made.status.dates[0].end + timedelta(minutes=15)
    await group_verbs.extend(world.services, ADMIN, "ccnp-2027-03-08", "default", end=later)
    await change(world, {"slot": {"end": "2027-03-08T10:45"}})
    found = await groups(world)
    ends = [found[f"ccnp-2027-03-{day:02d}"].status.end for day in (8, 15)]
    assert ends == [
        made.status.dates[0].end,
        made.status.dates[1].end - timedelta(minutes=15),
    ]


async def test_dates_that_have_begun_stay_as_they_are(world: World) -> None:
    """A rule that no longer means a date under way calls it not off, nor books one that is past."""
    await fleet(world)
    made = await course(world)
    world.clock.instant = made.status.dates[1].start + timedelta(minutes=5)
    await change(world, {"repeat": "FREQ=WEEKLY;BYDAY=MO,WE;COUNT=2"})
    kept = sorted({each.status.start.date().isoformat() for each in await sessions(world)})
    assert kept == ["2027-03-08", "2027-03-15"]
    assert sorted(await groups(world)) == ["ccnp-2027-03-08", "ccnp-2027-03-15"]


async def test_deleting_a_course_calls_off_what_is_not_over(world: World) -> None:
    """Its groups to come go with it in one commit; nobody else's group of such a name does."""
    await fleet(world)
    await course(world)
    await objects.delete(world.services, ADMIN, KINDS["Group"], "ccnp-2027-03-15",
                         namespace="default")  # fmt: skip
    await book(world, "ccnp-2027-03-15", caller=TEACHER, size=1)
    await objects.delete(world.services, ADMIN, ROW, "ccnp", namespace="default")
    assert sorted(await groups(world)) == ["ccnp-2027-03-15"]
    assert len(await sessions(world)) == 1


async def test_a_user_books_within_their_share_and_sees_their_own(world: World) -> None:
    """All dates count for the booker's open sessions; others neither see nor change the course."""
    await fleet(world)
    with pytest.raises(errors.QuotaExceeded):
        await course(world, TEACHER, size=9, repeat="FREQ=WEEKLY;COUNT=6")
    assert await groups(world) == {}
    await course(world, TEACHER)
    with pytest.raises(errors.Gone):
        await objects.get(world.services, ANA, ROW, "ccnp", "default")
    with pytest.raises(errors.Gone):
        await change(world, {"repeat": "FREQ=WEEKLY;COUNT=1"}, ANA)
    with pytest.raises(errors.Invalid, match="for yourself only"):
        await world.make("Course", "other", weekly(owner="bo"), ANA)


@pytest.mark.parametrize("written", [False, True])
async def test_a_server_that_dies_as_it_books_leaves_all_or_nothing(
    world: World, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before or after its one write, the repeated request finds or makes each seat once."""
    await fleet(world)
    store, real = world.services.objects.store, world.services.objects.store.commit
    body = {"metadata": {"name": "ccnp"}, "spec": weekly()}

    async def dies(commit: Any) -> Any:
        if written:
            await real(commit)
        raise errors.Ambiguous("killed")

    monkeypatch.setattr(store, "commit", dies)
    with pytest.raises(errors.Ambiguous):
        await objects.create(world.services, ADMIN, ROW, body, key="k")
    monkeypatch.setattr(store, "commit", real)
    assert len(await sessions(world)) == (12 if written else 0)
    done = await objects.create(world.services, ADMIN, ROW, body, key="k")
    assert isinstance(done, Course)
    assert len(await sessions(world)) == 12
    assert len(await groups(world)) == 4


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"repeat": "FREQ=SECONDLY;COUNT=5"}, "WEEKLY or DAILY"),
        ({"repeat": "FREQ=WEEKLY;COUNT=60"}, "days ahead"),
        ({"size": 100, "repeat": "FREQ=WEEKLY;COUNT=9"}, "900 sessions"),
        ({"skip": ["2027-03-09"]}, "the nearest one is 2027-03-08"),
        ({"skip": ["2027-02-30"]}, "is no date"),
        ({"slot": {"start": "2027-03-08T09:00", "zone": "Mars/Olympus"}}, "no IANA time zone"),
        ({"slot": {"start": "2027-03-08T09:00:00+05:00", "zone": "Europe/Zurich"}}, "offset"),
        ({"slot": {"start": "2027-03-32T09:00", "zone": "Europe/Zurich"}}, "that there is"),
        ({"slot": {"start": "2026-03-02T09:00", "zone": "Europe/Zurich"}}, "in the past"),
        ({"slot": {"start": "9999-12-31T23:59", "zone": "America/Lima"}}, "that there is|too far"),
        ({"slot": {"start": "2027-03-08T09:00", "end": "2027-03-09T10:00",
                   "zone": "Europe/Zurich"}, "repeat": "FREQ=DAILY;COUNT=3"}, "still run"),
        ({"skip": ["2027-03-08"], "repeat": "FREQ=WEEKLY;COUNT=1"}, "leaves no date"),
    ],
)  # fmt: skip
async def test_what_cannot_be_booked_is_refused_in_words(
    world: World, spec: dict[str, Any], told: str
) -> None:
    """A wrong rule, date, zone, offset or size is named with its field, and nothing is booked."""
    await fleet(world)
    with pytest.raises(errors.Invalid, match=told) as refusal:
        await course(world, **spec)
    assert refusal.value.problems[0][0].startswith("spec.")
    assert await sessions(world) == []


async def test_an_offset_that_is_the_zones_is_taken(world: World) -> None:
    """Who copies a start with its offset from a group gets the same class."""
    await fleet(world)
    slot = {"start": "2027-03-08T09:00:00+01:00", "zone": "Europe/Zurich"}
    made = await course(world, slot=slot)
    assert [each.start.hour for each in made.status.dates] == [8, 8, 8, 7]


async def test_thirty_seats_on_twelve_dates_are_one_affordable_commit(world: World) -> None:
    """360 sessions are booked at once, and called off at once."""
    await fleet(world, 4)
    made = await course(world, size=30, repeat="FREQ=WEEKLY;COUNT=12")
    assert (made.status.ahead, sum(each.booked for each in made.status.dates)) == (None, 360)
    await objects.delete(world.services, ADMIN, ROW, "ccnp", namespace="default")
    assert await sessions(world) == []
    assert msgspec.json.encode(made).__sizeof__() < 16_000
    assert START.tzinfo is not None
    assert {each.status.phase for each in world.services.cache.all(Session)} == {
        SessionPhase.PENDING
    }
