"""The labs of a worker, by REST: who is told of which, and how much."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_caller import Api
from fleet_world import MACHINE, START, who

from labfleet.resources.hosted_labs import HostedLab, IgnoredLab
from labfleet.resources.meta import Effect
from labfleet.resources.session import LabStatus, SessionPhase
from labfleet.resources.telemetry import Sample
from labfleet.resources.worker import CmlStatus, StrayLab, StrayLabs, Worker, WorkerPhase
from labfleet.service.kinds.admitted import with_spec

PATH = "/api/v1/workers/w1/labs"
SEEN = START + timedelta(minutes=3)


def hosted(lab: str, **more: object) -> HostedLab:
    return HostedLab(id=lab, state="STARTED", nodes=2, running=1, since=START, **more)  # type: ignore[arg-type]


async def labs(api: Api) -> Worker:
    """Two people's sessions, a stranger's lab, and one that is being removed."""
    world = api.world
    await world.definition("two")
    worker = await world.make("Worker", "w1", {"machine": MACHINE})
    effect = Effect(
        id="e1", kind="remove_lab", begun=START, expires=START,
        parameters={"lab": "lab-old", "uid": "u"},
    )  # fmt: skip
    listed = (
        hosted("lab-kim"), hosted("lab-lee"), hosted("lab-old"),
        hosted("lab-own", title="thesis", owner="prof"),
    )  # fmt: skip
    await world.status(
        worker, phase=WorkerPhase.ACTIVE, cml=CmlStatus(labs=6), hosted_labs=listed, effect=effect,
        stray_labs=StrayLabs(labs=(StrayLab(id="lab-old", uid="u", since=START),), count=1),
    )  # fmt: skip
    for name in ("kim", "lee"):
        session = await world.session(f"of-{name}", who("user", name))
        lab = LabStatus(title=f"t-{name}", marker="m", id=f"lab-{name}", state="STARTED")
        await world.status(session, phase=SessionPhase.RUNNING, worker="w1", lab=lab)
    for at, count in ((SEEN, 6), (SEEN + timedelta(minutes=1), None)):
        world.services.samples.put(
            Sample(worker="w1", at=at, boot="b", labs_count=count), change_percent=5.0
        )  # fmt: skip
    await world.services.fresh()
    stored = await world.services.objects.get(Worker, "w1", "default")
    assert stored is not None
    return stored


@pytest.mark.asyncio
async def test_operators_see_every_lab_and_since_when_that_is_known(api: Api) -> None:
    """Ours by their sessions, others' by CML's names; a look that failed is not the age."""
    assert (await api.call("GET", PATH)).status == 404
    await labs(api)
    found = (await api.call("GET", PATH, role="operator")).json
    told = [(each["id"], each["whose"], each["owner"], each["title"]) for each in found["labs"]]
    assert told == [
        ("lab-kim", "session", "kim", "t-kim"), ("lab-lee", "session", "lee", "t-lee"),
        ("lab-old", "being-removed", "", ""), ("lab-own", "nobody", "prof", "thesis"),
    ]  # fmt: skip
    assert (found["count"], found["more"]) == (6, 2)
    assert found["seen"].startswith(SEEN.isoformat()[:19])


@pytest.mark.asyncio
async def test_people_see_the_labs_of_their_own_sessions_alone(api: Api) -> None:
    """Neither others' labs nor how many there are; elsewhere there is no such worker for them."""
    await labs(api)
    found = (await api.call("GET", PATH, role="user", owner="kim")).json
    assert [each["id"] for each in found["labs"]] == ["lab-kim"]
    assert (found["count"], found["more"]) == (None, 0)
    refused = await api.call("GET", PATH, role="user", owner="eve")
    missing = await api.call("GET", "/api/v1/workers/w9/labs", role="user", owner="eve")
    assert (refused.status, missing.status) == (404, 404)


@pytest.mark.asyncio
async def test_programs_are_not_told_titles_and_owners_of_other_peoples_labs(api: Api) -> None:
    """Neither by the list of labs nor by the worker's own record."""
    await labs(api)
    found = await api.call("GET", PATH, role="controller")
    worker = await api.call("GET", "/api/v1/workers/w1", role="controller")
    listed = await api.call("GET", "/api/v1/workers", role="controller")
    for reply in (found, worker, listed):
        assert reply.status == 200
        assert b"thesis" not in reply.raw
        assert b"prof" not in reply.raw
    assert b"thesis" in (await api.call("GET", "/api/v1/workers/w1", role="operator")).raw
    assert (await api.call("GET", PATH, role="runner")).status == 403


