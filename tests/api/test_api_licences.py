"""A worker's licence and console over HTTP: what is recorded, what is refused, for whom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE

from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Key
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import LicenceProgress, LicenceStatus, Worker, WorkerPhase

PATH = "/api/v1/workers/w1"
REGION = "/api/workers/region/us-east-1/workers/w1/license"
TOKEN = {"env": "LABFLEET_SECRET_TOKEN"}
HELD = LicenceStatus(
    registration="COMPLETED", registered=True, licensed=True, product="CML_Enterprise"
)


async def up(api: Api, *, token: bool = True, **status: Any) -> Worker:
    """A worker that is up and licensed."""
    machine = {**MACHINE, "licence": {"token": TOKEN}} if token else MACHINE
    made = await api.world.make("Worker", "w1", {"machine": machine})
    shown = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
    given = {"phase": WorkerPhase.READY, "machine": shown, "licence": HELD, **status}
    found: Worker = await api.world.status(made, **given)
    await api.world.services.fresh()
    return found


async def ask(api: Api, verb: str, body: Any = None, **how: Any) -> Any:
    """Ask for something with the licence."""
    return await api.call("POST", f"{PATH}/{verb}-licence", body or {}, **how)


@pytest.mark.asyncio
async def test_a_verb_records_what_is_asked_by_whom_and_nothing_more(api: Api) -> None:
    """With an operation id, accepted and not yet done; the reading says how far it is."""
    await up(api)
    done = await ask(api, "register", {"token": {"file": "new-token"}, "product": "CML_Personal40"})
    assert done.status == 202, done.raw
    order = done.json["spec"]["licence"]
    assert (order["verb"], order["by"], order["licensed"]) == ("register", "admin", True)
    assert order["token"] == {"env": None, "file": "new-token"}
    assert order["renewed"] is True
    assert done.json["spec"]["machine"]["licence"]["token"]["env"] == TOKEN["env"]
    read = (await api.call("GET", f"{PATH}/licence")).json
    assert (read["wanted"], read["wantedProduct"], read["open"]) == (True, "CML_Personal40", True)
    assert (read["order"]["id"], read["order"]["state"]) == (order["id"], "waiting")
    assert (read["product"], read["licensed"]) == ("CML_Enterprise", True)


@pytest.mark.asyncio
async def test_the_same_order_is_not_given_twice_while_it_is_open(api: Api) -> None:
    """A repeated request finds the order that is under way."""
    await up(api)
    ids = {(await ask(api, "renew")).json["spec"]["licence"]["id"] for _ in range(3)}
    assert len(ids) == 1


@pytest.mark.asyncio
async def test_what_is_over_is_asked_anew(api: Api) -> None:
    """After an order was done the next one has an id of its own, and keeps the token."""
    worker = await up(api)
    first = (await ask(api, "register", {"token": {"file": "t"}})).json["spec"]["licence"]
    over = LicenceProgress(id=first["id"], state="done", at=api.world.clock.now())
    held = msgspec.structs.replace(HELD, order=over)
    await api.world.status(worker, licence=held)
    again = (await ask(api, "renew")).json["spec"]["licence"]
    assert again["id"] != first["id"]
    assert again["token"] == first["token"]
    assert again["licensed"] is True
    read = (await api.call("GET", f"{PATH}/licence")).json
    assert read["order"]["verb"] == "renew"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("verb", "body", "status", "reason"),
    [
        ("register", {}, {"phase": WorkerPhase.TERMINATED}, "WorkerEnding"),
        ("renew", {}, {"licence": LicenceStatus(registered=False)}, "NotRegistered"),
        ("deregister", {}, {"conditions": ()}, "DuplicateIdentity"),
    ],
)
async def test_what_cannot_be_is_refused_in_words(
    api: Api, verb: str, body: Any, status: Any, reason: str
) -> None:
    """And nothing is recorded."""
    if "conditions" in status:
        at = api.world.clock.now()
        fact = conditions.put((), "DuplicateIdentity", "True", "SameProductUuid", now=at)
        status = {"conditions": fact}
    await up(api, **status)
    done = await ask(api, verb, body)
    assert (done.status, done.json["reason"]) == (409, reason)
    found = await api.world.services.objects.get(Worker, "w1", "default")
    assert found is not None
    assert found.spec.licence is None


@pytest.mark.asyncio
async def test_without_a_token_nothing_is_registered(api: Api) -> None:
    """The words say what is missing; a reference makes it possible."""
    await up(api, token=False)
    done = await ask(api, "register")
    assert (done.status, done.json["reason"]) == (409, "NoToken")
    assert (await ask(api, "register", {"token": TOKEN})).status == 202


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("verb", "body"), [("deregister", {}), ("register", {"product": "CML_Personal"})]
)
async def test_sessions_are_named_and_ended_by_force_only(
    api: Api, verb: str, body: dict[str, Any]
) -> None:
    """A licence that goes back, or another product, needs an empty worker."""
    await up(api)
    await api.world.definition()
    session = await api.world.session("exam-1", owner="kim")
    await api.world.status(session, phase=SessionPhase.RUNNING, worker="w1")
    done = await ask(api, verb, body)
    assert (done.status, done.json["reason"]) == (409, "HostsSessions")
    assert "exam-1" in done.json["detail"]
    forced = await ask(api, verb, {**body, "force": True})
    assert forced.status == 202, forced.raw
    explained = (await api.call("GET", f"{PATH}/explain")).json
    assert "exam-1" in str(explained["waitingFor"])
    assert any(f"asked by admin: {verb}" in line for line in explained["lines"])


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["controller", "user", "runner"])
async def test_only_who_runs_the_fleet_may_ask(api: Api, role: str) -> None:
    """Controllers look after workers, and leave their licences to people (upstream: admins)."""
    await up(api)
    for verb in ("register", "deregister", "renew"):
        assert (await ask(api, verb, role=role, owner="eve")).status == 403
    assert (await ask(api, "renew", role="operator")).status == 202


@pytest.mark.asyncio
async def test_orders_are_set_by_verbs_only(api: Api) -> None:
    """By hand one could name another asker, or pass by the checks; PUT and apply keep what is."""
    await up(api)
    order = (await ask(api, "renew")).json["spec"]["licence"]
    forged = {"spec": {"licence": {**order, "by": "somebody else"}}}
    done = await api.call("PATCH", PATH, forged)
    assert done.status == 400
    assert "labfleet license" in done.json["detail"]
    whole = (await api.call("GET", PATH)).json
    del whole["spec"]["licence"]
    kept = await api.call("PUT", PATH, whole)
    assert kept.status == 200, kept.raw
    assert kept.json["spec"]["licence"] == order


@pytest.mark.asyncio
async def test_upstreams_routes_take_references_and_never_a_token(api: Api) -> None:
    """What is sent in its place stands in no reply, no event and no object."""
    await up(api)
    secret = "MDAyNDIxNzQtsecret"
    done = await api.call("POST", REGION, {"token": secret, "reregister": True})
    assert (done.status, done.json["reason"]) == (400, "SecretExpected")
    assert secret.encode() not in done.raw
    assert (await api.call("POST", REGION, {"token": TOKEN, "reregister": True})).status == 200
    assert (await api.call("DELETE", REGION)).status == 200
    assert (await api.call("DELETE", REGION, role="controller")).status == 403
    row = await api.world.store.get(Key("Worker", "default", "w1"))
    assert row is not None
    assert b"deregister" in row.doc
    assert secret.encode() not in row.doc


@pytest.mark.asyncio
async def test_console_text_is_asked_for_and_read_later(api: Api) -> None:
    """The API records the asking; what a provider does not give is told as a reason."""
    worker = await up(api)
    asked = await api.call("POST", f"{PATH}/console", {})
    assert asked.status == 202
    at = asked.json["spec"]["consoleAsked"]
    assert (await api.call("GET", f"{PATH}/logs")).json["answered"] is None
    found = await api.world.services.objects.get(Worker, "w1", "default")
    assert found is not None
    handled = found.spec.console_asked
    text = "[i-1@x read 2026-11-27T09:00:00Z]\n(not readable: no console here)"
    await api.world.status(worker, console=text, console_handled=handled)
    read = (await api.call("GET", f"{PATH}/logs")).json
    assert (read["text"], read["reason"], read["answered"]) == ("", "no console here", at)
    assert (await api.call("POST", f"{PATH}/console", {}, role="user", owner="eve")).status == 403


@pytest.mark.asyncio
async def test_a_server_without_a_machine_has_no_console(api: Api) -> None:
    """It is refused at once instead of never being answered."""
    await up(api, machine=MachineStatus())
    done = await api.call("POST", f"{PATH}/console", {})
    assert (done.status, done.json["reason"]) == (409, "NoMachine")
