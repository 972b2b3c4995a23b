"""What is worked out of a worker at each reading: what is promised and left, when it was last asked.

Never stored: the reservations are the one record, kept by the ledger, and a copy would be a second;
and a good check writes nothing, its sample is where the instant stands.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from labfleet.decisions import ledger, port_holders, vitals
from labfleet.engine.cache import Cache
from labfleet.resources.amounts import Reservation
from labfleet.resources.held_ports import PortUse
from labfleet.resources.worker import Allocation, Worker, WorkerPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices


def held(cache: Cache, worker: Worker) -> tuple[Reservation, ...]:
    """Return the reservations of a worker, in no promised order."""
    return tuple(
        each.status.reservation
        for each in cache.by(indices.SESSIONS_HERE, worker.key.path)
        if each.status.reservation is not None
    )


def of(cache: Cache, worker: Worker, now: datetime) -> Allocation:
    """Return what is promised of a worker and what is left of its capacity."""
    promised = ledger.promised(held(cache, worker), now)
    return ledger.allocation(promised, worker.status.capacity)


def port_use(cache: Cache, worker: Worker) -> PortUse | None:
    """Return how a worker's ports are used; None when it is over, or its labs were not seen yet."""
    if worker.status.phase is WorkerPhase.TERMINATED or worker.status.cml.labs is None:
        return None
    here = cache.by(indices.SESSIONS_HERE, worker.key.path)
    return port_holders.use(here, worker.status.held_ports)


def shown(services: ServiceContext, worker: Worker) -> Worker:
    """Return a worker as it is read by others: with its allocation and its last check."""
    status = msgspec.structs.replace(
        worker.status,
        allocation=of(services.cache, worker, services.clock.now()),
        ports=port_use(services.cache, worker),
        last_health_check_at=_checked_at(services, worker),
    )
    return msgspec.structs.replace(worker, status=status)


def _checked_at(services: ServiceContext, worker: Worker) -> datetime | None:
    sample = services.samples.newest(worker.key)
    measured = None if sample is None or sample.boot == vitals.REPORTED else sample.at
    known = [each for each in (measured, worker.status.failed_check_at) if each is not None]
    return max(known, default=None)
