"""Kept labs: who may have one, and which session may begin with one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fleet_world import ADMIN, World, who

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase, SessionSeat
from labfleet.service.core import event_types
from labfleet.service.kinds import session_kept
from labfleet.service.verbs import kept_labs, objects, retrying
from labfleet.service.verbs.handing import hand_over

pytestmark = pytest.mark.asyncio
ANN, EVE, OLA = who("user", "ann"), who("user", "eve"), who("operator", "ola")
WIDE = stores.KeptBounds(1 << 20, 1 << 20, 1 << 20)
TEXT = b"lab: {}\nnodes: []\n# enable secret 5 $1$mERr\n"
WEEK = timedelta(days=7)


async def kept(world: World, name: str = "s1", keep: str = "owner", **spec: Any) -> Session:
    """A session of ann's that is over and whose lab was kept."""
    if await world.services.objects.get(KINDS["Definition"].type, "two", "default") is None:
        await world.definition(**{"keep": keep, "continuable": True, **spec})
    made = await world.session(name, owner="ann")
    now = world.clock.now()
    lab = stores.NewKeptLab(made.metadata.uid, "ann", TEXT, now, now + WEEK)
    await world.store.keep_lab(lab, WIDE)
    work = KeptWork(readers=keep, tries=1, at=now, until=now + WEEK, size=len(TEXT), nodes=2)
    found = await world.status(made, phase=SessionPhase.COMPLETED, ended_at=now, kept=work)
    await world.services.fresh()
    return found


async def of(world: World, caller: Any, name: str = "s1") -> str:
    """Return why a caller does not get a kept lab; "" when it does."""
    try:
        assert await kept_labs.download(world.services, caller, name, "default") == TEXT
    except errors.LabfleetError as problem:
        return f"{problem.reason}, with a secret" if "secret" in problem.message else problem.reason
    return ""


async def keep_now(world: World, keep: str) -> None:
    patch = {"spec": {"keep": keep}}
    row = KINDS["Definition"]
    await objects.patch(world.services, ADMIN, row, "two", patch, namespace="default")
    await world.services.fresh()


@pytest.mark.parametrize(("keep", "owner"), [("owner", ""), ("operators", "KeptForOperators")])
async def test_its_owner_and_operators_have_it_and_nobody_else(
    world: World, keep: str, owner: str
) -> None:
    """Others do not even see the session; programs may not ask; exams go home with nobody."""
    await kept(world, keep=keep)
    found = [await of(world, each) for each in (ANN, EVE, OLA, ADMIN)]
    assert found == [owner, "NotFound", "", ""]
    for role in ("controller", "runner"):
        assert await of(world, who(role, "ann")) == "Forbidden"


async def test_whoever_booked_a_seat_gets_nothing_of_the_work_on_it(world: World) -> None:
    """The booker sees, extends and ends the session; the work is its person's alone."""
    found = await kept(world)
    seat = SessionSeat(group="g", uid="u", seat="1", booked_by="eve")
    await world.status(found, seat=seat)
    await world.services.fresh()
    assert (await of(world, EVE), await of(world, ANN)) == ("KeptForOthers", "")
    with pytest.raises(errors.Denied):
        await kept_labs.discard(world.services, EVE, "s1", "default")


async def test_what_the_definition_said_then_and_says_now_both_have_to_allow_it(
    world: World,
) -> None:
    """Closing closes what was kept before, opening opens nothing, and of a gone one holds the past."""
    await kept(world, keep="operators")
    await keep_now(world, "owner")
    assert await of(world, ANN) == "KeptForOperators"
    await kept(world, "s2")
    assert await of(world, ANN, "s2") == ""
    await keep_now(world, "none")
    assert await of(world, ANN, "s2") == "KeptForOperators"
    assert await of(world, OLA, "s2") == ""


async def test_it_is_there_until_its_time_is_over_or_somebody_deletes_it(world: World) -> None:
    """After that there is nothing, and the refusal says since when, or why there never was."""
    await kept(world)
    await world.session("s2", owner="ann")
    with pytest.raises(errors.Gone, match="its definition asks for none"):
        await kept_labs.download(world.services, ADMIN, "s2", "default")
    gone = await kept_labs.discard(world.services, ANN, "s1", "default")
    assert gone.status.kept.at is None
    assert await of(world, ANN) == "NothingKept"
    assert await world.store.kept_labs() == ()
    assert await kept_labs.discard(world.services, ANN, "s1", "default") == gone
    await kept(world, "s3")
    world.clock.forward(WEEK.total_seconds())
    assert await of(world, ANN, "s3") == "NothingKept"


async def begin(world: World, caller: Any = ANN, **spec: Any) -> Session:
    return await world.session("next", caller, **{"continueFrom": "s1", **spec})


