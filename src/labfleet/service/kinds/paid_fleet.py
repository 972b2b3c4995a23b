"""The paid time of the fleet: the rows of the ledger, and what runs now, as the core wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation

from labfleet.decisions.costs.shares import Paid, Ran, Stay
from labfleet.decisions.costs.statements import label
from labfleet.engine.cache import Cache
from labfleet.resources import course, refs
from labfleet.resources.history import Run, RunKind
from labfleet.resources.prices import PriceList
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core.paid_ledger import PaidLedger
from labfleet.service.kinds import indices, paid_rows

ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class PaidFleet:
    """What was paid since an instant; `left_out`: the ledger has more rows than one question reads."""

    machines: tuple[Paid, ...]
    stays: dict[str, list[Stay]]
    left_out: bool = False


@dataclass(slots=True)
class _Gathered:
    """What is known of one machine while rows are read."""

    about: Run | Worker
    runs: list[Ran] = field(default_factory=list)
    disk: tuple[datetime, datetime, Decimal | None] | None = None


async def read(
    ledger: PaidLedger, cache: Cache, listed: PriceList, since: datetime, now: datetime
) -> PaidFleet:
    """Return the fleet's paid time from an instant to now; the work grows with that time alone."""
    fleet = await machines(ledger, cache, listed, since, now)
    now = now.replace(microsecond=0)  # bills count whole seconds
    stays: dict[str, list[Stay]] = {}
    rows, more = await ledger.rows(RunKind.HOSTED, since)
    for number, run in enumerate(rows, 1):
        await _breathe(number)
        uid = str(run.parameters.get("worker_uid", ""))
        stays.setdefault(uid, []).append(_stay(run))
    for uid, each in _live_stays(cache, now):
        stays.setdefault(uid, []).append(each)
    return PaidFleet(fleet.machines, stays, fleet.left_out or more)


async def machines(
    ledger: PaidLedger, cache: Cache, listed: PriceList, since: datetime, now: datetime
) -> PaidFleet:
    """Return the same without whose sessions it was for, which a budget does not ask."""
    now = now.replace(microsecond=0)  # bills count whole seconds
    gathered: dict[str, _Gathered] = {}
    rows, more = await ledger.rows(RunKind.PAID, since)
    for number, run in enumerate(rows, 1):
        await _breathe(number)
        _take_row(gathered, run)
    for worker in cache.all(Worker):
        _take_live(gathered, worker, listed, now)
    found = (_paid(name, each, listed) for name, each in gathered.items())
    return PaidFleet(tuple(each for each in found if each is not None), {}, more)


async def _breathe(number: int) -> None:
    """Let other tasks run after some hundreds of rows: everybody may ask what their sessions cost."""
    if number % ROWS_AT_ONCE == 0:
        await asyncio.sleep(0)


def _take_row(gathered: dict[str, _Gathered], run: Run) -> None:
    told, start = run.parameters, run.started_at
    name = str(told.get("machine", ""))
    if start is None or not name:
        return
    each = gathered.setdefault(name, _Gathered(run))
    price = _price(told.get("usd"))
    if told.get("what") == "disk":
        each.disk = (start, run.ended_at, price)
        return
    ready = told.get("ready")
    doubt = told.get("uncertain_seconds")
    each.runs.append(
        Ran(
            start,
            run.ended_at,
            datetime.fromisoformat(ready) if isinstance(ready, str) else None,
            price,
            uncertain=doubt if isinstance(doubt, float) else 0.0,
            idle_stop=told.get("stopped_by") == "idle",
        )
    )


def _price(told: object) -> Decimal | None:
    try:
        return Decimal(told.removesuffix(" USD")) if isinstance(told, str) else None
    except InvalidOperation:
        return None


def _take_live(
    gathered: dict[str, _Gathered], worker: Worker, listed: PriceList, now: datetime
) -> None:
    paid, machine = worker.status.paid, worker.spec.machine
    if paid is None:
        return
    each = gathered.setdefault(paid.machine, _Gathered(worker))
    each.about = worker
    each.disk = (paid.disk_since, max(now, paid.disk_since), paid_rows.disk_month(machine, listed))
    if paid.running_since is not None:
        hour = paid_rows.hour_of(machine, worker.status.machine.type, listed)
        end = max(now, paid.running_since)
        each.runs.append(
            Ran(paid.running_since, end, paid.ready_at, hour, uncertain=paid.uncertain_seconds)
        )


def _paid(name: str, each: _Gathered, listed: PriceList) -> Paid | None:
    runs = sorted(each.runs, key=_start)
    if each.disk is None and not runs:
        return None
    first, last, disk = each.disk or (runs[0].start, runs[-1].end, None)
    about = each.about
    if isinstance(about, Worker):
        told = paid_rows.described(about.spec.machine, about.status.machine.type)
        uid, called, pool = about.metadata.uid, about.name, about.spec.pool or ""
    else:
        told = dict(about.parameters)
        uid, called, pool = about.name, str(told.get("worker", "")), about.place
    region, kind = str(told.get("region", "")), str(told.get("type", ""))
    unpriced = []
    if any(run.hour is None for run in runs):
        unpriced.append(f"{kind} in {region}")
    if disk is None:
        unpriced.append(f"a disk of {told.get('disk', 'unknown size')} in {region}")
    product = told.get("licence")
    monthly = listed.licences.get(str(product)) if product else None
    return Paid(
        worker=uid, name=called, machine=name, pool=pool, namespace=about.namespace, region=region,
        kind=kind, runs=tuple(runs), disk_from=first, disk_to=last, disk=disk,
        licence=Decimal(0) if monthly is None else Decimal(repr(monthly)),
        unpriced=tuple(unpriced),
    )  # fmt: skip


def _start(run: Ran) -> datetime:
    return run.start


def _stay(run: Run) -> Stay:
    return Stay(
        worker=str(run.parameters.get("worker_uid", "")),
        session=label(run.namespace, run.name),
        owner=run.owner,
        course=label(run.namespace, str(run.parameters.get("course", ""))),
        start=run.started_at or run.ended_at,
        end=run.ended_at,
        weight=(
            float(run.allocation.get("cpu_milli", 0)),
            float(run.allocation.get("memory_mib", 0)),
        ),
    )


def _live_stays(cache: Cache, now: datetime) -> Iterator[tuple[str, Stay]]:
    for worker in cache.all(Worker):
        for session in cache.by(indices.SESSIONS_HERE, worker.key.path):
            found = stay_of(session, worker, now)
            if found is not None:
                yield worker.metadata.uid, found


def stay_of(session: Session, worker: Worker, now: datetime) -> Stay | None:
    """Return a session's time on the worker where its lab is; None while it is not there."""
    since, held = session.status.hosted_since, session.status.reservation
    if since is None or held is None or refs.worker_of(session) is None:
        return None
    return Stay(
        worker=worker.metadata.uid,
        session=session.key.label,
        owner=session.spec.owner,
        course=label(session.namespace, session.metadata.labels.get(course.LABEL, "")),
        start=since,
        end=max(now, since),
        weight=(float(held.amounts.cpu_milli), float(held.amounts.memory_mib)),
    )
