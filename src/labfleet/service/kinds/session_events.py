"""The events of sessions."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from labfleet.decisions import notices, port_drift
from labfleet.decisions.lifecycle.session import closing
from labfleet.resources import conditions
from labfleet.resources.notice import Notice
from labfleet.resources.session import TERMINAL, Session, SessionStatus
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core.kind_table import Change, EventType


class SessionEvent(EventType):
    """What can happen to a session."""

    CREATED = "session.created", "somebody asked for a session"
    STATUS_CHANGED = "session.status.changed", "its phase changed (old_status, new_status)"
    TIMESLOT_EXTENDED = "session.timeslot.extended", "it ends later (new_timeslot_end)"
    TIMESLOT_SHORTENED = "session.timeslot.shortened", "it ends earlier (new_timeslot_end)"
    TIMESLOT_MOVED = (
        "session.timeslot.moved",
        "its slot is another one (new_timeslot_start, new_timeslot_end)",
    )
    ENDS_SOON = "session.ends_soon", "its end is near (minutes_left, timeslot_end)"
    CHECKED_IN = "session.checked_in", "somebody said that its person has come (by)"
    OFFERED = "session.offered", "its person offers it to somebody (to, by)"
    HANDED_OVER = "session.handed_over", "it is another person's now (by)"
    RESOURCES_OBSERVED = "session.resources_observed", "an observation of it was recorded"
    PORT_DRIFT_DETECTED = (
        "session.port_drift_detected",
        "its ports differ from what it was given (added, removed, changed)",
    )
    OBSERVE_REQUESTED = "session.observe_requested", "somebody asked for an observation (by)"
    LAB_ORDERED = "session.lab.ordered", "somebody ordered something of its lab (order, node, by)"
    LAB_ORDER_DONE = "session.lab.order.done", "what was ordered of its lab is done (order, node)"
    LAB_ORDER_REFUSED = (
        "session.lab.order.refused",
        "what was ordered of its lab cannot be, or was not done in time (order, node, reason)",
    )
    LAB_CHANGED = (
        "session.lab.changed",
        "its lab was stopped, wiped or edited, and nobody ordered that here (what)",
    )
    WORK_KEPT = "session.work_kept", "what was configured in its lab is kept (until, missing)"
    WORK_NOT_KEPT = (
        "session.work_not_kept",
        "what was configured in its lab was to be kept, and was not (reason)",
    )
    PORTS_RELEASED = "session.ports.released", "its ports are free again"
    TERMINATED = "session.terminated", "it reached one of its ends"
    RETRIED = (
        "session.retried",
        "it is tried again, as another session (new_session, new_uid, attempt)",
    )
    DELETED = "session.deleted", "its record is gone"


ALIASES: dict[EventType, str] = {
    SessionEvent.RESOURCES_OBSERVED: "lablet_session.resources_observed.v1",
    SessionEvent.PORT_DRIFT_DETECTED: "lablet_session.port_drift_detected.v1",
    SessionEvent.OBSERVE_REQUESTED: "lablet_session.observe_resources_requested.v1",
}
"""What upstream 000 calls these events (facts/upstream.md#observation)."""


def told(old: Session | None, new: Session) -> Iterator[Notice]:
    """Yield what the owner is told of a new session, or of a change."""
    if old is None:
        yield notices.of_new(new)
    else:
        yield from notices.of_change(old, new)


def changed(old: Session, new: Session) -> Iterator[Change]:
    """Yield the events of a change of a session."""
    was, now = old.status, new.status
    if was.phase != now.phase:
        yield Change(
            SessionEvent.STATUS_CHANGED,
            {"old_status": was.phase, "new_status": now.phase, "reason": now.reason},
        )
        if now.phase in TERMINAL:
            yield Change(SessionEvent.TERMINATED, {"reason": now.reason, "message": now.message})
    before, after = old.spec.slot.end or was.end, new.spec.slot.end or now.end
    start = new.spec.slot.start
    if start is not None and old.spec.slot.start not in {None, start}:
        yield Change(
            SessionEvent.TIMESLOT_MOVED,
            {"new_timeslot_start": start, "new_timeslot_end": after},
        )
    elif before is not None and after is not None and after != before:
        later = after > before
        word = SessionEvent.TIMESLOT_EXTENDED if later else SessionEvent.TIMESLOT_SHORTENED
        yield Change(word, {"new_timeslot_end": after})
    if closing.warned_anew(was, now):
        yield Change(
            SessionEvent.ENDS_SOON,
            {"minutes_left": now.warned_minutes, "timeslot_end": now.end},
        )
    if now.checked_in_at is not None and was.checked_in_at is None:
        yield Change(SessionEvent.CHECKED_IN, {"by": now.checked_in_by})
    again = now.retried_as
    if again is not None and again != was.retried_as:
        told = {"new_session": again.name, "new_uid": again.uid, "attempt": now.retry_count + 2}
        yield Change(SessionEvent.RETRIED, told)
    if now.observation_count > was.observation_count:
        yield Change(SessionEvent.RESOURCES_OBSERVED, {"observed_at": now.observed_at})
    yield from _kept(was, now)
    if now.port_drift_detected and now.port_changes != was.port_changes:
        details = {"changes": msgspec.to_builtins(now.port_changes)}
        yield Change(SessionEvent.PORT_DRIFT_DETECTED, details | port_drift.parts(now.port_changes))
    if was.reservation is not None and now.reservation is None and was.ports:
        yield Change(SessionEvent.PORTS_RELEASED, {"ports": [each.number for each in was.ports]})
    asked = new.spec.observe_requested
    if asked is not None and asked != old.spec.observe_requested:
        yield Change(SessionEvent.OBSERVE_REQUESTED, {"by": new.spec.observe_requested_by})
    yield from _handed(old, new)
    yield from _lab(old, new)


def _lab(old: Session, new: Session) -> Iterator[Change]:
    """Yield what was ordered of its lab, how that went, and what others did to it."""
    order, was, now = new.spec.lab_order, old.status.lab_order, new.status.lab_order
    if order is not None:
        about = {"operation_id": order.id, "order": order.verb, "node": order.node}
        if order != old.spec.lab_order:
            yield Change(SessionEvent.LAB_ORDERED, {**about, "by": order.by})
        if now is not None and now.id == order.id and now != was:
            if now.state == "done":
                yield Change(SessionEvent.LAB_ORDER_DONE, about)
            elif now.state == "refused":
                yield Change(SessionEvent.LAB_ORDER_REFUSED, {**about, "reason": now.message})
    name = SessionCondition.LAB_CHANGED
    before, fact = (conditions.find(each.status.conditions, name) for each in (old, new))
    if fact is not None and fact.status == "True":
        told = (fact.reason, fact.message)
        if before is None or before.status != "True" or told != (before.reason, before.message):
            yield Change(SessionEvent.LAB_CHANGED, {"reason": fact.reason, "what": fact.message})


def _handed(old: Session, new: Session) -> Iterator[Change]:
    """Yield that it is offered to somebody, or is another person's now."""
    was, now = old.status, new.status
    if now.offer is not None and now.offer != was.offer:
        yield Change(SessionEvent.OFFERED, {"to": now.offer.to, "by": now.offer.by})
    if now.handed_over is not None and now.handed_over != was.handed_over:
        yield Change(SessionEvent.HANDED_OVER, {"by": now.handed_over.by})


def _kept(was: SessionStatus, now: SessionStatus) -> Iterator[Change]:
    """Yield what became of what was configured in the lab, once that is known."""
    name = SessionCondition.WORK_KEPT
    before, fact = (conditions.find(each.conditions, name) for each in (was, now))
    if fact is None or (before is not None and before.status == fact.status):
        return
    if fact.status == "True" and now.kept is not None:
        about = {"until": now.kept.until, "missing": list(now.kept.missing)}
        yield Change(SessionEvent.WORK_KEPT, about)
    elif fact.status == "False":
        yield Change(SessionEvent.WORK_NOT_KEPT, {"reason": fact.reason})
