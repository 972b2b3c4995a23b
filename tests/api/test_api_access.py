"""Where a lab is reached, on every surface of the API: one view, limited by role, never stored."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE, START, who

from labfleet.resources.amounts import Shortage
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Key
from labfleet.resources.session import LabStatus, PortAllocation, Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.access import Role

HOST = "198.51.100.7"
KIM = {"role": "user", "owner": "kim"}
LAB = LabStatus(title="t", marker="m", id="lab-1", state="STARTED")
PORT = PortAllocation(name="r1_serial", node="r1", kind="serial", number=2001)


async def running(api: Api, name: str = "s1", **spec: Any) -> Session:
    """A session of kim's that runs on the worker w1."""
    world = api.world
    if await world.services.objects.get(Session, "other", "default") is None:
        await world.definition("two", **spec)
        made = await world.make("Worker", "w1", {"machine": MACHINE})
        shown = MachineStatus(id="i-1", state="running", public_address=HOST)
        await world.status(made, phase=WorkerPhase.ACTIVE, machine=shown)
    session = await world.session(name, who("user", "kim"))
    found: Session = await world.status(
        session,
        phase=SessionPhase.RUNNING,
        worker="w1",
        lab=LAB,
        ports=(PORT,),
        ready_at=START,
        end=START + timedelta(hours=1),
    )
    await world.services.fresh()
    return found


async def moved(api: Api, address: str | None, state: str = "running") -> None:
    """Give the machine of w1 another address."""
    worker = await api.world.services.objects.get(Worker, "w1", "default")
    assert worker is not None
    shown = msgspec.structs.replace(worker.status.machine, public_address=address, state=state)
    await api.world.status(worker, machine=shown)
    await api.world.services.fresh()


async def sees(api: Api, setting: str) -> None:
    """Set how much callers of role user see."""
    body = {"spec": {"access": {"userSees": setting}}}
    done = await api.call("PATCH", "/api/v1/settings/fleet", body)
    assert done.status == 200, done.raw
    await api.world.services.fresh()


@pytest.mark.asyncio
@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN, Role.CONTROLLER])
async def test_who_runs_the_fleet_sees_everything(api: Api, role: Role) -> None:
    """Host, CML, lab and ports, whatever users may see."""
    await running(api)
    await sees(api, "nothing")
    found = (await api.call("GET", "/api/v1/sessions/s1", role=role)).json["status"]["access"]
    assert found["host"] == HOST
    assert found["cmlUrl"] == f"https://{HOST}"
    assert found["labUrl"] == f"https://{HOST}/lab/lab-1"
    assert found["ports"] == [
        {"name": "r1_serial", "node": "r1", "kind": "serial", "url": f"telnet://{HOST}:2001"}
    ]


@pytest.mark.asyncio
async def test_a_user_sees_what_the_policy_says(api: Api) -> None:
    """Ports by default, everything or nothing when the setting says so."""
    await running(api, labUser={"name": "student", "ask": "the course's page"})
    told = {}
    for setting in ("", "all", "nothing"):
        if setting:
            await sees(api, setting)
        reply = await api.call("GET", "/api/v1/sessions/s1", **KIM)
        told[setting] = reply.json["status"]["access"]
    assert told[""]["ports"][0]["url"] == f"telnet://{HOST}:2001"
    assert (told[""]["cmlUrl"], told[""]["labUrl"], told[""]["labUser"]) == (None, None, None)
    assert told["all"]["labUrl"] == f"https://{HOST}/lab/lab-1"
    assert told["all"]["labUser"] == {"name": "student", "ask": "the course's page"}
    assert HOST not in str(told["nothing"])
    assert "access.userSees" in told["nothing"]["message"]


