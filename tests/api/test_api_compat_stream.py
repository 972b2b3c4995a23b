"""The compatible stream: their names, their filters, every key of upstream 003, nobody else's sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from api_caller import Api, Stream
from test_api_telemetry import SEED_KEYS, measured

from labfleet.api.compatible import compat_stream
from labfleet.resources.meta import Key
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase

PATH = "/api/events/stream"


async def a_worker(api: Api, name: str = "w") -> Worker:
    """Make a worker and wait until the cache has it."""
    if name == "w":
        await api.world.template()
    made = await api.world.make("Worker", name, {"template": "metal"})
    await api.world.services.fresh()
    return made


async def names(events: Stream, count: int) -> list[str]:
    """Return the names of so many events."""
    return [(await events.next())[0] for _ in range(count)]


async def moved(api: Api, worker: Worker, **status: Any) -> None:
    """Change a worker's status and wait until the cache has it."""
    await api.world.status(worker, **status)
    await api.world.services.fresh()


@pytest.mark.asyncio
async def test_it_begins_with_connected_and_a_snapshot_of_everything_active(api: Api) -> None:
    """Workers, sessions and definitions; what ended is not in it."""
    await api.world.definition()
    await a_worker(api)
    gone = await a_worker(api, "old")
    await moved(api, gone, phase=WorkerPhase.TERMINATED)
    session = await api.world.session("s")
    ended = await api.world.session("e")
    await api.world.status(ended, phase=SessionPhase.COMPLETED)
    await api.world.services.fresh()
    async with api.stream(PATH) as events:
        said = [await events.next() for _ in range(4)]
        assert [each[0] for each in said] == [
            "connected", "worker.snapshot", "lablet.session.snapshot", "lablet.definition.snapshot",
        ]  # fmt: skip
        assert said[1][2]["name"] == "w"
        assert said[2][2]["session_id"] == session.metadata.uid


@pytest.mark.asyncio
async def test_a_workers_change_has_the_seeds_name_and_its_snapshot(api: Api) -> None:
    """worker.created, worker.status.updated with old and new, worker.terminated."""
    async with api.stream(PATH) as events:
        await events.next()
        made = await a_worker(api)
        assert await names(events, 3) == [
            "worker.template.created", "worker.created", "worker.snapshot",
        ]  # fmt: skip
        await moved(api, made, phase=WorkerPhase.READY, summary="running")
        name, _, data = await events.next()
        assert name == "worker.status.updated"
        assert (data["old_status"], data["new_status"]) == ("pending", "running")
        assert data["worker_id"] == made.metadata.uid
        assert (await events.next())[2]["status"] == "running"
        await moved(api, made, phase=WorkerPhase.TERMINATED, summary="terminated")
        assert await names(events, 3) == [
            "worker.status.updated", "worker.terminated", "worker.snapshot",
        ]  # fmt: skip


@pytest.mark.asyncio
async def test_changed_cml_data_reaches_the_stream_with_every_key_of_seed_003(
    measuring_api: Api,
) -> None:
    """A new measurement is worker.metrics.updated, then a snapshot with the three dictionaries."""
    api = measuring_api
    await a_worker(api)
    async with api.stream(f"{PATH}?event_types=worker.") as events:
        assert await names(events, 2) == ["connected", "worker.snapshot"]
        await api.measured(measured(api))
        # private _measure: one round by hand, because the real one comes by the clock
        api.app.compatible_events._measure()
        name, _, data = await events.next()
        assert name == "worker.metrics.updated"
        assert (data["cpu_utilization"], data["memory_utilization"]) == (0.5, 55.0)
        name, _, data = await events.next()
        assert name == "worker.snapshot"
        assert set(data["cml_system_info"]) >= SEED_KEYS
        assert set(data["cml_system_health"]) >= {
            "valid", "is_licensed", "is_enterprise", "computes", "controller",
        }  # fmt: skip
        assert set(data["cml_license_info"]) >= {
            "is_valid", "registration_status", "authorization_status", "node_limit",
            "nodes_in_use", "expires", "product", "is_enterprise", "smart_account",
            "virtual_account", "registration", "authorization", "features", "transport", "udi",
            "product_license", "reservation_mode",
        }  # fmt: skip
        later = measured(api, at=api.world.clock.now() + timedelta(seconds=60))
        assert later.health is not None
        sick = msgspec.structs.replace(
            later, health=msgspec.structs.replace(later.health, valid=False)
        )
        await api.measured(sick)
        api.app.compatible_events._measure()
        assert await names(events, 1) == ["worker.data.refreshed"]
        assert (await events.next())[2]["cml_system_health"]["valid"] is False


