"""What to do next with a session: pure, from its record and what was just seen.

`decide` returns the new status, the finalizers, at most one action on the lab and whether
capacity and ports are given back in the same commit. An open import is settled (looked up by
its marker) before `decide` is called. Placement is not here: the scheduler binds sessions.

`decide` never releases capacity while the lab may still exist, never wipes a lab before its
nodes have stopped, and never lets an observation block teardown.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import port_drift
from labfleet.decisions.lifecycle.session import closing, keeping, live_lab, moving, phases
from labfleet.decisions.lifecycle.session import start as session_start
from labfleet.decisions.lifecycle.session.budget import TimeBudget
from labfleet.decisions.lifecycle.session.draft import (
    ON_DEMAND_PATIENCE,
    PLACEMENTS,
    SOON,
    WATCH,
    Action,
    AnyReason,
    Draft,
    S,
    SessionObservation,
    Step,
)
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.session import (
    FINALIZER_LAB,
    LabStatus,
    Session,
    SessionPhase,
    SessionStatus,
)
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason

__all__ = [
    "ON_DEMAND_PATIENCE",
    "PLACEMENTS",
    "Action",
    "SessionObservation",
    "Step",
    "asked_anew",
    "collected",
    "decide",
    "resolve_slot",
]

COLLECT_SECONDS = 120
OBSERVE_EVERY = timedelta(seconds=10)
"""Between two looks that people ask for: whoever asks in a loop costs a server no more."""


def decide(session: Session, seen: SessionObservation, now: datetime) -> Step:
    """Return the next step of a session; total over phases and observations."""
    draft = Draft(session, seen, now)
    if session.status.phase_since is None:
        draft.set(phase_since=now)
    if seen.lab is not None:
        draft.set(lab=_with_progress(session.status.lab, seen.lab, now))
    if seen.used is not None:
        draft.set(used=seen.used, measured=seen.measured)
    if session.status.phase in phases.STARTED:
        moving.note_answer(draft)
    return live_lab.closed(_HANDLERS[session.status.phase](draft), draft)


def _with_progress(before: LabStatus | None, lab: LabStatus, now: datetime) -> LabStatus:
    """Return the lab as seen, with the time of its last progress."""
    known = None if before is None else before.progress_at
    further = before is None or (before.id, before.state) != (lab.id, lab.state)
    if further or (before is not None and lab.booted > before.booted):
        known = now
    return msgspec.structs.replace(lab, progress_at=known)


def resolve_slot(session: Session, budget: TimeBudget, now: datetime) -> tuple[datetime, datetime]:
    """Return from when to when a session holds capacity if it were placed now.

    An on-demand session begins now, a booked one its lead time before the slot. The end
    includes the boot of an on-demand lab, so that its owner gets the whole duration.
    """
    slot = session.spec.slot
    head = timedelta(seconds=budget.lead)
    duration = timedelta(seconds=budget.duration)
    if slot.start is None:
        begin = now
        end = slot.end or now + timedelta(seconds=budget.boot) + duration
    else:
        begin = max(now, slot.start - head)
        end = session.status.end or slot.end or slot.start + duration
    return begin, max(end, begin + timedelta(minutes=1))


def collected(
    session: Session, status: SessionStatus, trouble: str, now: datetime
) -> SessionStatus:
    """Return the status after a look at what a session uses; what was known before it stays.

    Any other phase than these came between: the look says nothing of it.
    """
    if session.status.phase not in {SessionPhase.RUNNING, SessionPhase.COLLECTING}:
        return status
    facts = conditions.put(
        status.conditions,
        SessionCondition.COLLECTED,
        "False" if trouble else "True",
        SessionReason.NOT_OBSERVED if trouble else SessionReason.OBSERVED,
        trouble,
        now=now,
    )
    return msgspec.structs.replace(status, conditions=facts)


def asked_anew(session: Session) -> bool:
    """Tell whether somebody asked for an observation that was not answered yet."""
    asked, handled = session.spec.observe_requested, session.status.observe_handled
    return asked is not None and (handled is None or handled < asked)


# --- before anything exists ----------------------------------------------------------------


def _pending(draft: Draft) -> Step:
    if phases.end_asked(draft.session):
        return draft.go(S.CANCELLED, PhaseReason.CANCELLED, _cancel_words(draft.session))
    expired = draft.expired
    if expired:
        decision = draft.status.decision
        why = decision.message if decision else "no capacity was found"
        return draft.go(S.EXPIRED, PhaseReason.NEVER_STARTED, f"{expired}: {why}")
    return draft.stay(again=_until_deadline(draft))


def _until_deadline(draft: Draft) -> float:
    deadline = draft.deadline
    if deadline is None:
        return 600.0
    # Not looked at in between: a promise for next month costs no look every ten minutes. Whatever
    # changes before is an event, and the resync finds what no event told of.
    return max((deadline - draft.now).total_seconds(), SOON)


def _forced_words(why: PhaseReason) -> str:
    said = why.sentence.rstrip(".")
    return said[:1].lower() + said[1:]


def _cancel_words(session: Session) -> str:
    cancel = session.spec.cancel
    if cancel is None:
        return "deleted"
    by = f" by {cancel.by}" if cancel.by else ""
    return f"cancelled{by}" + (f": {cancel.reason}" if cancel.reason else "")


def _scheduled(draft: Draft) -> Step:
    if phases.end_asked(draft.session):
        return draft.go(
            S.CANCELLED, PhaseReason.CANCELLED, _cancel_words(draft.session), release=True
        )
    expired = draft.expired
    if expired:
        return draft.go(S.EXPIRED, PhaseReason.NEVER_STARTED, expired, release=True)
    if draft.seen.host_lost or draft.seen.host_leaving:
        return moving.place_again(draft)
    if draft.seen.host_unfit:
        return moving.move(draft, PhaseReason.WORKER_UNFIT, draft.unfit_words)
    start = draft.session.spec.slot.start
    head = timedelta(seconds=draft.budget.lead)
    if start is not None and draft.now < start - head:
        wait = (start - head - draft.now).total_seconds()
        return draft.stay("waiting for its slot", again=min(wait, 600.0))
    if draft.seen.room_held:
        return _wait_for_room(draft)
    if FINALIZER_LAB not in draft.finalizers:
        draft.hold(FINALIZER_LAB)
    draft.forget(SessionCondition.START_TURN)
    return draft.go(S.INSTANTIATING, PhaseReason.IMPORTING, "importing the lab")


def _wait_for_room(draft: Draft) -> Step:
    """Wait while other labs overstay on the worker; after a while look for another worker."""
    held, told = draft.status.reservation, draft.seen.room_held
    if held is not None and draft.now >= held.start + session_start.ROOM_PATIENCE:
        return moving.move(draft, PhaseReason.ROOM_HELD, told)
    draft.fact(
        SessionCondition.START_TURN,
        "False",
        SessionReason.ROOM_HELD,
        "the room on its worker is still held",
    )
    return draft.stay(f"waits for room: {told}")


# --- on the way up -----------------------------------------------------------------------


def _ending(draft: Draft) -> Step | None:
    """Return the step that ends the session when that is due before it ever ran."""
    if phases.end_asked(draft.session):
        return draft.teardown(S.CANCELLED, PhaseReason.CANCELLED, _cancel_words(draft.session))
    if draft.seen.forced_out is not None:
        why = draft.seen.forced_out
        return moving.lose_worker(draft, why, _forced_words(why))
    end = draft.session.spec.slot.end
    if end is not None and draft.now >= end:
        return draft.teardown(
            S.EXPIRED, PhaseReason.NEVER_STARTED, "its slot ended before it was ready"
        )
    return None


def _instantiating(draft: Draft) -> Step:
    if draft.seen.host_dead:
        if phases.end_asked(draft.session):
            return draft.teardown(S.CANCELLED, PhaseReason.CANCELLED, _cancel_words(draft.session))
        return moving.place_again(draft)
    ending = _ending(draft)
    if ending is not None:
        return ending
    if draft.seen.refused is not None:
        return draft.teardown(S.FAILED, PhaseReason.REFUSED, draft.seen.refused)
    if draft.seen.host_lost:
        return moving.lose_worker(draft, PhaseReason.WORKER_LOST, draft.seen.host_detail)
    if draft.never_imported and draft.seen.host_unfit:
        return moving.place_again(draft, PhaseReason.WORKER_UNFIT, draft.unfit_words)
    if not draft.seen.looked:
        return moving.unanswered(draft)
    if _stuck(draft) and not _all_up(draft):
        return draft.teardown(S.FAILED, PhaseReason.BOOT_TIMEOUT, _progress(draft))
    lab = draft.status.lab
    if draft.seen.lab is None or lab is None or lab.id is None:
        return draft.stay("importing the lab", do="import")
    return _booting(draft, lab)


def _booting(draft: Draft, lab: LabStatus) -> Step:
    """Start what is imported; ready only when all nodes are up and the ports answer."""
    again = session_start.tags_again(draft, lab)
    if again is not None:
        return again
    if lab.state in {"DEFINED_ON_CORE", "STOPPED"}:
        return session_start.begin(draft, lab)
    up = _all_up(draft)
    draft.fact(
        SessionCondition.LAB_STARTED,
        "True" if up else "False",
        SessionReason.BOOTED if up else SessionReason.BOOTING,
    )
    if not up:
        return draft.stay(_progress(draft))
    if draft.seen.ports_open is False:
        draft.fact(
            SessionCondition.PORTS_OPEN,
            "False",
            SessionReason.NOT_ANSWERING,
            draft.seen.ports_detail,
        )
        if _stuck(draft):
            told = f"ports do not answer: {draft.seen.ports_detail}"
            return draft.teardown(S.FAILED, PhaseReason.PORTS_SILENT, told)
        return draft.stay(f"ports do not answer yet: {draft.seen.ports_detail}", again=2.0)
    if draft.seen.ports_untried:
        draft.fact(SessionCondition.PORTS_OPEN, "Unknown", SessionReason.NOT_TRIED)
    elif draft.seen.ports_open is None and draft.status.ports:
        return draft.stay("waiting for the ports", again=2.0)
    else:
        draft.fact(SessionCondition.PORTS_OPEN, "True", SessionReason.ANSWERING)
    _note_drift(draft)
    known = live_lab.members(draft.seen.nodes or ())
    draft.set(ready_at=draft.now, lab=msgspec.structs.replace(lab, members=known, edits=()))
    return draft.go(S.READY, PhaseReason.READY, f"{count(lab.booted, 'node')} booted")


def _stuck(draft: Draft) -> bool:
    """Tell whether the lab has made no progress for its whole time budget."""
    return draft.stalled > timedelta(seconds=draft.budget.boot)


def _all_up(draft: Draft) -> bool:
    """Tell whether every node was seen booted and nothing is in transition."""
    lab, seen = draft.seen.lab, draft.seen
    started = lab is not None and lab.state == "STARTED" and lab.booted >= lab.nodes
    return started and bool(seen.converged)


def _progress(draft: Draft) -> str:
    lab = draft.status.lab
    if lab is None or lab.id is None:
        return draft.seen.trouble or draft.session.status.message or "not imported yet"
    waiting = f"; waiting: {lab.waiting}" if lab.waiting else ""
    return f"{lab.booted} of {lab.nodes} nodes booted{waiting}"


def _ready(draft: Draft) -> Step:
    ending = _ending(draft)
    if ending is not None:
        return ending
    if draft.seen.host_dead:
        return moving.place_again(draft)
    if draft.seen.host_lost:
        return moving.lose_worker(draft, PhaseReason.WORKER_LOST, draft.seen.host_detail)
    if _lab_vanished(draft):
        return draft.teardown(
            S.FAILED, PhaseReason.LAB_DELETED_OUTSIDE, "the lab is not on its server"
        )
    _note_ports(draft)
    live_lab.note_changes(draft)
    slot = draft.session.spec.slot
    if slot.start is not None and draft.now < slot.start:
        wait = (slot.start - draft.now).total_seconds()
        return draft.stay("ready, waiting for its slot", again=min(wait, WATCH))
    duration = timedelta(seconds=draft.budget.duration)
    start = slot.start or draft.now
    draft.set(
        started_at=draft.now,
        start=start,
        end=draft.session.spec.slot.end or start + duration,
    )
    return draft.go(S.RUNNING, PhaseReason.RUNNING, "running")


# --- while it runs -----------------------------------------------------------------------


def _lab_vanished(draft: Draft) -> bool:
    return draft.seen.looked and draft.seen.lab is None


def _note_drift(draft: Draft) -> None:
    """Record which ports the lab's nodes name, when they were looked at; drift ends no session."""
    seen = draft.seen.ports_seen
    if seen is None:
        return
    draft.status = port_drift.noted(draft.status, seen, draft.now, draft.generation)
    tagged = conditions.find(draft.status.conditions, SessionCondition.PORTS_TAGGED)
    if tagged is not None and tagged.status == "False" and not draft.status.port_drift_detected:
        draft.fact(SessionCondition.PORTS_TAGGED, "True", SessionReason.TAGS_WRITTEN)


