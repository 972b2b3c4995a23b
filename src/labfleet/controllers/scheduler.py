"""The scheduler: binds waiting sessions to workers, one cycle at a time.

A cycle takes one snapshot and places all due sessions in order, each against the snapshot as
changed by the ones before (as in a cycle of kueue). Each binding is one commit of the session, its
ports and the worker's ledger row. When another writer changed one of them meanwhile, the commit
fails with a conflict and the session waits for the next cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from labfleet.controllers import requests
from labfleet.controllers.context import Context
from labfleet.controllers.requests import Requests, shape_of
from labfleet.decisions import parking, placement, port_numbers
from labfleet.decisions.catalogues import Names
from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.placement_index import PlacementIndex
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts, Reservation, Shortage
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key, Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import PortAllocation, Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason, WaitReason
from labfleet.resources.worker import Worker
from labfleet.service.core import ledger_rows
from labfleet.service.kinds import catalogues, indices

KEY = Key("Session", "", "scheduler")
ACTOR = "scheduler"
CYCLE = 15.0
CYCLE_LIMIT = 500
HEAD = 400
YIELD_EVERY = 50


@dataclass(slots=True)
class _Board:
    """The snapshot of a cycle, updated with each placement.

    `shapes` is keyed by namespace: a session only gets those of its own. `held` says for a
    namespace and track why workers that could take it do not come up.
    """

    revision: int
    now: datetime
    taken: dict[Key, set[tuple[str, int]]]
    shapes: dict[str, list[placement.WorkerShape]]
    judge: catalogues.Judge
    held: dict[tuple[str, str | None], str] = field(default_factory=dict)
    since: dict[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A candidate as computed, and the inputs that it was computed from."""

    worker: Worker
    here: tuple[Session, ...]
    free: int
    candidate: placement.Candidate


