"""When waiting sessions start, as clients read and follow it."""

from __future__ import annotations

import pytest
from api_caller import Api
from fleet_world import ADMIN, who
from loop_time import leap
from waiting_fleet import fleet, looked, waits

from labfleet.resources.kinds import KINDS
from labfleet.service.kinds import session_outlook
from labfleet.service.verbs import objects

SESSIONS = "/api/v1/sessions"


@pytest.mark.asyncio
async def test_a_read_and_a_list_show_place_and_range(api: Api) -> None:
    """The field is worked out for each reader, and null where nothing waits for a worker."""
    world = api.world
    await fleet(world)
    await waits(world, "one")
    await looked(world)
    one = (await api.call("GET", f"{SESSIONS}/one")).json["status"]["outlook"]
    assert (one["line"], one["position"], one["waiting"]) == ("exam-eu", 1, 1)
    assert one["words"].startswith("1 of 1, ")
    (row,) = (await api.call("GET", SESSIONS)).json["items"]
    assert row["status"]["outlook"] == one


@pytest.mark.asyncio
async def test_what_a_client_sends_back_of_it_is_not_stored(api: Api) -> None:
    """A body with the field that was read is taken, and the field is worked out anew."""
    await fleet(api.world)
    await waits(api.world, "one")
    await looked(api.world)
    body = (await api.call("GET", f"{SESSIONS}/one")).json
    body["spec"]["priority"] = 3
    reply = await api.call("PUT", f"{SESSIONS}/one", body)
    assert reply.status == 200, reply.raw
    kept = await api.world.services.objects.get(KINDS["Session"].type, "one", "default")
    assert (kept.spec.priority, kept.status.outlook) == (3, None)


@pytest.mark.asyncio
async def test_a_stream_tells_when_a_start_is_worked_out_anew(api: Api) -> None:
    """Who follows sessions is sent a changed place without a cursor, and others' never."""
    world = api.world
    await fleet(world)
    await waits(world, "one")
    await looked(world)
    async with api.stream("/api/v1/events?kinds=sessions") as events:
        (item,) = (await events.next())[2]["items"]
        assert item["status"]["outlook"]["position"] == 1
        assert world.services.starts.watchers == 1
        pool = {"spec": {"paused": True}}
        await objects.patch(
            world.services, ADMIN, KINDS["Pool"], "exam-eu", pool, namespace="default"
        )
        before = (await world.services.log.head()).revision
        leap(60)
        await world.services.fresh()
        await session_outlook.kept(world.services).round()
        name, place, data = await events.next()
        assert (name, place, data["reason"]) == ("MODIFIED", "", "StartForeseen")
        assert data["object"]["status"]["outlook"]["earliest"] is None
        assert data["object"] == (await api.call("GET", f"{SESSIONS}/one")).json
        assert (await world.services.log.head()).revision == before
    assert world.services.starts.watchers == 0


@pytest.mark.asyncio
async def test_a_user_follows_its_own_starts_alone(api: Api) -> None:
    """What is worked out of others' sessions is not sent to a user, who still learns its own place."""
    world = api.world
    await fleet(world)
    await waits(world, "one", caller=who("user", "kim"))
    await waits(world, "two", caller=who("user", "lee"))
    await looked(world)
    kim = {"role": "user", "owner": "kim"}
    async with api.stream("/api/v1/events?kinds=sessions", **kim) as events:
        (item,) = (await events.next())[2]["items"]
        assert item["metadata"]["name"] == "one"
        assert item["status"]["outlook"]["waiting"] == 2
        await waits(world, "three", caller=who("user", "kim"), priority=0)
        leap(60)
        await looked(world)
        names = [(await events.next())[2]["object"]["metadata"]["name"] for _ in range(3)]
    assert set(names) <= {"one", "three"}
