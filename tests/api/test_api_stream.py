"""The event stream: snapshot, deltas, resume, resync, bounds, filters, end.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from api_caller import Api
from api_caller import api as opened

from labfleet.api.streams import stream
from labfleet.api.streams.ring import Entry, Filter
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller
from labfleet.service.verbs import objects

CALLER = Caller(Principal("t", Role.ADMIN, "ada"), "req-9")


async def cluster(api: Api, name: str):
    """Create a small object."""
    return await api.world.make("Cluster", name, {"capacity": {"cpu": 1}})


@pytest.mark.asyncio
async def test_the_head_goes_through_proxies(api: Api):
    """T34: the type, no caching, no buffering, and the security headers."""
    async with api.stream() as events:
        headers = {k.decode(): v.decode() for k, v in events.head["headers"]}
        assert events.head["status"] == 200
        assert headers["content-type"].startswith("text/event-stream")
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-content-type-options"] == "nosniff"
        assert await events.block() == "retry: 1000"


@pytest.mark.asyncio
async def test_first_the_state_then_every_change(api: Api):
    """A snapshot with its place, then ADDED, MODIFIED, DELETED with who, why and the id."""
    await cluster(api, "a")
    await api.world.services.fresh()
    async with api.stream("/api/v1/events?kinds=clusters") as events:
        name, place, data = await events.next()
        assert name == "snapshot"
        assert (data["first"], data["last"]) == (True, True)
        assert [each["metadata"]["name"] for each in data["items"]] == ["a"]
        await cluster(api, "b")
        name, place, data = await events.next()
        assert (name, data["type"], data["kind"]) == ("ADDED", "ADDED", "Cluster")
        assert place.endswith(f".{data['revision']}")
        assert data["object"]["metadata"]["resourceVersion"] == str(data["revision"])
        assert (data["actor"], data["requestId"]) == ("ada", "req-1")
        row = KINDS["Cluster"]
        await objects.patch(
            api.world.services, CALLER, row, "b", {"spec": {"cpuPercent": 3}}, namespace="default"
        )
        assert (await events.next())[0] == "MODIFIED"
        await objects.delete(api.world.services, CALLER, row, "b", "default")
        name, _, data = await events.next()
        assert name == "DELETED"
        assert data["object"]["metadata"]["name"] == "b"


@pytest.mark.asyncio
async def test_a_change_says_on_the_stream_what_its_history_says(api: Api):
    """Word and sentence are those of the object's events, also where the cause is a sentence."""
    await cluster(api, "a")
    await api.world.services.fresh()
    async with api.stream("/api/v1/events?kinds=sessions,clusters") as events:
        await events.next()
        await api.world.definition()
        await api.world.session("s1")
        told = [await events.next()]
        for phase, cause in (("STOPPING", "stopping the lab"), ("STOPPING", "stopping the lab")):
            await said(api, phase, cause)
            told.append(await events.next())
    kept = (await api.call("GET", "/api/v1/sessions/s1/events")).json["items"][::-1]
    both = [[each[key] for key in ("reason", "message")] for each in kept]
    assert [[data[key] for key in ("reason", "message")] for _, _, data in told] == both
    assert both[1:] == [["PhaseChanged", "stopping the lab"], ["StatusChanged", "stopping the lab"]]


async def said(api: Api, phase: str, cause: str):
    """Write a step of a controller whose cause is a sentence."""
    kept = api.world.services.objects
    old = await kept.get(Session, "s1", "default")
    status = msgspec.structs.replace(
        old.status, phase=SessionPhase(phase), errors=old.status.errors + 1
    )
    why = stores.Cause("labs", api.world.clock.now(), reason=cause)
    return await kept.save(msgspec.structs.replace(old, status=status), cause=why)


@pytest.mark.asyncio
async def test_a_client_resumes_after_its_last_event_id(api: Api):
    """T32: nothing twice, nothing lost, no snapshot; by header or by `since`."""
    await cluster(api, "a")
    await api.world.services.fresh()
    async with api.stream() as events:
        _, place, _ = await events.next()
    for n in range(200):
        await cluster(api, f"c{n:03d}")
    for extra in ({"Last_Event_ID": place}, {}):
        target = "/api/v1/events" if extra else f"/api/v1/events?since={place}"
        async with api.stream(target, **extra) as events:
            seen = [(await events.next())[2]["object"]["metadata"]["name"] for _ in range(200)]
        assert seen == [f"c{n:03d}" for n in range(200)]


@pytest.mark.asyncio
async def test_a_restarted_server_resumes_what_the_log_still_has(api: Api):
    """T32: the ring is filled from the log at its start."""
    await cluster(api, "a")
    first = str(await api.world.store.head())
    for n in range(50):
        await cluster(api, f"c{n}")
    from labfleet.api.streams.ring import Ring

    fresh = Ring(api.world.store)
    api.world.follow(fresh)
    while not fresh.ready:
        await asyncio.sleep(0)
    api.app.events.ring = fresh
    async with api.stream(Last_Event_ID=first) as events:
        assert (await events.next())[2]["object"]["metadata"]["name"] == "c0"


