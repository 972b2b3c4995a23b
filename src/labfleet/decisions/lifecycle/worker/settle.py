"""The rules for a worker's open call: close it as far as its outcome is known.

They come before all others: while a call may be under way, nothing else is decided.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from labfleet.decisions import stray_labs
from labfleet.decisions.lifecycle.worker import lab_orders, licence_orders, limits
from labfleet.decisions.lifecycle.worker.calls import MISMATCH, Answer, Call
from labfleet.decisions.lifecycle.worker.draft import SOON, Draft, P, Step
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text, utc_time
from labfleet.resources import conditions
from labfleet.resources.meta import Effect
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

MISMATCH_PATIENCE = timedelta(minutes=10)
"""How long a machine is looked up whose token is bound to another request."""
HELD_SECONDS = 60.0
"""The longest time until a blocked worker is reconciled again, since its deadlines still run."""
RUNNING_SECONDS = 5.0
UNTRIED = frozenset({"LeaseTooShort", "EffectExpired"})
"""Reasons of calls that this process did not even begin; nobody outside is to blame."""


def settle(draft: Draft) -> Step | None:
    """Record what is known of the open call; None means that the other rules go on."""
    effect, call = draft.status.effect, draft.seen.call
    if effect is None:
        return None
    if draft.status.phase is P.TERMINATED:
        draft.set(effect=None)  # whatever it did, nothing is left to do it to
        return None
    if call is None or call.state == "running":
        return _running(draft, call)
    if effect.kind == "launch":
        return _launch(draft, effect, call)
    draft.set(effect=None)
    problem = call.answer.problem
    if problem is not None and not isinstance(problem, errors.Gone):
        return _failed(draft, effect, problem)
    if call.state == "over" and effect.kind == "deregister":
        _doubt_licence(draft)
    if call.state == "answered":
        _note(draft, effect.kind, call.answer)
    return None


def _running(draft: Draft, call: Call | None) -> Step:
    problem = None if call is None else call.answer.problem
    if problem is not None:
        return trouble(draft, problem)
    return draft.unchanged(again=RUNNING_SECONDS)


# --- a launch ----------------------------------------------------------------------------


def _launch(draft: Draft, effect: Effect, call: Call) -> Step | None:
    """Take the machine over, or go on with another attempt; else the same request is sent again.

    So a launch under which nothing happened keeps its intent: a late first try and the second
    make one machine.
    """
    answer, problem = call.answer, call.answer.problem
    if answer.machine is not None:
        attempt = max(draft.status.attempt, int(effect.parameters["attempt"]))
        draft.set(machine=answer.machine, effect=None, attempt=attempt)
        draft.forget(WorkerCondition.MACHINE_LAUNCHED)
        limits.note(draft)  # the machine's time counts from here, not from when it was asked for
        return draft.unchanged(again=SOON, reason=f"instance {answer.machine.id} launched")
    if answer.refused is not None:
        draft.set(effect=None)
        return None
    if isinstance(problem, errors.OutOfCapacity | errors.QuotaExceeded | errors.Gone):
        return _refused_here(draft, effect, problem)
    if isinstance(problem, errors.Conflict):
        # The token is in use with other parameters: its machine can be looked up.
        marked = {**effect.parameters, MISMATCH: "yes"}
        draft.set(effect=msgspec.structs.replace(effect, parameters=marked))
        lost = errors.Ambiguous(problem.message, reason=problem.reason)
        return draft.unchanged(again=SOON, reason="token mismatch", problem=lost)
    if problem is not None:
        return trouble(draft, problem)
    if call.state == "over" and MISMATCH in effect.parameters:
        # The same request would be refused for ever, so only waiting longer can settle it.
        if draft.now < effect.begun + MISMATCH_PATIENCE:
            return draft.unchanged(again=RUNNING_SECONDS)
        attempt = max(draft.status.attempt, int(effect.parameters["attempt"])) + 1
        draft.set(effect=None, attempt=attempt)
        return draft.unchanged(again=SOON)  # this look's offer was made for the old attempt
    if draft.status.phase is not P.PROVISIONING_EC2:
        draft.set(effect=None)  # nobody wants that machine any more
    return None


def _refused_here(draft: Draft, effect: Effect, problem: errors.LabfleetError) -> Step:
    """Go on to the next type and zone: this one was definitely refused."""
    kind = effect.parameters.get("type")
    told = problem.message if kind is None else f"{kind}: {problem.message}"
    _not_provisioned(draft, problem, told)
    if isinstance(problem, errors.OutOfCapacity | errors.QuotaExceeded):
        _without_room(draft, problem)
    draft.set(effect=None, attempt=int(effect.parameters["attempt"]) + 1, message=told)
    ended = None
    if isinstance(problem, errors.Gone):
        # The token's machine has ended (IdempotentInstanceTerminated): a new attempt.
        ended = errors.Temporary(problem.message, reason=problem.reason)
    return draft.unchanged(again=SOON, reason=told, problem=ended)


def trouble(draft: Draft, problem: errors.LabfleetError) -> Step:
    """Record why there is no machine yet, and back off; a repeated error is written once."""
    ours = problem.reason in UNTRIED or isinstance(problem, errors.Conflict)
    if draft.status.phase is P.PROVISIONING_EC2 and not ours:
        _not_provisioned(draft, problem, problem.message[:500])
        draft.forget(WorkerCondition.MACHINE_LAUNCHED)  # it is something else than room
        limits.note(draft)
    reason = f"launching: {problem.reason}"
    return draft.unchanged(again=SOON, reason=reason, problem=problem)


def held(draft: Draft, problem: errors.Temporary) -> Step:
    """Say why nothing is launched, and ask again when that may have changed."""
    _not_provisioned(draft, problem, problem.message)
    _without_room(draft, problem, everywhere=True)
    again = min(problem.retry_after or HELD_SECONDS, HELD_SECONDS)
    return draft.stay(problem.message, again=again)


def _without_room(draft: Draft, problem: errors.LabfleetError, *, everywhere: bool = False) -> None:
    """Count from the first refusal; say so when there was room nowhere for long."""
    quota = isinstance(problem, errors.QuotaExceeded)
    reason = WorkerReason.QUOTA_EXCEEDED if quota else WorkerReason.OUT_OF_CAPACITY
    before = conditions.find(draft.status.conditions, WorkerCondition.MACHINE_LAUNCHED)
    if before is None:
        told = f"no room for its machine since {utc_text(draft.now, seconds=True)}"
        draft.fact(WorkerCondition.MACHINE_LAUNCHED, "Unknown", reason, told)
        limits.note(draft)  # its limit stands still from here
        return
    limit = draft.seen.thresholds.no_capacity_seconds
    lasts = draft.now - before.last_transition_time
    if before.status == "False" or (everywhere and lasts > timedelta(seconds=limit)):
        draft.fact(
            WorkerCondition.MACHINE_LAUNCHED, "False", reason, before.message,
            measured=conditions.Measured(
                value=round(lasts.total_seconds()), unit="seconds", limit=float(limit)
            ),
        )  # fmt: skip


def _not_provisioned(draft: Draft, problem: errors.LabfleetError, told: str) -> None:
    reason = conditions.of_error(problem)
    draft.fact(WorkerCondition.MACHINE_PROVISIONED, "False", reason, told)


# --- every other call --------------------------------------------------------------------


def _failed(draft: Draft, effect: Effect, problem: errors.LabfleetError) -> Step:
    """Say why the call failed, so that the next try is a new one."""
    kind = effect.kind
    if kind == "start" and isinstance(problem, errors.OutOfCapacity | errors.QuotaExceeded):
        return _start_refused(draft, problem)
    if kind == "tags":
        return draft.unchanged(again=draft.seen.poll)  # no worker waits for its tags
    if kind == "stop" and problem.reason in {"NotLooked", "NodesRunning"}:
        # An idle stop waits for a server that is silent so long, counted from its last answer.
        quiet = problem.reason == "NotLooked"
        draft.fact(
            WorkerCondition.HEALTH_CHECK_PASSED,
            "Unknown" if quiet else "True",
            WorkerReason.CHECK_FAILED if quiet else WorkerReason.ANSWERING,
        )
    if kind == "remove_lab":
        return _left(draft, effect, problem)
    if kind == lab_orders.OPERATE:
        if problem.reason not in UNTRIED:
            lab_orders.failed(draft, problem)
        return draft.unchanged(again=lab_orders.AGAIN)
    draft.set(message=f"{kind}: {problem.message}"[:500])
    return draft.unchanged(again=SOON, reason=f"{kind} failed: {problem.reason}", problem=problem)


def _left(draft: Draft, effect: Effect, problem: errors.LabfleetError) -> Step:
    """Note that a stray lab could not be removed: it waits anew, and nothing waits for it."""
    if problem.reason not in UNTRIED and not isinstance(problem, errors.Conflict):
        lab, told = effect.parameters["lab"], problem.message
        before = draft.status.stray_labs
        draft.set(stray_labs=stray_labs.failed(before, lab, told, draft.now))
    return draft.unchanged(again=draft.seen.poll)


def _start_refused(draft: Draft, problem: errors.LabfleetError) -> Step:
    """Say that this worker's machine cannot start now, and when that is tried again.

    Another machine is never launched instead: this one has the worker's disk and licence
    (facts/aws-bugs.md#case-19, #case-22).
    """
    wait = problem.retry_after or HELD_SECONDS
    again = draft.now + timedelta(seconds=wait)
    told = f"{problem.message[:400]}; asked again at {utc_time(again)}"
    full = isinstance(problem, errors.OutOfCapacity)
    reason = WorkerReason.OUT_OF_CAPACITY if full else WorkerReason.QUOTA_EXCEEDED
    draft.fact(WorkerCondition.MACHINE_STARTED, "False", reason, told)
    limits.note(draft)
    draft.set(message=told)
    return draft.unchanged(again=min(wait, HELD_SECONDS), reason=told)


def _note(draft: Draft, kind: str, answer: Answer) -> None:
    """Record what the answer says beside what the look shows."""
    if kind == "start":
        draft.forget(WorkerCondition.MACHINE_STARTED)
    if not answer.nodes_running:
        limits.begin(draft, kind)
    if kind == "renew":
        draft.set(licence=msgspec.structs.replace(draft.status.licence, renewed_at=draft.now))
    licence_orders.answered(draft, kind, answer)
    if kind == "tags":
        _tagged(draft, answer)
    if answer.telemetry is not None:
        _opted(draft, answer.telemetry, answer.telemetry_refused)
    if answer.returned:
        leaked = conditions.find(draft.status.conditions, WorkerCondition.LICENCE_LEAKED)
        if leaked is not None and leaked.status == "Unknown":
            draft.forget(WorkerCondition.LICENCE_LEAKED)  # the licence cloud knows of it now


def _opted(draft: Draft, value: bool, refused: str | None) -> None:  # noqa: FBT001
    """Remember what was set on this boot, or that CML refused it."""
    draft.fact(
        WorkerCondition.TELEMETRY_SET,
        "False" if refused else "True",
        WorkerReason.REFUSED if refused else WorkerReason.SET,
        refused or ("opted in" if value else "opted out"),
    )
    draft.set(cml=msgspec.structs.replace(draft.status.cml, telemetry=value))


def _tagged(draft: Draft, answer: Answer) -> None:
    if answer.refused is not None:
        told = answer.refused
        draft.fact(WorkerCondition.TAGS_APPLIED, "False", WorkerReason.REFUSED, told)
        return
    if answer.tags is None:
        return
    draft.set(machine=msgspec.structs.replace(draft.status.machine, tags=answer.tags))
    if answer.tags:
        draft.fact(WorkerCondition.TAGS_APPLIED, "True", WorkerReason.APPLIED)
    else:
        draft.forget(WorkerCondition.TAGS_APPLIED)


def _doubt_licence(draft: Draft) -> None:
    """Record that it is unknown whether a deregistration reached the licence cloud."""
    draft.fact(
        WorkerCondition.LICENCE_LEAKED,
        "Unknown",
        WorkerReason.OUTCOME_LOST,
        "the controller stopped during deregistration; CML's answer was lost",
    )
