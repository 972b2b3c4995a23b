"""The rules for a worker that hosts sessions: health, emptiness, drain."""

from __future__ import annotations

from datetime import timedelta

from labfleet.decisions import ledger, parking, wording
from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker import lab_orders, licence_orders, phases, strays
from labfleet.decisions.lifecycle.worker.draft import (
    SOON,
    TOLERATED_CHECKS,
    Action,
    Draft,
    P,
    Step,
    must_return_licence,
    note_server,
    seen_twice,
    stage_reason,
    wants_licence,
)
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.worker import FINALIZER_LICENCE, Health, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

RENEW_EVERY = timedelta(days=1)
ORDER_SECONDS = 5.0
"""How soon to look again while somebody waits for what was asked of the licence."""


def _check_health(draft: Draft) -> None:
    """Update health, and let lapse what the looks no longer tell."""
    _note_answer(draft)
    worker_health.let_lapse(draft)


def _note_answer(draft: Draft) -> None:
    """Update health, allowing for a few failures; a failed check never changes the phase.

    However rarely it is looked at, silence of `thresholds.silentSeconds` is Unreachable.
    """
    if draft.seen.stage == "ready" and not draft.seen.trouble:
        degraded = any(
            (fact := conditions.find(draft.status.conditions, name)) is not None
            and fact.status == "False"
            for name in (WorkerCondition.CML_HEALTHY, WorkerCondition.INSTANCE_CHECKS_PASSED)
        )
        draft.set(health=Health.DEGRADED if degraded else Health.HEALTHY, failed_checks=0)
        draft.fact(WorkerCondition.HEALTH_CHECK_PASSED, "True", WorkerReason.ANSWERING)
        told = f"CML {draft.status.cml.version}"
        draft.fact(WorkerCondition.CML_READY, "True", WorkerReason.READY, told)
        return
    failed = draft.failed_check()
    why = draft.seen.trouble or f"CML is {draft.seen.stage}"
    long = draft.seen.server_silent >= draft.seen.thresholds.silent_seconds
    if failed < TOLERATED_CHECKS and not long:
        draft.set(health=Health.DEGRADED)
        draft.fact(WorkerCondition.HEALTH_CHECK_PASSED, "Unknown", WorkerReason.CHECK_FAILED, why)
        return
    answers = draft.seen.stage == "not_ready"
    draft.set(health=Health.DEGRADED if answers else Health.UNREACHABLE)
    reason = WorkerReason.NOT_READY if answers else WorkerReason.UNREACHABLE
    draft.fact(WorkerCondition.HEALTH_CHECK_PASSED, "False", reason, why)
    draft.fact(WorkerCondition.CML_READY, "False", stage_reason(draft.seen), why)


def hosting(draft: Draft) -> Step:
    """Update health, licence and emptiness; drain when requested."""
    note_server(draft)
    worker_health.note(draft)
    strays.note(draft)
    _check_health(draft)
    _check_capacity(draft)
    if seen_twice(draft):
        # The licence is the older one's: giving it back here would take it away there.
        draft.drop(FINALIZER_LICENCE)
    seen, status = draft.seen, draft.status
    if seen.licence is not None:
        licensed = bool(seen.licence.licensed)
        told = f"registration {seen.licence.registration}"
        reason = WorkerReason.IN_COMPLIANCE if licensed else WorkerReason.NOT_IN_COMPLIANCE
        draft.fact(WorkerCondition.LICENSED, "True" if licensed else "False", reason, told)
    if seen.sessions == 0 and status.empty_since is None:
        draft.set(empty_since=draft.now)
    if seen.sessions > 0 and status.empty_since is not None:
        draft.set(empty_since=None)
    if phases.interrupted(draft.status.conditions):
        return draft.go(P.DRAINING, "draining at once: the provider takes the machine back")
    if phases.drain_wanted(draft.worker):
        return draft.go(P.DRAINING, "draining")
    order = licence_orders.judge(draft) if _answers(draft) else None
    chore = _chore(draft, order)
    # Not of a server that does not answer: its failed looks are counted, a poll apart.
    soon = _answers(draft) and licence_orders.under_way(draft)
    again = min(_next_look(draft), ORDER_SECONDS) if soon else _next_look(draft)
    again = min(again, strays.AGAIN) if chore == strays.REMOVE else again
    if _answers(draft) and lab_orders.open_order(draft.worker) is not None:
        again = min(again, lab_orders.AGAIN)
    if seen.sessions > 0:
        return draft.go(P.ACTIVE, f"hosts {_sessions(seen.sessions)}", again=again, do=chore)
    return draft.go(resting(draft), "ready", again=again, do=chore)


def _next_look(draft: Draft) -> float:
    """Return when to look again: a server that begins to be silent, in time to say so."""
    left = draft.seen.thresholds.silent_seconds - draft.seen.server_silent
    if not draft.status.failed_checks or left <= 0:
        return draft.seen.poll
    return min(draft.seen.poll, max(left, SOON))


def _answers(draft: Draft) -> bool:
    ready = draft.seen.stage == "ready" and not draft.seen.trouble
    return ready and draft.worker.spec.machine is not None


