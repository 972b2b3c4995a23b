"""What an attack on groups left: labels of the product, addresses of people, names that are taken."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from api_caller import Api
from fleet_world import ADMIN, START, who

from labfleet.interfaces import store as stores
from labfleet.kernel.clock import format_instant
from labfleet.resources.group import LABEL
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session
from labfleet.service.core.kind_table import TABLE
from labfleet.service.kinds import table

SOON = format_instant(START + timedelta(days=2))
SECRET = "secret.example.org"
GROUP = {"definition": "two", "slot": {"start": SOON},
         "seats": [{"name": "a", "person": "ana", "email": f"ana@{SECRET}"}]}  # fmt: skip
COURSE = {**GROUP, "slot": {"start": SOON[:16], "zone": "UTC"}, "repeat": "FREQ=WEEKLY;COUNT=2"}
SESSION = {"definition": "two", "studentEmail": f"stu@{SECRET}"}
WHOSE = (b"teacher", b"ana", b"b12", SECRET.encode())
HOOK = {"url": f"https://{SECRET}/hook", "types": ["notice.*"]}


def body(name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """Return an object as a client sends it."""
    return {"metadata": {"name": name, **meta}, "spec": spec}


@pytest.mark.asyncio
@pytest.mark.parametrize("row", [each for each in KINDS.values() if each.creatable],
                         ids=lambda row: row.name)  # fmt: skip
async def test_nobody_gives_an_object_a_label_of_the_product(api: Api, row: Any) -> None:
    """Of no kind, in no role, by no way of writing; and nothing is stored."""
    name = "fleet" if row.single else "x"
    labels = {LABEL: "exam"}
    spec: dict[str, Any] = {}
    item = {"kind": row.name, **body(name, spec, labels=labels)}
    # Settings are an admin's; another role is told that first.
    for role in ("admin",) if row.single else ("admin", "operator"):
        made = await api.call("POST", f"/api/v1/{row.plural}", body(name, spec, labels=labels),
                              role=role, owner="ola")  # fmt: skip
        assert made.status == 400, made.raw
        assert made.json["reason"] == "ReservedLabel"
        assert made.json["problems"][0]["where"] == f"metadata.labels.{LABEL}"
    for mode in ("check", "dry-run", "apply"):
        made = await api.call("POST", f"/api/v1/apply?mode={mode}", {"items": [item]})
        assert b"are set by Labfleet alone" in made.raw
    assert (await api.call("GET", f"/api/v1/{row.plural}/{name}")).status == 404


@pytest.mark.asyncio
async def test_a_strangers_session_is_never_reached_by_a_groups_label(api: Api) -> None:
    """Neither made with it nor given it later; the label of a seat stays whatever a change leaves out."""
    world = api.world
    await world.definition()
    await world.make("Group", "exam", {**GROUP, "size": 2}, who("user", "teacher"))
    await world.make("Session", "mine", SESSION, who("user", "eve"))
    await world.services.fresh()
    path = "/api/v1/sessions"
    spoof = {"metadata": {"labels": {LABEL: "exam"}}}
    for method, sent in (("PATCH", spoof), ("PUT", {**body("mine", SESSION), **spoof})):
        refused = await api.call(method, f"{path}/mine", sent)
        assert (refused.status, refused.json["reason"]) == (400, "ReservedLabel"), refused.raw
    name = world.services.cache.all(Session)
    seat = next(each.name for each in name if each.status.seat)
    for labels in ({LABEL: None}, {LABEL: "other"}, {"labfleet.dev/more": "1"}):
        refused = await api.call("PATCH", f"{path}/{seat}", {"metadata": {"labels": labels}})
        assert refused.json["reason"] == "ReservedLabel"
    same = {"metadata": {"labels": {LABEL: "exam", "room": "b12"}}}
    assert (await api.call("PATCH", f"{path}/{seat}", same)).status == 200
    shown = (await api.call("GET", f"{path}/{seat}")).json
    whole = {"metadata": {"labels": {"room": "b13"}}, "spec": shown["spec"]}
    kept = await api.call("PUT", f"{path}/{seat}", whole)
    assert kept.json["metadata"]["labels"] == {LABEL: "exam", "room": "b13"}
    found = await api.call("GET", f"{path}?labelSelector=labfleet.dev/group%3Dexam")
    assert len(found.json["items"]) == 2


@pytest.mark.asyncio
async def test_a_stored_object_with_such_a_label_is_still_changed(api: Api) -> None:
    """What an earlier release took stays as it is, and its manifest applies as before."""
    world = api.world
    await world.definition()
    made = await world.make("Session", "old", SESSION)
    labels = {LABEL: "exam", "room": "b12"}
    metadata = msgspec.structs.replace(made.metadata, labels=labels)
    cause = stores.Cause("earlier", world.clock.now())
    old = msgspec.structs.replace(made, metadata=metadata)
    await world.services.objects.save(old, cause=cause)
    await world.services.fresh()
    item = {"kind": "Session", **body("old", {**SESSION, "priority": 5}, labels=labels)}
    done = await api.call("POST", "/api/v1/apply", {"items": [item]})
    assert done.json["items"][0]["result"] == "configured"
    assert done.json["items"][0]["object"]["metadata"]["labels"] == labels


def _addresses(kind: type) -> bool:
    """Tell whether a record holds somebody's e-mail address at any depth."""
    seen, found = set[type](), [kind]
    while found:
        each = found.pop()
        if each in seen or not (isinstance(each, type) and issubclass(each, msgspec.Struct)):
            continue
        seen.add(each)
        if any("email" in field.name for field in msgspec.structs.fields(each)):
            return True
        waiting = [*get_type_hints(each).values()]
        while waiting:
            hint = waiting.pop()
            found.append(hint)
            waiting += get_args(hint)
    return False


