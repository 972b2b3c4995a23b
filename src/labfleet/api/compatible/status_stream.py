"""GET /status-stream, as upstream 004's dashboard reads it: unnamed events {type, data}.

A complete state on connect and after each change, at most four times a second, made from the
cache, of what is open and the last that ended. Nothing in it grows with what is over.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec

from labfleet.api.streams.open_stream import OpenStream, OpenStreams, Receive, Send
from labfleet.api.streams.ring import Ring
from labfleet.api.streams.stream import HEARTBEAT_SECONDS
from labfleet.decisions import ledger
from labfleet.decisions.admission.targets import targets
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, as_seen, capacity_of, others_of
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import HeldToken
from labfleet.service.kinds import indices
from labfleet.service.kinds.cluster_mode import mode_of

PACE_SECONDS = 0.25
_EVER = datetime.min.replace(tzinfo=UTC)
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

    __slots__ = ("_last", "_moved", "_next", "_stream")

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
    cache = services.cache
    active = [
        each
        for path in sorted(cache.values(indices.SIMULATIONS_HOLDING))
        for each in cache.by(indices.SIMULATIONS_HOLDING, path)
    ]
    queued = [
        each
        for path in sorted(cache.values(indices.SIMULATIONS_QUEUED))
        for each in cache.by(indices.SIMULATIONS_QUEUED, path)
        if each.spec.queue is not None
    ]
    queued.sort(key=lambda each: (-each.spec.priority, each.status.asked_at or _EVER, each.name))
    held: dict[str, list[Simulation]] = {}
    for each in active:
        held.setdefault(refs.cluster_of(each).key.path, []).append(each)
    clusters = [(each, held.get(each.key.path, [])) for each in cache.all(Cluster)]
    return [
        _frame("QueueUpdated", [_simulation(each) for each in queued]),
        _frame("ActiveUpdated", [_simulation(each) for each in active]),
        _frame("LastFinished", [_simulation(each) for each in _finished(services)]),
        _frame("ClusterUtilizationUpdated", [_cluster(each, runs) for each, runs in clusters]),
        _frame("NamespaceUtilizationUpdated", _namespaces(clusters)),
    ]


def _finished(services: ServiceContext) -> list[Simulation]:
    """Return the runs that ended last, of the newest days on which some did."""
    cache, found = services.cache, list[Simulation]()
    for day in sorted(cache.values(indices.SIMULATIONS_ENDED), reverse=True):
        ended = cache.by(indices.SIMULATIONS_ENDED, day)
        found += [each for each in ended if each.status.phase is not SimulationPhase.DENIED]
        if len(found) >= FINISHED:
            break
    found.sort(key=_end, reverse=True)
    return found[:FINISHED]


def _end(each: Simulation) -> tuple[float, str]:
    at = each.status.completed_at
    return (0.0 if at is None else at.timestamp(), each.name)


def _simulation(each: Simulation) -> dict[str, Any]:
    status = each.status
    return {
        "simulation_id": each.name,
        "request_id": each.name,
        "cluster": each.spec.cluster,
        "params": each.spec.params,
        "predicted_cost": None if status.decision is None else _cost(status.decision.requested),
        "actual_cost": {name: each_.peak for name, each_ in status.observed.items()},
        "phase": status.phase,
        "decided_at": status.decided_at,
        "completed_at": status.completed_at,
    }


def _cost(cost: Amounts) -> dict[str, float]:
    return {
        "cpu_cores": cost.cpu_milli / 1000,
        "memory_gb": round(cost.memory_mib / 1024, 3),
        "network_mbps": cost.network_kbps / 1000,
    }


def _cluster(each: Cluster, active: list[Simulation]) -> dict[str, Any]:
    return {
        "cluster": each.name,
        "namespace": each.namespace,
        "capacity": capacity_of(each),
        "target": targets(as_seen(each)),
        "others": others_of(each),
        "mode": mode_of(each),
        "reserved": _reserved(active),
    }


def _namespaces(clusters: list[tuple[Cluster, list[Simulation]]]) -> list[dict[str, Any]]:
    """Return what the runs of each namespace hold, on whichever of its clusters."""
    runs: dict[str, list[Simulation]] = {}
    for cluster, active in clusters:
        runs.setdefault(cluster.namespace, []).extend(active)
    return [
        {"namespace": name, "running": len(active), "reserved": _reserved(active)}
        for name, active in sorted(runs.items())
    ]


def _reserved(active: list[Simulation]) -> Amounts:
    held = [each.status.reservation for each in active]
    return ledger.total(each for each in held if each is not None)


def _frame(name: str, data: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"type": name, "data": data}) + b"\n\n"
