"""Groups: seats that are booked, moved and ended together, and who may do what with them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, START, World, who

from labfleet.kernel import errors
from labfleet.resources.group import Group, GroupSpec, Seat, seats_of
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase, Slot
from labfleet.service.core.service_context import Caller, Refused
from labfleet.service.reads import listing
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import applying, lifecycle, objects, retrying

ROW = KINDS["Group"]
MORNING = START + timedelta(days=14)
HOUR = timedelta(hours=1)
TEACHER, ANA = who("user", "teacher"), who("user", "ana")


def slot(hours: float = 0, length: float = 1) -> dict[str, str]:
    """A slot from so many hours after the exam's start."""
    begin = MORNING + hours * HOUR
    return {"start": begin.isoformat(), "end": (begin + length * HOUR).isoformat()}


async def fleet(world: World, workers: int = 1) -> None:
    """A pool of at most so many workers, each of which holds ten labs of the definition."""
    made = await world.definition()
    capacity = {"memoryMib": made.status.demand.memory_mib * 11 - 1, "cpuMilli": 10**6,
                "storageMib": 10**7, "labs": 50, "ports": 6000, "nodes": 900}  # fmt: skip
    machine = {**MACHINE, "capacity": capacity, "licence": {"token": {"env": "CML_TOKEN"}}}
    machine["cml"] = {**machine["cml"], "maxNodesLicensed": 900}
    await world.make("Template", "metal", {"machine": machine})
    await world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": workers}})
    await world.services.fresh()


async def book(world: World, name: str = "exam", caller: Caller = ADMIN, **spec: Any) -> Group:
    """Book a group of the definition `two`."""
    whole = {"definition": "two", "slot": slot(), **spec}
    made = await world.make("Group", name, whole, caller)
    assert isinstance(made, Group)
    return made


async def seats(world: World, group: str = "exam") -> dict[str, Session]:
    """The sessions of a group by the name of their seat."""
    await world.services.fresh()
    found = [each for each in world.services.cache.all(Session) if each.status.seat]
    return {each.status.seat.seat: each for each in found if each.status.seat.group == group}


async def change(
    world: World, spec: dict[str, Any], caller: Caller = ADMIN, name: str = "exam"
) -> Any:
    """Patch a group."""
    return await objects.patch(
        world.services, caller, ROW, name, {"spec": spec}, namespace="default"
    )


@pytest.mark.asyncio
async def test_two_hundred_seats_where_a_hundred_and_eighty_fit(world: World):
    """All or nothing is refused with what is missing and where the rest fits; `some` books 180."""
    await fleet(world, 18)
    with pytest.raises(Refused) as refusal:
        await book(world, size=200)
    told = refusal.value
    assert told.reason == "NoCapacity"
    assert told.message.startswith("180 of 200 seats fit from ")
    assert "pool exam, which may have 18 workers, is short 1 MiB" in told.message
    assert "no slot holds more than 180 of them at once" in told.message
    assert "whenFull: some books the 180 that fit" in told.message
    assert len(told.problems) == 2
    assert all(what.endswith(" fits the other 20 seats") for _, what in told.problems)
    assert await seats(world) == {}

    made = await book(world, size=200, whenFull="some")
    found = await seats(world)
    assert (made.status.asked, made.status.booked, len(found)) == (200, 180, 180)
    assert [each.name for each in made.status.seats if each.session is None] == [
        f"{number:03d}" for number in range(181, 201)
    ]
    assert {each.status.claim.place for each in found.values()} == set(range(18))
    where, what = told.problems[1]
    begin = what.partition(" to ")[0]
    later = {"start": begin.replace(" ", "T").replace("Z", ":00Z"), "end": None}
    assert (await book(world, "rest", size=20, slot=later)).status.booked == 20
    assert where == "spec.slot"


@pytest.mark.asyncio
async def test_a_group_that_would_fit_elsewhere_is_told_where(world: World):
    """Beside eight seats five do not fit; the slots that are named hold all five."""
    await fleet(world)
    await book(world, "before", size=8)
    with pytest.raises(Refused) as refusal:
        await book(world, size=5)
    assert "2 of 5 seats fit" in refusal.value.message
    for number, (_, what) in enumerate(refusal.value.problems):
        assert what.endswith(" fits all 5 seats")
        begin, _, rest = what.partition(" to ")
        end = rest.removesuffix(" fits all 5 seats")
        named = {key: each.replace(" ", "T").replace("Z", ":00Z")
                 for key, each in (("start", begin), ("end", end))}  # fmt: skip
        assert (await book(world, f"again-{number}", size=5, slot=named)).status.booked == 5
    assert len(refusal.value.problems) == 2