def _note_ports(draft: Draft) -> None:
    """Record whether the ports of a lab that was ready answer; what is silent ends no session."""
    _note_drift(draft)
    if draft.seen.ports_open is None:
        return
    told, name = draft.seen.ports_detail, SessionCondition.PORTS_OPEN
    if draft.seen.ports_open:
        draft.fact(name, "True", SessionReason.ANSWERING)
    else:
        draft.fact(name, "False", SessionReason.NOT_ANSWERING, told)


def _running(draft: Draft) -> Step:
    if draft.seen.host_dead:
        return _collect(draft, S.FAILED, PhaseReason.WORKER_LOST, draft.seen.host_detail)
    if _lab_vanished(draft):
        return _collect(
            draft, S.FAILED, PhaseReason.LAB_DELETED_OUTSIDE, "the lab is not on its server"
        )
    if phases.end_asked(draft.session):
        return _collect(draft, S.CANCELLED, PhaseReason.CANCELLED, _cancel_words(draft.session))
    if draft.seen.forced_out is not None:
        why = draft.seen.forced_out
        return _collect(draft, S.FAILED, why, _forced_words(why))
    end = draft.session.spec.slot.end or draft.status.end
    if end is not None and end != draft.status.end:
        draft.set(end=end)
    _note_ports(draft)
    live_lab.note_changes(draft)
    if end is None or draft.now >= end:
        return _collect(draft, S.COMPLETED, PhaseReason.SLOT_ENDED, "its time is over")
    absent = closing.absent(draft)
    if absent:
        return _collect(draft, S.CANCELLED, PhaseReason.NO_SHOW, absent)
    closing.warn(draft, end)
    ordered = live_lab.step(draft)
    if ordered is not None:
        return ordered
    again = min((end - draft.now).total_seconds(), WATCH)
    wait = _observe_in(draft)
    if wait is not None and wait <= 0:
        return draft.stay("running", do="observe")
    return draft.stay("running", again=again if wait is None else max(min(again, wait), SOON))


