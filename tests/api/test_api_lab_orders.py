"""Orders of labs, by REST: who may give which, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from api_caller import Api, Reply
from fleet_world import who

from labfleet.resources.lab_orders import LabOrderProgress
from labfleet.resources.session import LabStatus, Session, SessionPhase, SessionSeat
from labfleet.service.kinds import session_lab
from labfleet.service.kinds.admitted import with_spec

PATH = "/api/v1/sessions/of-kim/lab"


async def runs(api: Api, **definition: Any) -> Session:
    """Kim's session, which runs."""
    await api.world.definition("two", **definition)
    session = await api.world.session("of-kim", who("user", "kim"))
    lab = LabStatus(title="t", marker="m", id="lab-kim", state="STARTED")
    stored: Session = await api.world.status(session, phase=SessionPhase.RUNNING, lab=lab)
    await api.world.services.fresh()
    return stored


async def order(api: Api, verb: str, owner: str = "kim", **more: Any) -> Reply:
    role = "operator" if owner == "op" else "user"
    return await api.call("POST", PATH, {"order": verb, **more}, role=role, owner=owner)


@pytest.mark.asyncio
async def test_people_order_power_of_their_own_lab_and_of_no_other(api: Api) -> None:
    """A start, stop or restart is stored with who ordered it; for others there is no such session."""
    await runs(api)
    assert (await order(api, "stop", "eve")).status == 404
    given = await order(api, "restart", node="r1")
    assert given.status == 202
    told = given.json["spec"]["labOrder"]
    assert (told["verb"], told["node"], told["by"]) == ("restart", "r1", "kim")
    assert told["until"] > told["at"]
    for role in ("runner", "controller"):
        assert (await api.call("POST", PATH, {"order": "stop"}, role=role)).status == 403


@pytest.mark.asyncio
async def test_a_wipe_says_what_it_loses_and_is_not_everybodys(api: Api) -> None:
    """Not confirmed it is refused; by default only operators may, and where it says so the owner."""
    session = await runs(api)
    unsaid = await order(api, "wipe", "op")
    assert (unsaid.status, unsaid.json["reason"]) == (400, "ConfirmWipe")
    assert "loses" in unsaid.json["detail"]
    own = await order(api, "wipe", confirm=True)
    assert (own.status, own.json["reason"]) == (403, "NotControlled")
    assert (await order(api, "wipe", "op", confirm=True)).status == 202
    known = (await api.world.services.objects.get(Session, "of-kim", "default")).spec.lab_order
    over = LabOrderProgress(id=known.id, state="done", at=known.at)
    await api.world.status(session, lab_order=over)
    await api.call(
        "PATCH", "/api/v1/definitions/two", {"spec": {"labControl": "wipe"}},
    )  # fmt: skip
    await api.world.services.fresh()
    assert (await order(api, "wipe", confirm=True)).status == 202


@pytest.mark.asyncio
async def test_an_exam_may_let_people_order_nothing(api: Api) -> None:
    """Nor whoever booked the seat; operators may."""
    session = await runs(api, labControl="none")
    seat = SessionSeat(group="g", uid="u", seat="1", booked_by="prof")
    await api.world.status(session, seat=seat)
    await api.world.services.fresh()
    for person in ("kim", "prof"):
        refused = await order(api, "stop", person)
        assert (refused.status, refused.json["reason"]) == (403, "NotControlled")
    assert (await order(api, "stop", "op")).status == 202


@pytest.mark.asyncio
async def test_one_order_at_a_time_and_only_of_a_lab_that_runs(api: Api) -> None:
    """The same is the same, another waits, and neither is of a session that has no lab."""
    session = await runs(api)
    first = (await order(api, "stop")).json["spec"]["labOrder"]
    assert (await order(api, "stop", "op")).json["spec"]["labOrder"] == first
    busy = await order(api, "stop", node="r1")
    assert (busy.status, busy.json["reason"]) == (409, "OrderOpen")
    for bad in ({"order": "burn"}, {"order": "stop", "node": "a\nb"}, {"node": "r1"}, {}):
        assert (await api.call("POST", PATH, bad)).status == 400
    await api.world.status(session, phase=SessionPhase.READY)
    early = await order(api, "start", "op")
    assert (early.status, early.json["reason"]) == (409, "NotRunning")
    other = await api.call("POST", f"{PATH}?uid=another", {"order": "stop"})
    assert other.status == 404


@pytest.mark.asyncio
async def test_an_order_is_given_by_its_verb_alone(api: Api) -> None:
    """Neither with a new session nor by a change: it would name somebody else."""
    await runs(api)
    made = {
        "id": "x",
        "verb": "wipe",
        "at": "2026-11-27T09:00:00Z",
        "until": "2026-11-27T10:00:00Z",
    }
    spec = {"definition": "two", "labOrder": made}
    new = await api.call("POST", "/api/v1/sessions", {"metadata": {"name": "s2"}, "spec": spec})
    changed = await api.call(
        "PATCH", "/api/v1/sessions/of-kim", {"spec": {"labOrder": made}},
    )  # fmt: skip
    assert (new.status, changed.status) == (400, 400)
    stored = await api.world.services.objects.get(Session, "of-kim", "default")
    assert stored is not None
    assert stored.spec.lab_order is None


@pytest.mark.asyncio
async def test_people_may_give_so_many_orders_and_operators_more(api: Api) -> None:
    """Each costs the server something, and a script may give them without an end."""
    session = await runs(api)
    await order(api, "stop")
    known = (await api.world.services.objects.get(Session, "of-kim", "default")).spec.lab_order
    last = msgspec.structs.replace(known, number=session_lab.ORDERS)
    cause = api.world.services.cause(who(), "Written")
    stored = await api.world.services.objects.get(Session, "of-kim", "default")
    await api.world.services.objects.save(with_spec(stored, lab_order=last), cause=cause)
    over = LabOrderProgress(id=known.id, state="done", at=known.at)
    await api.world.status(session, lab_order=over)
    refused = await order(api, "start")
    assert (refused.status, refused.json["reason"]) == (409, "TooManyOrders")
    given = await order(api, "start", "op")
    assert given.json["spec"]["labOrder"]["number"] == session_lab.ORDERS + 1