@pytest.mark.asyncio
async def test_a_booking_is_one_commit(world: World):
    """The group and all its sessions have one revision after the other, of one request."""
    await fleet(world)
    made = await book(world, size=4, spare=1, seats=[{"person": "ana"}])
    found = await seats(world)
    assert sorted(found) == ["001", "002", "003", "004", "spare-1"]
    assert found["001"].name == "exam-001"
    revisions = sorted([made.revision, *(each.revision for each in found.values())])
    assert revisions == list(range(made.revision, made.revision + 6))
    assert found["001"].spec.owner == "ana"
    assert found["002"].spec.owner == ""
    assert {each.metadata.labels["labfleet.dev/group"] for each in found.values()} == {"exam"}


@pytest.mark.asyncio
async def test_the_same_request_books_once(world: World):
    """Of twenty equal requests with one key one books, and all get its answer.

    facts/fleet-bugs.md#t31
    """
    await fleet(world)
    body = {"metadata": {"name": "exam"},
            "spec": {"definition": "two", "slot": slot(), "size": 3}}  # fmt: skip
    done = await asyncio.gather(
        *(objects.create(world.services, ADMIN, ROW, body, key="k") for _ in range(20))
    )
    assert len({each.metadata.uid for each in done}) == 1
    assert len(await seats(world)) == 3
    with pytest.raises(Refused) as other:
        await objects.create(world.services, ADMIN, ROW, {**body, "spec": {}}, key="k")
    assert other.value.reason == "IdempotencyKeyReused"
    with pytest.raises(Refused) as again:
        await objects.create(world.services, ADMIN, ROW, body)
    assert again.value.reason == "AlreadyExists"


@pytest.mark.asyncio
async def test_a_quota_holds_against_parallel_bookings(world: World):
    """Twenty groups of three at once, with room for ten sessions: three are booked.

    facts/fleet-bugs.md#t21
    """
    await fleet(world, 9)
    await world.make("Settings", "fleet", {"limits": {"openSessions": 10}})
    await world.services.fresh()
    done = await asyncio.gather(
        *(book(world, f"g{number}", TEACHER, size=3) for number in range(20)),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, errors.QuotaExceeded)]
    assert (len(done) - len(refused), len(refused)) == (3, 17)
    assert "9 open sessions" in refused[-1].message
    assert "may have 10" in refused[-1].message
    # A seat counts for who booked it: whoever is named there keeps their own share.
    await change(world, {"seats": [{"person": "ana"}]}, TEACHER, name=_first(done))
    assert len([await world.session(f"a{number}", ANA) for number in range(10)]) == 10


def _first(done: list[Any]) -> str:
    return next(each.name for each in done if isinstance(each, Group))


NAMES = ("_x", "-x", "é", "e\u0301", "李雷", "a" * 64, "ADMIN", "admin", "a-b/c", "a/b-c")


@pytest.mark.asyncio
async def test_any_name_of_a_seat_or_person_is_one_session(world: World):
    """Names that a slug would fold together stay apart, each for its own person.

    facts/fleet-bugs.md#t26
    """
    await fleet(world)
    made = await book(world, seats=[{"name": each, "person": each} for each in NAMES])
    found = await seats(world)
    assert len({each.name for each in found.values()}) == len(NAMES) == made.status.booked
    assert {name: each.spec.owner for name, each in found.items()} == {n: n for n in NAMES}
    for name in NAMES:
        page = await listing.listed(
            world.services, who("user", name), KINDS["Session"], listing.Query()
        )
        assert [each.name for each in page.items] == [found[name].name]


@pytest.mark.asyncio
async def test_two_groups_never_share_a_session(world: World):
    """`a` with seat `b-c` and `a-b` with seat `c` have sessions of their own; a taken name is passed."""
    await fleet(world)
    await world.session("a-001")
    await book(world, "a", seats=[{"name": "b-c"}, {"name": "001"}])
    await book(world, "a-b", seats=[{"name": "c"}])
    first, second = await seats(world, "a"), await seats(world, "a-b")
    names = {each.name for each in (*first.values(), *second.values())}
    assert len(names) == 3
    assert "a-001" not in names


