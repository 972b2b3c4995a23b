"""Verbs on workers and sessions: drain, cordon, desired state; cancel, extend, move, observe.

Each reads the object, checks the request and writes once; repeating it changes nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Literal, TypeVar

import msgspec

from labfleet.decisions import parking
from labfleet.decisions.lifecycle.session import decide as session_lifecycle
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.worker import Drain, Worker, WorkerPhase
from labfleet.service.core import access, idempotency, intake, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, retried
from labfleet.service.kinds import (
    indices,
    origin_rules,
    session_claims,
    session_rules,
    session_times,
)
from labfleet.service.kinds.admitted import Admitted, with_generation, with_spec

R = TypeVar("R", bound=Resource)
TEXT_LIMIT = 1024
DRAIN_SECONDS = 14400
_ENDED = frozenset({WorkerPhase.TERMINATED, WorkerPhase.TERMINATING_EC2})


async def drain(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    deadline: datetime | None = None,
    reason: str = "",
    force: bool = False,
) -> Worker:
    """Drain a worker; a second drain replaces the first's deadline and reason.

    Without a deadline the worker's own drain limit counts from now. Refused for an ended worker.
    """
    _short(reason)
    if force:
        access.demand(caller.principal, "force", "Worker")
    now = services.clock.now()
    if deadline is not None and deadline.tzinfo is None:
        raise intake.invalid(("deadline", "give a time zone, for example 2026-11-27T09:00:00Z"))
    if deadline is not None and deadline <= now:
        raise intake.invalid(("deadline", "must be in the future"))

    async def change(old: Worker) -> Admitted:
        alive(old)
        limit = DRAIN_SECONDS if old.spec.machine is None else old.spec.machine.limits.drain
        wanted = Drain(
            deadline=deadline or now + timedelta(seconds=limit),
            reason=reason,
            requested_by=caller.principal.name,
            force=force,
        )
        return Admitted(with_spec(old, drain=wanted))

    return await changed(
        services,
        caller,
        Worker,
        (name, namespace),
        action="drain",
        reason="DrainAsked",
        change=change,
    )


async def cancel_drain(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> Worker:
    """Cancel a drain; Refused when the worker is going to stop or end anyway."""

    async def change(old: Worker) -> Admitted:
        if old.spec.drain is not None and (old.spec.desired != "Ready" or old.deleting):
            message = f"worker {name!r} is to be {old.spec.desired}; its drain cannot be taken back"
            raise Refused(message, reason="WorkerEnding")
        return Admitted(with_spec(old, drain=None))

    where = (name, namespace)
    return await changed(
        services, caller, Worker, where, action="drain", reason="DrainCancelled", change=change
    )


async def change_drain(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    deadline: datetime | None = None,
    force: bool | None = None,
) -> Worker:
    """Move the deadline of a drain that is under way, or set whether it ends running sessions.

    `force` without a deadline ends them now. Refused (NotDraining) when there is no drain.
    """
    if force:
        access.demand(caller.principal, "force", "Worker")
    if deadline is None and force is None:
        raise intake.invalid(("deadline", "say what to change: deadline or force"))
    now = services.clock.now()
    if deadline is not None and deadline.tzinfo is None:
        raise intake.invalid(("deadline", "give a time zone, for example 2026-11-27T09:00:00Z"))
    if deadline is not None and deadline <= now:
        raise intake.invalid(("deadline", "must be in the future"))

    async def change(old: Worker) -> Admitted:
        alive(old)
        drain = old.spec.drain or _implied(old)
        if drain is None:
            raise Refused(f"nobody asked for {name!r} to be drained", reason="NotDraining")
        at = deadline or drain.deadline
        if force and deadline is None:
            at = min(at, now)
        wanted = msgspec.structs.replace(
            drain,
            deadline=at,
            force=drain.force if force is None else force,
            requested_by=caller.principal.name,
        )
        return Admitted(with_spec(old, drain=wanted))

    where = (name, namespace)
    reason = "DrainForced" if force else "DrainExtended"
    return await changed(
        services, caller, Worker, where, action="drain", reason=reason, change=change
    )


def _implied(worker: Worker) -> Drain | None:
    """Return the drain that a request to stop or terminate a worker implies."""
    if worker.spec.desired == "Ready" and not worker.deleting:
        return None
    limit = DRAIN_SECONDS if worker.spec.machine is None else worker.spec.machine.limits.drain
    since = worker.status.phase_since
    if since is None:
        return None
    return Drain(deadline=since + timedelta(seconds=limit), reason=f"to be {worker.spec.desired}")


async def cordon(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, closed: bool = True
) -> Worker:
    """Close a worker for new sessions, or open it again; running sessions continue."""

    async def change(old: Worker) -> Admitted:
        return Admitted(with_spec(old, cordoned=closed))

    reason = "Cordoned" if closed else "Uncordoned"
    return await changed(
        services, caller, Worker, (name, namespace), action="drain", reason=reason, change=change
    )


async def desire(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    desired: Literal["Ready", "Stopped", "Terminated"],
) -> Worker:
    """Set a worker's desired state; Refused when it was Terminated before.

    Setting Ready on a FAILED worker makes it try again. A caller who may not end what runs may
    terminate an empty worker only.
    """

    async def change(old: Worker) -> Admitted:
        if old.spec.desired == "Terminated" and desired != "Terminated":
            raise Refused(f"worker {name!r} is being terminated", reason="WorkerEnding")
        origin_rules.may_become(old, desired)
        if desired == "Terminated" and not access.may(caller.principal, "force", "Worker"):
            _empty(services, old)
        again = desired == "Ready" and old.status.phase is WorkerPhase.FAILED
        counted = _counted(old, desired, caller.principal.name, services.clock.now())
        return Admitted(with_spec(counted, desired=desired, retries=old.spec.retries + again))

    where = (name, namespace)
    return await changed(
        services, caller, Worker, where, action="drain", reason=f"Desired{desired}", change=change
    )


def _counted(worker: Worker, desired: str, by: str, now: datetime) -> Worker:
    """Return the worker with people's stop or start counted, overriding the idle rule's."""
    theirs = worker.spec.desired == "Stopped" and not parking.auto_stopped(worker)
    if desired == "Stopped" and not theirs:
        return parking.paused(worker, now, by=by, reason="manual", auto=False)
    if desired == "Ready" and worker.spec.desired == "Stopped":
        return parking.resumed(worker, now, auto=False)
    return worker


async def cancel(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    reason: str = "",
    uid: str | None = None,
) -> Session:
    """End a session early, in any phase; an ended one stays as it is.

    With `uid` it is Gone when another session has the name by now.
    """
    _short(reason)

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        if old.spec.cancel is not None or old.status.phase in TERMINAL:
            return Admitted(old)
        return Admitted(session_rules.cancelled(services, caller, old, reason))

    where = (name, namespace)
    return await changed(
        services, caller, Session, where, action="cancel", reason="CancelAsked", change=change
    )


async def extend(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    end: datetime | None = None,
    by: timedelta | None = None,
    key: str | None = None,
    uid: str | None = None,
) -> Session:
    """Move a session's end to a later instant, or by a span, with the capacity for it.

    Invalid (OnlyLater, TooLong) or Refused (NoCapacity, ExtensionLimit, SlotOver, NoSlot) when it
    cannot be. `key` makes a repeated `by` count once; `uid` as in `cancel`.
    """
    if (end is None) == (by is None):
        raise intake.invalid(("end", "give exactly one of end and bySeconds"))
    memo = idempotency.memo(caller, key, "extend", namespace, name, end, by)

    async def change(old: Session) -> Admitted:
        before = old.status.end or old.spec.slot.end
        later = end if by is None else before and before + by
        if before is not None and before == later:
            return Admitted(old)
        return await session_times.extended(services, caller, old, later)

    timed = _once(services, memo, uid, change)
    return await _timed(services, caller, (name, namespace), ("extend", "Extended"), timed)


async def shorten(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    end: datetime | None = None,
    by: timedelta | None = None,
    key: str | None = None,
    uid: str | None = None,
) -> Session:
    """Move a session's end to an earlier instant, or by a span; what it frees is free at once.

    Invalid (OnlyEarlier) or Refused (SlotOver, NoSlot) when it cannot be. `key` and `uid` as in
    `extend`.
    """
    if (end is None) == (by is None):
        raise intake.invalid(("end", "give exactly one of end and bySeconds"))
    memo = idempotency.memo(caller, key, "shorten", namespace, name, end, by)

    async def change(old: Session) -> Admitted:
        before = old.status.end or old.spec.slot.end
        earlier = end if by is None else before and before - by
        if before is not None and before == earlier:
            return Admitted(old)
        return await session_times.shortened(services, caller, old, earlier)

    timed = _once(services, memo, uid, change)
    return await _timed(services, caller, (name, namespace), ("shorten", "Shortened"), timed)


async def move(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    start: datetime,
    uid: str | None = None,
) -> Session:
    """Move a session's slot to another start, as long as it is; the old one is kept if refused.

    Refused (NoCapacity with the nearest slots, HasBegun, NoSlot, SlotOver) when it cannot be.
    Moving it where it is changes nothing. `uid` as in `cancel`.
    """

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        if old.spec.slot.start == start and old.status.phase not in TERMINAL:
            return Admitted(old)
        return await session_times.moved(services, caller, old, start)

    return await _timed(services, caller, (name, namespace), ("move", "Moved"), change)


def _once(
    services: ServiceContext,
    memo: idempotency.Memo | None,
    uid: str | None,
    change: Callable[[Session], Awaitable[Admitted]],
) -> Callable[[Session], Awaitable[Admitted]]:
    """Return a change of the session meant by `uid` that is made once under a memo."""

    async def once(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        if memo is None:
            return await change(old)
        done = await idempotency.replayed(services, memo, "Session")
        if done is not None:
            # The repeated request was about that session, whatever has its name now.
            lookup.demand_uid(old, done.metadata.uid)
            return Admitted(old)
        admitted = await change(old)
        if admitted.obj == old:
            return admitted
        writes = (*admitted.writes, memo.write(services, admitted.obj))
        return Admitted(admitted.obj, admitted.preconditions, writes)

    return once


async def _timed(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    deed: tuple[str, str],
    change: Callable[[Session], Awaitable[Admitted]],
) -> Session:
    """Change a session's time; one after the other where claims are taken. `deed`: action, reason."""
    line, (action, reason) = session_claims.line(services, where[1]), deed
    async with nullcontext() if line is None else services.locks.of(line):
        return await changed(
            services, caller, Session, where, action=action, reason=reason, change=change
        )


