"""The scheduler: binds waiting sessions to workers, one cycle at a time.

A cycle takes one snapshot and places all due sessions in order, each against the snapshot as
changed by the ones before (as in a cycle of kueue). The bindings to a worker are one commit of the
sessions, their ports and the worker's ledger row (`bindings`). When another writer changed one of
them meanwhile, the commit fails with a conflict and these sessions wait for the next cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from labfleet.controllers import promises
from labfleet.controllers.bindings import Bindings
from labfleet.controllers.context import Context
from labfleet.controllers.placeable import PlaceableWorkers
from labfleet.controllers.promises import Choice, Promises
from labfleet.controllers.requests import Requests
from labfleet.decisions import placement, port_numbers
from labfleet.decisions.lifecycle.session.assignment import assigned, unassigned
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.kernel.rng import Rng
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts, Claim, Reservation, Shortage
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key, Ref
from labfleet.resources.session import PortAllocation, Session, SessionPhase, SessionStatus
from labfleet.resources.session_conditions import PhaseReason, WaitReason
from labfleet.resources.strategy import OFFERED, not_offered
from labfleet.resources.worker import Worker
from labfleet.service.kinds import catalogues
from labfleet.service.kinds.pool_leads import Leads

KEY = Key("Session", "", "scheduler")
ACTOR = "scheduler"
CYCLE = 15.0
QUIET = 60.0
"""Longest time between two cycles while nothing waits: slots that come in reach are known ahead."""
CYCLE_LIMIT = 500
HEAD = 400
YIELD_EVERY = 10
Decided = Callable[[Decision], None]
"""Told of each decision, for the process's metrics."""


@dataclass(slots=True)
class _Board:
    """What a cycle is decided on; `since` has the ledger revisions of the workers it wrote."""

    revision: int
    now: datetime
    judge: catalogues.Judge
    promises: Promises
    since: dict[Key, int] = field(default_factory=dict)


