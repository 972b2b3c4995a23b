"""Which objects the cache finds by what: the indices of each kind.

A decision reads one of these and not all objects of a kind: what has ended stays on record for a
month, and must not make the next decision slower. Values are `namespace/name` where a name alone
would not be unique. A new one is also listed in `indices` of its kind's file. Each field that a
list can be filtered by has an index too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import date, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from labfleet.decisions.ledger import OVERDUE
from labfleet.decisions.pools import policy_kinds
from labfleet.engine.index import Index
from labfleet.kernel.clock import in_utc
from labfleet.resources import alerts, conditions, refs
from labfleet.resources.course import Course
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.group import Group
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import Ref, Resource
from labfleet.resources.paths import Getter, getter
from labfleet.resources.pool import Pool
from labfleet.resources.queue import Queue
from labfleet.resources.session import TERMINAL, Session, SessionPhase, booker
from labfleet.resources.session_conditions import SessionCondition
from labfleet.resources.simulation import HOLDING, OPEN, Simulation, SimulationPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason
from labfleet.service.core.kind_table import TABLE

# --- sessions ------------------------------------------------------------------------------


def hour_of(at: datetime) -> int:
    """Return the number of the hour of an instant."""
    return int(at.timestamp() // 3600)


def _up_of(session: Session) -> Iterable[str]:
    up = session.status.ready_at or session.status.ended_at
    worker = refs.worker_of(session)
    return () if up is None or worker is None else (f"{worker.key.path} {hour_of(up)}",)


def _holds(session: Session) -> bool:
    return session.status.phase not in TERMINAL or session.status.reservation is not None


def _here(session: Session) -> Iterable[str]:
    worker = refs.worker_of(session)
    return () if not _holds(session) or worker is None else (worker.key.path,)


def _open(session: Session) -> Iterable[bool]:
    held = session.metadata.finalizers or session.deleting or session.status.effect is not None
    return (True,) if held or session.status.phase not in TERMINAL else ()


def _pending(session: Session) -> Iterable[bool]:
    return (True,) if session.status.phase is SessionPhase.PENDING else ()


def _waiting(session: Session) -> Iterable[tuple[str, str | None, str]]:
    if session.status.phase is not SessionPhase.PENDING:
        return ()
    return ((session.namespace, session.spec.track, session.spec.definition),)


def _using(session: Session) -> Iterable[str]:
    return () if session.status.phase in TERMINAL else (refs.definition_of(session).key.path,)


def _observed(session: Session) -> Iterable[str]:
    seen = session.status.observed_at is not None
    return (refs.definition_of(session).key.path,) if seen else ()


def _session_ended(session: Session) -> Iterable[date]:
    at = session.status.ended_at
    return () if session.status.phase not in TERMINAL or at is None else (at.date(),)


def _ended_of(session: Session) -> Iterable[tuple[str, date]]:
    return [(f"{session.namespace}/{session.spec.owner}", day) for day in _session_ended(session)]


def _of_owner(session: Session) -> Iterable[str]:
    owned = f"{session.namespace}/{booker(session)}"
    return () if session.status.phase in TERMINAL else (owned,)


def _claiming(session: Session) -> Iterable[tuple[str, int]]:
    claim = session.status.claim
    if claim is None or not _holds(session):
        return ()
    pool = Ref(Pool, session.namespace, claim.pool).key.path
    last = (claim.end + OVERDUE).toordinal()
    return [(pool, day) for day in range(claim.start.toordinal(), last + 1)]


def _of_group(session: Session) -> Iterable[str]:
    seat = session.status.seat
    return () if seat is None else (seat.uid,)


def _booked(session: Session) -> Iterable[str]:
    seat = session.status.seat
    return () if seat is None else (seat.booked_by,)


def _offered(session: Session) -> Iterable[str]:
    offer = session.status.offer
    return () if offer is None or session.status.phase in TERMINAL else (offer.to,)


def _endangered(session: Session) -> Iterable[str]:
    claim = session.status.claim
    fact = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    if claim is None or fact is None or fact.status != "False" or session.status.phase in TERMINAL:
        return ()
    return (Ref(Pool, session.namespace, claim.pool).key.path,)


SESSIONS_OF_OWNER = Index(Session, "of-owner", _of_owner)
"""By namespace and who has to answer for them (`session.booker`) the sessions that have not ended.

