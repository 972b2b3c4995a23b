"""What to do next with a worker: pure, from its record and what was just seen.

`decide` returns the new status, the finalizers to keep and at most one action. The controller
commits first and acts afterwards; every action is safe to repeat, and what an open call did is
looked up (engine/effects.py) and settled here before anything else is decided.

The rules are in `up`, `hosting` and `down`. They never call an instance terminated unless the
provider says so; never stop or terminate while sessions live on the worker (unless they could
not be ended there in time); and never forget a licence without recording a leak (but a clone's
licence belongs to the older worker, so the clone does not return it).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from labfleet.decisions.lifecycle.worker import (
    alerts,
    answers,
    chores,
    down,
    external,
    hosting,
    idle_rule,
    lab_orders,
    licence_orders,
    limits,
    observed,
    outside,
    phases,
    settle,
    strays,
    up,
)
from labfleet.decisions.lifecycle.worker.draft import (
    ABSENCE_PATIENCE,
    SOON,
    TOLERATED_CHECKS,
    Action,
    Draft,
    P,
    Step,
    WorkerObservation,
    gone,
    leak,
)
from labfleet.resources import conditions
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

__all__ = ["ABSENCE_PATIENCE", "TOLERATED_CHECKS", "Action", "Step", "WorkerObservation", "decide"]


FOLLOWS = {"deregister": "stop_labs"}
"""Actions that an answer asks for at once: only the step after a refusal knows of it."""


def decide(worker: Worker, seen: WorkerObservation, now: datetime) -> Step:
    """Return the next step of a worker; total over phases, desires and observations."""
    draft = Draft(worker, seen, now)
    answers.note(draft)
    called = worker.status.effect
    waits = settle.settle(draft)
    if waits is not None:
        return waits
    step = chores.add(draft, _by_phase(draft))
    answered = seen.call is not None and seen.call.state == "answered"
    if answered and called is not None and step.action not in {None, FOLLOWS.get(called.kind)}:
        # The look may be older than the call; what comes next begins from a look of its own.
        again = step.again if step.action == called.kind else SOON
        step = msgspec.structs.replace(step, action=None, again=again)
    step = strays.guarded(step)
    if draft.answer.note:
        reason = f"{step.reason or step.status.message or step.status.phase}; {draft.answer.note}"
        step = msgspec.structs.replace(step, reason=reason)
    return step if seen.idle is None else idle_rule.apply(worker, step, seen.idle, now)


def _by_phase(draft: Draft) -> Step:
    """Return what the rules of the worker's origin and phase say."""
    worker = draft.worker
    if worker.status.phase_since is None:
        draft.set(phase_since=draft.now)
    _note_machine(draft)
    limits.note(draft)
    alerts.note(draft)
    licence_orders.wait(draft)
    lab_orders.expire(draft)
    origin = worker.spec.origin
    if origin is not None and phases.observed(worker):
        return observed.decide(draft, origin)
    if origin is not None and origin.kind == "external":
        return external.decide(draft)
    lost = _lost(draft)
    if lost is not None:
        return lost
    return _RULES[worker.status.phase](draft)


def _note_machine(draft: Draft) -> None:
    """Take over what the provider said; a machine missing in its list is waited for a while."""
    seen, machine = draft.seen, draft.status.machine
    if seen.machine is not None:
        # The keys that we may remove are our own knowledge; no look tells them.
        shown = msgspec.structs.replace(seen.machine, absent_since=None, tags=machine.tags)
        draft.set(machine=shown)
        running = seen.machine.state == "running"
        reason = WorkerReason.RUNNING if running else WorkerReason.NOT_RUNNING
        draft.fact(
            WorkerCondition.MACHINE_PROVISIONED,
            "True" if running else "False",
            reason,
            seen.machine.state or "",
        )
    elif seen.absent and machine.absent_since is None:
        draft.set(machine=msgspec.structs.replace(machine, absent_since=draft.now))
        draft.fact(
            WorkerCondition.MACHINE_PROVISIONED,
            "Unknown",
            WorkerReason.NOT_LISTED,
            "the provider does not show it: looking again",
        )
    elif draft.provider_down:
        before = conditions.find(draft.status.conditions, WorkerCondition.MACHINE_PROVISIONED)
        if before is not None and before.status != "Unknown":
            told = f"the provider does not answer; {before.status} before that"
            reason = WorkerReason.NOT_RENEWED
            draft.fact(WorkerCondition.MACHINE_PROVISIONED, "Unknown", reason, told)


_EXPECT_MACHINE = frozenset(P) - {P.PENDING, P.TERMINATING_EC2, P.TERMINATED, P.FAILED}


def _lost(draft: Draft) -> Step | None:
    """End in FAILED when the machine ended or stopped without our doing."""
    phase, machine = draft.status.phase, draft.status.machine
    if phase not in _EXPECT_MACHINE or machine.id is None:
        return None
    if gone(draft) or (draft.seen.machine is not None and machine.state == "ending"):
        why = draft.seen.state_reason or "not by Labfleet"
        outside.terminated(draft)
        leak(draft, "the instance ended before the licence was returned")
        return draft.fail(WorkerReason.INSTANCE_TERMINATED, f"instance {machine.id} ended: {why}")
    halted = machine.state in {"stopping", "stopped"} and draft.seen.machine is not None
    if halted and phase in phases.HOSTING | {P.DRAINING, P.LICENSING, P.UNLICENSING}:
        outside.stopped(draft)
        return draft.fail(
            WorkerReason.STOPPED_OUTSIDE, f"instance {machine.id} was stopped from outside"
        )
    return None


_RULES: dict[WorkerPhase, Callable[[Draft], Step]] = {
    P.PENDING: up.pending,
    P.PROVISIONING_EC2: up.provisioning,
    P.EC2_READY: up.ec2_ready,
    P.STARTING: up.starting,
    P.READY_UNLICENSED: hosting.unlicensed,
    P.LICENSING: up.licensing,
    P.READY: hosting.hosting,
    P.ACTIVE: hosting.hosting,
    P.DRAINING: hosting.draining,
    P.UNLICENSING: down.unlicensing,
    P.STOPPING: down.stopping,
    P.STOPPED: down.stopped,
    P.TERMINATING_EC2: down.terminating,
    P.TERMINATED: down.terminated,
    P.FAILED: down.failed,
}