@pytest.mark.asyncio
@pytest.mark.parametrize("setting", ["nothing", "ports"])
async def test_no_reply_shows_a_user_more_than_another(api: Api, setting: str) -> None:
    """Read, list, extend, cancel, and the stream's snapshot and changes: all show one view."""
    await running(api)
    await sees(api, setting)
    path, seen = "/api/v1/sessions", []
    seen.append((await api.call("GET", f"{path}/s1", **KIM)).json)
    seen.append((await api.call("GET", path, **KIM)).json["items"][0])
    later = {"bySeconds": 60}
    seen.append((await api.call("POST", f"{path}/s1/extend", later, **KIM)).json)
    async with api.stream("/api/v1/events?kinds=sessions", **KIM) as events:
        seen.append((await events.next())[2]["items"][0])
        seen.append((await api.call("POST", f"{path}/s1/cancel", **KIM)).json)
        seen.append((await events.next())[2]["object"])
    shown = [each["status"]["access"] for each in seen]
    assert shown == [shown[0]] * len(shown)
    assert len(shown) == 6
    assert "labUrl" not in str({key for key, value in shown[0].items() if value})
    assert ("telnet" in str(shown[0])) == (setting == "ports")


@pytest.mark.asyncio
@pytest.mark.parametrize("setting", ["nothing", "ports", "all"])
async def test_streams_side_by_side_show_each_caller_its_own_view(api: Api, setting: str) -> None:
    """A change is encoded once for all who see the same, never for those who see less."""
    await running(api)
    await sees(api, setting)
    path, seen = "/api/v1/events?kinds=sessions", []
    async with api.stream(path) as staff, api.stream(path, **KIM) as kim:
        for each in (staff, kim):
            await each.next()
        for caller in (KIM, {}):
            await api.call("POST", "/api/v1/sessions/s1/extend", {"bySeconds": 60}, **caller)
            for each in (staff, kim):
                seen.append((await each.next())[2]["object"]["status"]["access"])
    theirs = (await api.call("GET", "/api/v1/sessions/s1")).json["status"]["access"]
    hers = (await api.call("GET", "/api/v1/sessions/s1", **KIM)).json["status"]["access"]
    assert seen == [theirs, hers, theirs, hers]
    assert (theirs == hers) == (setting == "all")


@pytest.mark.asyncio
async def test_no_surface_tells_a_user_how_workers_were_ranked(api: Api) -> None:
    """Read, list, explain, events and stream leave scores and prices out; staff reads them all."""
    session = await running(api)
    lack = Shortage(dimension="cpu_milli", wanted=4000, free=1000)
    looked = (
        Verdict(name="w1", fits=True, score=0.625),
        Verdict(name="w2", fits=False, reasons=("NoRoom",), shortages=(lack,)),
    )
    decision = Decision(
        outcome="assigned", reason="Fits", message="it fits w1", at=START, chosen="w1",
        candidates=looked, evaluated=2, strategy="PACKED", parts={"dollarsAnHour": 4.36},
        latency_ms=0.875,
    )  # fmt: skip
    await api.world.status(session, decision=decision)
    await api.world.services.fresh()
    path, told = "/api/v1/sessions", dict[str, list[Any]]()
    for name, caller in (("kim", KIM), ("staff", {})):
        seen = [(await api.call("GET", f"{path}/s1{each}", **caller)).json for each in SURFACES]
        async with api.stream("/api/v1/events?kinds=sessions", **caller) as events:
            seen += [
                next(
                    each
                    for each in (await events.next())[2]["items"]
                    if each["metadata"]["name"] == "s1"
                ),
                (await api.call("POST", f"{path}/s1/extend", {"bySeconds": 60}, **caller)).json,
                (await events.next())[2]["object"],
            ]
        told[name] = seen
    for hers, theirs in zip(told["kim"], told["staff"], strict=True):
        assert [word for word in RANKED if word in str(hers)] == []
        assert [word for word in RANKED if word not in str(theirs)] == []
        assert "w2" in str(hers)
        assert "NoRoom" in str(hers)


RANKED = ("0.625", "PACKED", "dollarsAnHour", "0.875")
SURFACES = ("", "/explain", "/events")


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["dry-run", "apply"])
async def test_what_apply_answers_is_what_a_read_shows(api: Api, mode: str) -> None:
    """The object as it is and as it was, in an answer that holds many."""
    await running(api)
    labelled = {"name": "s1", "labels": {"a": "b"}}
    manifest = {"kind": "Session", "metadata": labelled, "spec": {"definition": "two"}}
    done = await api.call("POST", f"/api/v1/apply?mode={mode}", {"items": [manifest]})
    item = done.json["items"][0]
    assert item["result"] == "configured"
    for each in (item["object"], item["before"]) if mode == "dry-run" else (item["object"],):
        assert each["status"]["access"]["labUrl"] == f"https://{HOST}/lab/lab-1"


