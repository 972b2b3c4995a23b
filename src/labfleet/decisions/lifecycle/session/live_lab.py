"""The lab of a session that runs, as a living thing: orders of people, and what others did to it.

Pure. Whoever may, orders it off or on; that is not a fault, and no controller heals it. What
happened to it without an order here is told, in words, and ends no session: only a lab that is gone
does (`decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from labfleet.decisions import lab_orders
from labfleet.decisions.lifecycle.session.draft import POLL, Action, Draft, Step
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.lab_orders import NODES, LabMember, LabOff, LabOrder, LabOrderProgress
from labfleet.resources.session import LabStatus, Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition, SessionReason

SHOWN = 5
"""How many changes of one kind a message names."""
_CALLS: dict[tuple[str, bool], Action] = {
    ("start", False): "start", ("stop", False): "stop", ("wipe", False): "wipe",
    ("start", True): "start_node", ("stop", True): "stop_node", ("wipe", True): "wipe_node",
}  # fmt: skip
LAG = timedelta(seconds=60)
"""For how long after an order the state of a lab says nothing."""
_CHANGED = SessionCondition.LAB_CHANGED


def open_order(session: Session) -> LabOrder | None:
    """Return what somebody ordered of the lab and is not done yet; None when nothing is."""
    order = session.spec.lab_order
    return order if lab_orders.is_open(order, session.status.lab_order) else None


def members(nodes: Sequence[lab_orders.LabNode]) -> tuple[LabMember, ...]:
    """Return the nodes of a lab as its record lists them: none of one that has too many."""
    if len(nodes) > NODES:
        return ()
    found = (LabMember(id=each.id, label=each.label[:128]) for each in nodes)
    return tuple(sorted(found, key=lambda each: each.label))


def step(draft: Draft) -> Step | None:
    """Return the next step of an open order of the lab; None when there is none."""
    order = open_order(draft.session)
    if order is None:
        return None
    known = draft.status.lab_order
    if draft.seen.refused is not None and known is not None:
        draft.set(lab_order=lab_orders.refused(known, draft.seen.refused, draft.now))
        _note_refused(draft, order, known)
        return draft.stay("running", again=POLL)
    found = lab_orders.turn(order, known, draft.seen.nodes, draft.now, _trouble(draft))
    draft.set(lab_order=found.progress)
    if found.progress.state == "done":
        _note_off(draft, order, on=order.verb in {"start", "restart"})
    elif found.progress.state == "refused" and known is not None:
        _note_refused(draft, order, known)
    if found.call is None:
        return draft.stay("running", again=POLL)
    call = _CALLS[found.call, bool(order.node)]
    return draft.stay(f"{order.by or 'somebody'} ordered: {order.verb}", do=call, again=POLL)


def closed(step_: Step, draft: Draft) -> Step:
    """Return the step; once a session leaves RUNNING no order is open, and nothing is off as ordered."""
    status = step_.status
    if status.phase is SessionPhase.RUNNING:
        return step_
    why = f"the session is {status.phase}"
    ended = lab_orders.closed(draft.session.spec.lab_order, status.lab_order, why, draft.now)
    return msgspec.structs.replace(step_, status=replace(status, lab_order=ended, lab_off=None))


def _trouble(draft: Draft) -> str:
    """Return what the last call or this look ran into; a failed call wrote its words."""
    if draft.seen.trouble:
        return draft.seen.trouble
    told = draft.session.status.message
    return told if told.partition(":")[0] in _CALLS.values() else ""


def _note_off(draft: Draft, order: LabOrder, *, on: bool) -> None:
    """Record what is off now, as it was ordered; `on` tells that the order switched on what it meant."""
    off, nodes = draft.status.lab_off, draft.seen.nodes or ()
    dark = {each.label for each in nodes if each.state in lab_orders.OFF}
    before = dark if off is not None and off.whole else set(() if off is None else off.nodes)
    meant = _labels(draft, order) if order.node else {each.label for each in nodes}
    ordered = before - meant if on else before | meant
    whole = all(each.state in lab_orders.OFF for each in nodes)
    left = () if whole else tuple(sorted(ordered & dark))[:NODES]
    _set_off(draft, whole=whole, nodes=left, by=order.by)


def _note_refused(draft: Draft, order: LabOrder, known: LabOrderProgress) -> None:
    """Record what was put off before an order was refused, such as a restart without a licence.

    What was to be wiped or started again had been seen off. Where this look saw no nodes, all of
    that is taken to be off still; what came up is forgotten at a later look (`_forget_off`).
    """
    if known.id != order.id or order.verb == "start" or known.state not in {"wiping", "starting"}:
        return
    if draft.seen.nodes is not None:
        if draft.seen.nodes:
            _note_off(draft, order, on=False)
        return
    off = draft.status.lab_off
    nodes = set(() if off is None else off.nodes) | (_labels(draft, order) if order.node else set())
    whole = not order.node or (off is not None and off.whole)
    _set_off(draft, whole=whole, nodes=() if whole else tuple(sorted(nodes))[:NODES], by=order.by)


def _labels(draft: Draft, order: LabOrder) -> set[str]:
    progress = draft.status.lab_order
    meant = "" if progress is None else progress.node_id
    lab = draft.status.lab
    known = draft.seen.nodes or (() if lab is None else lab.members)
    return {each.label for each in known if each.id == meant} or {order.node}


def _set_off(draft: Draft, *, whole: bool, nodes: tuple[str, ...], by: str) -> None:
    if not whole and not nodes:
        draft.set(lab_off=None)
        draft.fact(SessionCondition.LAB_STARTED, "True", SessionReason.BOOTED)
        return
    draft.set(lab_off=LabOff(whole=whole, nodes=nodes, by=by, at=draft.now))
    what = "it is off" if whole else f"off: {', '.join(nodes[:SHOWN])}"
    told = f"{what}, as {by or 'somebody'} ordered; it stays so until it is started"
    draft.fact(SessionCondition.LAB_STARTED, "False", SessionReason.OFF_AS_ORDERED, told)
    draft.forget(SessionCondition.PORTS_OPEN)  # of what is off nothing answers, and nobody asks


def note_changes(draft: Draft) -> None:
    """Record what happened to the lab without an order here; an open order hides it for a while."""
    lab = draft.status.lab
    if lab is None or draft.seen.lab is None or open_order(draft.session) is not None:
        return
    if _settles(draft):
        return
    _forget_off(draft, lab)
    if draft.seen.nodes is not None:
        lab = _with_edits(draft, lab)
        draft.set(lab=lab)
    reason, told = _happened(draft, lab)
    if reason is not None:
        draft.fact(_CHANGED, "True", reason, told)
    elif conditions.find(draft.status.conditions, _CHANGED) is not None:
        draft.fact(_CHANGED, "False", SessionReason.AS_IT_WAS)


def _settles(draft: Draft) -> bool:
    """Tell whether an order was done so lately that CML may still show the lab as it was before.

    The state of a lab lags behind those of its nodes (facts/cml-issues.md#f23).
    """
    known = draft.status.lab_order
    return known is not None and known.at <= draft.now < known.at + LAG


def _forget_off(draft: Draft, lab: LabStatus) -> None:
    """Forget that the lab, or nodes of it, are off when somebody started them in CML."""
    off, nodes = draft.status.lab_off, draft.seen.nodes
    if off is None:
        return
    if off.whole and lab.state == "STARTED":
        _set_off(draft, whole=False, nodes=(), by=off.by)
    elif not off.whole and nodes is not None:
        still = {each.label for each in nodes if each.state in lab_orders.OFF}
        left = tuple(each for each in off.nodes if each in still)
        if left != off.nodes:
            _set_off(draft, whole=False, nodes=left, by=off.by)


def _happened(draft: Draft, lab: LabStatus) -> tuple[SessionReason | None, str]:
    off = draft.status.lab_off
    whole = off is not None and off.whole
    edits = "; ".join(lab.edits)
    if not whole and lab.state in lab_orders.OFF:
        wiped = lab.state == lab_orders.WIPED
        what = "wiped: what its nodes had stored is lost" if wiped else "stopped"
        told = f"it was {what}, and nobody ordered that here"
        reason = SessionReason.WIPED_OUTSIDE if wiped else SessionReason.STOPPED_OUTSIDE
        return reason, f"{told}; {edits}" if edits else told
    return (SessionReason.EDITED_OUTSIDE, edits) if edits else (None, "")


def _with_edits(draft: Draft, lab: LabStatus) -> LabStatus:
    """Return the lab with how its nodes differ from those that it had when it was ready."""
    nodes = draft.seen.nodes or ()
    if not lab.members and lab.nodes in {0, len(nodes)}:
        # Of a lab that an earlier version made ready: as it is now it is the measure.
        lab = replace(lab, members=members(nodes), nodes=len(nodes))
    edits: list[str] = []
    if lab.members:
        was = {each.id: each.label for each in lab.members}
        now = {each.id: each.label[:128] for each in nodes}
        both = [each for each in was if each in now]
        renamed = [f"{was[each]} to {now[each]}" for each in both if was[each] != now[each]]
        edits += _told("added", [label for each, label in now.items() if each not in was])
        edits += _told("removed", [label for each, label in was.items() if each not in now])
        edits += _told("renamed", renamed)
    elif len(nodes) != lab.nodes:
        edits.append(f"it has {count(len(nodes), 'node')}, and had {lab.nodes}")
    if lab.state not in lab_orders.OFF:
        off = () if draft.status.lab_off is None else draft.status.lab_off.nodes
        dark = [each.label for each in nodes if each.state in lab_orders.OFF]
        edits += _told("off", [each for each in dark if each not in off])
    return replace(lab, edits=tuple(edits))


def _told(what: str, labels: Sequence[str]) -> list[str]:
    if not labels:
        return []
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    nodes = "node" if len(labels) == 1 else "nodes"
    return [f"{nodes} {what}: {', '.join(sorted(labels)[:SHOWN])}{more}"]
