"""What asks for somebody now, and what soon will: the list of the first page and of `/alerts`.

The raised alerts of `raised`, each with the instant at which it hits, and what no condition says yet:
licences that end soon, ports of labs that drifted, classes with too few places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from labfleet.decisions.lifecycle.worker import health
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.alerts import ALERTS, Raised
from labfleet.resources.group import Group
from labfleet.resources.meta import Key, Record
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.session_conditions import SessionCondition
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import telemetry

CLASS_TOO_LARGE = "ClassDoesNotFit"
"""Word for a group with seats that have no place; no condition of a kind says it."""
_FAR = datetime.max.replace(tzinfo=UTC)
_ORDER = {"critical": 0, "warning": 1, "info": 2}


class Concern(Record, frozen=True, kw_only=True):
    """One thing that asks for somebody.

    alert: What it is, how grave, since when, and what a person does.
    due: When it hits: an end, a beginning, a reboot; null when it hits already, or nobody knows.
    """

    alert: Raised
    due: datetime | None = None


async def read(services: ServiceContext, caller: Caller) -> tuple[tuple[Concern, ...], int]:
    """Return what asks for somebody that the caller may see: what is grave, then what hits first.

    At most `telemetry.LISTED`, and how many were left out.
    """
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    found, more = telemetry.raised(services, caller)
    rows = [Concern(alert=each, due=_due(services, each)) for each in found]
    known = {(each.object, each.namespace, each.condition) for each in found}
    for asking in (*_licences(services), *_drifted(services, caller), *_classes(services, caller)):
        alert = asking.alert
        if (alert.object, alert.namespace, alert.condition) not in known:
            rows.append(asking)
    rows.sort(key=_urgency)
    return tuple(rows[: telemetry.LISTED]), more + max(0, len(rows) - telemetry.LISTED)


def _urgency(each: Concern) -> tuple[int, datetime, int, datetime, str]:
    alert = each.alert
    rank = _ORDER[alert.severity]
    return min(rank, 1), each.due or _FAR, rank, alert.since, alert.object


def _due(services: ServiceContext, alert: Raised) -> datetime | None:
    """Return when an alert hits; None when it does already, or nobody knows when."""
    if alert.condition == PoolCondition.PROMISES_KEPT:
        pool = Key(Pool.__name__, alert.namespace, alert.object.partition("/")[2])
        starts = (
            each.status.claim.start
            for each in services.cache.by(indices.SESSIONS_ENDANGERED, pool.path)
            if each.status.claim is not None
        )
        return min(starts, default=None)
    worker = (
        None if alert.worker is None else services.cache.get(Worker, alert.worker, alert.namespace)
    )
    if worker is None:
        return None
    if alert.condition == WorkerCondition.LICENCE_EXPIRING:
        return health.licence_date(worker.status.licence.expires)
    if alert.condition == WorkerCondition.SCHEDULED_EVENT:
        known = (each.not_before for each in worker.status.machine.events)
        return min((each for each in known if each is not None), default=None)
    return None


def _licences(services: ServiceContext) -> Iterator[Concern]:
    """Yield the licences that end within the setting's days, whether or not a look said so yet."""
    now = services.clock.now()
    limit = timedelta(days=services.settings.now().thresholds.licence_days)
    for worker in services.cache.by(indices.WORKERS_LIVING, True):
        end = health.licence_date(worker.status.licence.expires)
        if end is None or end - now > limit or not worker.status.licence.registered:
            continue
        row = ALERTS[WorkerCondition.LICENCE_EXPIRING]
        reason = WorkerReason.EXPIRED if end <= now else WorkerReason.SOON
        word = "ended" if end <= now else "ends"
        yield Concern(
            alert=Raised(
                object=f"worker/{worker.name}",
                namespace=worker.namespace,
                worker=worker.name,
                condition=row.condition,
                severity=row.severity,
                since=now,
                reason=reason,
                message=f"its licence {word} at {utc_text(end)}",
                cause=row.cause,
                command=row.command.replace("NAME", worker.key.argument),
                fix=row.fix.replace("NAME", worker.key.argument),
            ),
            due=end,
        )


