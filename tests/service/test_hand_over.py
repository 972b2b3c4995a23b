"""Sessions and seats are given to other people: who may, whom it costs what, and what stays behind."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, World, who
from test_service_groups import ANA, TEACHER, book, fleet, seats, slot

from labfleet.decisions.lifecycle.session import live_lab
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.kinds import KINDS
from labfleet.resources.lab_orders import LabOrderProgress
from labfleet.resources.session import LabStatus, Session, SessionPhase
from labfleet.service.core.event_types import changes
from labfleet.service.core.service_context import Caller, Refused
from labfleet.service.verbs import lab_orders, objects
from labfleet.service.verbs.handing import hand_over, take
from labfleet.service.verbs.lab_orders import LabOrderRequest

pytestmark = pytest.mark.asyncio
BO, CY = who("user", "bo"), who("user", "cy")
SESSION = KINDS["Session"]
NAMED = """
lab: {title: one, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, interfaces: [],
   configuration: 'hostname {{POD}}'}
links: []
"""


async def anas(world: World, **spec: Any) -> Session:
    """A session of ana's, with what is personal of her."""
    made = await world.session("s1", ANA, studentEmail="ana@x.org",
                               environment={"POD": "7"}, **spec)  # fmt: skip
    await world.services.fresh()
    assert isinstance(made, Session)
    return made


async def seen(world: World, caller: Caller) -> Session | None:
    """The session as somebody sees it; None when they do not."""
    try:
        found = await objects.get(world.services, caller, SESSION, "s1", "default")
    except errors.Gone:
        return None
    assert isinstance(found, Session)
    return found


async def limit(world: World, **limits: int) -> None:
    """Set limits of the fleet."""
    await objects.patch(
        world.services, ADMIN, KINDS["Settings"], "fleet", {"spec": {"limits": limits}},
        namespace="default",
    )  # fmt: skip
    await world.services.fresh()


async def test_a_page_of_events_does_not_end_early_for_what_was_anothers(world: World) -> None:
    """Who gets a session back reads on from before it was somebody else's."""
    await world.definition()
    await anas(world)
    for person in ("bo", "ana"):
        await hand_over(world.services, ADMIN, "s1", to=person)
        await world.services.fresh()
    found = await objects.events(world.services, ANA, SESSION, "s1", "default", limit=2)
    assert [each.type for each in found] == ["MODIFIED", "ADDED"]
    then = [kinds.decode("Session", each.doc, each.revision).spec.owner for each in found]
    assert then == ["ana", "ana"]


async def test_a_session_is_offered_and_taken(world: World) -> None:
    """Until it is taken it stays ana's; then it is bo's, with slot and claim, without her data."""
    await fleet(world)
    before = await anas(world, slot=slot())
    offered = await hand_over(world.services, ANA, "s1", to="bo")
    assert (offered.spec.owner, offered.status.offer.to) == ("ana", "bo")
    assert await seen(world, BO) is None
    taken = await take(world.services, BO, "s1", email="bo@x.org")
    assert (taken.spec.owner, taken.spec.student_email, taken.spec.environment) == (
        "bo", "bo@x.org", {},
    )  # fmt: skip
    assert (taken.status.claim, taken.spec.slot) == (before.status.claim, before.spec.slot)
    assert (taken.status.offer, taken.status.handed_over.by) == (None, "ana")
    assert taken.metadata.generation == before.metadata.generation + 1
    assert await seen(world, ANA) is None
    assert await seen(world, BO) is not None
    again = await take(world.services, BO, "s1")
    assert again.revision == taken.revision
    for caller in (ANA, CY):
        with pytest.raises(errors.Gone):
            await take(world.services, caller, "s1")


@pytest.mark.parametrize("by", ["taken", "given", "seat"])
async def test_an_open_order_of_the_lab_is_not_done_to_whoever_comes_next(
    world: World, by: str
) -> None:
    """A wipe that somebody ordered before they gave the lab away is refused, never done later."""
    await fleet(world)
    name = "s1"
    if by == "seat":
        await book(world, "exam", TEACHER, seats=[{"name": "a", "person": "ana"}])
        name = (await seats(world))["a"].name
    else:
        await anas(world)
    found = await world.services.objects.get(Session, name, "default")
    lab = LabStatus(id="lab-1", title="one", marker="m", state="STARTED")
    await world.status(found, phase=SessionPhase.RUNNING, lab=lab)
    sent = LabOrderRequest(order="wipe", confirm=True)
    await lab_orders.order(world.services, ADMIN, (name, "default"), sent)
    await world.services.fresh()
    giver = ANA if by == "taken" else TEACHER if by == "seat" else ADMIN
    await hand_over(world.services, giver, name, to="bo")
    if by == "taken":
        await take(world.services, BO, name)
    now = await world.services.objects.get(Session, name, "default")
    assert now is not None
    assert now.spec.owner == "bo"
    assert live_lab.open_order(now) is None
    assert now.status.lab_order is not None
    assert now.status.lab_order.state == "refused"