@pytest.mark.asyncio
@pytest.mark.parametrize("place", ["other.5", "nonsense", "{epoch}.99999", "{epoch}.0x"])
async def test_a_place_that_is_lost_gets_resync_and_a_new_snapshot(api: Api, place: str):
    """Another epoch, garbage, and places that the log has not reached."""
    await cluster(api, "a")
    await api.world.services.fresh()
    epoch = (await api.world.store.head()).epoch
    async with api.stream(Last_Event_ID=place.format(epoch=epoch)) as events:
        name, _, data = await events.next()
        assert (name, data["reason"]) == ("resync", "Expired")
        name, _, data = await events.next()
        assert (name, len(data["items"])) == ("snapshot", 1)


@pytest.mark.asyncio
async def test_a_place_behind_the_ring_gets_resync():
    """The ring holds its bound and no more."""
    async with opened(length=10) as api:
        await cluster(api, "a")
        first = str(await api.world.store.head())
        for n in range(30):
            await cluster(api, f"c{n}")
        await api.world.services.fresh()
        while api.ring.head.revision < (await api.world.store.head()).revision:
            await asyncio.sleep(0)
        async with api.stream(Last_Event_ID=first) as events:
            assert (await events.next())[0] == "resync"


@pytest.mark.asyncio
async def test_a_slow_reader_drops_to_a_snapshot():
    """Nothing queues for it: when the ring has moved on it begins again."""
    async with opened(length=10) as api:
        stall = asyncio.Event()
        stall.set()
        async with api.stream("/api/v1/events?kinds=Cluster", stall=stall) as events:
            assert (await events.next())[0] == "snapshot"
            stall.clear()
            for n in range(40):
                await cluster(api, f"c{n:02d}")
                await asyncio.sleep(0)
            await api.world.services.fresh()
            stall.set()
            names = []
            while "snapshot" not in names:
                name, _, data = await events.next()
                names.append(name)
            assert "resync" in names
            assert len(data["items"]) == 40
            await cluster(api, "after")
            name, _, data = await events.next()
            assert (name, data["object"]["metadata"]["name"]) == ("ADDED", "after")


@pytest.mark.asyncio
async def test_without_a_snapshot_only_changes_come(api: Api):
    """`snapshot=false` gives the place and then the changes."""
    await cluster(api, "a")
    await api.world.services.fresh()
    async with api.stream("/api/v1/events?snapshot=false") as events:
        await cluster(api, "b")
        assert (await events.next())[2]["object"]["metadata"]["name"] == "b"


@pytest.mark.asyncio
async def test_filters_hold_for_snapshot_and_changes(api: Api):
    """Kinds, names and namespace; unknown kinds are refused."""
    await api.world.definition()
    await cluster(api, "a")
    await api.world.services.fresh()
    target = "/api/v1/events?kinds=cluster,Session&names=b,s&namespace=default"
    async with api.stream(target) as events:
        assert (await events.next())[2]["items"] == []
        await cluster(api, "c")
        await cluster(api, "b")
        await api.world.definition("three")
        await api.world.session("s")
        seen = [(await events.next())[2]["object"]["metadata"]["name"] for _ in range(2)]
        assert seen == ["b", "s"]
    for query in ("kinds=nope", "snapshot=perhaps", "names=" + ",".join(map(str, range(300)))):
        assert (await api.call("GET", f"/api/v1/events?{query}")).status == 400


@pytest.mark.asyncio
async def test_a_user_gets_its_own_sessions_and_nothing_else(api: Api):
    """The filter is the server's, for snapshot, changes and deletions."""
    await api.world.definition()
    for owner in ("eve", "bob"):
        await api.world.session(owner, owner=owner)
    await api.world.services.fresh()
    async with api.stream(role="user", owner="eve") as events:
        _, _, data = await events.next()
        assert {each["metadata"]["name"] for each in data["items"]} == {"two", "eve"}
        await cluster(api, "a")
        await objects.delete(api.world.services, CALLER, KINDS["Session"], "bob", "default")
        await objects.delete(api.world.services, CALLER, KINDS["Session"], "eve", "default")
        name, _, data = await events.next()
        assert (name, data["object"]["metadata"]["name"]) == ("DELETED", "eve")


@pytest.mark.asyncio
async def test_a_big_state_comes_in_parts(api: Api):
    """Only the first part begins and only the last one has the id."""
    for n in range(stream.SNAPSHOT_PART + 1):
        await cluster(api, f"c{n:03d}")
    await api.world.services.fresh()
    async with api.stream("/api/v1/events?kinds=Cluster") as events:
        one, two = await events.next(), await events.next()
        assert (one[2]["first"], one[2]["last"], one[1]) == (True, False, "")
        assert (two[2]["first"], two[2]["last"]) == (False, True)
        assert two[1]
        assert len(one[2]["items"]) + len(two[2]["items"]) == stream.SNAPSHOT_PART + 1