def _drifted(services: ServiceContext, caller: Caller) -> Iterator[Concern]:
    """Yield the sessions whose labs name other ports than they were given.

    Those of a worker that raises PortDrift itself are not repeated.
    """
    for session in services.cache.by(indices.SESSIONS_OPEN, True):
        status = session.status
        fact = conditions.find(status.conditions, SessionCondition.PORT_DRIFT)
        if fact is None or fact.status != "True" or status.phase in TERMINAL:
            continue
        if not access.sees(caller.principal, session) or _told(services, session):
            continue
        row, name = ALERTS[WorkerCondition.PORT_DRIFT], session.key.argument
        yield Concern(
            alert=Raised(
                object=f"session/{session.name}",
                namespace=session.namespace,
                condition=row.condition,
                severity=row.severity,
                since=fact.last_transition_time,
                reason=fact.reason,
                message=fact.message,
                cause=row.cause,
                command=f"labfleet explain session/{name}",
                fix="Mend the tags in CML, or let its person know that a port is gone; it clears by "
                f"itself. `labfleet observe session/{name}` looks again.",
            )
        )


def _told(services: ServiceContext, session: Session) -> bool:
    name = session.status.worker
    worker = None if name is None else services.cache.get(Worker, name, session.namespace)
    if worker is None:
        return False
    return conditions.is_true(worker.status.conditions, WorkerCondition.PORT_DRIFT)


def _classes(services: ServiceContext, caller: Caller) -> Iterator[Concern]:
    """Yield the groups that are not over and have seats without a place, or with one in danger."""
    now, danger = services.clock.now(), dict[str, int]()
    for pool in services.cache.values(indices.SESSIONS_ENDANGERED):
        for each in services.cache.by(indices.SESSIONS_ENDANGERED, pool):
            if each.status.seat is not None:
                uid = each.status.seat.uid
                danger[uid] = danger.get(uid, 0) + 1
    days = [day for day in services.cache.values(indices.GROUPS_ENDED) if day >= now.date()]
    for group in (each for day in days for each in services.cache.by(indices.GROUPS_ENDED, day)):
        status = group.status
        short, unsure = status.asked - status.booked, danger.get(group.metadata.uid, 0)
        over = status.end is not None and status.end <= now
        if over or not (short > 0 or unsure) or not access.sees(caller.principal, group):
            continue
        yield Concern(
            alert=_class_alert(group, short, unsure, now),
            due=status.start if status.start is not None and status.start > now else None,
        )


def _class_alert(group: Group, short: int, unsure: int, now: datetime) -> Raised:
    status, name = group.status, group.key.argument
    parts: list[str] = []
    if short > 0:
        parts.append(f"{short} of its {count(status.asked, 'seat')} have no place")
    if unsure:
        parts.append(f"{count(unsure, 'promised seat')} in danger")
    return Raised(
        object=f"group/{group.name}",
        namespace=group.namespace,
        condition=CLASS_TOO_LARGE,
        severity="critical" if unsure else "warning",
        since=group.metadata.creation_timestamp or now,
        reason=CLASS_TOO_LARGE,
        message="; ".join(parts),
        cause="The class is larger than what its pool can hold in its time.",
        command=f"labfleet explain group/{name}",
        fix="Raise spec.scaling.maxWorkers of its pool, move the class to a time with room "
        "(`labfleet calendar`), or book fewer seats.",
    )


def tally(rows: Iterable[Concern]) -> dict[str, int]:
    """Return how many there are of each severity, the gravest first."""
    found = dict.fromkeys(_ORDER, 0)
    for each in rows:
        found[each.alert.severity] += 1
    return found