@pytest.mark.parametrize(("verb", "begun"), [("restart", True), ("restart", False), ("wipe", True)])
async def test_a_restart_that_is_begun_is_brought_to_its_end(
    world: World, verb: str, *, begun: bool
) -> None:
    """Between its stop and its start the lab would stay off; a wipe that is begun ends all the same."""
    await fleet(world)
    await anas(world)
    found = await world.services.objects.get(Session, "s1", "default")
    lab = LabStatus(id="lab-1", title="one", marker="m", state="STARTED")
    await world.status(found, phase=SessionPhase.RUNNING, lab=lab)
    sent = LabOrderRequest(order=verb, confirm=True)  # type: ignore[arg-type]
    given = await lab_orders.order(world.services, ADMIN, ("s1", "default"), sent)
    order, asked = given.spec.lab_order, world.services.clock.now() if begun else None
    assert order is not None
    known = LabOrderProgress(id=order.id, state="stopping", at=order.at, asked=asked)
    await world.status(given, lab_order=known)
    await world.services.fresh()
    await hand_over(world.services, ADMIN, "s1", to="bo")
    now = await world.services.objects.get(Session, "s1", "default")
    assert now is not None
    assert now.spec.owner == "bo"
    assert (live_lab.open_order(now) is not None) is (begun and verb == "restart")


async def test_nobody_is_given_what_they_did_not_take(world: World) -> None:
    """An offer fills nobody's share; it is for one person, and goes when it is taken back."""
    await world.definition()
    await limit(world, openSessions=1)
    await anas(world)
    await world.session("s2", BO)
    await hand_over(world.services, ANA, "s1", to="bo")
    with pytest.raises(errors.QuotaExceeded) as refusal:
        await take(world.services, BO, "s1")
    assert refusal.value.reason == "TooManySessions"
    with pytest.raises(errors.Gone, match="offered to cy"):
        await take(world.services, CY, "s1")
    await hand_over(world.services, ANA, "s1", to="cy")
    with pytest.raises(errors.Gone):
        await take(world.services, BO, "s1")
    back = await hand_over(world.services, ANA, "s1", to="ana")
    assert back.status.offer is None
    with pytest.raises(errors.Gone):
        await take(world.services, CY, "s1")


async def test_the_hours_of_whoever_takes_it_are_judged(world: World) -> None:
    """A slot that is longer than the hours left is refused, and stays whose it was."""
    await fleet(world)
    await limit(world, promisedHours=1)
    await anas(world, slot=slot(length=1))
    await world.session("s2", BO, slot=slot(5, length=1))
    await hand_over(world.services, ANA, "s1", to="bo")
    with pytest.raises(errors.QuotaExceeded) as refusal:
        await take(world.services, BO, "s1")
    assert refusal.value.reason == "TooManyHours"
    assert await seen(world, ANA) is not None


async def test_an_operator_gives_at_once(world: World) -> None:
    """Also while it runs: nobody has checked in afterwards, and the new person's data is the new."""
    await world.definition()
    made = await anas(world)
    now = world.clock.now()
    await world.status(made, phase=SessionPhase.RUNNING, checked_in_at=now, checked_in_by="ana",
                       started_at=now)  # fmt: skip
    given = await hand_over(world.services, ADMIN, "s1", to="bo", email="bo@x.org")
    assert (given.spec.owner, given.spec.student_email) == ("bo", "bo@x.org")
    assert (given.status.checked_in_at, given.status.checked_in_by) == (None, "")
    assert given.status.handed_over.by == "ada"
    same = await hand_over(world.services, ADMIN, "s1", to="bo")
    assert same.revision == given.revision


