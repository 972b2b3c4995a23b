"""What was kept of a lab over HTTP: its text to whom it is for, and to nobody's cache or log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_caller import Api
from fleet_world import TOPOLOGY

from labfleet.interfaces import store as stores
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.session import Session, SessionPhase

PATH = "/api/v1/sessions/s/kept-lab"
TEXT = "lab: {}\nnodes: []\n# enable secret 5 ÿ$1$mERr\n".encode()


async def kept(api: Api, **spec: Any) -> None:
    """Make ann's session `s`, whose lab was kept."""
    lab = {"topology": TOPOLOGY, "keep": "owner", "continuable": True, **spec}
    await api.call("POST", "/api/v1/definitions", {"metadata": {"name": "lab"}, "spec": lab})
    body = {"metadata": {"name": "s"}, "spec": {"definition": "lab", "owner": "ann"}}
    await api.call("POST", "/api/v1/sessions", body)
    found = await api.world.services.objects.get(Session, "s", "default")
    assert found is not None
    now = api.world.clock.now()
    until = now + timedelta(days=7)
    bounds = stores.KeptBounds(1 << 20, 1 << 20, 1 << 20)
    lab_ = stores.NewKeptLab(found.metadata.uid, "ann", TEXT, now, until)
    await api.world.store.keep_lab(lab_, bounds)
    work = KeptWork(readers="owner", at=now, until=until, size=len(TEXT))
    await api.world.status(found, phase=SessionPhase.COMPLETED, ended_at=now, kept=work)


@pytest.mark.asyncio
async def test_the_lab_comes_as_it_was_kept_and_no_browser_runs_or_stores_it(api: Api) -> None:
    """Byte for byte, as YAML, to its owner and operators; 403 or 404 to all others."""
    await kept(api)
    reply = await api.call("GET", PATH, role="user", owner="ann")
    assert (reply.status, reply.raw) == (200, TEXT)
    assert reply.headers["content-type"].startswith("application/yaml")
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    for role, owner, status in (
        ("operator", "ola", 200),
        ("user", "eve", 404),
        ("controller", "ann", 403),
        ("runner", "ann", 403),
        (None, "", 401),
    ):
        reply = await api.call("GET", PATH, role=role, owner=owner)
        assert (role, reply.status) == (role, status)
        assert (b"secret" in reply.raw) == (status == 200)
    wrong = await api.call("GET", f"{PATH}?uid=another", role="user", owner="ann")
    assert wrong.status == 404


@pytest.mark.asyncio
async def test_no_other_answer_has_a_line_of_it(api: Api) -> None:
    """Neither the session, nor its events and explanation, nor any list."""
    await kept(api)
    for path in ("", "/events", "/explain"):
        reply = await api.call("GET", f"/api/v1/sessions/s{path}")
        assert reply.status == 200, path
        assert b"secret" not in reply.raw
    shown = (await api.call("GET", "/api/v1/sessions/s")).json["status"]["kept"]
    assert (shown["readers"], shown["size"]) == ("owner", len(TEXT))


@pytest.mark.asyncio
async def test_it_is_deleted_by_its_owner_and_then_gone(api: Api) -> None:
    """404 with a reason, also for a session that wants to begin with it."""
    await kept(api)
    assert (await api.call("DELETE", PATH, role="user", owner="eve")).status == 404
    reply = await api.call("DELETE", PATH, role="user", owner="ann")
    assert (reply.status, reply.json["status"]["kept"].get("at")) == (200, None)
    gone = await api.call("GET", PATH, role="user", owner="ann")
    assert (gone.status, gone.json["reason"]) == (404, "NothingKept")
    spec = {"definition": "lab", "continueFrom": "s"}
    body = {"metadata": {"name": "next"}, "spec": spec}
    refused = await api.call("POST", "/api/v1/sessions", body, role="user", owner="ann")
    assert (refused.status, refused.json["reason"]) == (400, "NothingKept")


@pytest.mark.asyncio
async def test_only_who_makes_definitions_says_what_is_kept(api: Api) -> None:
    """A candidate cannot open an exam; a wrong word is refused by name."""
    await kept(api)
    path, patch = "/api/v1/definitions/lab", {"spec": {"keep": "owner"}}
    assert (await api.call("PATCH", path, patch, role="user", owner="ann")).status == 403
    wrong = await api.call("PATCH", path, {"spec": {"keep": "everybody"}})
    assert wrong.status == 400
    assert "keep" in str(wrong.json)
