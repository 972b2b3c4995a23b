"""The idle rule: what it wants of a worker, and the step that carries it out.

Pure. It warns, cordons the worker, has everything looked at once more, and requests the stop.
A stop is one intent, written once (facts/aws-bugs.md#case-15, #case-27), and is not written
when something was reserved on the worker since that look began, so a session placed meanwhile
wins. When the look finds use, the worker is uncordoned again. A worker that was stopped here may
be started again by its pool, or here when it has no pool.

`judge` says what is wanted; `apply` adds it to a step that leaves room for it. Both are called
with the facts of the moment of the decision, since the look may be a while ago.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from labfleet.decisions import idle, parking
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import Guard, Step
from labfleet.decisions.lifecycle.worker.idle_finding import IdleFinding
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.worker import Drain, IdleStatus, Worker, WorkerPhase, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

ACTOR = "idle-controller"
"""Who the log, drains and pauses name; stored, so the word stays."""
MOVED = timedelta(minutes=5)
"""Activity that is newer by less than this is not written."""
PATIENCE = timedelta(minutes=10)
"""How long an idle stop may wait for a complete last look before it is cancelled."""
KEPT = frozenset({"nodes", "console", "telemetry", "cpu", "network", "health"})
"""Signals read from outside; kept as evidence for processes that cannot ask the server."""


class Wish(StrEnum):
    """What the rule wants of a worker."""

    NOTHING = "nothing"
    LOOK = "look"
    """Have everything looked at, after which it may be stopped."""
    NOTE = "note"
    WARN = "warn"
    CORDON = "cordon"
    WITHDRAW = "withdraw"
    """Take warning and cordon back."""
    STOP = "stop"
    RETIRE = "retire"
    """Drain it for its age, without ending sessions."""
    START = "start"
    GIVE_UP = "give-up"
    """End it for good: it failed, and its pool replaces nothing that is stopped or drained."""
    UNDRAIN = "undrain"


class Judgement(NamedTuple):
    """A wish, its reason, and the verdict that it rests on, if it rests on one."""

    wish: Wish
    why: str = ""
    verdict: idle.IdleVerdict | None = None


NOTHING = Judgement(Wish.NOTHING)


def judge(worker: Worker, finding: IdleFinding, now: datetime) -> Judgement:
    """Return what the rule wants of a worker; total over phases and findings."""
    if parking.auto_stopped(worker):
        return _parked(worker, finding, now)
    if aging(worker):
        return _aged(worker, finding, now)
    if worker.status.phase not in phases.HOSTING or not parking.ours(worker):
        return NOTHING
    return _serving(worker, finding, now)


def room(worker: Worker, step: Step) -> bool:
    """Tell whether a step leaves room for the rule: no call, no new phase, no other change."""
    calls = (step.action, worker.status.effect, step.status.effect)
    if any(each is not None for each in (*calls, step.changed, step.problem)):
        return False
    return step.status.phase is worker.status.phase


def judged(worker: Worker, step: Step) -> bool:
    """Tell whether the rule has decided in this step, be it that nothing is wanted."""
    return step.actor == ACTOR or room(worker, step)


def apply(worker: Worker, step: Step, finding: IdleFinding, now: datetime) -> Step:
    """Return the step with what the rule wants; the step itself when there is no room for it."""
    if not room(worker, step):
        return step
    new = msgspec.structs.replace(worker, status=step.status)
    judgement = judge(new, finding, now)
    carry_out = _CARRY_OUT.get(judgement.wish)
    if carry_out is None:
        return step
    return carry_out(_Change(new, step, finding, now), judgement)


def aging(worker: Worker) -> bool:
    """Tell whether the rule drains the worker for its age."""
    drain = worker.spec.drain
    return drain is not None and drain.requested_by == ACTOR


def closing(worker: Worker) -> bool:
    """Tell whether the rule has closed the worker and is to look at it before its stop."""
    wanted = worker.spec.desired == "Ready" and not worker.deleting
    return parking.cordoned(worker) and wanted and worker.status.phase in phases.HOSTING


def due(worker: Worker, settings: Idle, now: datetime) -> bool:
    """Tell whether the warning was given long enough ago, or none is wanted."""
    warned = worker.status.idle.warned_at
    wait = timedelta(minutes=settings.warn_minutes)
    return not wait or (warned is not None and now >= warned + wait)


def next_look(
    verdict: idle.IdleVerdict, warned: datetime | None, settings: Idle, now: datetime
) -> float:
    """Return seconds to the next look: the interval, or sooner when something is due."""
    stop_at, wait = verdict.stop_at, timedelta(minutes=settings.warn_minutes)
    soon = [] if stop_at is None else [stop_at, stop_at - wait]
    if warned is not None:
        soon.append(warned + wait)
    ahead = [(each - now).total_seconds() for each in soon if each > now]
    return min([float(settings.check_interval_seconds), *ahead])


# --- what is wanted ----------------------------------------------------------------------


def _serving(worker: Worker, finding: IdleFinding, now: datetime) -> Judgement:
    """Judge a worker that hosts: too old, unused and due, in use after all, or news."""
    settings, known = finding.settings, worker.status.idle
    verdict = idle.judge(worker, finding.facts, settings, now)
    old = idle.too_old(worker, settings, now)
    if old is not None and _may_retire(worker, finding):
        return Judgement(Wish.RETIRE, old, verdict)
    if verdict.eligible and due(worker, settings, now):
        return Judgement(_before_the_stop(worker, finding), _unused_since(verdict), verdict)
    outdated = known.warned_at is not None and not verdict.warn
    if finding.whole or parking.cordoned(worker) or outdated:
        why = ", ".join(verdict.kept_by) or "the stop was put off"
        return Judgement(Wish.WITHDRAW, why, verdict)
    if verdict.warn and known.warned_at is None:
        return Judgement(Wish.WARN, "unused", verdict)
    if _news(known, verdict):
        return Judgement(Wish.NOTE, ", ".join(verdict.kept_by) or "nothing keeps it", verdict)
    return Judgement(Wish.NOTHING, "", verdict)


def _before_the_stop(worker: Worker, finding: IdleFinding) -> Wish:
    """Return the next thing on the way to a stop; one worker of a pool at a time."""
    if worker.spec.cordoned:
        return Wish.STOP if finding.whole and finding.revision is not None else Wish.LOOK
    return Wish.NOTHING if finding.peer_closed else Wish.CORDON


def _unused_since(verdict: idle.IdleVerdict) -> str:
    return f"unused since {utc_text(verdict.since) if verdict.since else 'long ago'}"


def _may_retire(worker: Worker, finding: IdleFinding) -> bool:
    free = worker.spec.drain is None and not worker.deleting
    return free and not finding.paused and not finding.peer_aging


def _parked(worker: Worker, finding: IdleFinding, now: datetime) -> Judgement:
    """Judge a worker stopped by this rule: cancel its stop, or start it for a session."""
    if finding.paused:
        return NOTHING
    if worker.status.phase is WorkerPhase.FAILED:
        return _failed(worker, finding)
    why = _used_again(worker, finding, now)
    if why is None and worker.spec.pool is None and finding.wanted:
        why = "a session waits for it"
    return NOTHING if why is None else Judgement(Wish.START, why)


def _used_again(worker: Worker, finding: IdleFinding, now: datetime) -> str | None:
    """Return why an idle stop that has not begun yet is cancelled."""
    if worker.status.phase is not WorkerPhase.DRAINING:
        return None
    facts, since = finding.facts, worker.status.phase_since or now
    if facts.read_at is not None and facts.read_at >= since and facts.nodes:
        return f"{count(facts.nodes, 'node')} {'runs' if facts.nodes == 1 else 'run'}"
    if facts.sessions:
        return "sessions are placed here"
    return "the server could not be looked at" if now - since > PATIENCE else None


def _failed(worker: Worker, finding: IdleFinding) -> Judgement:
    """Judge a worker that failed while this rule drained or stopped it.

    A worker that is being drained or stopped is not replaced by its pool. So one of a pool is
    terminated, like every failed one; one without a pool is left for people to look at. If
    its machine still exists, the life cycle's rules stop that first.
    """
    fact = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
    ended = fact is not None and fact.reason == WorkerReason.INSTANCE_TERMINATED
    drained = worker.spec.drain is not None
    if worker.spec.pool is None or not (ended or drained):
        return Judgement(Wish.UNDRAIN) if drained else NOTHING
    return NOTHING if finding.paused else Judgement(Wish.GIVE_UP)


def _aged(worker: Worker, finding: IdleFinding, now: datetime) -> Judgement:
    """Judge a drained old worker: it stops once nothing runs on it, ours or not."""
    if worker.status.phase is WorkerPhase.FAILED:
        return _failed(worker, finding)
    if worker.status.phase is not WorkerPhase.DRAINING or finding.paused:
        return NOTHING
    if not finding.whole or finding.revision is None:
        return Judgement(Wish.LOOK)
    verdict = idle.judge(worker, finding.facts, finding.settings, now)
    return Judgement(Wish.STOP, "it ran for too long") if idle.unused(verdict) else NOTHING


def _news(known: IdleStatus, verdict: idle.IdleVerdict) -> bool:
    """Tell whether to write a verdict: it, its reasons or the last use changed."""
    if (known.verdict, known.signals) != (verdict.verdict, verdict.kept_by):
        return True
    if known.snoozed_until != verdict.snoozed_until:
        return True
    if (known.since is None) != (verdict.since is None):
        return True
    before, last = known.last_activity_at, verdict.last_activity_at
    return last is not None and (before is None or last - before > MOVED)


# --- the step that carries it out --------------------------------------------------------


class _Change(NamedTuple):
    """The worker with its new status, the step so far, and what both are changed by."""

    worker: Worker
    step: Step
    finding: IdleFinding
    now: datetime

    def noted(self, judgement: Judgement, **more: object) -> WorkerStatus:
        """Return the status with the verdict noted."""
        status, verdict = self.worker.status, judgement.verdict
        if verdict is None:
            return status
        told = msgspec.structs.replace(
            status.idle,
            verdict=verdict.verdict,
            signals=verdict.kept_by,
            evidence=tuple(each for each in verdict.signals if each.name in KEPT),
            checked_at=self.now,
            recent=verdict.recent,
            since=verdict.since,
            last_activity_at=verdict.last_activity_at,
            snoozed_until=verdict.snoozed_until,
            **more,
        )
        return msgspec.structs.replace(status, idle=told)

    def warned(
        self, status: WorkerStatus, value: conditions.Status, reason: WorkerReason, told: str
    ) -> WorkerStatus:
        """Return the status with what is to be said of the warning."""
        facts = conditions.put(
            status.conditions, WorkerCondition.IDLE_WARNING, value, reason, told, now=self.now
        )
        return msgspec.structs.replace(status, conditions=facts)

    def ends(
        self,
        reason: str,
        *,
        status: WorkerStatus | None = None,
        changed: Worker | None = None,
        guard: Guard | None = None,
    ) -> Step:
        """Return the step with this change."""
        return msgspec.structs.replace(
            self.step,
            status=self.step.status if status is None else status,
            changed=changed,
            guard=guard,
            actor=ACTOR,
            reason=reason,
        )


def _note(change: _Change, found: Judgement) -> Step:
    word = "" if found.verdict is None else found.verdict.verdict
    return change.ends(f"{word}: {found.why}", status=change.noted(found))


def _warn(change: _Change, found: Judgement) -> Step:
    """Say when the stop will be; never a time that is already over."""
    earliest = change.now + timedelta(minutes=change.finding.settings.warn_minutes)
    stop_at = None if found.verdict is None else found.verdict.stop_at
    told = f"unused, will be stopped at {utc_text(max(stop_at or change.now, earliest))}"
    status = change.noted(found, warned_at=change.now)
    status = change.warned(status, "True", WorkerReason.STOP_NEAR, told)
    return change.ends(f"IdleWarning: {told}", status=status)


def _cordon(change: _Change, found: Judgement) -> Step:
    del found
    told = "cordoned: idle, looked at once more before its stop"
    return change.ends(told, changed=parking.with_cordon(change.worker, closed=True))


def _withdraw(change: _Change, found: Judgement) -> Step:
    """Something keeps the worker after all; a cordon by people stays."""
    told = f"kept by {found.why}"
    status = change.noted(found, warned_at=None)
    status = change.warned(status, "False", WorkerReason.KEPT, told)
    changed = None
    if parking.cordoned(change.worker):
        changed = parking.with_cordon(change.worker, closed=False)
    return change.ends(f"not stopped: {told}", status=status, changed=changed)


def _stop(change: _Change, found: Judgement) -> Step:
    """Request the stop, unless something was reserved or paused since the look began."""
    worker, word = change.worker, "idle_timeout"
    if aging(worker):
        spec = msgspec.structs.replace(worker.spec, drain=None)
        worker, word = msgspec.structs.replace(worker, spec=spec), "max_age"
    worker = msgspec.structs.replace(worker, status=change.noted(found))
    stopped = parking.paused(worker, change.now, by=ACTOR, reason=word, auto=True)
    told = f"stopped: {found.why}"
    status = change.warned(stopped.status, "False", WorkerReason.STOPPED, told)
    guard = Guard(unreserved_since=change.finding.revision)
    return change.ends(told, status=status, changed=stopped, guard=guard)


def _retire(change: _Change, found: Judgement) -> Step:
    worker = change.worker
    limit = 14_400 if worker.spec.machine is None else worker.spec.machine.limits.drain
    drain = Drain(
        deadline=change.now + timedelta(seconds=limit),
        reason=f"max age: {found.why}",
        requested_by=ACTOR,
    )
    generation = worker.metadata.generation + 1
    drained = msgspec.structs.replace(
        worker,
        metadata=msgspec.structs.replace(worker.metadata, generation=generation),
        spec=msgspec.structs.replace(worker.spec, drain=drain),
    )
    return change.ends(f"draining: {found.why}", changed=drained, guard=Guard())


def _start(change: _Change, found: Judgement) -> Step:
    started = parking.resumed(change.worker, change.now, auto=True)
    told = f"started again: {found.why}"
    return change.ends(told, status=started.status, changed=started, guard=Guard())


def _give_up(change: _Change, found: Judgement) -> Step:
    del found
    told = "retired: it failed while it was idle"
    return change.ends(told, changed=parking.given_up(change.worker), guard=Guard())


def _undrain(change: _Change, found: Judgement) -> Step:
    del found
    whole = parking.undrained(change.worker)
    return change.ends("no longer drained: it failed", changed=whole)


_CARRY_OUT: dict[Wish, Callable[[_Change, Judgement], Step]] = {
    Wish.NOTE: _note,
    Wish.WARN: _warn,
    Wish.CORDON: _cordon,
    Wish.WITHDRAW: _withdraw,
    Wish.STOP: _stop,
    Wish.RETIRE: _retire,
    Wish.START: _start,
    Wish.GIVE_UP: _give_up,
    Wish.UNDRAIN: _undrain,
}