@pytest.mark.asyncio
async def test_a_lab_is_ignored_with_a_reason_and_heeded_again(api: Api) -> None:
    """Once is enough, what is being removed is refused, and people may not say it."""
    await labs(api)
    path = f"{PATH}/lab-own/ignore"
    assert (await api.call("POST", path, {"reason": "x"}, role="user", owner="kim")).status == 403
    for bad in ({}, {"reason": ""}, {"reason": " "}, {"reason": "a\nb"}, {"reason": "x" * 201}):
        assert (await api.call("POST", path, bad)).status == 400
    for said in ("a thesis", "again"):
        found = (await api.call("POST", path, {"reason": said}, role="operator", owner="op")).json
    [row] = [each for each in found["labs"] if each["id"] == "lab-own"]
    assert (row["whose"], row["why"]) == ("ignored", "ignored by op: a thesis")
    busy = await api.call("POST", f"{PATH}/lab-old/ignore", {"reason": "x"})
    assert (busy.status, busy.json["reason"]) == (409, "BeingRemoved")
    ours = await api.call("POST", f"{PATH}/lab-kim/ignore", {"reason": "x"})
    assert (ours.status, ours.json["reason"]) == (409, "LabOfSession")
    assert (await api.call("POST", f"{PATH}/nothing/ignore", {"reason": "x"})).status == 404
    for _ in range(2):
        found = (await api.call("DELETE", path)).json
        assert {each["whose"] for each in found["labs"] if each["id"] == "lab-own"} == {"nobody"}


@pytest.mark.asyncio
async def test_words_about_labs_that_are_gone_make_room_for_further_ones(api: Api) -> None:
    """The record is bounded: full of labs that are there it refuses, else the gone ones leave it."""
    worker = await labs(api)
    words = tuple(
        IgnoredLab(id=f"gone-{number}", by="op", at=START, reason="x") for number in range(50)
    )
    cause = api.world.services.cause(who(), "Written")
    await api.world.services.objects.save(with_spec(worker, ignored_labs=words), cause=cause)
    await api.world.services.fresh()
    reply = await api.call("POST", f"{PATH}/lab-own/ignore", {"reason": "a thesis"})
    assert reply.status == 200
    stored = await api.world.services.objects.get(Worker, "w1", "default")
    assert stored is not None
    assert [each.id for each in stored.spec.ignored_labs] == ["lab-own"]


@pytest.mark.asyncio
async def test_operators_order_a_lab_of_nobody_and_people_do_not(api: Api) -> None:
    """One at a time for a worker; a session's lab and one that is being removed are refused."""
    await labs(api)
    path = f"{PATH}/lab-own/order"
    stop = {"order": "stop"}
    assert (await api.call("POST", path, stop, role="user", owner="kim")).status == 403
    assert (await api.call("POST", path, {"order": "wipe"})).json["reason"] == "ConfirmWipe"
    given = await api.call("POST", path, stop, role="operator", owner="op")
    told = given.json["spec"]["labOrder"]
    assert (given.status, told["lab"], told["by"]) == (202, "lab-own", "op")
    assert (await api.call("POST", path, stop)).json["spec"]["labOrder"] == told
    busy = await api.call("POST", path, {"order": "start"})
    assert (busy.status, busy.json["reason"]) == (409, "OrderOpen")
    for lab, reason in (("lab-kim", "LabOfSession"), ("lab-old", "BeingRemoved")):
        assert (await api.call("POST", f"{PATH}/{lab}/order", stop)).json["reason"] == reason
    by_hand = await api.call(
        "PATCH", "/api/v1/workers/w1", {"spec": {"labOrder": {**told, "id": "x"}}}
    )
    assert by_hand.status == 400
    word = {"id": "lab-own", "by": "eve", "at": "2026-11-27T09:00:00Z", "reason": "x"}
    ignored = await api.call("PATCH", "/api/v1/workers/w1", {"spec": {"ignoredLabs": [word]}})
    assert ignored.status == 400
