"""Makes the rows of the ledger of paid time: of machines, of their disks, of sessions on workers.

Called where the change is recorded, so that the record and the row are one commit: neither a
process that is killed nor a new leader loses a second of it or counts one twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.decisions import parking
from labfleet.decisions.costs import paid_times
from labfleet.decisions.costs.paid_times import Look, Over
from labfleet.resources import amounts, course, providers
from labfleet.resources.history import Run, RunKind, typed
from labfleet.resources.machine import Machine
from labfleet.resources.paid_time import PaidTime
from labfleet.resources.prices import MOST_USD, PriceList
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.session import TERMINAL, Session, SessionStatus
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus

LOST = timedelta(minutes=10)
"""After so long the machine of a failed worker that no list shows is paid no more."""


def of_worker(
    worker: Worker, after: WorkerStatus, listed: PriceList, now: datetime, looked: datetime | None
) -> tuple[PaidTime | None, tuple[Run, ...]]:
    """Return what is paid for a worker from now on, and the rows of what is over.

    `looked` is when this process looked at the machine before. A server that is not ours to switch
    costs nothing that is known here.
    """
    origin = worker.spec.origin
    strange = origin is not None and (origin.kind == "external" or not origin.managed)
    if strange and after.paid is None:
        return None, ()
    absent = after.machine.absent_since
    lost = absent is not None and now - absent >= LOST and after.phase is WorkerPhase.FAILED
    gone = lost or strange or after.phase is WorkerPhase.TERMINATED
    look = Look(now, looked, gone=gone, ready=after.ready_since)
    paid, over = paid_times.follow(after.paid, after.machine, look)
    return paid, tuple(_row(worker, each, listed) for each in over)


def _row(worker: Worker, over: Over, listed: PriceList) -> Run:
    machine = worker.spec.machine
    begun = int(over.start.timestamp())
    asked: dict[str, object] = {
        "what": over.what,
        "worker": worker.name,
        "machine": over.machine,
        "uncertain_seconds": over.uncertain,
        **described(machine, worker.status.machine.type),
    }
    usd = hour_of(machine, worker.status.machine.type, listed)
    if over.what == "disk":
        usd = disk_month(machine, listed)
    if usd is not None:
        asked["usd"] = str(usd) + " USD"  # a text: a sum of it is exact
    if over.ready is not None:
        asked["ready"] = over.ready.isoformat()
    if over.what == "running" and parking.auto_stopped(worker):
        asked["stopped_by"] = "idle"
    return Run(
        kind=RunKind.PAID,
        uid=f"{over.machine}/{over.what}/{begun}",
        name=worker.metadata.uid,
        namespace=worker.namespace,
        family=worker.spec.template or "none",
        place=worker.spec.pool or "",
        parameters=typed(asked),
        duration_seconds=(over.end - over.start).total_seconds(),
        started_at=over.start,
        ended_at=over.end,
    )


def described(machine: Machine | None, seen: str | None) -> dict[str, object]:
    """Return what a machine is priced by, for a row and for the words of an unknown price."""
    if machine is None:
        return {"region": "", "type": seen or ""}
    provider = machine.provider
    kind = seen or providers.first_type(provider)
    found: dict[str, object] = {"region": provider.region, "type": kind or "server"}
    if isinstance(provider, AwsSettings):
        found["disk"] = f"{provider.volume_size_gib} GiB {provider.volume_type}"
    if machine.licence.token is not None:
        found["licence"] = machine.licence.product
    return found


def hour_of(machine: Machine | None, seen: str | None, listed: PriceList) -> Decimal | None:
    """Return US dollars of an hour of a machine: as stated, else as listed, else None.

    A stated price beyond all bounds, which earlier versions took, is not known.
    """
    if machine is None or machine.hourly_price_usd > MOST_USD:
        return None
    if machine.hourly_price_usd > 0:
        return Decimal(repr(machine.hourly_price_usd))
    kind = seen or providers.first_type(machine.provider)
    return listed.hourly(machine.provider.region, kind)


def hourly_usd(machine: Machine | None, seen: str | None, listed: PriceList) -> float | None:
    """Return the same as a number that is compared or shown, and not summed."""
    found = hour_of(machine, seen, listed)
    return None if found is None else float(found)


def disk_month(machine: Machine | None, listed: PriceList) -> Decimal | None:
    """Return US dollars of a month of a machine's disk; None when that is not known.

    A provider without disks of its own has none to pay.
    """
    if machine is None:
        return None
    provider = machine.provider
    if not isinstance(provider, AwsSettings):
        return Decimal(0)
    iops = provider.volume_iops
    return listed.disk_month(
        provider.region,
        provider.volume_type,
        provider.volume_size_gib,
        iops,
        provider.volume_throughput_mibps or 0,
    )


def of_session(
    before: Session, after: SessionStatus, worker: Worker | None, now: datetime
) -> Run | None:
    """Return the row of a session's time on its worker; None while it stays, or never was there."""
    since, held = before.status.hosted_since, before.status.reservation
    left = after.reservation is None or after.phase in TERMINAL
    if since is None or held is None or not left or before.status.worker is None:
        return None
    asked = {
        "worker": before.status.worker,
        "worker_uid": "" if worker is None else worker.metadata.uid,
        "definition": before.spec.definition,
        "course": before.metadata.labels.get(course.LABEL, ""),
    }
    vector = zip(amounts.DIMENSIONS, amounts.vector(held.amounts), strict=True)
    end = max(now, since)
    return Run(
        kind=RunKind.HOSTED,
        uid=f"{before.metadata.uid}/{int(since.timestamp())}",
        name=before.name,
        namespace=before.namespace,
        family=before.spec.definition or "none",
        owner=before.spec.owner,
        place="" if worker is None else worker.spec.pool or "",
        parameters=typed(asked),
        allocation={name: amount for name, amount in vector if amount},
        duration_seconds=(end - since).total_seconds(),
        started_at=since,
        ended_at=end,
    )
