"""POST /api/v1/sessions/NAME/retry: what callers get, and on which page it is seen."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from api_caller import Api
from fleet_world import TOPOLOGY

from labfleet.resources.session import Session, SessionPhase

PATH = "/api/v1/sessions/s/retry"


async def failed(api: Api) -> str:
    """Make ann's session `s`, which has failed, and return its uid."""
    lab = {"metadata": {"name": "lab"}, "spec": {"topology": TOPOLOGY}}
    await api.call("POST", "/api/v1/definitions", lab)
    body = {"metadata": {"name": "s"}, "spec": {"definition": "lab", "owner": "ann"}}
    made = (await api.call("POST", "/api/v1/sessions", body)).json
    found = await api.world.services.objects.get(Session, "s", "default")
    await api.world.status(found, phase=SessionPhase.FAILED, ended_at=api.world.clock.now())
    return str(made["metadata"]["uid"])


async def retry(api: Api, body: Any = None, **how: Any) -> Any:
    return await api.call("POST", PATH, {} if body is None else body, **how)


@pytest.mark.asyncio
async def test_a_retry_answers_with_the_new_attempt_and_does_so_again(api: Api):
    """201 with the new session; the same one for a repeated call and for one with a key."""
    uid = await failed(api)
    first = await retry(api, {"reason": "mended"}, role="user", owner="ann")
    assert first.status == 201, first.raw
    made = first.json
    assert (made["metadata"]["name"], made["spec"]["owner"]) == ("s-2", "ann")
    assert made["status"]["retryOf"] == {"name": "s", "uid": uid}
    assert made["status"]["retryCount"] == 1
    for how in ({}, {"Idempotency_Key": "k"}, {"Idempotency_Key": "k"}):
        again = await retry(api, **how)
        assert again.json["metadata"]["uid"] == made["metadata"]["uid"]
    old = (await api.call("GET", "/api/v1/sessions/s")).json
    assert old["status"]["retriedAs"] == {"name": "s-2", "uid": made["metadata"]["uid"]}
    listed = (await api.call("GET", "/api/v1/sessions?owner=ann")).json["items"]
    assert len(listed) == 2


@pytest.mark.asyncio
async def test_a_retry_is_refused_with_a_reason(api: Api):
    """Not for others, not for another of its name, not of what runs, not with a wrong body."""
    uid = await failed(api)
    assert (await retry(api, role="user", owner="eve")).status == 404
    assert (await retry(api, role="runner", owner="sim")).status == 403
    assert (await api.call("POST", f"{PATH}?uid={uid[::-1]}", {})).status == 404
    assert (await retry(api, {"slot": {"start": "soon"}})).status == 400
    assert (await retry(api, {"when": 1})).status == 400
    assert (await retry(api, {"reason": "x" * 2000})).status == 400
    await retry(api)
    other = await api.call("POST", "/api/v1/sessions/s-2/retry", {})
    assert (other.status, other.json["reason"]) == (409, "NotFailed")


@pytest.mark.asyncio
async def test_a_retry_of_what_can_never_fit_is_warned_of(api: Api):
    """With the reason of the first attempt, in the reply and in explain, until it is judged."""
    await failed(api)
    found = await api.world.services.objects.get(Session, "s", "default")
    told = "needs 40 CPU; the largest possible worker is pool p, short 8 CPU"
    await api.world.status(found, reason="NeverFits", message=told)
    await api.world.services.cache.reached(await api.world.services.fresh())
    said = await retry(api)
    warning = unquote(said.headers["labfleet-warning"])
    assert "session 's' failed because it fits no worker that can exist" in warning
    assert told in warning
    assert "'s-2' fails too unless a template became larger" in warning
    lines = (await api.call("GET", "/api/v1/sessions/s-2/explain")).json["lines"]
    assert any("fails too" in each for each in lines)


@pytest.mark.asyncio
async def test_other_retries_are_not_warned_of(api: Api):
    """A boot that was too slow may be fast next time."""
    await failed(api)
    found = await api.world.services.objects.get(Session, "s", "default")
    await api.world.status(found, reason="BootTimeout", message="slow")
    await api.world.services.cache.reached(await api.world.services.fresh())
    assert "labfleet-warning" not in (await retry(api)).headers