class Scheduler:
    """Places PENDING sessions; runs under one key, so never twice at once."""

    def __init__(self, context: Context, ports: stores.PortStore) -> None:
        self.context = context
        self._ports = ports
        self._requests = Requests(context)
        self._next = 0
        self._kept: dict[Key, _Kept] = {}
        self._fleets: dict[str, PlacementIndex] = {}
        self._shown: dict[Key, placement.Candidate | None] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Run one cycle."""
        del key
        now = self.context.clock.now()
        due, ahead = self._requests.due(now), self._requests.ahead(now)
        if not due and not ahead:
            return Again(CYCLE)
        board = await self._snapshot()
        last = board.revision
        for session in ahead[:CYCLE_LIMIT]:
            last = max(last, await self._foresee(session, board))
        for count, session in enumerate(self._some(due)):
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)  # a long queue must not block the event loop
            last = max(last, await self._one(session, board))
        await self.context.cache.reached(last)
        return Again(CYCLE)

    def _some(self, due: list[Session]) -> list[Session]:
        """Return the sessions of one cycle: the most urgent, and the others in turn.

        Sessions at the head that cannot be placed must not block the rest for ever
        (facts/fleet-bugs.md#t20).
        """
        if len(due) <= CYCLE_LIMIT:
            return due
        rest, count = due[HEAD:], CYCLE_LIMIT - HEAD
        begin = self._next % len(rest)
        self._next = begin + count
        return due[:HEAD] + rest[begin : begin + count]

    async def _snapshot(self) -> _Board:
        cache = self.context.cache
        revision, now = cache.revision, self.context.clock.now()
        living = cache.by(indices.WORKERS_LIVING, True)
        hosting = [each for each in living if each.status.phase in worker_phases.HOSTING]
        held = {
            (each.namespace, track): cause
            for each in living
            if each.status.phase not in worker_phases.HOSTING
            and (cause := worker_phases.provider_trouble(each))
            for track in (each.spec.track, None)  # None: a session that takes any
        }
        # Read before the ports, so that all of it is valid at `revision`.
        here = {each.key: cache.by(indices.SESSIONS_HERE, each.key.path) for each in hosting}
        taken: dict[Key, set[tuple[str, int]]] = {}
        for worker in hosting:
            taken[worker.key] = {
                (each.partition("/")[0], int(each.partition("/")[2]))
                for each in worker.status.foreign_ports
            }
        of_path = {key.path: used for key, used in taken.items()}
        for row in await self._ports.ports():
            if row.worker in of_path:
                of_path[row.worker].add((row.transport, row.number))
        self._forget(taken)
        for each in hosting:
            self._show(each.key, self._candidate(each, here[each.key], taken[each.key]))
        judge = catalogues.Judge(cache)
        return _Board(revision, now, taken, self._shapes(), judge, held)

    def _fleet(self, namespace: str) -> PlacementIndex:
        """Return the index of a namespace's workers, which lives as long as the scheduler."""
        found = self._fleets.get(namespace)
        if found is None:
            found = self._fleets[namespace] = PlacementIndex(self.context.clock.now())
        return found

    def _show(self, key: Key, candidate: placement.Candidate) -> None:
        """Put a worker that changed since the last cycle, or that this one's bindings changed."""
        if self._shown.get(key) is not candidate:
            self._fleet(key.namespace).put(candidate)
            self._shown[key] = candidate

    def _forget(self, hosting: Collection[Key]) -> None:
        """Drop the workers that take no labs any more."""
        for key in [each for each in self._shown if each not in hosting]:
            self._fleet(key.namespace).drop(key.name)
            del self._shown[key]
        for key in [each for each in self._kept if each not in hosting]:
            del self._kept[key]

    async def _place(
        self, session: Session, request: placement.PlacementRequest, board: _Board
    ) -> Decision:
        """Return the decision; a long look at a large fleet does not block the event loop."""
        fleet = self._fleet(session.namespace)
        steps = fleet.steps(request, now=board.now, revision=board.revision)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                decision: Decision = done.value
                return decision
            await asyncio.sleep(0)

    def _candidate(
        self, worker: Worker, here: tuple[Session, ...], taken: set[tuple[str, int]]
    ) -> placement.Candidate:
        """Return the worker to place on; one unchanged since the last call comes from a cache."""
        used = sum(transport == "tcp" for transport, _ in taken)
        has = catalogues.of_worker(self.context.cache, worker)
        free = port_numbers.LAST - port_numbers.FIRST + 1 - used
        kept = self._kept.get(worker.key)
        same = kept is not None and kept.worker is worker and kept.here is here
        if kept is None or not same or kept.free != free or kept.candidate.has is not has:
            made = _candidate(worker, requests.reserved(here), free, has)
            kept = self._kept[worker.key] = _Kept(worker, here, free, made)
        return kept.candidate

    async def _one(self, session: Session, board: _Board) -> int:
        """Decide on one session and write the decision; return the revision written or 0."""
        definition = self.context.cache.find(refs.definition_of(session))
        request = self._requests.of(session, board.now)
        if definition is None or request is None:
            return await self._refuse(
                session, board, PhaseReason.NO_DEFINITION, "its definition is gone"
            )
        shapes = board.shapes.get(session.namespace, [])
        never = placement.never_fits(request, shapes, now=board.now, revision=board.revision)
        if never is not None:
            return await self._end(session, never)
        decision = await self._place(session, request, board)
        if decision.chosen is None:
            decision = self._without(definition, request, decision, board)
            cause = board.held.get((session.namespace, request.track))
            if cause is not None:
                told = f"{decision.message}; {cause}"
                decision = msgspec.structs.replace(decision, message=told)
            return await self._wait(session, decision)
        taken = board.taken[Ref(Worker, session.namespace, decision.chosen).key]
        ports = port_numbers.allocate(definition.status.ports, taken=taken)
        if isinstance(ports, Shortage):
            return await self._wait(session, _short_of_ports(decision, ports))
        return await self._bind(session, decision, ports, request, board)

    def _without(
        self,
        definition: Definition,
        request: placement.PlacementRequest,
        decision: Decision,
        board: _Board,
    ) -> Decision:
        """Return the decision, with its cause when nobody on the track could ever run the lab."""
        found = board.judge.of(definition.status, definition.namespace, request.track)
        if found.status != "False":
            return decision
        return msgspec.structs.replace(
            decision, reason=str(WaitReason.MISSING_DEFINITIONS), message=found.message
        )

    async def _foresee(self, session: Session, board: _Board) -> int:
        """Check a later slot once: what can never fit is refused now, not when it begins."""
        request = self._requests.of(session, board.now)
        if request is None:
            return await self._refuse(
                session, board, PhaseReason.NO_DEFINITION, "its definition is gone"
            )
        shapes = board.shapes.get(session.namespace, [])
        never = placement.never_fits(request, shapes, now=board.now, revision=board.revision)
        if never is not None:
            return await self._end(session, never)
        looked_for = (session.spec.slot.start or board.now) - lifecycle.LOOK_AHEAD
        message = f"its slot is ahead; a worker is looked for from {utc_text(looked_for)}"
        decision = Decision(
            outcome="waiting",
            reason=str(WaitReason.SLOT_AHEAD),
            message=message,
            at=board.now,
            revision=board.revision,
            requested=request.amounts,
        )
        return await self._wait(session, decision)

    async def _bind(
        self,
        session: Session,
        decision: Decision,
        ports: tuple[PortAllocation, ...],
        request: placement.PlacementRequest,
        board: _Board,
    ) -> int:
        worker = decision.chosen or ""
        key = Ref(Worker, session.namespace, worker).key
        reservation = Reservation(
            holder=worker, amounts=request.amounts, start=request.start, end=request.end
        )
        status = msgspec.structs.replace(
            session.status,
            phase=SessionPhase.SCHEDULED,
            phase_since=board.now,
            worker=worker,
            reservation=reservation,
            ports=ports,
            decision=decision,
            placements=session.status.placements + 1,
            scheduled_at=board.now,
            reason=str(PhaseReason.SCHEDULED),
            message=f"placed on {worker}",
        )
        row = ledger_rows.of(key)
        try:
            revision, _ = await self.context.objects.save(
                msgspec.structs.replace(session, status=status),
                cause=self.context.cause(ACTOR, decision.message),
                preconditions=(ledger_rows.untouched(row, board.since.get(key, board.revision)),),
                writes=(
                    ledger_rows.touch(row),
                    stores.TakePorts(
                        worker=key.path,
                        owner=session.metadata.uid,
                        ports=tuple((port.transport, port.number) for port in ports),
                    ),
                ),
                fence=self.context.fence(),
            )
        except errors.Fenced:
            raise
        except errors.Conflict:
            # Another writer was first; skip this worker for the rest of the cycle.
            self._fleet(key.namespace).drop(worker)
            self._shown[key] = None
            return 0
        board.since[key] = revision
        board.taken[key] |= {(port.transport, port.number) for port in ports}
        # Shown anew in the next cycle, as the cache then has it.
        self._fleet(key.namespace).book(worker, reservation)
        self._shown[key] = None
        return revision

    def _shapes(self) -> dict[str, list[placement.WorkerShape]]:
        """Return a namespace's possible empty workers: of live pools' templates and as running."""
        shapes: dict[str, list[placement.WorkerShape]] = {}
        for pool in self.context.cache.all(Pool):
            if pool.deleting or pool.spec.desired != "Ready":
                continue
            template = self.context.cache.find(refs.template_of(pool))
            shape = shape_of(pool, template, self.context.cache)
            if shape is not None:
                shapes.setdefault(pool.namespace, []).append(shape)
        for worker in self.context.cache.by(indices.WORKERS_LIVING, True):
            live = worker.status.phase in worker_phases.HOSTING | worker_phases.BOOTING
            if (live or parking.auto_stopped(worker)) and worker.status.capacity is not None:
                shapes.setdefault(worker.namespace, []).append(
                    placement.WorkerShape(
                        name=worker.name,
                        track=worker.spec.track,
                        capacity=worker.status.capacity,
                        product=worker.status.licence.product,
                    )
                )
        return shapes

    async def _refuse(
        self, session: Session, board: _Board, reason: PhaseReason, message: str
    ) -> int:
        return await self._end(
            session,
            Decision(
                outcome="refused",
                reason=str(reason),
                message=message,
                at=board.now,
                revision=board.revision,
                requested=Amounts(),
            ),
        )

    async def _end(self, session: Session, decision: Decision) -> int:
        """Refuse a session that can never fit, instead of queueing it for ever."""
        status = msgspec.structs.replace(
            session.status,
            phase=SessionPhase.FAILED,
            phase_since=decision.at,
            ended_at=decision.at,
            decision=decision,
            reason=decision.reason,
            message=decision.message,
        )
        return await self._save(session, status, decision.message)

    async def _wait(self, session: Session, decision: Decision) -> int:
        """Record why it waits, only when the answer changed: each write makes an event."""
        before = session.status.decision
        if before is not None and _same(before, decision):
            return 0
        status = msgspec.structs.replace(
            session.status,
            decision=decision,
            reason=str(PhaseReason.WAITING),
            message=decision.message,
        )
        return await self._save(session, status, decision.message)

    async def _save(self, session: Session, status: object, reason: str) -> int:
        try:
            revision, _ = await self.context.objects.save(
                msgspec.structs.replace(session, status=status),
                cause=self.context.cause(ACTOR, reason),
                fence=self.context.fence(),
            )
        except errors.Fenced:
            raise
        except errors.Conflict:
            return 0
        return revision


def _candidate(
    worker: Worker, held: tuple[Reservation, ...], free_ports: int, has: Names | None
) -> placement.Candidate:
    licence, machine = worker.status.licence, worker.spec.machine
    return placement.Candidate(
        name=worker.name,
        track=worker.spec.track,
        pool=worker.spec.pool,
        closed=worker_phases.closed_word(worker),
        closes_at=worker_phases.closes_at(worker),
        licensed=bool(licence.licensed),
        product=licence.product,
        unlicensed_nodes=5 if machine is None else machine.cml.max_nodes_unlicensed,
        capacity=worker.status.capacity,
        reservations=held,
        sessions=len(held),
        free_ports=free_ports,
        has=has,
    )


def _same(before: Decision, after: Decision) -> bool:
    pick = (before.outcome, before.reason, before.message, before.rejected_by_reason)
    return pick == (after.outcome, after.reason, after.message, after.rejected_by_reason)


def _short_of_ports(decision: Decision, shortage: Shortage) -> Decision:
    free = f"{shortage.free} of {shortage.wanted} ports are free"
    return msgspec.structs.replace(
        decision,
        outcome="waiting",
        reason=str(WaitReason.PORTS_SHORT),
        message=f"{decision.chosen}: {free}",
        chosen=None,
    )