@pytest.mark.asyncio
async def test_who_booked_sees_the_seats_and_nothing_else(world: World):
    """The booker lists and ends the seats of others; a person sees their own seat and only that."""
    await fleet(world, 2)
    await book(world, caller=TEACHER, size=3, seats=[{"person": "ana"}, {"person": "bo"}])
    await world.session("other", who("user", "bo"))
    found = await seats(world)
    kind = KINDS["Session"]

    async def seen(caller: Caller, row: Any = kind, **query: Any) -> list[str]:
        page = await listing.listed(world.services, caller, row, listing.Query(**query))
        return [each.name for each in page.items]

    assert await seen(TEACHER) == ["exam-001", "exam-002", "exam-003"]
    assert await seen(TEACHER, filters=(("owner", "bo"),)) == ["exam-002"]
    assert await seen(TEACHER, filters=(("group", "exam"),)) == ["exam-001", "exam-002", "exam-003"]
    assert await seen(ANA) == ["exam-001"]
    assert (await seen(ANA, ROW), await seen(TEACHER, ROW)) == ([], ["exam"])
    assert await seen(who("user", "bo")) == ["exam-002", "other"]

    services = world.services
    for deed in (
        lambda: lifecycle.cancel(services, ANA, "exam-001", "default"),
        lambda: lifecycle.extend(services, ANA, "exam-001", "default", by=HOUR),
        lambda: objects.delete(services, ANA, kind, "exam-001", "default"),
    ):
        with pytest.raises(errors.Denied, match="teacher booked it") as denied:
            await deed()
        assert denied.value.reason == "SeatOfGroup"
    with pytest.raises(errors.Gone):
        await lifecycle.cancel(services, ANA, "exam-002", "default")
    with pytest.raises(errors.Gone):
        await lifecycle.cancel(services, TEACHER, "other", "default")
    await lifecycle.extend(services, TEACHER, "exam-001", "default", by=HOUR)
    ended = await lifecycle.cancel(services, TEACHER, "exam-002", "default")
    assert ended.spec.cancel is not None
    assert found["003"].status.seat.booked_by == "teacher"


@pytest.mark.asyncio
async def test_a_seat_is_given_to_people_later(world: World):
    """Persons are named and swapped in one commit; seats themselves stay what was booked."""
    await fleet(world)
    await book(world, caller=TEACHER, size=2)
    await change(world, {"seats": [{"name": "001", "person": "ana"},
                                   {"name": "002", "person": "bo"}]}, TEACHER)  # fmt: skip
    await change(world, {"seats": [{"name": "001", "person": "bo"},
                                   {"name": "002", "person": "ana"}]}, TEACHER)  # fmt: skip
    found = await seats(world)
    assert {name: each.spec.owner for name, each in found.items()} == {"001": "bo", "002": "ana"}
    assert found["001"].metadata.generation == 3
    for wrong, told in (
        ([{"name": "new"}, {"name": "001"}], "cannot be added, renamed or removed later: 002, new"),
        ([{"name": "001"}] * 3, "less than the 3 seats"),
        ([{"name": "001", "person": "a"}, {"name": "002", "person": "a"}], "given to seat"),
    ):
        with pytest.raises(errors.Invalid, match=told):
            await change(world, {"seats": wrong}, TEACHER)


@pytest.mark.asyncio
async def test_all_seats_end_later_or_none(world: World):
    """A later end is taken for all at once; what is promised to others refuses it for all."""
    await fleet(world)
    await book(world, size=6)
    end = MORNING + 2 * HOUR
    await change(world, {"slot": {"end": end.isoformat()}})
    assert {each.status.end for each in (await seats(world)).values()} == {end}
    await book(world, "next", size=6, slot=slot(2.5))
    with pytest.raises(Refused) as refusal:
        await change(world, {"slot": {"end": (end + HOUR).isoformat()}})
    # Four places are free beside the six that follow: each seat alone would fit, all six do not.
    assert "2 of 6 seats cannot last until" in refusal.value.message
    assert [where for where, _ in refusal.value.problems] == ["seat 005", "seat 006"]
    assert {each.status.end for each in (await seats(world)).values()} == {end}
    kept = await objects.get(world.services, ADMIN, ROW, "exam", "default")
    assert kept.status.end == end
    for each in (await seats(world)).values():
        await world.status(each, phase=SessionPhase.COMPLETED)
    with pytest.raises(Refused, match="nothing to move"):
        await change(world, {"slot": {"end": (end + HOUR).isoformat()}})


