"""Retry: a failed session is tried again as a new one, once, by who may, in a slot that can be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from fleet_world import ADMIN, START, World, who

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase, Slot
from labfleet.service.core import event_types
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import explain
from labfleet.service.verbs import objects
from labfleet.service.verbs.retrying import retry

HOUR = timedelta(hours=1)
ANN, EVE = who("user", "ann"), who("user", "eve")


async def failed(world: World, name: str = "s1", phase: str = "FAILED", **spec: Any) -> Session:
    """A session of ann's that has ended without running, and its definition."""
    if await world.services.objects.get(KINDS["Definition"].type, "two", "default") is None:
        await world.definition()
    made = await world.make("Session", name, {"definition": "two", "owner": "ann", **spec},
                            labels={"exam": "ccnp"})  # fmt: skip
    return await world.status(
        made,
        phase=SessionPhase(phase),
        ended_at=world.clock.now(),
        reason="BootTimeout",
        message="0 of 2 nodes booted",
        placements=2,
        worker="w1",
    )


async def again(world: World, name: str = "s1", caller: Any = ANN, **how: Any) -> Session:
    return await retry(world.services, caller, name, "default", **how)


async def stored(world: World, name: str) -> Session:
    found = await world.services.objects.get(Session, name, "default")
    assert found is not None
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", ["FAILED", "EXPIRED"])
@pytest.mark.parametrize("caller", [ANN, who("operator", "ola"), ADMIN])
async def test_a_failed_session_gets_a_new_attempt_that_links_to_it(
    world: World, phase: str, caller: Any
):
    """Same owner, definition, labels; nothing of the old status but the count; both know it."""
    old = await failed(world, phase=phase, priority=3 if caller is ADMIN else 0)
    new = await again(world, caller=caller)
    assert new.name == "s1-2"
    assert new.metadata.uid != old.metadata.uid
    assert new.metadata.labels == {"exam": "ccnp"}
    assert (new.spec.owner, new.spec.definition, new.spec.priority) == (
        "ann", "two", old.spec.priority,
    )  # fmt: skip
    status = new.status
    assert (status.phase, status.retry_count, status.placements) == (SessionPhase.PENDING, 1, 0)
    assert (status.worker, status.ended_at, status.message) == (None, None, "")
    assert (status.retry_of.name, status.retry_of.uid) == ("s1", old.metadata.uid)
    before = await stored(world, "s1")
    assert (before.status.phase, before.status.reason) == (phase, "BootTimeout")
    assert (before.status.retried_as.name, before.status.retried_as.uid) == (
        "s1-2", new.metadata.uid,
    )  # fmt: skip


@pytest.mark.asyncio
async def test_one_session_has_one_next_attempt_however_often_it_is_asked_for(world: World):
    """Ten at once, later ones and those with keys get the same; attempts are numbered on."""
    await failed(world)
    made = await asyncio.gather(*(again(world, key=f"k{n}" if n % 2 else None) for n in range(10)))
    assert {each.metadata.uid for each in made} == {made[0].metadata.uid}
    assert (await again(world)).metadata.uid == made[0].metadata.uid
    await world.status(made[0], phase=SessionPhase.FAILED)
    assert (await again(world)).name == "s1-2"
    third = await again(world, "s1-2")
    assert (third.name, third.status.retry_count) == ("s1-3", 2)
    assert third.status.retry_of.name == "s1-2"


@pytest.mark.asyncio
async def test_a_key_answers_a_repeated_request_and_refuses_another(world: World):
    """The stored answer is given even when that attempt is gone; other bodies are a conflict."""
    await failed(world)
    first = await again(world, key="k")
    await objects.delete(world.services, ADMIN, KINDS["Session"], "s1-2", "default")
    assert (await again(world, key="k")).metadata.uid == first.metadata.uid
    with pytest.raises(Refused, match="another request"):
        await again(world, key="k", reason="other")


@pytest.mark.asyncio
async def test_an_attempt_whose_record_is_gone_does_not_end_the_tries(world: World):
    """Another one is made, also when somebody else's session has that name by now."""
    await failed(world)
    first = await again(world)
    await objects.delete(world.services, ADMIN, KINDS["Session"], "s1-2", "default")
    await world.services.cache.reached(await world.services.fresh())
    await world.session("s1-2")
    second = await again(world)
    assert second.metadata.uid != first.metadata.uid
    assert second.name.startswith("s1-")
    assert second.name != "s1-2"
    assert (await stored(world, "s1")).status.retried_as.name == second.name


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", sorted(set(SessionPhase) - {"FAILED", "EXPIRED"}))
async def test_only_what_did_not_get_what_it_asked_for_is_tried_again(world: World, phase: str):
    """Running ones still may, completed ones did, and a cancel is somebody's wish."""
    await failed(world, phase=phase)
    with pytest.raises(Refused, match="only FAILED and EXPIRED") as caught:
        await again(world)
    assert caught.value.reason == "NotFailed"


@pytest.mark.asyncio
async def test_only_the_owner_and_operators_may(world: World):
    """Another user sees no such session, programs may not, and a uid says which one is meant."""
    old = await failed(world)
    with pytest.raises(errors.Gone):
        await again(world, caller=EVE)
    for role in ("controller", "runner"):
        with pytest.raises(errors.Denied):
            await again(world, caller=who(role))
    with pytest.raises(errors.Gone):
        await again(world, uid="00000000-0000-4000-8000-000000000000")
    assert (await again(world, uid=old.metadata.uid)).name == "s1-2"