def _observe_in(draft: Draft) -> float | None:
    """Return in how many seconds a look that somebody asked for is due; None when none is."""
    if not asked_anew(draft.session) or not draft.seen.looked:
        return None
    last = draft.status.observe_handled
    return 0.0 if last is None else (last + OBSERVE_EVERY - draft.now).total_seconds()


def _collect(draft: Draft, outcome: SessionPhase, reason: AnyReason, message: str) -> Step:
    draft.forget(SessionCondition.COLLECTED)  # of looks that people asked for; the last is to come
    draft.set(outcome=outcome, outcome_message=message)
    return draft.go(S.COLLECTING, reason, message)


def _collecting(draft: Draft) -> Step:
    """Keep what was configured, observe once: best effort, never holding the teardown up for long."""
    blind = draft.seen.host_dead or _lab_vanished(draft)
    keep = keeping.step(draft, blind=blind)
    if keep is not None:
        return keep
    tried = conditions.find(draft.status.conditions, SessionCondition.COLLECTED) is not None
    over = draft.age > timedelta(seconds=COLLECT_SECONDS)
    if tried or over or blind:
        if not tried:
            draft.fact(
                SessionCondition.COLLECTED,
                "False",
                SessionReason.NOT_SEEN,
                draft.seen.trouble or "nothing to observe",
            )
        return draft.go(S.STOPPING, draft.reason, draft.status.message)
    return draft.stay(do="observe")


