"""Orders of operators about a lab on the server that is no session's: how they go on.

One at a time for a worker. An order is intent in its spec; here its progress is decided from the
nodes that the worker's own look saw, and which call comes next.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from labfleet.decisions import lab_orders
from labfleet.decisions.lifecycle.worker.draft import Draft
from labfleet.kernel import errors
from labfleet.resources.lab_orders import LabOrder, LabOrderProgress
from labfleet.resources.worker import Worker

OPERATE: Final = "operate_lab"
AGAIN = 5.0
"""Seconds between two looks while an order is open."""
_CALLS = {"stopping": "stop", "wiping": "wipe", "starting": "start"}


def open_order(worker: Worker) -> LabOrder | None:
    """Return what somebody ordered of a lab there and is not done yet; None when nothing is."""
    order = worker.spec.lab_order
    return order if lab_orders.is_open(order, worker.status.lab_order) else None


def parameters(order: LabOrder | None, known: LabOrderProgress | None) -> dict[str, str]:
    """Return what the intent of the next call names: the call, the lab, and the node if one is meant."""
    if order is None or known is None or known.state not in _CALLS:
        return {}
    return {"call": _CALLS[known.state], "lab": order.lab, "node": known.node_id}


def step(draft: Draft) -> bool:
    """Note how far the open order is; tell whether it needs a call now.

    A look that may be older than the answer to the last call decides nothing.
    """
    order, call = open_order(draft.worker), draft.seen.call
    if order is None or (call is not None and call.state == "answered"):
        return False
    found = lab_orders.turn(order, draft.status.lab_order, draft.seen.order_nodes, draft.now)
    draft.set(lab_order=found.progress)
    return found.call is not None


def expire(draft: Draft) -> None:
    """Refuse an open order whose time is over, in whatever phase its worker is by then."""
    order = open_order(draft.worker)
    if order is not None and draft.now >= order.until:
        found = lab_orders.turn(order, draft.status.lab_order, None, draft.now)
        draft.set(lab_order=found.progress)


def failed(draft: Draft, problem: errors.LabfleetError) -> None:
    """Note that a call of the open order failed: what CML refuses for good ends it."""
    order, known = open_order(draft.worker), draft.status.lab_order
    if order is None or known is None or known.id != order.id:
        return
    if isinstance(problem, errors.Invalid):
        draft.set(lab_order=lab_orders.refused(known, problem.message, draft.now))
    else:
        draft.set(lab_order=replace(known, message=problem.message[:500]))