@pytest.mark.asyncio
async def test_what_is_shown_is_not_stored(api: Api) -> None:
    """Neither the object nor its events keep an address: there is none to go stale."""
    await running(api)
    await api.call("POST", "/api/v1/sessions/s1/extend", {"bySeconds": 60})
    row = await api.world.store.get(Key("Session", "default", "s1"))
    assert row is not None
    assert HOST.encode() not in row.doc
    events = await api.world.store.events_of(Key("Session", "default", "s1"))
    assert not any(HOST.encode() in each.doc for each in events)


@pytest.mark.asyncio
async def test_a_printed_session_applies_again(api: Api) -> None:
    """What is derived comes back in a body and changes nothing."""
    await running(api)
    before = (await api.call("GET", "/api/v1/sessions/s1")).json
    assert before["status"]["access"]["host"] == HOST
    done = await api.call("PUT", "/api/v1/sessions/s1", before)
    assert done.status == 200, done.raw
    assert done.json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.asyncio
async def test_another_address_after_a_stop_replaces_the_old_one_everywhere(api: Api) -> None:
    """No record of the session changes; readers and followers see where it is now."""
    await running(api)
    async with api.stream("/api/v1/events?kinds=sessions", **KIM) as events:
        first = (await events.next())[2]["items"][0]
        assert first["status"]["access"]["host"] == HOST
        for address, state in ((None, "stopped"), ("203.0.113.9", "running")):
            await moved(api, address, state)
            name, place, data = await events.next()
            read = (await api.call("GET", "/api/v1/sessions/s1", **KIM)).json
            assert (name, place) == ("MODIFIED", "")
            assert data["object"] == read
            assert read["status"]["access"]["host"] == address
            assert HOST not in str(read["status"]["access"])
    assert read["status"]["access"]["ports"][0]["url"] == "telnet://203.0.113.9:2001"


@pytest.mark.asyncio
async def test_who_was_away_hears_of_a_move_when_it_resumes(api: Api) -> None:
    """The place of a client is in the log, where no change of the session stands."""
    await running(api)
    async with api.stream("/api/v1/events?kinds=sessions", **KIM) as events:
        place = (await events.next())[1]
    await moved(api, "203.0.113.9")
    async with api.stream("/api/v1/events?kinds=sessions", Last_Event_ID=place, **KIM) as events:
        _, _, data = await events.next()
        assert data["object"]["status"]["access"]["host"] == "203.0.113.9"


@pytest.mark.asyncio
async def test_a_worker_that_only_changes_its_health_sends_no_session(api: Api) -> None:
    """Workers are measured each half minute: their sessions are not sent again for it."""
    await running(api)
    async with api.stream("/api/v1/events?kinds=sessions", **KIM) as events:
        await events.next()
        worker = await api.world.services.objects.get(Worker, "w1", "default")
        await api.world.status(worker, message="hosts 1 session")
        await api.world.services.fresh()
        for _ in range(50):
            await asyncio.sleep(0)
        await api.call("POST", "/api/v1/sessions/s1/cancel", {"reason": "done"}, **KIM)
        _, place, data = await events.next()
        assert place, "an event of the log, not one made for a move"
        assert data["object"]["spec"]["cancel"]["reason"] == "done"


@pytest.mark.asyncio
async def test_a_stricter_policy_reaches_those_who_follow(api: Api) -> None:
    """What a stream has shown is taken back by the next frame, without a change of the session."""
    await running(api)
    async with api.stream("/api/v1/events?kinds=sessions", **KIM) as events:
        await events.next()
        await sees(api, "nothing")
        _, _, data = await events.next()
        assert data["object"]["status"]["access"]["host"] is None


@pytest.mark.asyncio
async def test_nothing_is_sorted_by_what_is_derived(api: Api) -> None:
    """A sort by it would compare nothing with nothing, and look like an answer."""
    reply = await api.call("GET", "/api/v1/sessions?sort=status.access.host")
    assert reply.status == 400
    assert "worked out" in reply.json["detail"]