def _chore(draft: Draft, order: Action | None) -> Action | None:
    """Return a chore for a server that answers: its telemetry, its licence, a stray lab."""
    machine, licence = draft.worker.spec.machine, draft.status.licence
    if machine is None or not _answers(draft):
        return None
    known = draft.status.cml
    if known.boot is not None and known.telemetry is not machine.cml.enable_telemetry:
        return "telemetry"
    if order is not None:
        return order
    if lab_orders.step(draft):
        return lab_orders.OPERATE
    if draft.seen.paused:
        return None
    expiring = conditions.is_true(draft.status.conditions, WorkerCondition.LICENCE_EXPIRING)
    asked = licence.renewed_at
    if expiring and draft.licence_held and (asked is None or draft.now - asked >= RENEW_EVERY):
        return "renew"
    return strays.REMOVE if strays.removable(draft) else None


def _check_capacity(draft: Draft) -> None:
    """Report reservations above the capacity: nothing more is admitted, what runs continues."""
    capacity, booked = draft.status.capacity, draft.seen.booked
    if capacity is None or booked is None:
        return
    short = ledger.shortages(booked, capacity, Amounts())
    if short:
        told = f"reserved more than it has: short {wording.short(short)}"
        draft.fact(
            WorkerCondition.OVER_COMMITTED, "True", WorkerReason.CAPACITY_SHRANK, told,
            measured=_share(booked, capacity),
        )  # fmt: skip
    else:
        draft.fact(WorkerCondition.OVER_COMMITTED, "False", WorkerReason.WITHIN_CAPACITY)


def _share(booked: Amounts, capacity: Amounts) -> conditions.Measured | None:
    """Return how much of what is scarcest is reserved; None where there is nothing of it at all."""
    pairs = [(getattr(booked, name), getattr(capacity, name)) for name in Amounts.__struct_fields__]
    asked = [(wanted, has) for wanted, has in pairs if wanted]
    if not asked or any(not has for _, has in asked):
        return None
    share = max(round(100 * wanted / has, 1) for wanted, has in asked)
    return conditions.Measured(value=share, unit="percent", limit=100)


def resting(draft: Draft) -> WorkerPhase:
    """Return the phase of a hosting worker without sessions."""
    if draft.status.phase in {P.READY, P.READY_UNLICENSED}:
        return draft.status.phase
    origin = draft.worker.spec.origin
    theirs = origin is not None and origin.kind == "external" and draft.status.licence.licensed
    return P.READY if draft.licence_held or theirs else P.READY_UNLICENSED


def unlicensed(draft: Draft) -> Step:
    """Host without a licence, and take one once it is wanted and the worker is empty."""
    step = hosting(draft)
    idle = step.status.phase is P.READY_UNLICENSED and draft.seen.sessions == 0
    if wants_licence(draft) and idle and draft.seen.stage == "ready":
        draft.hold(FINALIZER_LICENCE)
        return draft.go(P.LICENSING, "licensing", do="register")
    return step


def draining(draft: Draft) -> Step:
    """Wait for the sessions to end; then stop, stay drained, or host again when cancelled."""
    note_server(draft)
    worker_health.note(draft)
    strays.note(draft)
    _check_health(draft)
    seen, drain = draft.seen, draft.worker.spec.drain
    if not phases.drain_wanted(draft.worker):
        draft.forget(WorkerCondition.DRAINED)
        return draft.go(P.ACTIVE if seen.sessions else resting(draft), "drain cancelled")
    if seen.sessions:
        limit = timedelta(seconds=draft.limits.drain)
        deadline = drain.deadline if drain else (draft.status.phase_since or draft.now) + limit
        reason = WorkerReason.LATE if draft.now > deadline else WorkerReason.SESSIONS_RUNNING
        message = f"{_sessions(seen.sessions)} still here, deadline {utc_text(deadline)}"
        draft.fact(WorkerCondition.DRAINED, "False", reason, message)
        return draft.stay(message, again=10.0)
    draft.fact(WorkerCondition.DRAINED, "True", WorkerReason.EMPTY)
    if phases.desire(draft.worker) == "Ready":
        if phases.returning(draft.worker):
            return draft.go(P.UNLICENSING, "returning the licence, as was asked")
        return draft.stay("drained", again=draft.seen.poll)
    if parking.auto_stopped(draft.worker) and not _still_unused(draft):
        return draft.stay("an idle stop waits until the server says that nothing runs", again=5.0)
    if must_return_licence(draft):
        return draft.go(P.UNLICENSING, "returning the licence")
    return draft.go(P.STOPPING, "stopping")


def _still_unused(draft: Draft) -> bool:
    """Tell whether this observation itself shows that nothing runs (facts/aws-bugs.md#case-27)."""
    newest = draft.seen.samples[-1] if draft.seen.samples else None
    if draft.seen.stage != "ready" or draft.seen.trouble or newest is None or newest.stats is None:
        return False
    return newest.stats.running_nodes == 0 and not newest.stats.running_orphans


def _sessions(number: int) -> str:
    return count(number, "session")
