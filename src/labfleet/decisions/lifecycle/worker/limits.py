"""Time limits: from when each counts, what holds it up, and whether it has passed.

A limit counts from the beginning of what it limits: a machine's launch from the call that got the
machine, a stop from the call that the provider accepted. The wait for that beginning is bounded by
the same number of seconds, and time in which somebody outside holds the worker up (no capacity, a
provider that does not answer) counts for neither. All of it stands in `status.limit`, so that a
process that ends loses nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import Draft, P
from labfleet.resources import conditions
from labfleet.resources.worker import LimitStatus
from labfleet.resources.worker_conditions import WorkerCondition

DRAIN_LEAST = 300.0
"""A forced drain still has to remove labs; before that time it does not count as stuck."""
LOOKS_SECONDS = 300.0
"""How long a process looks by itself before it calls late what its predecessor began."""
TOLD = frozenset({"launch", "stop", "terminate"})
"""Limits of what only the provider tells."""
BY_CALL = {
    "start": P.STARTING,
    "stop": P.STOPPING,
    "terminate": P.TERMINATING_EC2,
    "register": P.LICENSING,
    "deregister": P.UNLICENSING,
}
"""Call -> the phase whose limit counts from the moment in which the call was accepted."""


def note(draft: Draft) -> None:
    """Let the limit of what goes on begin, stand still, and go on."""
    name, known = phases.limit_of(draft.status), draft.status.limit
    if name is None:
        draft.set(limit=None)
        return
    if known is None:
        known = LimitStatus(name=name, since=_entered(draft), begun=_begun(draft))
    elif known.name != name:
        known = LimitStatus(name=name, since=draft.now, begun=_begun(draft))
    elif not known.begun and _begun(draft):
        known = LimitStatus(name=name, since=draft.now, begun=True)
    draft.set(limit=_held(draft, known))


def begin(draft: Draft, call: str) -> None:
    """Count from now: the call that begins what is limited was accepted."""
    known = draft.status.limit
    if known is not None and not known.begun and BY_CALL.get(call) is draft.status.phase:
        draft.set(limit=LimitStatus(name=known.name, since=draft.now, begun=True))


def seconds(draft: Draft) -> float | None:
    """Return how long what goes on may take; None when nothing bounds it."""
    name = phases.limit_of(draft.status)
    if name is None:
        return None
    drain, known = draft.worker.spec.drain, draft.status.limit
    if name == "drain" and drain is not None and known is not None:
        return max((drain.deadline - known.since).total_seconds(), DRAIN_LEAST)
    return float(getattr(draft.limits, name))


def late(draft: Draft, factor: float = 1.0) -> bool:
    """Tell whether what goes on takes longer than `factor` times its limit.

    What a process before this one began goes on without anybody; a wait for our own call does not.
    """
    known, limit = draft.status.limit, seconds(draft)
    if known is None or limit is None or known.held_since is not None or unseen(draft):
        return False
    since, span, watched = known.since, timedelta(seconds=limit * factor), draft.seen.watched_since
    if not known.begun:
        return draft.overdue(since, span)
    looked = min(span, timedelta(seconds=LOOKS_SECONDS))
    return draft.now - since > span and (watched is None or draft.now - watched > looked)


def unseen(draft: Draft) -> bool:
    """Tell whether this look does not say how far the machine is, so that it proves nothing."""
    known, machine = draft.status.limit, draft.status.machine
    told = known is not None and known.name in TOLD and machine.id is not None
    return told and draft.seen.machine is None


def _entered(draft: Draft) -> datetime:
    """Return since when the limit counts of a record that an earlier revision wrote."""
    since = draft.status.phase_since or draft.now
    ran = conditions.find(draft.status.conditions, WorkerCondition.MACHINE_PROVISIONED)
    if draft.status.phase is P.STARTING and ran is not None and ran.status == "True":
        return max(since, ran.last_transition_time)
    return since


def _begun(draft: Draft) -> bool:
    """Tell whether what the phase's limit bounds was seen to go on."""
    machine, licence = draft.status.machine, draft.status.licence
    match draft.status.phase:
        case P.PENDING:
            return False
        case P.PROVISIONING_EC2:
            return machine.id is not None
        case P.STARTING:
            return machine.state not in {"stopping", "stopped"}
        case P.LICENSING:
            return licence.registration == "IN_PROGRESS"
        case P.UNLICENSING:
            return False
        case P.STOPPING:
            return machine.state in {"stopping", "stopped"}
        case P.TERMINATING_EC2:
            return machine.state in {"ending", "gone"}
        case _:
            return True


def _held(draft: Draft, known: LimitStatus) -> LimitStatus:
    """Return the limit standing still while something holds the worker up, and moved on after."""
    if _waits(draft):
        if known.held_since is None:
            draft.forget(WorkerCondition.LATE, WorkerCondition.PHASE_STUCK)
            return msgspec.structs.replace(known, held_since=draft.now)
        return known
    if known.held_since is None:
        return known
    since = known.since + (draft.now - known.held_since)
    return msgspec.structs.replace(known, since=since, held_since=None)


def _waits(draft: Draft) -> bool:
    """Tell whether the worker waits for what nobody here can hasten: the provider, or room there."""
    facts, phase = draft.status.conditions, draft.status.phase
    if draft.held_up:
        return True
    if phase is P.PROVISIONING_EC2:
        return conditions.find(facts, WorkerCondition.MACHINE_LAUNCHED) is not None
    if phase is P.STARTING and draft.status.machine.state == "stopped":
        return conditions.find(facts, WorkerCondition.MACHINE_STARTED) is not None
    return False
