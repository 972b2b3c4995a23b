"""Applying many objects in one request: judged whole, then written one by one, or rehearsed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from api_caller import Api, Reply
from fleet_world import MACHINE, TOPOLOGY

from labfleet.service.core import intake


def lab(name: str = "lab", **spec: Any) -> dict[str, Any]:
    """A definition."""
    return {
        "kind": "Definition", "metadata": {"name": name}, "spec": {"topology": TOPOLOGY, **spec},
    }  # fmt: skip


def session(name: str = "s", **spec: Any) -> dict[str, Any]:
    """A session of that definition."""
    return {"kind": "Session", "metadata": {"name": name}, "spec": {"definition": "lab", **spec}}


async def applied(api: Api, *items: Any, mode: str = "apply", **more: Any) -> Reply:
    """Send the objects."""
    return await api.call("POST", f"/api/v1/apply?mode={mode}", {"items": list(items)}, **more)


def results(reply: Reply) -> list[str]:
    """What became of each object."""
    return [each["result"] for each in reply.json["items"]]


@pytest.mark.asyncio
async def test_absent_objects_are_created_and_present_ones_merged(api: Api):
    """What a manifest leaves out stays as it is, and the same again changes nothing."""
    made = await applied(api, lab(), session(priority=3))
    assert results(made) == ["created", "created"]
    again = await applied(api, lab(), session(), session("t"))
    assert results(again) == ["unchanged", "unchanged", "created"]
    changed = await applied(api, {**session(), "metadata": {"name": "s", "labels": {"a": "b"}}})
    assert results(changed) == ["configured"]
    (item,) = changed.json["items"]
    assert item["object"]["spec"]["priority"] == 3
    assert item["object"]["metadata"]["labels"] == {"a": "b"}
    events = (await api.call("GET", "/api/v1/sessions/s/events")).json["items"]
    assert [each["type"] for each in events] == ["MODIFIED", "ADDED"]


@pytest.mark.asyncio
async def test_a_wrong_shape_anywhere_writes_nothing(api: Api):
    """The whole request is refused, and every mistake of every object is named with its place."""
    wrong = await applied(
        api, lab(), session(prio=1), {"kind": "Sesion"}, session("Ü"), lab("l", topology=7)
    )
    assert (wrong.status, wrong.json["reason"]) == (400, "BadManifest")
    places = {each["where"]: each["what"] for each in wrong.json["problems"]}
    assert set(places) == {
        "items[1].spec.prio", "items[2].kind", "items[3].metadata.name", "items[4].spec.topology",
    }  # fmt: skip
    assert "did you mean priority?" in places["items[1].spec.prio"]
    assert (await api.call("GET", "/api/v1/definitions")).json["items"] == []
    twice = await applied(api, lab(), lab())
    assert "given twice" in twice.json["detail"]


@pytest.mark.asyncio
async def test_what_admission_refuses_is_told_beside_what_it_accepts(api: Api):
    """One refusal does not stop the others; its problem is that of a request for it alone."""
    mixed = await applied(api, lab(), session("a", definition="lob"), session("b"))
    assert results(mixed) == ["created", "refused", "created"]
    problem = mixed.json["items"][1]["problem"]
    alone = await api.call("POST", "/api/v1/sessions", session("a", definition="lob"))
    for field in ("status", "reason", "problems", "detail"):
        assert problem[field] == alone.json[field]


@pytest.mark.asyncio
async def test_a_dry_run_says_what_apply_says_and_writes_nothing(api: Api):
    """Also of objects that need one another, and of what admission refuses."""
    items = (lab(), session(), session("late", slot={"start": "2001-01-01T00:00:00Z"}))
    said = await applied(api, *items, mode="dry-run")
    assert results(said) == ["created", "created", "refused"]
    for plural in ("definitions", "sessions"):
        assert (await api.call("GET", f"/api/v1/{plural}")).json["items"] == []
    done = await applied(api, *items)
    assert results(done) == results(said)
    for mine, real in zip(said.json["items"], done.json["items"], strict=True):
        assert (mine["problem"] or {}).get("detail") == (real["problem"] or {}).get("detail")
        assert (mine["object"] or {}).get("spec") == (real["object"] or {}).get("spec")
    version = done.json["items"][1]["object"]["metadata"]["resourceVersion"]
    later = await applied(api, session(priority=9), mode="dry-run")
    (item,) = later.json["items"]
    assert (item["result"], item["object"]["metadata"]["resourceVersion"]) == (
        "configured",
        version,
    )
    stored = (await api.call("GET", "/api/v1/sessions/s")).json
    assert (stored["metadata"]["resourceVersion"], stored["spec"]["priority"]) == (version, 0)


@pytest.mark.asyncio
async def test_the_servers_defaults_complete_an_object(api: Api):
    """What the environment fills in over REST, it fills in here; a check says so before."""
    template = {
        "kind": "Template", "metadata": {"name": "metal"},
        "spec": {"machine": {"provider": MACHINE["provider"], "cml": {}}},
    }  # fmt: skip
    refused = await applied(api, template, mode="check")
    assert refused.json["problems"][0]["where"] == "items[0].spec.machine.cml"
    api.world.services.defaults["Template"] = {  # type: ignore[index]  # a dict in every process
        "machine": {"cml": {"adminPassword": {"env": "CML_ADMIN_PASSWORD"}}}
    }
    assert results(await applied(api, template, mode="check")) == ["valid"]
    made = await applied(api, template)
    machine = made.json["items"][0]["object"]["spec"]["machine"]
    assert machine["cml"]["adminPassword"]["env"] == "CML_ADMIN_PASSWORD"


@pytest.mark.asyncio
async def test_a_repeated_request_creates_nothing_twice(api: Api):
    """Neither what has a name nor, under one idempotency key, what gets one from the server."""
    await applied(api, lab())
    body = [session(), {"kind": "Session", "metadata": {}, "spec": {"definition": "lab"}}]
    first = await applied(api, *body, Idempotency_Key="k-1")
    second = await applied(api, *body, Idempotency_Key="k-1")
    uids = [
        [each["object"]["metadata"]["uid"] for each in one.json["items"]] for one in (first, second)
    ]
    assert uids[0] == uids[1]
    assert (await api.call("GET", "/api/v1/sessions")).json["total"] == 2


@pytest.mark.asyncio
async def test_each_object_is_judged_by_the_callers_rights(api: Api):
    """A user makes its own sessions, sees no others', and writes as often as one may."""
    await applied(api, lab(), session("hers"))
    mine = await applied(
        api, session("mine"), lab("other"), session("hers"), role="user", owner="ada2"
    )
    assert results(mine) == ["created", "refused", "refused"]
    reasons = [each["problem"] and each["problem"]["reason"] for each in mine.json["items"]]
    assert reasons[2] == "AlreadyExists"
    assert mine.json["items"][2]["before"] is None
    settings = {
        "kind": "Settings",
        "metadata": {"name": "fleet"},
        "spec": {"limits": {"writesPerMinute": 12}},
    }
    assert results(await applied(api, settings)) == ["created"]
    many = await applied(api, *(session(f"m-{n}") for n in range(4)), role="user", owner="eve")
    assert sorted(results(many)) == ["created", "created", "refused", "refused"]
    assert {each["problem"]["status"] for each in many.json["items"] if each["problem"]} == {429}