@pytest.mark.asyncio
async def test_a_shorter_end_frees_the_rest(world: World):
    """When ten seats end an hour earlier, ten others fit into that hour."""
    await fleet(world)
    await book(world, size=10, slot=slot(0, 3))
    with pytest.raises(Refused):
        await book(world, "next", size=10, slot=slot(2.5))
    await change(world, {"slot": {"end": (MORNING + 2 * HOUR).isoformat()}})
    assert (await book(world, "next", size=10, slot=slot(2.5))).status.booked == 10
    world.clock.forward(14 * 86400 + 1800)
    with pytest.raises(errors.Invalid, match="must lie ahead"):
        await change(world, {"slot": {"end": (MORNING + HOUR / 4).isoformat()}})


@pytest.mark.asyncio
async def test_more_time_for_one_person_is_promised_with_the_seat(world: World):
    """A factor of 1.5 gives 90 minutes instead of 60, in slot and claim, and when all are extended."""
    await fleet(world)
    await book(world, size=2, seats=[{"person": "ana", "factor": 1.5}])
    found = await seats(world)
    longer, plain = found["001"], found["002"]
    assert longer.status.end == MORNING + 1.5 * HOUR
    assert longer.status.claim.end - plain.status.claim.end == HOUR / 2
    await change(world, {"slot": {"end": (MORNING + 2 * HOUR).isoformat()}})
    assert (await seats(world))["001"].status.end == MORNING + 3 * HOUR
    with pytest.raises(errors.Invalid) as long:
        await book(world, "long", slot=slot(0, 4), seats=[{"factor": 3}])
    assert long.value.problems[0][0] == "seat 001: factor"


@pytest.mark.asyncio
async def test_deleting_a_group_cancels_its_open_seats(world: World):
    """Seats that are over stay as they ended; the name is free for another group."""
    await fleet(world)
    await book(world, size=3)
    found = await seats(world)
    await world.status(found["001"], phase=SessionPhase.COMPLETED, ended_at=world.clock.now())
    await objects.delete(world.services, ADMIN, ROW, "exam", "default")
    found = await seats(world)
    assert [found[name].spec.cancel is not None for name in sorted(found)] == [False, True, True]
    with pytest.raises(errors.Gone):
        await change(world, {"slot": slot(0, 2)})
    again = await book(world, size=3, slot=slot(5))
    assert again.status.seats[0].session not in {each.name for each in found.values()}


@pytest.mark.asyncio
async def test_how_seats_stand_is_counted_when_it_is_read(world: World):
    """Counts follow the sessions, with the last attempt of one that was tried again."""
    await fleet(world)
    await book(world, size=4)
    found = await seats(world)
    now = world.clock.now()
    await world.status(found["001"], phase=SessionPhase.RUNNING, start=now)
    await world.status(found["002"], phase=SessionPhase.READY, start=now)
    await world.status(found["003"], phase=SessionPhase.FAILED, ended_at=now)
    await world.services.fresh()
    group = await objects.get(world.services, ADMIN, ROW, "exam", "default")
    assert msgspec.to_builtins(group.status.counts) == {
        "waiting": 1, "starting": 0, "ready": 1, "running": 1, "ending": 0, "ended": 0,
        "failed": 1, "late": 1,
    }  # fmt: skip
    again = await retrying.retry(world.services, ADMIN, "exam-003", "default")
    assert again.status.seat == found["003"].status.seat
    await world.services.fresh()
    told = await explain(world.services, ADMIN, ROW, "exam", "default")
    assert "4 of 4 seats are booked." in told.summary
    assert "2 waiting, 1 ready, 1 running; 1 of them late" in told.summary


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "where", "told"),
    [
        ({"slot": {}, "size": 2}, "spec.slot.start", "say when it starts"),
        ({}, "spec.size", "say how many"),
        ({"size": 1, "seats": [{}, {}]}, "spec.size", "less than the 2 seats"),
        ({"size": 450, "spare": 51}, "spec.size", "at most 500"),
        ({"seats": [{"name": "a"}, {"name": "a"}]}, "spec.seats[1].name", "seat 0 of the list"),
        ({"seats": [{"person": " a"}]}, "spec.seats[0].person", "begin or end with a space"),
        ({"seats": [{"factor": 9}]}, "spec.seats[0].factor", "4"),
    ],
)
async def test_what_cannot_be_booked_is_told_at_its_place(
    world: World, spec: dict[str, Any], where: str, told: str
):
    """Each mistake names its field and what to do; nothing is stored."""
    await world.definition()
    with pytest.raises(errors.Invalid) as wrong:
        await book(world, **spec)
    assert [(where, True)] == [(at, told in what) for at, what in wrong.value.problems]
    assert await seats(world) == {}