async def test_a_lab_that_is_to_be_made_needs_the_new_persons_values(world: World) -> None:
    """What nodes are made of is said by whoever takes it; nothing of hers is used in its place."""
    await world.make("Definition", "two", {"topology": NAMED, "variables": ["POD"]})
    await anas(world)
    await hand_over(world.services, ANA, "s1", to="bo")
    with pytest.raises(errors.Invalid) as refusal:
        await take(world.services, BO, "s1")
    assert refusal.value.reason == "VariableMissing"
    taken = await take(world.services, BO, "s1", environment={"POD": "8"})
    assert taken.spec.environment == {"POD": "8"}
    with pytest.raises(errors.Invalid, match="whoever takes"):
        await hand_over(world.services, BO, "s1", to="cy", environment={"POD": "9"})


async def test_a_seat_is_given_by_who_booked_it(world: World) -> None:
    """Group and session change in one commit; who sits there gives it not, and loses it at once."""
    await fleet(world)
    await book(world, caller=TEACHER, size=3, spare=1, seats=[{"name": "a", "person": "ana"}])
    mine = (await seats(world))["a"]
    with pytest.raises(errors.Denied) as refusal:
        await hand_over(world.services, ANA, mine.name, to="bo")
    assert refusal.value.reason == "SeatOfGroup"
    with pytest.raises(errors.Gone):
        await hand_over(world.services, BO, mine.name, to="bo")
    given = await hand_over(world.services, TEACHER, mine.name, to="bo")
    assert (given.spec.owner, given.status.handed_over.by) == ("bo", "teacher")
    for name, person in (("002", "cy"), ("spare-1", "dee")):
        known = (await seats(world))[name]
        done = await hand_over(world.services, TEACHER, known.name, to=person)
        assert done.spec.owner == person
    group = await objects.get(world.services, TEACHER, KINDS["Group"], "exam", "default")
    sat = {each.name: each.person for each in group.spec.seats}
    found = await seats(world)
    assert {name: each.spec.owner for name, each in found.items() if each.spec.owner} == sat
    assert (sat["a"], sat["spare-1"]) == ("bo", "dee")
    with pytest.raises(errors.Gone):
        await objects.get(world.services, ANA, SESSION, mine.name, "default")
    with pytest.raises(errors.Invalid, match="given to seat"):
        await hand_over(world.services, TEACHER, found["spare-1"].name, to="bo")


async def test_what_is_over_is_given_to_nobody(world: World) -> None:
    """A session that has ended stays in the record of whose it was."""
    await world.definition()
    made = await anas(world)
    await hand_over(world.services, ANA, "s1", to="bo")
    fresh = await seen(world, ANA)
    assert fresh is not None
    await world.status(made, phase=SessionPhase.COMPLETED, offer=fresh.status.offer)
    with pytest.raises(Refused) as refusal:
        await take(world.services, BO, "s1")
    assert refusal.value.reason == "SlotOver"
    with pytest.raises(Refused):
        await hand_over(world.services, ADMIN, "s1", to="cy")


@pytest.mark.parametrize("to", ["", " bo", "bo\n", "b\x07o"])
async def test_a_name_that_no_token_carries_is_refused(world: World, to: str) -> None:
    """Names are without control characters and spaces around them."""
    await world.definition()
    await anas(world)
    with pytest.raises(errors.Invalid, match="as their token does"):
        await hand_over(world.services, ANA, "s1", to=to)


async def test_both_are_told_and_neither_hears_of_the_other(world: World) -> None:
    """Who gets it is told that it is theirs, who had it that it is gone; the one offered, of that."""
    await world.definition()
    first = await anas(world)
    second = await hand_over(world.services, ANA, "s1", to="bo")
    third = await take(world.services, BO, "s1")
    said = [(str(each.type), each.data.get("recipient", {}).get("owner"), each.data.get("subject", ""))
            for old, new in ((first, second), (second, third)) for each in changes(old, new)]  # fmt: skip
    assert [(kind, whom) for kind, whom, _ in said] == [
        ("session.offered", None), ("notice.offered", "bo"),
        ("session.handed_over", None), ("notice.given", "bo"), ("notice.given_away", "ana"),
    ]  # fmt: skip
    assert "labfleet take s1" in said[1][2]
    events = await objects.events(world.services, BO, SESSION, "s1", "default")
    assert [each.reason for each in events] == ["HandedOver"]
    assert all(b"ana@x.org" not in each.doc for each in events)


async def test_two_who_take_at_once_are_one(world: World) -> None:
    """An offer that is changed as it is taken goes to whom it was made last."""
    await world.definition()
    await anas(world)
    await hand_over(world.services, ANA, "s1", to="bo")
    await hand_over(world.services, ANA, "s1", to="cy")
    with pytest.raises(errors.Gone):
        await take(world.services, BO, "s1")
    assert (await take(world.services, CY, "s1")).spec.owner == "cy"
