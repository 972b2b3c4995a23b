"""What is known of a worker's use: from the cache, and from what was read from its server.

Shared by the controller that stops workers and the reads that explain why it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from labfleet.decisions import disruption, idle, ledger, parking
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.engine.cache import Cache
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition
from labfleet.resources.fleet_settings import FleetSettings, Idle
from labfleet.resources.idle import Activity
from labfleet.resources.session import Session
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.resources.worker import Worker
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.kinds import indices

CLOUD_DELAY = timedelta(minutes=5)
"""How late a CloudWatch point may be before it counts as stale."""
LEAST_FRESH = timedelta(minutes=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read of the server; `gaps` says why something is None."""

    nodes: int | None = None
    cpu_percent: float | None = None
    network: float | None = None
    maintenance: bool | None = None
    read_at: datetime | None = None
    activity: Activity | None = None
    activity_at: datetime | None = None
    gaps: tuple[tuple[str, str], ...] = ()


def of_sample(worker: Worker, sample: Sample | None) -> Reading:
    """Return the values of the newest sample if it is of this boot, else nothing."""
    if sample is None or sample.boot != (worker.status.cml.boot or ""):
        return Reading()
    stats = sample.stats
    running = None if stats is None else stats.running_nodes
    orphans = 0 if stats is None else stats.running_orphans or 0
    return Reading(
        nodes=None if running is None else running + orphans,
        cpu_percent=None if stats is None else stats.cpu_percent,
        maintenance=sample.maintenance,
        read_at=sample.at,
        gaps=tuple(
            (name, why)
            for name, key in (("nodes", "stats"), ("cpu", "stats"), ("maintenance", "maintenance"))
            if (why := sample.gaps.get(key)) is not None
        ),
    )


def traffic(
    points: Sequence[ProviderPoint], settings: FleetSettings, now: datetime
) -> float | None:
    """Return bytes a second in and out from the newest point; None when missing or stale."""
    newest = points[-1] if points else None
    if newest is None:
        return None
    covered = newest.at + timedelta(seconds=newest.seconds)
    late = timedelta(seconds=2 * settings.monitoring.cloudwatch_interval_seconds) + CLOUD_DELAY
    ways = (newest.network_in_bytes_per_second, newest.network_out_bytes_per_second)
    if now - covered > late or ways[0] is None or ways[1] is None:
        return None
    return ways[0] + ways[1]


def with_activity(found: Reading, activity: Activity, at: datetime) -> Reading:
    """Return the reading with the given events of use added."""
    return replace(found, activity=activity, activity_at=at)


def gather(
    cache: Cache,
    reader: SettingsReader,
    worker: Worker,
    reading: Reading,
    now: datetime,
    *,
    brief: bool = False,
) -> idle.IdleFacts:
    """Return the input of the verdict; with `brief`, the pool of a used worker is not counted."""
    settings = reader.now()
    sessions = _bound(cache, worker)
    unread = brief and sessions > 0 and worker.spec.pool is not None
    serving, least = (None, 0) if unread else _pool(cache, worker)
    return idle.IdleFacts(
        sessions=sessions,
        soon=sum(1 for _ in _coming(cache, worker, settings.idle, now)),
        nodes=reading.nodes,
        cpu_percent=reading.cpu_percent,
        network=reading.network,
        network_watched=settings.monitoring.cloudwatch,
        maintenance=reading.maintenance,
        read_at=reading.read_at,
        activity=reading.activity,
        activity_at=reading.activity_at,
        fresh=fresh_for(settings),
        gaps=reading.gaps,
        pending=tuple(_pending(worker)),
        serving=serving,
        least=least,
        pool_unread=unread,
        held=tuple(_held(None if unread else cache, reader, worker)),
    )


def fresh_for(settings: FleetSettings) -> timedelta:
    """Return how old a reading may be: four polling intervals of the worker controller."""
    return max(LEAST_FRESH, timedelta(seconds=4 * settings.monitoring.poll_interval_seconds))


def _bound(cache: Cache, worker: Worker) -> int:
    """Count the sessions that hold something here or are placed here."""
    return sum(
        session.status.phase in session_phases.BOUND or session.status.reservation is not None
        for session in cache.by(indices.SESSIONS_HERE, worker.key.path)
    )


def _coming(cache: Cache, worker: Worker, settings: Idle, now: datetime) -> Iterator[Session]:
    """Yield the waiting sessions that begin within the lead time and may be placed here."""
    horizon = now + timedelta(minutes=settings.soon_minutes)
    capacity = worker.status.capacity
    for value in cache.values(indices.SESSIONS_WAITING):
        namespace, wanted, definition_name = value
        definition = cache.get(Definition, definition_name, namespace)
        track = wanted or (definition.spec.track if definition else None)
        if namespace != worker.namespace or track not in {None, worker.spec.track}:
            continue
        declared = None if definition is None else definition.status.demand
        large = _too_large(declared, capacity)
        for session in cache.by(indices.SESSIONS_WAITING, value):
            start, learned = session.spec.slot.start, session.status.demand
            if large if learned is None else _too_large(learned.amounts, capacity):
                continue
            if not session_phases.end_asked(session) and (start is None or start <= horizon):
                yield session


def _too_large(needed: Amounts | None, capacity: Amounts | None) -> bool:
    """Tell whether what is needed fits no worker of this size; what is unknown may."""
    if needed is None or capacity is None:
        return False
    return bool(ledger.shortages(needed, capacity, Amounts()))


def _pool(cache: Cache, worker: Worker) -> tuple[int | None, int]:
    """Return how many workers of its pool serve or will soon, and the pool's minimum."""
    pool = cache.find(refs.pool_of(worker))
    if pool is None:
        return None, 0
    alive = worker_phases.HOSTING | worker_phases.BOOTING
    serving = sum(
        each.status.phase in alive and not worker_phases.drain_wanted(each)
        for each in cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    )
    return serving, pool.spec.scaling.min_workers if pool.spec.desired == "Ready" else 0


def _pending(worker: Worker) -> Iterable[str]:
    """Yield the operations under way on the worker."""
    status, spec = worker.status, worker.spec
    if status.effect is not None:
        yield f"{status.effect.kind} (an open call)"
    if status.licence.registration == "IN_PROGRESS":
        yield "licence registration"
    if spec.drain is not None:
        yield "a drain"
    if worker.deleting or spec.desired != "Ready":
        yield f"it is to be {'Terminated' if worker.deleting else spec.desired}"


def _held(cache: Cache | None, reader: SettingsReader, worker: Worker) -> Iterable[tuple[str, str]]:
    """Yield why automation may not stop it at all."""
    named = refs.pool_of(worker)
    paused = reader.paused(named)
    if paused is not None:
        yield "paused", paused
    pool = None if cache is None else cache.find(named)
    if cache is not None and pool is not None:
        room = disruption.of_workers(
            pool.spec.disruption, cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        )
        if not room.left:
            yield "disruption", room.why or "its pool has nobody else who serves"
    if not parking.ours(worker):
        yield "not_ours", "it is only observed, or its machine is not ours to stop"