async def check_in(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, uid: str | None = None
) -> Session:
    """Record that a session's person has come, so that it is not released; once is enough.

    Refused (SlotOver, NotYet) when it has ended, or its lab is not being made ready yet. `uid` as
    in `cancel`.
    """

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        return session_times.checked_in(caller, old, services.clock.now())

    where = (name, namespace)
    return await changed(
        services, caller, Session, where, action="check-in", reason="CheckedIn", change=change
    )


async def observe(services: ServiceContext, caller: Caller, name: str, namespace: str) -> Session:
    """Ask for an observation of a running session; Invalid in any other phase (upstream 000).

    Repeated before it was answered it changes nothing, so that no number of callers costs a server
    more than one look at a time. Refused (ObservationOff) while settings say that nobody looks.
    """

    async def change(old: Session) -> Admitted:
        if old.status.phase is not SessionPhase.RUNNING:
            what = f"only a RUNNING session can be observed; {name!r} is {old.status.phase}"
            raise errors.Invalid(what, reason="NotRunning")
        if not services.settings.now().observation.enabled:
            what = "labs are not observed (settings: observation.enabled)"
            raise Refused(what, reason="ObservationOff")
        if session_lifecycle.asked_anew(old):
            return Admitted(old)
        asked = {"observe_requested": services.clock.now()}
        return Admitted(with_spec(old, **asked, observe_requested_by=caller.principal.name))

    where = (name, namespace)
    return await changed(
        services, caller, Session, where, action="observe", reason="ObservationAsked", change=change
    )