@pytest.mark.asyncio
async def test_a_user_books_for_themselves_on_the_definitions_track(world: World):
    """Neither another owner nor another pool can be charged by naming it."""
    await fleet(world)
    for spec in ({"owner": "bo"}, {"track": "gold"}):
        with pytest.raises(errors.Invalid):
            await book(world, caller=TEACHER, size=1, **spec)


@pytest.mark.asyncio
async def test_a_dry_run_books_nothing_and_says_what_would_be(world: World):
    """The preview is the answer of an apply on drafts: the seats that fit, by name."""
    await fleet(world)
    body = {"kind": "Group", "metadata": {"name": "exam"},
            "spec": {"definition": "two", "slot": slot(), "size": 12, "whenFull": "some"}}  # fmt: skip
    mode = applying.Mode
    (done,) = await applying.apply(world.services, ADMIN, [body], mode=mode.DRY_RUN)
    assert isinstance(done.obj, Group)
    assert done.obj.status.booked == 10
    assert await seats(world) == {}
    (made,) = await applying.apply(world.services, ADMIN, [body])
    (same,) = await applying.apply(world.services, ADMIN, [body])
    assert (made.result, same.result) == ("created", "unchanged")
    assert len(await seats(world)) == 10


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", [applying.Mode.DRY_RUN, applying.Mode.APPLY])
async def test_groups_of_one_request_count_each_other(world: World, mode: applying.Mode):
    """Two groups of six on a pool of ten places: the second is refused, in the preview as in truth."""
    await fleet(world)
    bodies = [
        {"kind": "Group", "metadata": {"name": name},
         "spec": {"definition": "two", "slot": slot(), "size": 6}}
        for name in ("first", "second")
    ]  # fmt: skip
    first, second = await applying.apply(world.services, ADMIN, bodies, mode=mode)
    assert (first.result, second.result) == ("created", "refused")
    assert second.error is not None
    assert second.error.message.startswith("4 of 6 seats fit")


@pytest.mark.asyncio
async def test_whoever_sits_there_tries_again_in_the_same_slot_only(world: World):
    """A failed seat is retried by its person at the booker's charge, never for another time."""
    await fleet(world)
    await book(world, caller=TEACHER, size=1, seats=[{"person": "ana"}])
    await world.status((await seats(world))["001"], phase=SessionPhase.FAILED)
    await world.services.fresh()
    later = msgspec.convert(slot(5), Slot)
    with pytest.raises(errors.Denied) as denied:
        await retrying.retry(world.services, ANA, "exam-001", "default", slot=later)
    assert denied.value.reason == "SeatOfGroup"
    again = await retrying.retry(world.services, ANA, "exam-001", "default")
    assert (again.spec.owner, again.status.seat.booked_by) == ("ana", "teacher")
    page = await listing.listed(world.services, TEACHER, KINDS["Session"], listing.Query())
    assert [each.name for each in page.items] == ["exam-001", "exam-001-2"]


def test_seats_without_a_name_get_the_lowest_free_numbers():
    """A number that somebody gave is left out, and giving a seat a person moves no other."""
    spec = GroupSpec(definition="two", size=3, spare=1)
    later = msgspec.structs.replace(spec, seats=(Seat(name="002", person="ana"),))
    assert [each.name for each in seats_of(spec)] == ["001", "002", "003", "spare-1"]
    assert sorted(each.name for each in seats_of(later)) == ["001", "002", "003", "spare-1"]


@pytest.mark.asyncio
async def test_hours_of_all_seats_count_together_for_who_booked(world: World):
    """Four seats of an hour are promised of six hours; two hours more each would be twelve."""
    await fleet(world)
    await world.make("Settings", "fleet", {"limits": {"promisedHours": 6}})
    await world.services.fresh()
    with pytest.raises(errors.QuotaExceeded) as many:
        await book(world, caller=TEACHER, size=7)
    assert many.value.reason == "TooManyHours"
    await book(world, caller=TEACHER, size=4)
    with pytest.raises(errors.QuotaExceeded):
        await change(world, {"slot": {"end": (MORNING + 2 * HOUR).isoformat()}}, TEACHER)
    await change(world, {"slot": {"end": (MORNING + 1.5 * HOUR).isoformat()}}, TEACHER)
    assert {each.status.end for each in (await seats(world)).values()} == {MORNING + 1.5 * HOUR}
