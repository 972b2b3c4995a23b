"""What people asked of a worker's licence, beside what its template says: register, deregister, renew.

An order is intent in the worker's spec; here its progress is decided from what is seen of the
licence, and which call comes next. Registering and renewing go on beside the sessions. Giving a
licence back, or changing its product, which CML only does without one, empties the worker first
(`phases.drain_wanted`). An order that cannot be carried out is refused and ends there: a typing
error costs its author another order and never the worker.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer
from labfleet.decisions.lifecycle.worker.draft import (
    Action,
    Draft,
    P,
    seen_twice,
    surely_unregistered,
)
from labfleet.resources.worker import FINALIZER_LICENCE, LicenceOrder, LicenceProgress, Worker
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

INSTEAD = "instead of the registration that it has"
_REASONS = {
    "waiting": WorkerReason.WAITING,
    "calling": WorkerReason.IN_PROGRESS,
    "asked": WorkerReason.IN_PROGRESS,
    "done": WorkerReason.DONE,
    "refused": WorkerReason.REFUSED,
}


def judge(draft: Draft) -> Action | None:
    """Note how far the open order is; return the call that it needs now of a server that answers."""
    order = phases.open_order(draft.worker)
    if order is None or draft.seen.licence is None:
        return None
    if order.verb == "deregister":
        if surely_unregistered(draft):
            done(draft, "it has no licence")
        return None
    if seen_twice(draft):
        refuse(draft, "an older worker has the same identity, and so the licence")
        return None
    return _renewal(draft) if order.verb == "renew" else _registration(draft, order)


def _registration(draft: Draft, order: LicenceOrder) -> Action | None:
    licence, progress = draft.status.licence, _progress(draft)
    told = f"registration {licence.registration}, authorization {licence.authorization}"
    if phases.returning(draft.worker):
        return None  # the other product goes back first
    if not draft.seen.has_token:
        refuse(draft, "there is no token: give one, or name one in the template")
        return None
    late = draft.overdue(progress.at, timedelta(seconds=draft.limits.licence))
    if progress.state == "asked":
        if draft.worker.status.licence.order != progress:
            return None  # this look may be older than the call
        return _asked(draft, told, late=late)
    if progress.state == "waiting" and licence.licensed and not order.renewed:
        done(draft, f"{licence.product} is registered")
        return None
    if progress.state == "calling" and late:
        refuse(draft, f"not taken in time: {draft.seen.trouble or told}", WorkerReason.TIMED_OUT)
        return None
    draft.hold(FINALIZER_LICENCE)
    return _call(draft, "register")


def _asked(draft: Draft, told: str, *, late: bool) -> Action | None:
    """Judge what CML took: the licence cloud answers it some seconds later."""
    licence, wanted = draft.status.licence, draft.seen.wanted_nodes
    if licence.licensed:
        short = wanted is not None and (licence.node_capacity or 0) < wanted
        if short and not late:
            return "register"  # the expansion can only be asked for once it is registered
        less = f", with {licence.node_capacity} of {wanted} nodes" if short else ""
        done(draft, f"{licence.product} is registered{less}")
    elif licence.registration == "FAILED":
        if _progress(draft).message == INSTEAD:
            _doubt(draft)
        refuse(draft, f"the licence cloud said no: {told}")
    elif late:
        refuse(draft, f"not licensed in time: {told}", WorkerReason.TIMED_OUT)
    return None


def _renewal(draft: Draft) -> Action | None:
    progress = _progress(draft)
    if surely_unregistered(draft):
        refuse(draft, "there is no licence to renew")
        return None
    late = draft.overdue(progress.at, timedelta(seconds=draft.limits.licence))
    if progress.state == "calling" and late:
        refuse(draft, draft.seen.trouble or "not taken in time", WorkerReason.TIMED_OUT)
        return None
    return _call(draft, "renew")


def _call(draft: Draft, action: Action) -> Action:
    if _progress(draft).state == "waiting":
        instead = action == "register" and draft.status.licence.registered
        _put(draft, "calling", INSTEAD if instead else "")
    return action


def _doubt(draft: Draft) -> None:
    """Record that a registration was lost here, and may still be counted at the licence cloud."""
    draft.fact(
        WorkerCondition.LICENCE_LEAKED,
        "Unknown",
        WorkerReason.OUTCOME_LOST,
        "registered anew with a token that was turned down: the old registration may still count",
    )


def anew(worker: Worker) -> bool:
    """Tell whether a registered server is to register anew now: once, for an order that says so."""
    order, known = worker.spec.licence, worker.status.licence.order
    if order is None or known is None or known.id != order.id:
        return False
    return order.renewed and known.state == "calling"


def answered(draft: Draft, kind: str, answer: Answer) -> None:
    """Note what CML said to a call of the open order."""
    order = phases.open_order(draft.worker)
    if order is None or order.verb != kind or _progress(draft).state != "calling":
        return
    if answer.refused is not None:
        refuse(draft, answer.refused)
    elif not answer.later:
        _put(draft, "asked" if kind == "register" else "done", _progress(draft).message)


def returned(draft: Draft) -> None:
    """Note that the licence went back; an order for another product goes on from here."""
    order = phases.open_order(draft.worker)
    if order is not None and order.verb == "deregister":
        done(draft, "the licence was given back")


def kept(draft: Draft) -> bool:
    """Tell whether a worker that gives its licence back shall keep it after all."""
    order, seen = draft.worker.spec.licence, draft.seen.licence
    wanted = order is not None and order.licensed is not False
    stays = phases.desire(draft.worker) == "Ready" and not phases.returning(draft.worker)
    return wanted and stays and seen is not None and bool(seen.licensed)


def stays(draft: Draft) -> LicenceOrder | None:
    """Return the open order for whose sake alone a licence goes back; the worker goes on after it."""
    ready = phases.desire(draft.worker) == "Ready"
    return phases.open_order(draft.worker) if ready else None


def done(draft: Draft, message: str = "") -> None:
    """Close the open order: it is so."""
    _put(draft, "done", message)


def refuse(draft: Draft, message: str, reason: WorkerReason = WorkerReason.REFUSED) -> None:
    """Close the open order: it cannot be. The licence stays as it is."""
    _put(draft, "refused", message[:500], reason)
    if surely_unregistered(draft):
        draft.drop(FINALIZER_LICENCE)  # a registration that failed is none to give back


def under_way(draft: Draft) -> bool:
    """Tell whether an order is still open after this step."""
    return phases.open_order(msgspec.structs.replace(draft.worker, status=draft.status)) is not None


def wait(draft: Draft) -> None:
    """Note an order that nobody has begun, so that people see that it was heard."""
    order = phases.open_order(draft.worker)
    if order is None or draft.status.phase in {P.TERMINATING_EC2, P.TERMINATED}:
        return
    known = draft.status.licence.order
    if known is None or known.id != order.id:
        _put(draft, "waiting")


def _progress(draft: Draft) -> LicenceProgress:
    order, known = draft.worker.spec.licence, draft.status.licence.order
    assert order is not None  # noqa: S101 - asked of open orders only
    if known is not None and known.id == order.id:
        return known
    return LicenceProgress(id=order.id, at=draft.now)


def _put(draft: Draft, state: str, message: str = "", reason: WorkerReason | None = None) -> None:
    order = draft.worker.spec.licence
    assert order is not None  # noqa: S101 - asked of open orders only
    made = LicenceProgress(id=order.id, state=state, at=draft.now, message=message)  # type: ignore[arg-type]
    draft.set(licence=msgspec.structs.replace(draft.status.licence, order=made))
    draft.fact(
        WorkerCondition.LICENCE_ORDERED,
        "True" if state == "done" else "False",
        reason or _REASONS[state],
        f"{order.verb}: {message}" if message else order.verb,
    )
