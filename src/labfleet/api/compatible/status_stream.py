"""GET /status-stream, as upstream 004's dashboard reads it: unnamed events {type, data}.

A complete state on connect and after each change, at most four times a second, made from the
cache. QueueUpdated is always empty: there is no queue, a denied run asks again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from labfleet.api.core.served import Again
from labfleet.api.streams.open_stream import HEADERS, SEND_SECONDS, Receive, Send
from labfleet.api.streams.stream import HEARTBEAT_SECONDS
from labfleet.api.streams.stream import Stream as Events
from labfleet.decisions import admission, ledger
from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster, Simulation, SimulationPhase
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import ServiceContext

PACE_SECONDS = 0.25
FINISHED = 10


class StatusStream:
    """All clients of the compatible dashboard."""

    def __init__(self, services: ServiceContext, events: Events) -> None:
        self._services = services
        self._events = events
        self._open = 0

    async def serve(self, principal: Principal, receive: Receive, send: Send, again: Again) -> None:
        """Serve one client until it disconnects, the server ends or its token expires."""
        access.demand(principal, "read", "Simulation")
        if self._services.cache.cursor is None:
            raise errors.Temporary("the server is starting", reason="Starting", retry_after=1)
        if self._open >= 200:
            message = "too many status streams are open here"
            raise errors.Temporary(message, reason="TooManyStreams", retry_after=2)
        self._open += 1
        moved, gone = asyncio.Event(), asyncio.Event()
        self._events.ring.listen(moved.set)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(_disconnected(receive, gone, moved))
                await self._run(send, again, moved, gone)
                watch.cancel()
        finally:
            self._open -= 1
            self._events.ring.leave(moved.set)

    async def _run(
        self, send: Send, again: Again, moved: asyncio.Event, gone: asyncio.Event
    ) -> None:
        last: list[bytes] = []
        while not gone.is_set() and not self._events.closing:
            moved.clear()
            frames = state_frames(self._services)
            changed = [frame for frame in frames if frame not in last]
            last = frames
            if not await _sent(send, b"".join(changed) or b": heartbeat\n\n"):
                return
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await moved.wait()
                await asyncio.sleep(PACE_SECONDS)
            except TimeoutError:
                try:
                    await again()
                except errors.Denied:
                    break
                except errors.Temporary:
                    continue
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def state_frames(services: ServiceContext) -> list[bytes]:
    """Return the whole state as the compatible events."""
    known = services.cache.all(Simulation)
    active = [each for each in known if each.status.phase is SimulationPhase.APPROVED]
    ended = [
        each
        for each in known
        if each.status.phase in {SimulationPhase.COMPLETED, SimulationPhase.EXPIRED}
    ]
    ended.sort(key=_end, reverse=True)
    clusters = [_cluster(each, active) for each in services.cache.all(Cluster)]
    return [
        _frame("QueueUpdated", []),
        _frame("ActiveUpdated", [_simulation(each) for each in active]),
        _frame("LastFinished", [_simulation(each) for each in ended[:FINISHED]]),
        _frame("ClusterUtilizationUpdated", clusters),
    ]


def _end(each: Simulation) -> tuple[float, str]:
    at = each.status.completed_at
    return (0.0 if at is None else at.timestamp(), each.name)


def _simulation(each: Simulation) -> dict[str, Any]:
    return {
        "simulation_id": each.name,
        "cluster": each.spec.cluster,
        "params": each.spec.params,
        "predicted_cost": _cost(each),
        "phase": each.status.phase,
        "decided_at": each.status.decided_at,
        "completed_at": each.status.completed_at,
    }


def _cost(each: Simulation) -> dict[str, float]:
    cost = each.spec.cost
    return {"cpu_cores": cost.cpu_milli / 1000, "memory_gb": round(cost.memory_mib / 1024, 3)}


def _cluster(each: Cluster, active: list[Simulation]) -> dict[str, Any]:
    held = ledger.total(
        one.status.reservation
        for one in active
        if one.spec.cluster == each.name
        and one.metadata.namespace == each.metadata.namespace
        and one.status.reservation is not None
    )
    return {
        "cluster": each.name,
        "capacity": each.spec.capacity,
        "target": admission.targets(each.spec),
        "reserved": held,
    }


def _frame(name: str, data: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"type": name, "data": data}) + b"\n\n"


async def _sent(send: Send, body: bytes) -> bool:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except (TimeoutError, OSError):
        return False
    return True


async def _disconnected(receive: Receive, gone: asyncio.Event, moved: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()
    moved.set()