@pytest.mark.asyncio
async def test_the_limit_of_open_sessions_counts_a_new_attempt(world: World):
    """An owner at the limit is refused; an operator may try it again for them."""
    await world.make("Settings", "fleet", {"limits": {"openSessions": 1}})
    await failed(world)
    await world.make("Session", "other", {"definition": "two"}, ANN)
    await world.services.cache.reached(await world.services.fresh())
    with pytest.raises(errors.QuotaExceeded):
        await again(world)
    assert (await again(world, caller=ADMIN)).spec.owner == "ann"


@pytest.mark.asyncio
async def test_a_priority_and_track_that_an_operator_gave_stay(world: World):
    """The owner could not have asked for them, and does not lose them by trying again."""
    await failed(world, priority=5, track="exams")
    new = await again(world)
    assert (new.spec.priority, new.spec.track) == (5, "exams")


# --- slots ---------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_slot_that_is_ahead_or_lasts_is_used(world: World):
    """The one ahead as it is; of one that has begun, what is left, as soon as there is room."""
    ahead = {"start": START + HOUR, "end": START + 2 * HOUR, "zone": "Europe/Warsaw"}
    await failed(world, slot={key: str(each) for key, each in ahead.items()})
    assert (await again(world)).spec.slot == Slot(**ahead)
    await failed(world, "s2", slot={"start": str(START), "end": str(START + 2 * HOUR)})
    world.clock.forward(HOUR.total_seconds())
    late = await again(world, "s2")
    assert late.spec.slot == Slot(end=START + 2 * HOUR)
    assert (late.status.start, late.status.end) == (None, START + 2 * HOUR)
    await failed(world, "s3")
    assert (await again(world, "s3")).spec.slot == Slot()


@pytest.mark.asyncio
@pytest.mark.parametrize("passed", [timedelta(minutes=58), 2 * HOUR])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_slot_that_is_over_is_refused_with_what_to_do(
    world: World, passed: timedelta, ends: bool
):
    """So is one that ends before the lab could be up; a new slot or none is accepted."""
    slot = {"start": str(START), "end": str(START + HOUR)}
    await failed(world, slot=slot if ends else {"start": str(START)})
    world.clock.forward(passed.total_seconds())
    with pytest.raises(Refused, match="--start and --end, or --now") as caught:
        await again(world)
    assert caught.value.reason == "SlotOver"
    assert (await stored(world, "s1")).status.retried_as is None
    with pytest.raises(errors.Invalid):
        await again(world, slot=Slot(start=START, end=START + HOUR))
    assert (await again(world, slot=Slot())).spec.slot == Slot()


# --- definitions ---------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_another_definition_of_the_same_name_is_not_taken_for_it(world: World):
    """What was asked for is gone: a new session has to be made, and nothing is written."""
    await failed(world)
    await objects.delete(world.services, ADMIN, KINDS["Definition"], "two", "default")
    await world.services.cache.reached(await world.services.fresh())
    with pytest.raises(errors.Invalid, match="does not exist"):
        await again(world)
    await world.definition(topology=TOPOLOGY_OF_ONE)
    with pytest.raises(Refused, match="another definition") as caught:
        await again(world)
    assert caught.value.reason == "DefinitionChanged"
    assert (await stored(world, "s1")).status.retried_as is None


TOPOLOGY_OF_ONE = """
lab: {title: one, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, interfaces: []}
links: []
"""


# --- what is told --------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_both_objects_tell_of_each_other(world: World):
    """Explanations and events of both, with the reason; a webhook hears session.retried."""
    old = await failed(world)
    told = await explain.explain(world.services, ANN, KINDS["Session"], "s1", "default")
    assert "It can be tried again: labfleet retry s1" in told.lines
    new = await again(world, reason="the server was down")
    before = await explain.explain(world.services, ANN, KINDS["Session"], "s1", "default")
    after = await explain.explain(world.services, ANN, KINDS["Session"], "s1-2", "default")
    assert "It was tried again as session/s1-2." in before.lines
    assert after.attempts == ("It is attempt 2; the one before is session/s1.",)
    assert after.attempts[0] in after.lines
    for each in (old, new):
        last = (await world.store.events_of(each.key))[0]
        said = "Retried: attempt 2 of s1 is s1-2: the server was down"
        assert (last.reason, last.actor) == (said, "ann")
    [change] = event_types.changes(old, await stored(world, "s1"))
    assert str(change.type) == "session.retried"
    assert change.data == {
        "new_session": "s1-2", "new_uid": new.metadata.uid, "attempt": 2,
    }  # fmt: skip


@pytest.mark.asyncio
async def test_long_names_keep_their_number(world: World):
    """A name of full length is cut for it, and stays a valid one."""
    long = "x" * 63
    await failed(world, long)
    new = await again(world, long)
    assert new.name == "x" * 61 + "-2"


@pytest.mark.asyncio
async def test_attempts_asked_for_at_once_pass_no_quota(world: World):
    """Ten failed sessions tried again side by side open as many as one may have."""
    await world.make("Settings", "fleet", {"limits": {"openSessions": 3}})
    for number in range(10):
        await failed(world, f"s{number}")
    await world.services.fresh()
    asked = (again(world, f"s{number}") for number in range(10))
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Session) for each in found) == 3
    assert {each.reason for each in found if isinstance(each, errors.LabfleetError)} == {
        "TooManySessions"
    }
