"""Names are given again: verbs, histories, series and webhooks mean one object, not one name."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_caller import Api
from fleet_world import MACHINE, TOPOLOGY

from labfleet.interfaces.store import SeriesRow
from labfleet.resources import series


async def made(api: Api, name: str = "s") -> str:
    """A session, made anew; return its uid."""
    await api.call(
        "POST", "/api/v1/definitions", {"metadata": {"name": "lab"}, "spec": {"topology": TOPOLOGY}}
    )
    body = {"metadata": {"name": name}, "spec": {"definition": "lab"}}
    found = await api.call("POST", "/api/v1/sessions", body)
    assert found.status == 201, found.raw
    return str(found.json["metadata"]["uid"])


@pytest.mark.asyncio
async def test_verbs_of_an_object_never_reach_the_next_of_its_name(api: Api):
    """Delete, cancel and extend with a uid are 404 once another object has the name."""
    first = await made(api)
    await api.call("DELETE", "/api/v1/sessions/s")
    second = await made(api)
    assert first != second
    path = "/api/v1/sessions/s"
    for method, target, body in (
        ("DELETE", path, None),
        ("POST", f"{path}/cancel", {}),
        ("POST", f"{path}/extend", {"bySeconds": 60}),
    ):
        other = await api.call(method, f"{target}?uid={first}", body)
        assert (other.status, "another one has its name" in other.json["detail"]) == (404, True)
    assert (await api.call("GET", path)).json["spec"]["cancel"] is None
    assert (await api.call("POST", f"{path}/cancel?uid={second}", {})).status == 200


@pytest.mark.asyncio
async def test_a_repeated_extension_is_not_done_to_the_next_of_its_name(api: Api):
    """The idempotency key of an extension stands for the session that it was about."""
    now = api.world.clock.now()
    slot = {"start": now.isoformat(), "end": (now + timedelta(hours=1)).isoformat()}
    await made(api, "other")
    body = {"metadata": {"name": "s"}, "spec": {"definition": "lab", "slot": slot}}
    await api.call("POST", "/api/v1/sessions", body)
    path, sent = "/api/v1/sessions/s/extend", {"bySeconds": 60}
    assert (await api.call("POST", path, sent, Idempotency_Key="k")).status == 200
    await api.call("DELETE", "/api/v1/sessions/s")
    await api.call("POST", "/api/v1/sessions", body)
    assert (await api.call("POST", path, sent, Idempotency_Key="k")).status == 404


@pytest.mark.asyncio
async def test_events_tell_the_lives_of_a_name_apart(api: Api):
    """Each event says whose it is, across the end of a page too."""
    first = await made(api)
    await api.call("DELETE", "/api/v1/sessions/s")
    second = await made(api)
    events = (await api.call("GET", "/api/v1/sessions/s/events")).json["items"]
    assert [(each["type"], each["uid"]) for each in events] == [
        ("ADDED", second), ("DELETED", first), ("ADDED", first),
    ]  # fmt: skip
    assert (await api.call("GET", "/api/v1/sessions/s/explain")).json["uid"] == second


@pytest.mark.asyncio
async def test_an_event_has_a_word_and_only_its_own_sentence(api: Api):
    """A verb's event does not repeat the sentence that an earlier step left in the status."""
    await made(api)
    await api.call("POST", "/api/v1/sessions/s/cancel", {"reason": "exam over"})
    path = "/api/v1/sessions/s/events"
    whole = (await api.call("GET", path)).json["items"]
    paged = (await api.call("GET", f"{path}?limit=1")).json["items"]
    assert [each["reason"] for each in whole] == ["CancelAsked", "Created"]
    assert [each["message"] for each in whole] == ["exam over", ""]
    assert paged == whole[:1]
    sent = {"metadata": {"name": "fleet"}, "spec": {"idle": {"enabled": True}}}
    await api.call("POST", "/api/v1/settings", sent)
    await api.call("PATCH", "/api/v1/settings/fleet", {"spec": {"idle": {"enabled": False}}})
    change = (await api.call("GET", "/api/v1/settings/fleet/events")).json["items"][0]
    assert change["reason"] == f"Changed {change['message']}"
    assert "idle.enabled" in change["message"]


@pytest.mark.asyncio
async def test_a_workers_series_begin_with_it(api: Api):
    """Numbers of an earlier worker of the name are not this one's; its own are all shown."""
    now = api.world.services.clock.now()
    step = series.TIERS[0].step
    made = await api.world.make("Worker", "w", {"machine": MACHINE})
    owner = series.Owner("Worker", made.metadata.uid)
    rows = [
        SeriesRow(
            owner,
            step,
            series.bucket_start(at, step),
            series.pack("Worker", series.single("Worker", {"cpu": 5.0})),
        )
        for at in (now - timedelta(hours=2), now)
    ]
    await api.world.services.series.merge_series(rows)

    async def points() -> int:
        told = await api.call("GET", "/api/v1/workers/w/series?metric=cpu")
        return len(told.json["metrics"]["cpu"]["points"])

    assert await points() == 2
    assert (await api.call("DELETE", "/api/v1/workers/w")).status == 200
    await api.world.make("Worker", "w", {"machine": MACHINE})
    assert await points() == 0
