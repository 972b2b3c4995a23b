"""Observe a session's lab: where it is, how far it has booted, whether its ports answer.

A lab is recognised as ours by its marker (the session's uid in the lab's notes), never by its
title. Of two labs with one marker the recorded one is kept and the other removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.controllers.session import port_watch
from labfleet.controllers.session.port_looks import PortLooks
from labfleet.controllers.session.port_watch import PortWatch
from labfleet.controllers.worker.address import address_of
from labfleet.decisions import port_numbers
from labfleet.decisions.lifecycle.session import budget, live_lab
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.session import start as session_start
from labfleet.decisions.lifecycle.session.decide import SessionObservation
from labfleet.decisions.lifecycle.worker.phases import (
    HOSTING,
    drain_wanted,
    forced,
    provider_trouble,
    unfit,
)
from labfleet.interfaces.lab_host import Lab, LabHost, NodeState
from labfleet.kernel import errors, ids
from labfleet.resources import conditions, refs, topology
from labfleet.resources.session import LabStatus, Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason
from labfleet.service.kinds import indices

S, P = SessionPhase, WorkerPhase
_LOST = frozenset({P.UNLICENSING, P.STOPPING, P.STOPPED, P.TERMINATING_EC2, P.TERMINATED, P.FAILED})
ACTIVE_STATES = frozenset({"QUEUED", "STARTED", "BOOTED", "STARTING"})
SHOWN = 5


@dataclass(frozen=True, slots=True)
class LabObservation:
    """What was seen, its host (None when unreachable), and surplus labs with our marker."""

    seen: SessionObservation
    host: LabHost | None = None
    spare: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionObserver:
    """Observes sessions."""

    context: Context
    _ports: PortWatch = field(init=False)
    _named: PortLooks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ports", PortWatch(self.context))
        object.__setattr__(self, "_named", PortLooks(self.context))

    async def at(self, session: Session) -> LabObservation:
        """Return what can be seen of a session now; never raises for errors of CML."""
        seen = self.known(session)
        if session.status.worker is None or session.status.phase not in session_phases.BOUND:
            return LabObservation(seen)
        worker = self.context.cache.find(refs.worker_of(session))
        seen = _of_worker(seen, session, worker, self.context)
        if worker is None or seen.host_dead:
            return LabObservation(seen)
        if session.status.phase is S.SCHEDULED:
            return LabObservation(self._room(session, worker, seen))
        host = None
        try:
            host = self._host(worker)
            if host is None:
                return LabObservation(replace(seen, trouble=_mute(worker)))
            return await self._lab(session, worker, host, seen)
        except errors.LabfleetError as problem:
            return LabObservation(replace(seen, trouble=_named(worker, problem.message)), host)

    def _room(
        self, session: Session, worker: Worker, seen: SessionObservation
    ) -> SessionObservation:
        """Return who holds the capacity of a booked session, once it is due to start."""
        start = session.spec.slot.start
        head = timedelta(seconds=budget.of(session, seen.definition).lead)
        if start is not None and self.context.clock.now() < start - head:
            return seen
        others = self.context.cache.by(indices.SESSIONS_HERE, worker.key.path)
        held = session_start.room_held(session, others, session_start.size_of(worker))
        return replace(seen, room_held=held)

    def known(self, session: Session) -> SessionObservation:
        """Return what is known of a session without a look at its lab."""
        keeping = self.context.settings.now().keeping
        return SessionObservation(
            keep_seconds=float(keeping.timeout_seconds) if keeping.enabled else 0.0,
            definition=self.context.cache.find(refs.definition_of(session)),
            ahead=self._ahead(session) if session.status.phase is S.INSTANTIATING else 0,
            watched_since=self.context.since,
        )

    def _ahead(self, session: Session) -> int:
        """Count the labs that were ever starting at the same time as this one.

        Those that have finished count too: a budget that shrank as they finish would fail the
        last of many labs (facts/fleet-bugs.md#t46). The count is at most the number of labs that
        may boot at once, and the wait for this lab's turn is not part of the budget.
        """
        cache, since = self.context.cache, session.status.phase_since
        worker = cache.find(refs.worker_of(session))
        if worker is None:
            return 0
        beside = {
            other.name
            for other in cache.by(indices.SESSIONS_HERE, worker.key.path)
            if other.status.phase is S.INSTANTIATING
        }
        # Indexed by the hour in which they were up, so as not to read a worker's whole history.
        for hour in up_hours(since, self.context.clock.now()):
            for other in cache.by(indices.SESSIONS_UP, f"{worker.key.path} {hour}"):
                up = other.status.ready_at or other.status.ended_at
                if up is not None and since is not None and up > since:
                    beside.add(other.name)
        return min(len(beside - {session.name}), _at_once(worker) - 1)

    def _host(self, worker: Worker) -> LabHost | None:
        machine = worker.spec.machine
        if machine is None or not _serves(worker) or not worker.status.cml.ready:
            return None
        where = address_of(self.context, worker, machine, worker.status.machine)
        return None if where is None else self.context.hosts.at(where)

    async def _lab(
        self, session: Session, worker: Worker, host: LabHost, seen: SessionObservation
    ) -> LabObservation:
        found, spare = await self._find(session, host)
        if found is None:
            return LabObservation(replace(seen, looked=True, lab=None), host, spare)
        status = _status(session, found)
        busy = session.status.phase in {S.INSTANTIATING, S.STOPPING}
        if not busy:
            known = session.status.lab
            if known is not None:
                status = replace_lab(known, state=found.state, id=found.id)
            if live_lab.open_order(session) is not None:
                seen = replace(seen, nodes=await host.nodes(found.id))
            elif port_watch.is_up(session):
                seen = await self._named.at(session, worker, host, seen)
            if port_watch.is_up(session) and found.state == "STARTED":
                seen = await self._ports.up(session, worker, seen)
            return LabObservation(replace(seen, looked=True, lab=status), host, spare)
        nodes = await host.nodes(found.id)
        seen = self._start(session, worker, found, nodes, seen)
        converged = await host.converged(found.id)
        active = sum(node.state in ACTIVE_STATES for node in nodes)
        waiting = await self._waiting(host, nodes)
        status = replace_lab(
            status,
            nodes=len(nodes),
            booted=sum(node.state == "BOOTED" for node in nodes),
            waiting=waiting,
        )
        seen = replace(seen, looked=True, lab=status, active=active, converged=converged)
        up = converged and found.state == "STARTED" and status.booted >= status.nodes
        if up and session.status.phase is S.INSTANTIATING:
            named = port_numbers.observed(nodes, session.status.ports)
            seen = replace(seen, ports_seen=named if nodes else None, nodes=nodes)
            seen = await self._ports.coming(session, worker, seen)
        return LabObservation(seen, host, spare)

    def _start(
        self,
        session: Session,
        worker: Worker,
        found: Lab,
        nodes: tuple[NodeState, ...],
        seen: SessionObservation,
    ) -> SessionObservation:
        """Add which tags a lab that comes up has, and what it waits for while it is not started."""
        if session.status.phase is not S.INSTANTIATING:
            return seen
        lost = session_start.lost_tags(session, nodes)
        seen = replace(
            seen,
            tags_lost=tuple(f"{tag} of {label}" for label, tags in lost.items() for tag in tags),
            tags_added=session_start.added_tags(session, nodes),
        )
        if found.state not in {"DEFINED_ON_CORE", "STOPPED"}:
            return seen
        others = self.context.cache.by(indices.SESSIONS_HERE, worker.key.path)
        return replace(seen, before=session_start.labs_before(session, others, _at_once(worker)))

    async def _find(self, session: Session, host: LabHost) -> tuple[Lab | None, tuple[str, ...]]:
        """Return our lab and the ids of further labs with our marker."""
        known = session.status.lab
        if known is not None and known.id is not None:
            try:
                return await host.lab(known.id), ()
            except errors.Gone:
                pass
        marked = sorted(
            lab.id
            for lab in await host.labs()
            if topology.marker_of(lab.notes) == session.metadata.uid
        )
        if not marked:
            return None, ()
        return await host.lab(marked[0]), tuple(marked[1:])

    async def _waiting(self, host: LabHost, nodes: tuple[NodeState, ...]) -> str | None:
        """Return why queued nodes wait, if the server tells; best effort."""
        queued = [node for node in nodes if node.state == "QUEUED"]
        if not queued:
            return None
        try:
            reasons = await host.queue()
        except errors.LabfleetError:
            reasons = {}
        told = [f"{node.label}: {reasons.get(node.id, 'queued')}" for node in queued[:SHOWN]]
        more = f" and {len(queued) - SHOWN} more" if len(queued) > SHOWN else ""
        return ", ".join(told) + more


def _serves(worker: Worker) -> bool:
    return worker.status.phase in HOSTING | {P.DRAINING, P.UNLICENSING}


def _mute(worker: Worker) -> str:
    """Return what of a worker cannot be asked about a lab, and why."""
    status = worker.status
    if not _serves(worker):
        why = provider_trouble(worker) or status.message
        return f"{worker.name} is {status.phase}" + (f": {why}" if why else "")
    if status.cml.ready:
        return f"{worker.name} has no address"
    facts = [
        conditions.find(status.conditions, name)
        for name in (WorkerCondition.CML_HEALTHY, WorkerCondition.HEALTH_CHECK_PASSED)
    ]
    why = next((each.message for each in facts if each is not None and each.status == "False"), "")
    what = "answers and starts nothing" if status.cml.stage == "not_ready" else "does not answer"
    return f"CML on {worker.name} {what}: {why or status.cml.stage or 'not seen yet'}"


def _named(worker: Worker, problem: str) -> str:
    """Return a problem with the worker's name, which most of them begin with."""
    named = problem.startswith((worker.name, worker.key.label))
    return problem if named else f"{worker.name}: {problem}"


def _at_once(worker: Worker) -> int:
    machine = worker.spec.machine
    return 1 if machine is None else machine.cml.starts_at_once


def up_hours(since: datetime | None, now: datetime) -> range:
    """Return the numbers of the hours from an instant to now, a day's at most."""
    if since is None:
        return range(0)
    last = indices.hour_of(now) + 1  # another process's clock may be a little ahead
    return range(max(indices.hour_of(since), last - 24), last + 1)


def lab_title(session: Session) -> str:
    """Return the lab's title: unique on a server, at most 64 characters."""
    return f"{ids.slug(session.name, limit=54)}-{session.metadata.uid[:8]}"


def _status(session: Session, found: Lab) -> LabStatus:
    known = session.status.lab
    base = known or LabStatus(title=found.title, marker=session.metadata.uid)
    return replace_lab(base, id=found.id, state=found.state)


def replace_lab(lab: LabStatus, **changes: object) -> LabStatus:
    """Return the lab record with fields changed."""
    return msgspec.structs.replace(lab, **changes)


def _of_worker(
    seen: SessionObservation, session: Session, worker: Worker | None, context: Context
) -> SessionObservation:
    """Return what the worker's record means for its session."""
    if worker is None:
        name = session.status.worker
        return replace(seen, host_lost=True, host_dead=True, host_detail=f"{name} does not exist")
    phase, shown = worker.status.phase, worker.status.machine
    failed = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
    ended = failed is not None and failed.reason == WorkerReason.INSTANCE_TERMINATED
    dead = phase is P.TERMINATED or shown.state == "gone" or (phase is P.FAILED and ended)
    # A pause suspends actions triggered by a deadline; whatever runs continues.
    paused = context.settings.paused(refs.pool_of(worker)) is not None
    return replace(
        seen,
        host_lost=phase in _LOST,
        host_dead=dead,
        host_leaving=drain_wanted(worker),
        host_unfit=unfit(worker),
        host_detail=f"{worker.name} is {phase}: {worker.status.message}",
        forced_out=None if paused else forced(worker, context.clock.now()),
    )