@pytest.mark.asyncio
async def test_a_heartbeat_moves_the_id_and_checks_the_token(api: Api, monkeypatch):
    """A comment and the place; a revoked token ends the stream with `unauthorized`."""
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.02)
    await api.token("operator")
    async with api.stream(role="operator") as events:
        await events.next()
        block = await events.block()
        assert block.startswith(": heartbeat\nid: ")
        row = next(each for each in await api.world.store.tokens() if each.role == "operator")
        await api.tokens.revoke(CALLER.principal, row.id)
        name, _, _ = await events.next()
        assert name == "unauthorized"
        assert (await events.next())[0] == "end"


@pytest.mark.asyncio
async def test_shutdown_is_said_and_ends_every_stream(api: Api):
    """Clients are told, and new ones are sent away with Retry-After."""
    async with api.stream() as events:
        await events.next()
        assert api.app.streams.clients == 1
        api.app.shutdown()
        assert (await events.next())[0] == "shutdown"
        assert (await events.next())[0] == "end"
        await events.task
    assert api.app.streams.clients == 0
    found = await api.call("GET", "/api/v1/events")
    assert found.status == 503
    assert int(found.headers["retry-after"]) > 0


@pytest.mark.asyncio
async def test_a_stream_that_cannot_be_whole_ends(api: Api, monkeypatch):
    """When cache and ring do not meet, the client is sent away rather than given a hole."""
    monkeypatch.setattr(api.ring, "after", lambda _: None)
    async with api.stream() as events:
        assert (await events.next())[0] == "end"
        await events.task


@pytest.mark.asyncio
async def test_more_clients_than_allowed_are_refused(api: Api):
    """The bound is the server's, and a client that leaves makes room."""
    # private _limit: the bound is reached with two events instead of thousands
    api.app.streams._limit = 1
    async with api.stream():
        assert (await api.call("GET", "/api/v1/events")).status == 503
    async with api.stream() as events:
        assert (await events.next())[0] == "snapshot"


@pytest.mark.asyncio
async def test_each_event_is_encoded_once_for_all_clients(api: Api):
    """Clients share the frame of the ring."""
    async with api.stream() as one, api.stream() as two:
        await one.next()
        await two.next()
        await cluster(api, "a")
        assert await one.block() == await two.block()
        entry = api.ring.since(api.ring.end - 1, 1)[0]
        kept = [entry.frame(api.world.services, each) for each in (CALLER.principal,) * 2]
        assert kept[0] is kept[1]


@pytest.mark.asyncio
async def test_an_event_is_judged_once_for_all_clients_of_a_filter(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    """The work for an event grows with the filters that are asked for, not with the clients."""
    judged: list[Filter] = []
    passes = Entry.passes

    def counted(entry: Entry, wanted: Filter) -> bool:
        judged.append(wanted)
        return passes(entry, wanted)

    monkeypatch.setattr(Entry, "passes", counted)
    targets = ["/api/v1/events?snapshot=false"] * 5 + ["/api/v1/events?kinds=pools&snapshot=false"]
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(api.stream(each)) for each in targets]
        for each in clients:
            await each.block()
            await each.block()
        await cluster(api, "a")
        assert len({await each.block() for each in clients[:5]}) == 1
        assert len(judged) == len(set(judged)) == 2


@pytest.mark.asyncio
async def test_what_is_kept_for_the_next_client_holds_no_longer_than_what_is_seen(api: Api):
    """The same bytes for whoever stands there; put together anew once a lab is reached elsewhere."""
    events, at = api.app.events, api.ring.end
    async with api.stream() as client:
        await client.next()
        await cluster(api, "a")
        await client.next()
        audience = events.audience(Filter(CALLER.principal))
        first = audience.batch(at, 0)
        assert audience.batch(at, 0) is first
        assert audience.batch(at, first.place.revision).body == b""
        again = audience.batch(at, 0)
        events.moves.end += 1
        assert audience.batch(at, 0) is not again


@pytest.mark.asyncio
async def test_the_status_stream_tells_simulations_and_clusters(api: Api):
    """Upstream 004's events: whole state on connect, again after a change."""
    await cluster(api, "default")
    await api.world.services.fresh()
    async with api.stream("/status-stream") as events:
        first = [(await events.next())[2] for _ in range(5)]
        assert [each["type"] for each in first] == [
            "QueueUpdated", "ActiveUpdated", "LastFinished", "ClusterUtilizationUpdated",
            "NamespaceUtilizationUpdated",
        ]  # fmt: skip
        await api.call("POST", "/request_run", {"cost": {"cpu": "100m"}})
        changed = (await events.next())[2]
        assert changed["type"] == "ActiveUpdated"
        assert changed["data"][0]["predicted_cost"]["cpu_cores"] == 0.1