def test_every_kind_with_an_address_has_a_view_without_it() -> None:
    """A field with an address that is added to a kind needs both: the view, and that of its past."""
    assert table.__name__
    holds = {name for name, row in KINDS.items() if _addresses(row.type)}
    assert holds == {"Course", "Group", "Session"}
    for name in holds:
        assert TABLE[name].view is not None
        assert TABLE[name].private is not None


@pytest.mark.asyncio
async def test_a_controller_reads_no_address_anywhere(api: Api) -> None:
    """Lists, objects, histories, explanations and the stream; people's own roles read them."""
    world = api.world
    await world.definition()
    await world.make("Group", "exam", GROUP, who("user", "teacher"))
    await world.make("Session", "s", SESSION)
    await world.make("Course", "ccnp", COURSE, who("user", "teacher"))
    await world.services.fresh()
    paths = [
        f"/api/v1/{plural}{rest}"
        for plural, name in (("groups", "exam"), ("sessions", "s"), ("courses", "ccnp"))
        for rest in ("", f"/{name}", f"/{name}/events", f"/{name}/explain")
    ]
    for path in paths:
        found = await api.call("GET", path, role="controller", owner="c")
        assert found.status == 200
        assert SECRET.encode() not in found.raw, path
        assert b'"object":null' not in found.raw
    for path in (paths[1], paths[2], paths[5], paths[6]):
        assert SECRET.encode() in (await api.call("GET", path, role="operator", owner="o")).raw
    async with api.stream("/api/v1/events?kinds=groups,sessions", role="controller") as stream:
        await world.make("Group", "next", GROUP, ADMIN)
        told = []
        async with asyncio.timeout(2):
            while not any("next" in each for each in told):
                told.append(str((await stream.next())[2]))
        assert not any(SECRET in each for each in told)


@pytest.mark.asyncio
@pytest.mark.parametrize(("plural", "kind", "spec"), [
    ("courses", "Course", COURSE), ("groups", "Group", GROUP), ("sessions", "Session", SESSION), ("webhooks", "Webhook", HOOK),
])  # fmt: skip
async def test_a_taken_name_is_taken_and_not_whose(
    api: Api, plural: str, kind: str, spec: dict[str, Any]
) -> None:
    """A stranger learns that a name is in use, and nothing of who uses it for what."""
    assert {name for name, each in TABLE.items() if "user" in each.owned} == {
        "Course", "Group", "Session", "Webhook",
    }  # fmt: skip
    world = api.world
    await world.definition()
    await world.make(kind, "taken", spec, who("user", "teacher"), labels={"room": "b12"})
    await world.services.fresh()
    mine = {**spec}
    item = {"kind": kind, **body("taken", mine)}
    as_eve: dict[str, Any] = {"role": "user", "owner": "eve"}
    answers = [await api.call("POST", f"/api/v1/{plural}", body("taken", mine), **as_eve)]
    assert answers[0].status == 409
    answers += [
        await api.call("POST", f"/api/v1/apply?mode={mode}", {"items": [item]}, **as_eve)
        for mode in ("dry-run", "apply")
    ]
    for each in answers:
        assert b"exists already" in each.raw
        assert not [word for word in WHOSE if word in each.raw]
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/events"),
                         ("GET", "/explain"), ("POST", "/move"), ("POST", "/extend")):  # fmt: skip
        sent = {"start": SOON} if path == "/move" else {"end": SOON} if path == "/extend" else None
        sent = body("taken", mine) if method == "PUT" else sent
        done = await api.call(method, f"/api/v1/{plural}/taken{path}", sent, **as_eve)
        # A user may put no session at all, whatever its name.
        assert done.status in {403, 404}, (method, path)
        assert not [word for word in WHOSE if word in done.raw]
