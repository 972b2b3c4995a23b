"""GET /status-stream, as upstream 004's dashboard reads it: unnamed events {type, data}.

A complete state on connect and after each change, at most four times a second, made from the
cache. QueueUpdated is always empty: there is no queue, a denied run asks again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from labfleet.api.streams.open_stream import OpenStream, OpenStreams, Receive, Send
from labfleet.api.streams.ring import Ring
from labfleet.api.streams.stream import HEARTBEAT_SECONDS
from labfleet.decisions import ledger
from labfleet.decisions.admission import sums
from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster, Simulation, SimulationPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import HeldToken

PACE_SECONDS = 0.25
FINISHED = 10


class StatusStream:
    """The compatible dashboard's stream: the whole state at each change."""

    def __init__(self, services: ServiceContext, ring: Ring, streams: OpenStreams) -> None:
        self.services = services
        self.ring = ring
        self._streams = streams

    async def serve(self, receive: Receive, send: Send, token: HeldToken) -> None:
        """Serve one client until it disconnects, the server ends or its token expires."""
        if self.services.cache.cursor is None:
            raise errors.Temporary("the server is starting", reason="Starting", retry_after=1)
        await self._streams.serve(lambda: _Client(self, send, token), token, receive)


class _Client(OpenStream):
    """One open stream: what it was sent last, and from when it may be sent more."""

    def __init__(self, stream: StatusStream, send: Send, token: HeldToken) -> None:
        super().__init__(send, token, heartbeat=HEARTBEAT_SECONDS)
        self._stream = stream
        self._last: list[bytes] = []
        self._moved = True
        self._next = 0.0
        stream.ring.listen(self._look)

    def close(self) -> None:
        """Drop the timers and listen no longer."""
        super().close()
        self._stream.ring.leave(self._look)

    def _look(self) -> None:
        self._moved = True
        self.wake()

    def _farewell(self) -> bytes:
        return b""

    def _expired(self) -> bytes:
        return b""

    def _alive(self) -> bytes:
        return b": heartbeat\n\n"

    async def _more(self) -> bool:
        loop = asyncio.get_running_loop()
        if not self._moved:
            return False
        if loop.time() < self._next:
            loop.call_at(self._next, self.wake)
            return False
        self._moved, self._next = False, loop.time() + PACE_SECONDS
        frames = state_frames(self._stream.services)
        changed = [frame for frame in frames if frame not in self._last]
        self._last = frames
        await self._write(b"".join(changed))
        return True


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
        "target": sums.targets(each.spec),
        "reserved": held,
    }


def _frame(name: str, data: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"type": name, "data": data}) + b"\n\n"