async def test_a_session_of_the_same_owner_and_lab_begins_with_it(world: World) -> None:
    """Also of another version of the family, also when an operator asks for its owner."""
    old = await kept(world, family="ccnp")
    made = await begin(world)
    assert (made.status.continues.name, made.status.continues.uid) == ("s1", old.metadata.uid)
    await world.definition("three", family="ccnp", continuable=True)
    later = await world.session("later", OLA, definition="three", owner="ann", continueFrom="s1")
    assert later.status.continues.uid == old.metadata.uid


async def test_what_a_session_is_to_begin_with_is_not_deleted(world: World) -> None:
    """By nobody, until that session is cancelled or has its lab."""
    await kept(world)
    await begin(world)
    for caller in (ANN, ADMIN):
        with pytest.raises(errors.LabfleetError, match="'next' is to begin with"):
            await kept_labs.discard(world.services, caller, "s1", "default")
    assert await of(world, ANN) == ""
    waiting = await world.services.objects.get(Session, "next", "default")
    await world.status(waiting, phase="CANCELLED", ended_at=world.clock.now())
    await world.services.fresh()
    gone = await kept_labs.discard(world.services, ANN, "s1", "default")
    assert gone.status.kept.at is None


async def test_what_was_kept_does_not_pass_on_with_a_session_that_is_handed_over(
    world: World,
) -> None:
    """It may hold passwords: whoever gets the session begins with the definition's lab."""
    await kept(world)
    await begin(world)
    given = await hand_over(world.services, ADMIN, "next", to="bo")
    assert (given.spec.owner, given.spec.continue_from, given.status.continues) == (
        "bo",
        None,
        None,
    )
    await world.services.fresh()
    await kept_labs.discard(world.services, ANN, "s1", "default")


@pytest.mark.parametrize(
    ("caller", "spec", "reason"),
    [
        (EVE, {}, "Invalid"),
        (OLA, {"owner": "eve"}, "Invalid"),
        (ANN, {"definition": "other"}, "AnotherLab"),
        (ANN, {"definition": "closed"}, "NotContinuable"),
        (ANN, {"continueFrom": "s2"}, "NothingKept"),
        (ANN, {"continueFrom": "nobody"}, "Invalid"),
        (ANN, {"slot": {"start": "2099-01-01T00:00:00Z"}}, "KeptTooShort"),
    ],
)
async def test_no_other_session_begins_with_it(
    world: World, caller: Any, spec: dict[str, Any], reason: str
) -> None:
    """Of another owner, another lab, a closed definition, of nothing, or too late."""
    await kept(world)
    await world.definition("other", continuable=True)
    await world.definition("closed", keep="owner")
    await world.session("s2", owner="ann")
    await world.services.fresh()
    with pytest.raises(errors.Invalid) as refused:
        await begin(world, caller, **spec)
    assert refused.value.reason == reason
    assert refused.value.problems[0][0] == "spec.continueFrom"


async def test_an_exams_candidate_does_not_begin_with_what_is_for_operators(world: World) -> None:
    """An operator may give a candidate back the work of a lab that was lost."""
    await kept(world, keep="operators")
    with pytest.raises(errors.Invalid) as refused:
        await begin(world)
    assert refused.value.reason == "KeptForOperators"
    assert (await begin(world, OLA, owner="ann")).status.continues is not None


async def test_a_retry_begins_with_the_same_work_and_the_name_is_not_changed(world: World) -> None:
    """A failed start loses nothing; another session is not named later."""
    await kept(world)
    made = await begin(world)
    patch = {"spec": {"continueFrom": "s2"}}
    with pytest.raises(errors.LabfleetError):
        await objects.patch(
            world.services, ANN, KINDS["Session"], "next", patch, namespace="default"
        )
    await world.status(made, phase=SessionPhase.FAILED, ended_at=world.clock.now())
    again = await retrying.retry(world.services, ANN, "next", "default")
    assert again.status.continues == made.status.continues


async def test_an_event_says_that_it_was_kept_and_nothing_of_it(world: World) -> None:
    """Once, with until when and what is missing."""
    await world.definition()
    old = await world.session("s0", owner="ann")
    now = world.clock.now()
    work = KeptWork(readers="owner", at=now, until=now + WEEK, unread=1, missing=("r1",))
    conditions = session_kept.keeping.kept(old.status, work, now).conditions
    new = await world.status(old, kept=work, conditions=conditions)
    (event, notice) = [each for each in event_types.changes(old, new) if "kept" in each.type]
    assert event == ("session.work_kept", {"until": work.until, "missing": ["r1"]})
    assert (notice.type, notice.data["missing"]) == ("notice.lab_kept", ["r1"])
    assert notice.data["subject"].endswith("but nothing was read out of r1")
    assert event_types.changes(new, new) == ()