A seat counts for whoever booked it: nobody fills the share of somebody else by naming them.
"""
SESSIONS_OF_GROUP = Index(Session, "of-group", _of_group)
"""By the group's uid the sessions that are its seats, ended ones and earlier attempts too."""
SESSIONS_BOOKED = Index(Session, "booked", _booked)
"""By who booked them the sessions that are seats of a group."""
SESSIONS_OFFERED = Index(Session, "offered", _offered)
"""By to whom they are offered the sessions that have not ended."""
SESSIONS_ENDED_OF = Index(Session, "ended-of", _ended_of)
"""By owner (`namespace/owner`) and the day (UTC) on which they ended."""
SESSIONS_UP = Index(Session, "up", _up_of)
"""By worker and the hour in which the session's lab became ready, or ended."""
SESSIONS_HERE = Index(Session, "here", _here)
"""By worker (`namespace/name`) the sessions that hold something there; ended ones still name one."""
SESSIONS_CLAIMING = Index(Session, "claiming", _claiming)
"""By pool (`namespace/name`) and day (its number, UTC) the sessions that hold a claim on that day."""
SESSIONS_ENDANGERED = Index(Session, "endangered", _endangered)
"""By pool (`namespace/name`) those whose promise was last said to be in danger."""
SESSIONS_OPEN = Index(Session, "open", _open)
"""Those that still need work: all but ended ones that hold nothing more.

Ended ones stay for a month; reconciling each every few minutes would be most of a busy server's
resync, for nothing.
"""
SESSIONS_PENDING = Index(Session, "pending", _pending)
SESSIONS_WAITING = Index(Session, "waiting", _waiting)
"""The PENDING ones by namespace, track (None: as the definition says) and definition.

Sessions of one value ask for the same, so what is decided of one holds for all.
"""
SESSIONS_USING = Index(Session, "using", _using)
"""By definition the sessions that have not ended."""
SESSIONS_OBSERVED = Index(Session, "observed", _observed)
"""By definition the sessions of which an observation was recorded."""
SESSIONS_ENDED = Index(Session, "ended", _session_ended)
"""By the day (UTC) on which they ended."""

# --- workers -------------------------------------------------------------------------------


def _pool_of(worker: Worker) -> Iterable[str]:
    pool = refs.pool_of(worker)
    return () if pool is None else (pool.key.path,)


def _uuid_of(worker: Worker) -> Iterable[str]:
    known = worker.status.cml.product_uuid
    return () if known is None else (known,)


def _instances_of(worker: Worker) -> Iterable[str]:
    origin = worker.spec.origin
    known = {worker.status.machine.id, None if origin is None else origin.instance_id}
    return [each for each in known if each]


def _machines_of(worker: Worker) -> Iterable[str]:
    """Return the machine that a worker has, and the one that its open launch asks for."""
    if worker.status.phase is WorkerPhase.TERMINATED:
        return ()
    effect = worker.status.effect
    asked = None if effect is None else effect.parameters.get("machine")
    return {each for each in (worker.status.machine.id, asked) if each}


def server_of(url: str | None) -> str:
    """Return the canonical server of a URL: two workers never share one.

    The same host and port is the same server, whatever the path; http and https differ by port.
    """
    try:
        parts = urlsplit(url or "")
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return url or ""
    return f"{(parts.hostname or '').rstrip('.')}:{port}"


def _server_of(worker: Worker) -> Iterable[str]:
    origin = worker.spec.origin
    return () if origin is None or not origin.url else (server_of(origin.url),)


def _living(worker: Worker) -> Iterable[bool]:
    return () if worker.status.phase is WorkerPhase.TERMINATED else (True,)