@pytest.mark.asyncio
async def test_small_moves_are_not_said_and_many_come_as_a_batch(measuring_api: Api) -> None:
    """Below the set share nothing is sent; sixty workers are two batches."""
    api = measuring_api
    for number in range(60):
        await a_worker(api, "w" if not number else f"w{number}")
    async with api.stream(f"{PATH}?event_types=worker.metrics") as events:
        await events.next()
        await api.measured(*(measured(api, worker="w" if not n else f"w{n}") for n in range(60)))
        api.app.compatible_events._measure()
        first, second = (await events.next())[2], (await events.next())[2]
        assert (first["count"], second["count"]) == (50, 10)
        assert len(first["events"]) == 50
        end = api.app.compatible_events.end
        later = api.world.clock.now() + timedelta(seconds=60)
        sample = measured(api, at=later)
        assert sample.stats is not None
        near = msgspec.structs.replace(
            sample, stats=msgspec.structs.replace(sample.stats, cpu_percent=4.0)
        )
        await api.measured(near)
        api.app.compatible_events._measure()
        assert api.app.compatible_events.end == end


@pytest.mark.asyncio
async def test_filters_by_worker_type_and_system(api: Api) -> None:
    """Ids and names of workers, prefixes of types; heartbeats can be left out."""
    one = await a_worker(api)
    two = await a_worker(api, "two")
    async with api.stream(f"{PATH}?worker_ids={two.metadata.uid}&include_system=false") as events:
        assert (await events.next())[0] == "connected"
        assert (await events.next())[2]["name"] == "two"
        await moved(api, one, phase=WorkerPhase.READY)
        await moved(api, two, phase=WorkerPhase.READY)
        assert (await events.next())[2]["worker_name"] == "two"
    assert (await api.call("GET", f"{PATH}?include_system=perhaps")).status == 400
    many = ",".join(["x"] * 101)
    assert (await api.call("GET", f"{PATH}?worker_ids={many}")).status == 400


@pytest.mark.asyncio
async def test_a_user_sees_only_sessions_that_are_theirs(api: Api) -> None:
    """No worker and nobody else's session reaches a student."""
    await api.world.definition()
    await a_worker(api)
    await api.world.session("theirs", owner="bob")
    await api.world.services.fresh()
    async with api.stream(PATH, role="user", owner="eve") as events:
        assert await names(events, 2) == ["connected", "lablet.definition.snapshot"]
        await api.world.session("mine", owner="eve")
        await api.world.services.fresh()
        name, _, data = await events.next()
        assert (name, data["session_name"]) == ("lablet.session.created", "mine")


@pytest.mark.asyncio
async def test_a_slow_client_gets_snapshots_again(api: Api) -> None:
    """What the ring has dropped is made good by the whole state."""
    made = await a_worker(api)
    async with api.stream(f"{PATH}?event_types=worker.snapshot") as events:
        assert await names(events, 2) == ["connected", "worker.snapshot"]
        for number in range(compat_stream.LENGTH + 1):
            # private _say: more news at once than any fleet makes
            api.app.compatible_events._say(
                api.app.compatible_events.said("worker.x", {"n": number})
            )
        await moved(api, made, health="Degraded")
        assert (await events.next())[0] == "worker.snapshot"


