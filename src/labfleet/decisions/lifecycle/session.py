"""What to do next with a session: pure, from its record and what was just seen.

`decide` returns the new status, the finalizers, at most one action on the lab and whether
capacity and ports are given back in the same commit. An open import is settled (looked up by
its marker) before `decide` is asked. Placement is not here: the scheduler binds sessions.

Never here: capacity given back while the lab may still exist; a lab wiped before its nodes
stopped; an observation that blocks teardown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions.lifecycle import session_phases as phases
from labfleet.resources import conditions
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    LabStatus,
    Session,
    SessionPhase,
    SessionStatus,
)

S = SessionPhase
Action = Literal["import", "start", "stop", "wipe", "delete", "observe"]

PLACEMENTS = 5
COLLECT_SECONDS = 120
ON_DEMAND_PATIENCE = timedelta(hours=24)
SOON, POLL, WATCH = 1.0, 5.0, 20.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the shell just saw; None means that it did not look or could not tell.

    `host_lost`: the worker failed or is on its way out without us. `host_dead`: its instance
    is surely gone, so every lab on it is. `lab` None with `looked` True means that no lab of
    ours is on the server. `active` counts nodes that are queued, started or booted.
    `ports_open` None means not probed. `refused` is CML's final no to an import or start.
    `boot_seconds` and `lead_seconds` are the budget and the head start of this definition.
    `watched_since` is when this process began to look after sessions: a controller's own
    absence is never held against a lab.
    """

    host_lost: bool = False
    host_dead: bool = False
    host_leaving: bool = False
    host_detail: str = ""
    looked: bool = False
    lab: LabStatus | None = None
    active: int | None = None
    converged: bool | None = None
    ports_open: bool | None = None
    ports_detail: str = ""
    refused: str | None = None
    forced_out: bool = False
    boot_seconds: int = 600
    lead_seconds: int = 900
    duration_seconds: int = 3600
    grace_seconds: int = 1800
    watched_since: datetime | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, one action at most, what to give back, when to look again (seconds)."""

    status: SessionStatus
    finalizers: tuple[str, ...]
    action: Action | None = None
    release: bool = False
    again: float = POLL


@dataclass(slots=True)
class _Draft:
    """The session being decided on; collects changes so that each rule reads as a sentence."""

    session: Session
    seen: Seen
    now: datetime
    status: SessionStatus = field(init=False)
    finalizers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.status = self.session.status
        self.finalizers = self.session.metadata.finalizers

    def set(self, **changes: object) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)

    def fact(self, name: str, status: conditions.Status, reason: str, message: str = "") -> None:
        self.set(
            conditions=conditions.put(
                self.status.conditions,
                name,
                status,
                reason,
                message,
                now=self.now,
                generation=self.session.metadata.generation,
            )
        )

    @property
    def age(self) -> timedelta:
        """How long the phase lasts, counting only time in which somebody watched."""
        since = self.status.phase_since or self.now
        watched = self.seen.watched_since
        return self.now - (since if watched is None else max(since, watched))

    @property
    def stalled(self) -> timedelta:
        """How long the lab has come no further, counting only watched time."""
        lab = self.status.lab
        if lab is None or lab.progress_at is None:
            return self.age
        return min(self.age, self.now - lab.progress_at)

    @property
    def deadline(self) -> datetime | None:
        """When a session that has not started is given up."""
        start = self.session.spec.slot.start
        if start is not None:
            return start + timedelta(seconds=self.seen.grace_seconds)
        if self.session.spec.slot.end is not None:
            return self.session.spec.slot.end
        created = self.session.metadata.creation_timestamp or self.now
        return created + ON_DEMAND_PATIENCE

    def go(
        self,
        phase: SessionPhase,
        reason: str = "",
        message: str = "",
        *,
        do: Action | None = None,
        release: bool = False,
        again: float = SOON,
    ) -> Step:
        """Enter a phase (or stay) and end the decision."""
        if phase is not self.status.phase:
            if phase not in phases.EDGES[self.status.phase]:
                raise AssertionError(f"no edge {self.status.phase} -> {phase}")
            self.set(phase=phase, phase_since=self.now)
            if phase in TERMINAL:
                # Every way here has seen that nothing of the session is left on a server.
                self.set(ended_at=self.now)
                self.finalizers = tuple(e for e in self.finalizers if e != FINALIZER_LAB)
        self.set(reason=reason, message=message)
        if release:
            self.set(reservation=None)
        self.set(observed_generation=self.session.metadata.generation)
        return Step(self.status, self.finalizers, do, release, again)

    def stay(self, message: str = "", *, do: Action | None = None, again: float = POLL) -> Step:
        kept = message or self.status.message
        return self.go(self.status.phase, self.status.reason, kept, do=do, again=again)

    def teardown(self, outcome: SessionPhase, reason: str, message: str = "") -> Step:
        """Begin the end of a session whose lab may exist."""
        self.set(outcome=outcome, outcome_message=message)
        return self.go(S.STOPPING, reason, message)


def decide(session: Session, seen: Seen, now: datetime) -> Step:
    """Return the next step of a session; total over phases and observations."""
    draft = _Draft(session, seen, now)
    if session.status.phase_since is None:
        draft.set(phase_since=now)
    if seen.lab is not None:
        draft.set(lab=_with_progress(session.status.lab, seen.lab, now))
    return _HANDLERS[session.status.phase](draft)


def _with_progress(before: LabStatus | None, lab: LabStatus, now: datetime) -> LabStatus:
    """Return the lab as seen, with the moment at which it last came further."""
    known = None if before is None else before.progress_at
    further = before is None or (before.id, before.state) != (lab.id, lab.state)
    if further or (before is not None and lab.booted > before.booted):
        known = now
    return msgspec.structs.replace(lab, progress_at=known)


def resolve_slot(session: Session, seen: Seen, now: datetime) -> tuple[datetime, datetime]:
    """Return from when to when a session holds capacity if it were placed now.

    An on-demand session counts from now; a slot from its head start. The end includes the
    boot of an on-demand lab, so that its owner gets the whole duration.
    """
    slot = session.spec.slot
    head = timedelta(seconds=seen.lead_seconds)
    duration = timedelta(seconds=seen.duration_seconds)
    if slot.start is None:
        begin = now
        end = slot.end or now + timedelta(seconds=seen.boot_seconds) + duration
    else:
        begin = max(now, slot.start - head)
        end = session.status.end or slot.end or slot.start + duration
    return begin, max(end, begin + timedelta(minutes=1))


# --- before anything exists ----------------------------------------------------------------


def _pending(draft: _Draft) -> Step:
    if phases.end_asked(draft.session):
        return draft.go(S.CANCELLED, "Cancelled", _cancel_words(draft.session))
    expired = _expired(draft)
    if expired:
        decision = draft.status.decision
        why = decision.message if decision else "no capacity was found"
        return draft.go(S.EXPIRED, "NeverStarted", f"{expired}: {why}")
    return draft.stay(again=_until_deadline(draft))


def _expired(draft: _Draft) -> str | None:
    deadline = draft.deadline
    if deadline is not None and draft.now >= deadline:
        return f"not started by {deadline:%Y-%m-%d %H:%M}Z"
    end = draft.session.spec.slot.end
    if end is not None and draft.now >= end:
        return "its slot is over"
    return None


def _until_deadline(draft: _Draft) -> float:
    deadline = draft.deadline
    if deadline is None:
        return 600.0
    return min(max((deadline - draft.now).total_seconds(), SOON), 600.0)


def _cancel_words(session: Session) -> str:
    cancel = session.spec.cancel
    if cancel is None:
        return "deleted"
    by = f" by {cancel.by}" if cancel.by else ""
    return f"cancelled{by}" + (f": {cancel.reason}" if cancel.reason else "")


def _scheduled(draft: _Draft) -> Step:
    if phases.end_asked(draft.session):
        return draft.go(S.CANCELLED, "Cancelled", _cancel_words(draft.session), release=True)
    expired = _expired(draft)
    if expired:
        return draft.go(S.EXPIRED, "NeverStarted", expired, release=True)
    if draft.seen.host_lost or draft.seen.host_leaving:
        return _place_again(draft)
    start = draft.session.spec.slot.start
    head = timedelta(seconds=draft.seen.lead_seconds)
    if start is not None and draft.now < start - head:
        wait = (start - head - draft.now).total_seconds()
        return draft.stay("waiting for its slot", again=min(wait, 600.0))
    if FINALIZER_LAB not in draft.finalizers:
        draft.finalizers = (*draft.finalizers, FINALIZER_LAB)
    return draft.go(S.INSTANTIATING, "Importing", "importing the lab")


def _place_again(draft: _Draft) -> Step:
    """Give the worker up and queue again, a bounded number of times."""
    detail = draft.seen.host_detail
    draft.finalizers = tuple(each for each in draft.finalizers if each != FINALIZER_LAB)
    draft.set(lab=None)
    if draft.status.placements >= PLACEMENTS:
        if draft.status.phase is S.SCHEDULED:
            return draft.go(S.FAILED, "WorkerLost", detail, release=True)
        return draft.teardown(S.FAILED, "WorkerLost", detail)
    draft.set(ports=(), worker=None)
    return draft.go(S.PENDING, "WorkerLost", f"placed again: {detail}", release=True)


# --- on the way up -----------------------------------------------------------------------


def _ending(draft: _Draft) -> Step | None:
    """Return the beginning of the end when one is due before the session ever ran."""
    if phases.end_asked(draft.session):
        return draft.teardown(S.CANCELLED, "Cancelled", _cancel_words(draft.session))
    if draft.seen.forced_out:
        return draft.teardown(S.FAILED, "Drained", "its worker was drained by force")
    end = draft.session.spec.slot.end
    if end is not None and draft.now >= end:
        return draft.teardown(S.EXPIRED, "NeverStarted", "its slot ended before it was ready")
    return None


def _instantiating(draft: _Draft) -> Step:
    if draft.seen.host_dead:
        if phases.end_asked(draft.session):
            return draft.teardown(S.CANCELLED, "Cancelled", _cancel_words(draft.session))
        return _place_again(draft)
    ending = _ending(draft)
    if ending is not None:
        return ending
    if draft.seen.refused is not None:
        return draft.teardown(S.FAILED, "Refused", draft.seen.refused)
    if draft.seen.host_lost:
        return draft.teardown(S.FAILED, "WorkerLost", draft.seen.host_detail)
    if _stuck(draft) and not _all_up(draft):
        return draft.teardown(S.FAILED, "BootTimeout", _progress(draft))
    if not draft.seen.looked:
        return draft.stay(f"waiting for the worker: {draft.seen.trouble}")
    lab = draft.status.lab
    if draft.seen.lab is None or lab is None or lab.id is None:
        return draft.stay("importing the lab", do="import")
    return _booting(draft, lab)


def _booting(draft: _Draft, lab: LabStatus) -> Step:
    """Start what is imported; ready only when all nodes are up and the ports answer."""
    if lab.state in {"DEFINED_ON_CORE", "STOPPED"}:
        return draft.stay("starting the lab", do="start")
    up = _all_up(draft)
    draft.fact("LabStarted", "True" if up else "False", "Booted" if up else "Booting")
    if not up:
        return draft.stay(_progress(draft))
    if draft.seen.ports_open is False:
        draft.fact("PortsOpen", "False", "NotAnswering", draft.seen.ports_detail)
        if _stuck(draft):
            told = f"ports do not answer: {draft.seen.ports_detail}"
            return draft.teardown(S.FAILED, "PortsSilent", told)
        return draft.stay(f"ports do not answer yet: {draft.seen.ports_detail}", again=2.0)
    if draft.seen.ports_open is None and draft.status.ports:
        return draft.stay("waiting for the ports", again=2.0)
    draft.fact("PortsOpen", "True", "Answering")
    draft.set(ready_at=draft.now)
    return draft.go(S.READY, "Ready", f"{lab.booted} nodes booted")


def _stuck(draft: _Draft) -> bool:
    """Tell whether the lab has come no further for its whole budget."""
    return draft.stalled > timedelta(seconds=draft.seen.boot_seconds)


def _all_up(draft: _Draft) -> bool:
    """Tell whether every node was seen booted and nothing is in transition."""
    lab, seen = draft.seen.lab, draft.seen
    started = lab is not None and lab.state == "STARTED" and lab.booted >= lab.nodes
    return started and bool(seen.converged)


def _progress(draft: _Draft) -> str:
    lab = draft.status.lab
    if lab is None or lab.id is None:
        return draft.seen.trouble or "not imported yet"
    waiting = f"; waiting: {lab.waiting}" if lab.waiting else ""
    return f"{lab.booted} of {lab.nodes} nodes booted{waiting}"


def _ready(draft: _Draft) -> Step:
    if draft.seen.host_dead or draft.seen.host_lost:
        return draft.teardown(S.FAILED, "WorkerLost", draft.seen.host_detail)
    ending = _ending(draft)
    if ending is not None:
        return ending
    if _lab_vanished(draft):
        return draft.teardown(S.FAILED, "LabDeletedOutside", "the lab is not on its server")
    slot = draft.session.spec.slot
    if slot.start is not None and draft.now < slot.start:
        wait = (slot.start - draft.now).total_seconds()
        return draft.stay("ready, waiting for its slot", again=min(wait, WATCH))
    duration = timedelta(seconds=draft.seen.duration_seconds)
    start = slot.start or draft.now
    draft.set(
        started_at=draft.now,
        start=start,
        end=draft.session.spec.slot.end or start + duration,
    )
    return draft.go(S.RUNNING, "Running", "running")


# --- while it runs -----------------------------------------------------------------------


def _lab_vanished(draft: _Draft) -> bool:
    return draft.seen.looked and draft.seen.lab is None


def _running(draft: _Draft) -> Step:
    if draft.seen.host_dead:
        return _collect(draft, S.FAILED, "WorkerLost", draft.seen.host_detail)
    if _lab_vanished(draft):
        return _collect(draft, S.FAILED, "LabDeletedOutside", "the lab is not on its server")
    if phases.end_asked(draft.session):
        return _collect(draft, S.CANCELLED, "Cancelled", _cancel_words(draft.session))
    if draft.seen.forced_out:
        return _collect(draft, S.FAILED, "Drained", "its worker was drained by force")
    end = draft.session.spec.slot.end or draft.status.end
    if end is not None and end != draft.status.end:
        draft.set(end=end)
    if end is None or draft.now >= end:
        return _collect(draft, S.COMPLETED, "SlotEnded", "its time is over")
    if draft.seen.host_lost:
        draft.fact("HostReachable", "False", "WorkerFailed", draft.seen.host_detail)
    elif draft.seen.looked:
        draft.fact("HostReachable", "True", "Answering")
    elif draft.seen.trouble:
        draft.fact("HostReachable", "Unknown", "NotSeen", draft.seen.trouble)
    if _observe_now(draft):
        return draft.stay("running", do="observe")
    return draft.stay("running", again=min((end - draft.now).total_seconds(), WATCH))


def _observe_now(draft: _Draft) -> bool:
    """Tell whether somebody asked for an observation that was not answered yet."""
    asked, handled = draft.session.spec.observe_requested, draft.status.observe_handled
    fresh = asked is not None and (handled is None or handled < asked)
    return fresh and draft.seen.looked


def _collect(draft: _Draft, outcome: SessionPhase, reason: str, message: str) -> Step:
    draft.set(outcome=outcome, outcome_message=message)
    return draft.go(S.COLLECTING, reason, message)


def _collecting(draft: _Draft) -> Step:
    """Observe once, best effort, and never hold the teardown up for it."""
    tried = conditions.find(draft.status.conditions, "Collected") is not None
    over = draft.age > timedelta(seconds=COLLECT_SECONDS)
    blind = draft.seen.host_dead or _lab_vanished(draft)
    if tried or over or blind:
        if not tried:
            draft.fact("Collected", "False", "NotSeen", draft.seen.trouble or "nothing to observe")
        return draft.go(S.STOPPING, draft.status.reason, draft.status.message)
    return draft.stay(do="observe")


# --- on the way down ---------------------------------------------------------------------


def _stopping(draft: _Draft) -> Step:
    if draft.seen.host_dead:
        return _finish(draft)
    if not draft.seen.looked:
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


def _finish(draft: _Draft) -> Step:
    """Give everything back and end: the lab was seen gone."""
    if draft.status.lab is not None:
        draft.set(lab=msgspec.structs.replace(draft.status.lab, seen_gone=True, state=None))
    outcome = draft.status.outcome or S.FAILED
    told = draft.status.outcome_message or draft.status.message
    return draft.go(outcome, draft.status.reason, told, release=True, again=3600.0)


def _ended(draft: _Draft) -> Step:
    draft.finalizers = ()
    return draft.stay(again=3600.0)


_HANDLERS: dict[SessionPhase, Callable[[_Draft], Step]] = {
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