async def changed(
    services: ServiceContext,
    caller: Caller,
    kind: type[R],
    where: tuple[str, str],
    *,
    action: str,
    reason: str,
    change: Callable[[R], Awaitable[Admitted]],
) -> R:
    """Write an object as changed and return it as stored; nothing changed writes nothing.

    Raises Denied without the right for the action, Gone when there is no object. After a
    conflict the change is made again on the newest version.
    """
    access.demand(caller.principal, action, kind.__name__)

    async def attempt() -> R:
        old = await lookup.found(services, caller, kind, *where)
        admitted = await change(old)
        if admitted.obj == old:
            return old
        _, stored = await services.objects.save(
            with_generation(old, admitted.obj),
            *admitted.others,
            cause=services.cause(caller, admitted.reason or reason),
            preconditions=admitted.preconditions,
            writes=admitted.writes,
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def _empty(services: ServiceContext, worker: Worker) -> None:
    """Raise Refused (HostsSessions) while sessions hold something on a worker."""
    here = services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    bound = [each.name for each in here if each.status.phase in session_phases.BOUND]
    if bound:
        message = f"worker {worker.name!r} hosts {count(len(bound), 'session')}; drain it first"
        raise Refused(message, reason="HostsSessions")


def alive(worker: Worker) -> None:
    """Raise Refused (WorkerEnding) for a worker that has ended or ends."""
    if worker.status.phase in _ENDED:
        message = f"worker {worker.name!r} is {worker.status.phase}"
        raise Refused(message, reason="WorkerEnding")


def _short(reason: str) -> None:
    if len(reason) > TEXT_LIMIT:
        raise intake.invalid(("reason", f"at most {TEXT_LIMIT} characters"))