@pytest.mark.asyncio
async def test_a_large_fleet_begins_in_parts_and_says_nothing_twice(measuring_api: Api) -> None:
    """No piece is the whole fleet, and what the snapshots have is no measurement that moved."""
    api = measuring_api
    count = compat_stream.PART + 5
    for number in range(count):
        name = "w" if not number else f"w{number}"
        await a_worker(api, name)
    await api.measured(*(measured(api, worker="w" if not n else f"w{n}") for n in range(count)))
    async with api.stream(f"{PATH}?event_types=worker.") as events:
        await events.next()
        assert await names(events, count) == ["worker.snapshot"] * count
        end = api.app.compatible_events.end
        api.app.compatible_events._measure()
        assert api.app.compatible_events.end == end
        for name in ("w", "w1"):
            api.world.services.samples.forget(Key("Worker", "default", name))
        api.app.compatible_events._measure()
        # private _measured: a leak of forgotten entries shows in no answer
        assert len(api.app.compatible_events._measured) == count - 2


@pytest.mark.asyncio
async def test_a_fault_in_the_words_ends_a_client_and_not_the_cache(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache goes on hearing of changes whatever becomes of what is told about them."""
    made = await a_worker(api)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def listen() -> None:
        async with api.stream(PATH) as events:
            await names(events, 2)
            monkeypatch.setattr(compat_stream.event_types, "changes", broken)
            await moved(api, made, phase=WorkerPhase.READY)
            await events.task

    with pytest.raises(ExceptionGroup) as raised:
        await listen()
    assert raised.value.subgroup(ZeroDivisionError) is not None
    await moved(api, made, phase=WorkerPhase.ACTIVE)
    found = api.world.services.cache.get(Worker, "w", "default")
    assert found is not None
    assert found.status.phase is WorkerPhase.ACTIVE


@pytest.mark.asyncio
async def test_the_end_of_the_server_and_of_the_token_are_said(api: Api) -> None:
    """system.sse.shutdown before the end, and the stream ends."""
    async with api.stream(PATH) as events:
        await events.next()
        api.app.shutdown()
        assert (await events.next())[0] == "system.sse.shutdown"
        assert (await events.next())[0] == "end"
    assert (await api.call("GET", PATH)).status == 503


@pytest.mark.asyncio
async def test_upstreams_names_of_observations_may_be_asked_for(api: Api) -> None:
    """A client that filters by them hears them; one that does not hears ours alone."""
    await api.world.definition()
    session = await api.world.session("s")
    await api.world.status(session, phase=SessionPhase.RUNNING)
    await api.world.services.fresh()
    report = "/api/internal/lablet-sessions/s/resource-observations"
    theirs = f"{PATH}?event_types=lablet_session.&include_system=false"
    ours = f"{PATH}?event_types=lablet.session.port,lablet.session.resources&include_system=false"
    async with api.stream(theirs) as old, api.stream(ours) as new:
        assert await names(old, 1) == ["connected"]
        assert await names(new, 1) == ["connected"]
        await api.call("POST", "/api/lablet-sessions/s/observe-resources")
        await api.call("POST", report, {"observed_ports": {"A_serial": 5041}}, role="controller")
        await api.world.services.fresh()
        said = [await old.next() for _ in range(3)]
        assert [each[0] for each in said] == [
            "lablet_session.observe_resources_requested.v1",
            "lablet_session.resources_observed.v1",
            "lablet_session.port_drift_detected.v1",
        ]
        drift = said[2][2]
        assert (drift["added"], drift["removed"], drift["changed"]) == ({"A_serial": 5041}, {}, {})
        assert await names(new, 2) == [
            "lablet.session.resources_observed", "lablet.session.port_drift_detected",
        ]  # fmt: skip
