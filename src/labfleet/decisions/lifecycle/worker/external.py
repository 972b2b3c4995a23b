"""The rules for an adopted CML server that has no instance of ours: no EC2 at all.

It is never launched, started, stopped or terminated. It hosts sessions and drains like any
worker; at its end the licence is returned only if we registered it, and the server is left alone.
"""

from __future__ import annotations

from collections.abc import Callable

from labfleet.decisions.lifecycle.worker import down, hosting, licence_orders, limits, phases
from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker import up as worker_up
from labfleet.decisions.lifecycle.worker.draft import (
    CHECK,
    TOLERATED_CHECKS,
    Action,
    Draft,
    P,
    Step,
    leak,
    note_server,
    surely_unregistered,
    takes_licence,
    wants_licence,
)
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_SERVER,
    Health,
    WorkerPhase,
)
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


def decide(draft: Draft) -> Step:
    """Return the next step of an external worker."""
    return _RULES.get(draft.status.phase, _end)(draft)


def _end(draft: Draft) -> Step:
    """Let go of the server, which goes on without us."""
    leak(draft, "the server was let go before its licence was returned")
    draft.drop(FINALIZER_SERVER)
    draft.set(empty_since=None, health=Health.UNKNOWN)
    return draft.go(P.TERMINATED, "let go; the server itself was left alone", again=CHECK)


def _pending(draft: Draft) -> Step:
    if phases.desire(draft.worker) == "Terminated":
        return _end(draft)
    if draft.worker.spec.machine is None:
        return draft.fail(
            WorkerReason.NO_MACHINE, "spec.machine is empty: name a template that exists"
        )
    draft.hold(FINALIZER_SERVER)
    draft.fact(
        WorkerCondition.ADOPTED,
        "True",
        WorkerReason.EXTERNAL,
        "a server at an address; no instance of ours",
    )
    return draft.go(P.STARTING, "looking at the server")


def _starting(draft: Draft) -> Step:
    """Wait for the server, for as long as it takes: nobody here can start it."""
    seen, leaving = draft.seen, phases.desire(draft.worker) == "Terminated"
    if leaving and not draft.licence_held and not seen.sessions:
        return _end(draft)
    if seen.stage == "ready" and seen.licence is not None:
        return _arrived(draft)
    told = seen.login_refused or seen.trouble or seen.stage or "not looked at yet"
    reason = WorkerReason.LOGIN_REFUSED if seen.login_refused else WorkerReason.NOT_READY
    draft.fact(WorkerCondition.CML_READY, "False", reason, told)
    if limits.late(draft):
        if leaving:
            return _end(draft)
        draft.fact(
            WorkerCondition.LATE,
            "True",
            WorkerReason.SERVER_LATE,
            f"the server does not answer: {told}",
        )
    return draft.stay(f"waiting for CML: {told}", again=5.0)


def _arrived(draft: Draft) -> Step:
    """Host; a licence that somebody else registered stays theirs."""
    note_server(draft)
    worker_health.note(draft)
    draft.fact(
        WorkerCondition.CML_READY, "True", WorkerReason.READY, f"CML {draft.status.cml.version}"
    )
    licence, sessions = draft.status.licence, draft.seen.sessions
    if surely_unregistered(draft):
        draft.drop(FINALIZER_LICENCE)
    if phases.desire(draft.worker) == "Terminated" and not sessions:
        if draft.licence_held:
            return draft.go(P.UNLICENSING, "returning the licence that we registered")
        return _end(draft)
    draft.set(ready_since=draft.now, empty_since=draft.now)
    if licence.licensed:
        draft.fact(
            WorkerCondition.LICENSED, "True", WorkerReason.IN_COMPLIANCE, licence.product or ""
        )
        return draft.go(P.READY, "ready", again=CHECK)
    if wants_licence(draft) and not sessions and surely_unregistered(draft):
        draft.hold(FINALIZER_LICENCE)
        return draft.go(P.LICENSING, "licensing", do="register")
    draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.NO_LICENCE, "runs unlicensed")
    return draft.go(P.READY_UNLICENSED, "ready, unlicensed", again=CHECK)


def _draining(draft: Draft) -> Step:
    """Drain as any worker does; an empty one is let go instead of stopped."""
    if phases.desire(draft.worker) != "Terminated":
        return hosting.draining(draft)
    limit = draft.limits.drain + draft.limits.terminate
    silent = draft.status.failed_checks >= TOLERATED_CHECKS and draft.late(limit)
    if draft.seen.sessions and not silent:
        return hosting.draining(draft)
    note_server(draft)
    draft.fact(WorkerCondition.DRAINED, "True", WorkerReason.EMPTY)
    if draft.licence_held and not silent:
        return draft.go(P.UNLICENSING, "returning the licence that we registered")
    return _end(draft)


def _unlicensing(draft: Draft) -> Step:
    """Return our licence; labs of others are never stopped for it."""
    note_server(draft)
    seen = draft.seen
    if not draft.answer.cloud_told:
        leak(draft, "CML answered 202: the licence cloud was not told")
    if surely_unregistered(draft):
        draft.drop(FINALIZER_LICENCE)
        draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.RETURNED, "licence returned")
        licence_orders.returned(draft)
        if phases.desire(draft.worker) == "Ready":
            return draft.go(P.READY_UNLICENSED, "licence returned")
        return _end(draft)
    staying = down.keep_licence(draft, stops=False)
    if staying is not None:
        return staying
    if limits.late(draft):
        leak(draft, f"licence not returned in time: {seen.trouble or 'nodes of others run'}")
        return _end(draft)
    if draft.answer.nodes_running:
        return draft.stay("nodes of others run: the licence cannot go back yet", again=30.0)
    call: Action | None = "deregister" if takes_licence(draft) else None
    return draft.stay("returning the licence", again=5.0, do=call)


def _failed(draft: Draft) -> Step:
    """Go down when that is wanted, up again after a new spec."""
    if phases.desire(draft.worker) == "Terminated":
        if draft.seen.sessions or draft.licence_held:
            return draft.go(P.STARTING, "looking once more to return what is held")
        return _end(draft)
    if draft.worker.metadata.generation <= draft.worker.status.observed_generation:
        return draft.stay(again=CHECK * 2)
    return draft.go(P.STARTING, "trying again")


def _terminated(draft: Draft) -> Step:
    draft.drop(FINALIZER_SERVER)
    draft.drop(FINALIZER_LICENCE)
    return draft.stay(again=3600.0)


_RULES: dict[WorkerPhase, Callable[[Draft], Step]] = {
    P.PENDING: _pending,
    P.STARTING: _starting,
    P.READY_UNLICENSED: hosting.unlicensed,
    P.LICENSING: worker_up.licensing,
    P.READY: hosting.hosting,
    P.ACTIVE: hosting.hosting,
    P.DRAINING: _draining,
    P.UNLICENSING: _unlicensing,
    P.FAILED: _failed,
    P.TERMINATED: _terminated,
}