def _single(worker: Worker) -> Iterable[str]:
    alone = worker.spec.pool is None and worker.status.phase is not WorkerPhase.TERMINATED
    return (worker.namespace,) if alone else ()


def _region_of(worker: Worker) -> Iterable[str]:
    origin, machine = worker.spec.origin, worker.spec.machine
    external = origin is not None and origin.kind != "imported"
    return () if external or machine is None else (machine.provider.region,)


def _absent(worker: Worker) -> Iterable[bool]:
    ended = worker.status.phase is WorkerPhase.TERMINATED
    return () if ended or worker.status.machine.absent_since is None else (True,)


def _stray(worker: Worker) -> Iterable[bool]:
    ended = worker.status.phase is WorkerPhase.TERMINATED
    return () if ended or not worker.status.stray_labs.count else (True,)


def _raised(worker: Worker) -> Iterable[bool]:
    return (True,) if any(map(alerts.is_raised, worker.status.conditions)) else ()


def _outside(worker: Worker) -> Iterable[str]:
    """Return the region of a machine that others ended, or that is not there."""
    told = conditions.find(worker.status.conditions, WorkerCondition.EXTERNAL_CHANGE)
    ended = told is not None and told.status == "True" and told.reason == WorkerReason.TERMINATED
    if worker.status.machine.id is None or not (ended or worker.status.machine.absent_since):
        return ()
    return _region_of(worker)


def _worker_ended(worker: Worker) -> Iterable[date]:
    at = worker.status.phase_since
    ended = worker.status.phase is WorkerPhase.TERMINATED and at is not None
    return (at.date(),) if ended and at is not None else ()


WORKERS_OF_POOL = Index(Worker, "pool", _pool_of)
WORKERS_OF_PRODUCT = Index(Worker, "product_uuid", _uuid_of)
"""By the identity that Cisco's licensing knows a CML server by."""
WORKERS_OF_INSTANCE = Index(Worker, "instance", _instances_of)
"""By the machine that a worker has, or was imported for; ended workers too."""
WORKERS_OF_MACHINE = Index(Worker, "machine", _machines_of)
"""By the machine that a worker has, or is about to have; without ended workers."""
WORKERS_OF_SERVER = Index(Worker, "server", _server_of)
"""By the server of the address that its origin gives (`server_of`)."""
WORKERS_LIVING = Index(Worker, "living", _living)
"""All but the records of terminated ones."""
WORKERS_SINGLE = Index(Worker, "single", _single)
"""By namespace the living ones without a pool."""
WORKERS_OF_REGION = Index(Worker, "region", _region_of)
"""By the region of their machine; ended ones too, since garbage may be left there."""
WORKERS_ABSENT = Index(Worker, "absent", _absent)
"""Those not terminated whose machine the provider did not show at the last look."""
WORKERS_STRAY = Index(Worker, "stray", _stray)
"""Those with labs of ours on their server that are no session's."""
WORKERS_OUTSIDE = Index(Worker, "outside", _outside)
"""By region those whose machine others ended, or which the provider did not show."""
WORKERS_RAISED = Index(Worker, "raised", _raised)
"""Those with an alert, so that the many without one are not asked for theirs every few seconds."""
WORKERS_ENDED = Index(Worker, "ended", _worker_ended)
"""By the day (UTC) on which they were terminated."""

# --- pools, simulations --------------------------------------------------------------------


def _growing(pool: Pool) -> Iterable[tuple[str, str | None, bool]]:
    scaling = pool.spec.scaling
    grows = policy_kinds.demand(scaling)
    if pool.spec.desired != "Ready" or pool.deleting or not grows:
        return ()
    full = pool.status.workers >= scaling.max_workers
    return ((pool.namespace, pool.spec.track, full), (pool.namespace, None, full))


def _family_of(definition: Definition) -> Iterable[tuple[str, str]]:
    return ((definition.namespace, family_of(definition)),)


def _template_of(pool: Pool) -> Iterable[str]:
    return (refs.template_of(pool).key.path,)