# --- on the way down ---------------------------------------------------------------------


def _stopping(draft: Draft) -> Step:
    if draft.seen.host_dead:
        return _finish(draft)
    if not draft.seen.looked:
        if draft.never_imported:
            return _finish(draft)  # there is nothing that its server could be asked for
        return draft.stay(f"waiting for the worker: {draft.seen.trouble}", again=10.0)
    if draft.seen.lab is None:
        return _finish(draft)
    state = draft.seen.lab.state
    if state == "STARTED" or draft.seen.active:
        if state == "STOPPED":
            return draft.stay("nodes are stopping")
        return draft.stay("stopping the lab", do="stop")
    if state == "STOPPED":
        if not draft.seen.converged or draft.seen.active is None:
            return draft.stay("nodes are stopping")
        return draft.stay("wiping the lab", do="wipe", again=SOON)
    return draft.stay("deleting the lab", do="delete", again=SOON)


def _finish(draft: Draft) -> Step:
    """Give everything back and end, or queue again: the lab was seen gone."""
    if draft.status.outcome is S.PENDING:
        if phases.end_asked(draft.session):
            draft.set(outcome=S.CANCELLED, outcome_message=_cancel_words(draft.session))
        else:
            return moving.place_again(draft, draft.reason, draft.status.outcome_message)
    if draft.status.lab is not None:
        draft.set(lab=msgspec.structs.replace(draft.status.lab, seen_gone=True, state=None))
    outcome = draft.status.outcome or S.FAILED
    told = draft.status.outcome_message or draft.status.message
    return draft.go(outcome, draft.reason, told, release=True, again=3600.0)


def _ended(draft: Draft) -> Step:
    draft.finalizers = ()
    return draft.stay(again=3600.0)


_HANDLERS: dict[SessionPhase, Callable[[Draft], Step]] = {
    S.PENDING: _pending,
    S.SCHEDULED: _scheduled,
    S.INSTANTIATING: _instantiating,
    S.READY: _ready,
    S.RUNNING: _running,
    S.COLLECTING: _collecting,
    S.STOPPING: _stopping,
    S.COMPLETED: _ended,
    S.EXPIRED: _ended,
    S.FAILED: _ended,
    S.CANCELLED: _ended,
}