@pytest.mark.asyncio
async def test_a_quota_holds_within_one_request(api: Api):
    """Forty sessions at once make as many as one may have, and a dry run says the same."""
    await applied(api, lab())
    limits = {"openSessions": 5, "writesPerMinute": 1000}
    settings = {"kind": "Settings", "metadata": {"name": "fleet"}, "spec": {"limits": limits}}
    assert results(await applied(api, settings)) == ["created"]
    items = [session(f"m-{number}") for number in range(40)]
    expected = ["created"] * 5 + ["refused"] * 35
    dry = await applied(api, *items, mode="dry-run", role="user", owner="eve")
    assert results(dry) == expected
    done = await applied(api, *items, role="user", owner="eve")
    assert results(done) == expected
    assert done.json["items"][5]["problem"]["reason"] == "TooManySessions"


@pytest.mark.asyncio
async def test_rights_are_judged_before_the_shape(api: Api):
    """What a role may not write is refused by its role, and nothing is told of what it says."""
    found = await applied(api, lab(topology=7), session(), role="user", owner="eve")
    assert results(found) == ["refused", "refused"]
    assert found.json["items"][0]["problem"]["reason"] == "Forbidden"


@pytest.mark.asyncio
async def test_what_was_printed_can_be_applied_again(api: Api):
    """An object as it was read is unchanged, and under a new name another one."""
    await applied(api, lab(), session())
    read = (await api.call("GET", "/api/v1/sessions/s")).json
    assert results(await applied(api, read)) == ["unchanged"]
    other = {**read, "metadata": {**read["metadata"], "name": "copy"}}
    made = await applied(api, other)
    assert results(made) == ["created"]
    assert made.json["items"][0]["object"]["metadata"]["uid"] != read["metadata"]["uid"]


@pytest.mark.asyncio
async def test_what_was_checked_before_is_judged_one_by_one(api: Api):
    """A client that sends portions has all of them judged first; then a mistake stands alone."""
    await applied(api, lab())
    items = [session("a"), session("b", prio=1), session("c")]
    assert (await applied(api, *items, mode="check")).status == 400
    done = await applied(api, *items, mode="apply&checked=true")
    assert results(done) == ["created", "refused", "created"]
    assert done.json["items"][1]["problem"]["problems"][0]["where"] == "spec.prio"


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["check", "dry-run"])
async def test_judging_many_objects_lets_others_in(api: Api, mode: str):
    """Five hundred objects in one request: the loop serves others after each, in every mode."""
    await api.world.definition("lab")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    try:
        await asyncio.sleep(0)
        before = turns
        reply = await applied(api, *(session(f"s{n}") for n in range(500)), mode=mode)
    finally:
        beside.cancel()
    assert reply.status == 200
    assert turns - before >= 500


@pytest.mark.asyncio
async def test_as_many_mistakes_are_looked_for_as_a_reply_tells(api: Api):
    """Each unknown key costs a search for the nearest one: a request with thousands finds twenty."""
    asked = []
    hint = intake.hint
    intake.hint = lambda *given: asked.append(given) or hint(*given)
    try:
        wrong = {f"{n:064}": 1 for n in range(20)}
        reply = await applied(api, *(session(f"s{n}", **wrong) for n in range(300)), mode="check")
    finally:
        intake.hint = hint
    assert (reply.status, len(reply.json["problems"])) == (400, intake.PROBLEM_LIMIT)
    assert len(asked) <= 2 * intake.PROBLEM_LIMIT


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["check", "dry-run"])
async def test_what_is_only_judged_counts_too(api: Api, mode: str):
    """A dry run costs as much as a write: a user who asks for hundreds has written enough soon."""
    await api.world.definition("lab")
    many = [session(f"s{n}") for n in range(400)]
    statuses = [
        (await applied(api, *many, mode=mode, role="user", owner="eve")).status for _ in range(4)
    ]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    assert (await applied(api, *many, mode=mode, role="operator")).status == 200