def _namespace_of(obj: Resource) -> Iterable[str]:
    return (obj.namespace,)


def _holding(simulation: Simulation) -> Iterable[str]:
    if simulation.status.phase not in HOLDING:
        return ()
    return (refs.cluster_path(simulation),)


def _queued(simulation: Simulation) -> Iterable[str]:
    if simulation.status.phase is not SimulationPhase.QUEUED:
        return ()
    return (refs.cluster_path(simulation),)


def _undecided(simulation: Simulation) -> Iterable[str]:
    return _queued(simulation) if simulation.status.decision is None else ()


def _queue_of(simulation: Simulation) -> Iterable[tuple[str, bool]]:
    if simulation.spec.queue is None or simulation.status.phase not in OPEN:
        return ()
    holds = simulation.status.phase in HOLDING
    return ((f"{simulation.namespace}/{simulation.spec.queue}", holds),)


def _cluster_of_queue(queue: Queue) -> Iterable[str]:
    return (refs.cluster_path(queue),)


def _simulation_ended(simulation: Simulation) -> Iterable[date]:
    at = simulation.status.completed_at or simulation.status.decided_at
    over = simulation.status.phase not in OPEN
    return (at.date(),) if over and at is not None else ()


def _group_ended(group: Group) -> Iterable[date]:
    end = group.status.end
    return () if end is None else (in_utc(end).date(),)


def _course_ended(course: Course) -> Iterable[date]:
    return [in_utc(each.end).date() for each in course.status.dates[-1:]]


COURSES_ENDED = Index(Course, "ended", _course_ended)
"""By the day (UTC) on which their last date ends."""
GROUPS_ENDED = Index(Group, "ended", _group_ended)
"""By the day (UTC) on which their slot ends."""
POOLS_GROWING = Index(Pool, "growing", _growing)
"""By namespace, track (None: any) and whether at their maximum: those that grow by need."""
POOLS_OF_TEMPLATE = Index(Pool, "template", _template_of)
POOLS_IN = Index(Pool, "namespace", _namespace_of)
DEFINITIONS_OF_FAMILY = Index(Definition, "family", _family_of)
"""By namespace and family all its versions."""
SIMULATIONS_HOLDING = Index(Simulation, "holding", _holding)
"""By cluster the approved and running ones: only they hold capacity."""
SIMULATIONS_QUEUED = Index(Simulation, "queued", _queued)
"""By cluster those that nobody has decided yet, or that wait for room."""
SIMULATIONS_UNDECIDED = Index(Simulation, "undecided", _undecided)
"""By cluster those that another process has stored and nobody has decided."""
SIMULATIONS_OF_QUEUE = Index(Simulation, "queue", _queue_of)
"""By queue and whether they hold something: what is open of it."""
QUEUES_OF_CLUSTER = Index(Queue, "cluster", _cluster_of_queue)
SIMULATIONS_ENDED = Index(Simulation, "ended", _simulation_ended)
"""By the day (UTC) on which they ended or were denied."""

# --- filters of lists ----------------------------------------------------------------------


def _text_at(read: Getter, obj: Resource) -> Iterable[str]:
    value = read(obj)
    return () if value is None else (value,)


@functools.cache
def _filters(row: Kind) -> dict[str, Index[Any, str]]:
    made = {}
    for name, path in row.filters:
        read = getter(row.type, path)
        if read is None:
            raise ValueError(f"{row.plural} have no {path} to be filtered by")
        made[name] = Index(row.type, f"filter {name}", partial(_text_at, read))
    return made


def filter_of(kind: str, name: str) -> Index[Any, str]:
    """Return the index of a kind's filter."""
    return _filters(KINDS[kind])[name]


def declared() -> tuple[Index[Any, Any], ...]:
    """Return every kind's indices; composition roots declare them before the cache starts."""
    own = [index for rules in TABLE.values() for index in rules.indices]
    return (*own, *(index for row in KINDS.values() for index in _filters(row).values()))