class Scheduler:
    """Places PENDING sessions; runs under one key, so never twice at once."""

    def __init__(
        self,
        context: Context,
        ports: stores.PortStore,
        rng: Rng | None = None,
        decided: Decided | None = None,
    ) -> None:
        self.context = context
        self._rng = None if rng is None else rng.stream("placement")
        self._decided = decided
        self._workers = PlaceableWorkers(context, ports, self._rng)
        self._requests = Requests(context)
        self._next = 0
        self._no_room: set[tuple[object, ...]] = set()
        self._term: stores.Fence | None = None
        self._bindings = Bindings(context, ACTOR)
        self._quiet: tuple[int, datetime] | None = None

    async def reconcile(self, key: Key) -> Done | Again:
        """Run one cycle."""
        del key
        await self._begin_term()
        now, revision = self.context.clock.now(), self.context.cache.revision
        if self._quiet is not None and self._quiet[0] == revision and now < self._quiet[1]:
            return Again(_seconds(self._quiet[1] - now))
        due, ahead = self._requests.due(now), self._requests.ahead(now)
        unpromised = promises.without_claim(self.context.cache)
        if not due and not ahead and not unpromised:
            # Nothing of this changes but by a commit, or when the next slot comes in reach.
            until = self._requests.next_due(now) or now + timedelta(days=1)
            self._quiet = (revision, until)
            return Again(_seconds(until - now))
        self._quiet = None
        self._bindings = Bindings(self.context, ACTOR)  # nothing of a cycle that was cut off
        board = await self._snapshot()
        last = max(board.revision, await self._promise_some(unpromised, board))
        for session in ahead[:CYCLE_LIMIT]:
            last = max(last, await self._foresee(session, board))
        for count, session in enumerate(self._some(due)):
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)  # a long queue must not block the event loop
            last = max(last, await self._one(session, board))
            if self._bindings.full:
                last = max(last, await self._write(board))
        last = max(last, await self._write(board))
        await self.context.cache.reached(last)
        return Again(CYCLE)

    async def _begin_term(self) -> None:
        """Wait, once in a term, for all that the leader before wrote.

        Bindings of one pool do not conflict in the store, so a cache without the last of them
        would have a second worker serve a place.
        """
        term = self.context.leadership.fence
        if term != self._term:
            await self.context.cache.reached_head()
            self._term = term

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
        # Before the workers are read: a reservation that is newer than `revision` is a conflict.
        revision, now = cache.revision, self.context.clock.now()
        await self._workers.refresh()
        return _Board(revision, now, catalogues.Judge(cache), Promises(cache, revision, now))

    async def _place(
        self, session: Session, request: placement.PlacementRequest, board: _Board
    ) -> Decision:
        """Return the decision; a long look at a large fleet does not block the event loop."""
        fleet = self._workers.fleet(session.namespace)
        steps = fleet.steps(request, now=board.now, revision=board.revision)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                decision: Decision = done.value
                return decision
            await asyncio.sleep(0)

    async def _choose(
        self, session: Session, request: placement.PlacementRequest, board: _Board
    ) -> Choice:
        """Return the worker for a session: that of its place, else the best with free room."""
        fleet = self._workers.fleet(session.namespace)

        def place(offered: Sequence[placement.Candidate]) -> Decision:
            return placement.place(
                request, offered, now=board.now, revision=board.revision, rng=self._rng
            )

        own = board.promises.own(session, request, fleet)
        if own:
            decision = place(own)
            if decision.chosen is not None:
                return Choice(decision, session.status.claim)
        best = await self._place(session, request, board)
        return board.promises.judge(session, request, best, fleet, place)

    async def _timed_choice(
        self, session: Session, request: placement.PlacementRequest, board: _Board
    ) -> Choice:
        """Return the choice, whose decision says how long it took."""
        # The loop's own time has a resolution of 1 ms, and most choices take less.
        clock = self.context.clock
        begun = clock.monotonic()
        choice = await self._choose(session, request, board)
        took = round((clock.monotonic() - begun) / clock.rate * 1e3, 3)
        known = msgspec.structs.replace(
            choice.decision, latency_ms=took, demand=session.status.demand
        )
        return Choice(known, choice.claim)

    def _never(
        self,
        session: Session,
        definition: Definition,
        request: placement.PlacementRequest,
        board: _Board,
    ) -> Decision | None:
        """Return the refusal of a session that no worker that can exist could host, else None."""
        if definition.spec.lab_type not in OFFERED:
            return Decision(
                outcome="refused",
                reason=str(PhaseReason.NO_TYPE),
                message=not_offered(definition.spec.lab_type),
                at=board.now,
                revision=board.revision,
                requested=request.amounts,
            )
        shapes = self._workers.shapes(session.namespace)
        return placement.never_fits(request, shapes, now=board.now, revision=board.revision)

    async def _one(self, session: Session, board: _Board) -> int:
        """Decide on one session and write the decision; return the revision written or 0."""
        definition = self.context.cache.find(refs.definition_of(session))
        request = self._requests.of(session, board.now)
        if definition is None or request is None:
            return await self._refuse(
                session, board, PhaseReason.NO_DEFINITION, "its definition is gone"
            )
        never = self._never(session, definition, request, board)
        if never is not None:
            return await self._end(session, _of(session, never))
        choice = await self._timed_choice(session, request, board)
        decision = choice.decision
        if decision.chosen is None:
            decision = self._without(definition, request, decision, board)
            cause = self._workers.trouble(session.namespace, request.track)
            if cause is not None:
                told = f"{decision.message}; {cause}"
                decision = msgspec.structs.replace(decision, message=told)
            return await self._wait(session, decision, board, choice.claim)
        taken = self._workers.taken[Ref(Worker, session.namespace, decision.chosen).key]
        whose = f"{session.namespace}/{session.spec.owner}"
        begin = port_numbers.home(whose, definition.key.path)
        ports = port_numbers.allocate(definition.status.ports, taken=taken, begin=begin)
        if isinstance(ports, Shortage):
            short = _short_of_ports(decision, ports)
            return await self._wait(session, short, board, session.status.claim)
        self._bind(session, choice, ports, request, board)
        return 0

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
        definition = self.context.cache.find(refs.definition_of(session))
        if definition is None or request is None:
            return await self._refuse(
                session, board, PhaseReason.NO_DEFINITION, "its definition is gone"
            )
        never = self._never(session, definition, request, board)
        if never is not None:
            return await self._end(session, _of(session, never))
        looked_for = Leads(self.context.cache).looked_for(session) or board.now
        message = f"its slot is ahead; a worker is looked for from {utc_text(looked_for)}"
        decision = Decision(
            outcome="waiting",
            reason=str(WaitReason.SLOT_AHEAD),
            message=message,
            at=board.now,
            revision=board.revision,
            requested=request.amounts,
            demand=session.status.demand,
        )
        return await self._wait(session, decision, board, session.status.claim)

    def _bind(
        self,
        session: Session,
        choice: Choice,
        ports: tuple[PortAllocation, ...],
        request: placement.PlacementRequest,
        board: _Board,
    ) -> None:
        """Take the place on the board; `_write` writes it."""
        decision = choice.decision
        self._tell(decision)
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
            claim=choice.claim,
            conditions=assigned(session, worker, board.now),
            ports=ports,
            decision=decision,
            placements=session.status.placements + 1,
            scheduled_at=board.now,
            reason=str(PhaseReason.SCHEDULED),
            message=f"placed on {worker}",
        )
        beside = board.promises.commit(session, choice.claim, binds=True)
        self._bindings.add(msgspec.structs.replace(session, status=status), key, beside)
        board.promises.took(session, choice.claim, worker)
        self._workers.taken[key] |= {(port.transport, port.number) for port in ports}
        self._workers.fleet(key.namespace).book(worker, reservation)
        self._workers.mark(key)

    async def _write(self, board: _Board) -> int:
        """Write the bindings decided so far; return the newest revision, 0 for none."""
        written = await self._bindings.write(board.since, board.revision)
        board.since.update(written.bound)
        for key in written.lost:
            # Another writer was first; skip this worker, already marked, for the rest of the cycle.
            self._workers.fleet(key.namespace).drop(key.name)
        if written.lost:
            await self.context.cache.reached(written.revision)
            board.promises.again()
        board.promises.written()
        return written.revision

    def _tell(self, decision: Decision) -> None:
        if self._decided is not None:
            self._decided(decision)

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
        self._tell(decision)
        status = msgspec.structs.replace(
            session.status,
            phase=SessionPhase.FAILED,
            phase_since=decision.at,
            ended_at=decision.at,
            decision=decision,
            conditions=unassigned(session, decision),
            reason=decision.reason,
            message=decision.message,
        )
        return await self._save(session, status, decision.message)

    async def _wait(
        self, session: Session, decision: Decision, board: _Board, claim: Claim | None
    ) -> int:
        """Record why it waits, only when the answer changed: each write makes an event."""
        self._tell(decision)
        before = session.status.decision
        if before is not None and _same(before, decision) and claim == session.status.claim:
            return 0
        status = msgspec.structs.replace(
            session.status,
            decision=decision,
            claim=claim,
            conditions=unassigned(session, decision),
            reason=str(PhaseReason.WAITING),
            message=decision.message,
        )
        return await self._save(session, status, decision.message, board)

    async def _promise_some(self, waiting: list[Session], board: _Board) -> int:
        """Promise what there is to those who came first; return the newest revision, 0 for none.

        What found no room is asked once for all that want the same, and not again while the cycles
        work through those behind it: many of them at the head must not block the rest.
        """
        last = looked = 0
        for session in waiting:
            wanted = promises.alike(session)
            if wanted in self._no_room:
                continue
            if looked == promises.WAITING_LIMIT:
                return last
            looked += 1
            revision = await self._promise(session, board)
            last = max(last, revision)
            if not revision:
                self._no_room.add(wanted)
        self._no_room.clear()
        return last

    async def _promise(self, session: Session, board: _Board) -> int:
        """Give a slot that waits without a claim one, as soon as a pool can hold it.

        What was promised by a pool that is gone is withdrawn when no other pool can hold it.
        """
        request = self._requests.of(session, board.now)
        claim = None if request is None else board.promises.wanted(session, request)
        before = session.status.claim
        if claim is None and before is None:
            return 0
        told = "" if claim is None else f"promised: a place in pool {claim.pool}"
        if before is not None:
            lost = f"pool {before.pool} is gone or serves it no more"
            told = f"promise withdrawn: {lost}" if claim is None else f"{told}; {lost}"
        status = msgspec.structs.replace(session.status, claim=claim)
        return await self._save(session, status, told, board)

    async def _save(
        self, session: Session, status: SessionStatus, reason: str, board: _Board | None = None
    ) -> int:
        """Write a session that is not bound; with its claim where there is a board."""
        untouched: tuple[stores.Precondition, ...] = ()
        touched: tuple[stores.Write, ...] = ()
        if board is not None:
            untouched, touched = board.promises.commit(session, status.claim)
            if touched:
                read = board.promises.readings
                await self._write(board)  # bindings are written at the row as they have read it
                if board.promises.readings != read:
                    return 0  # others took from it: the claim was chosen before that
        try:
            revision, _ = await self.context.objects.save(
                msgspec.structs.replace(session, status=status),
                cause=self.context.cause(ACTOR, reason),
                preconditions=untouched,
                writes=touched,
                fence=self.context.fence(),
            )
        except errors.Fenced:
            raise
        except errors.Conflict:
            if board is not None and untouched:
                board.promises.again()
            return 0
        if board is not None:
            board.promises.took(session, status.claim, None, revision)
        return revision


def _of(session: Session, decision: Decision) -> Decision:
    """Return a decision with what its session is counted with."""
    return msgspec.structs.replace(decision, demand=session.status.demand)


def _seconds(left: timedelta) -> float:
    return min(max(left.total_seconds(), 0.0), QUIET)


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
