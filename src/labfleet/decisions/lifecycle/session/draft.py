"""The working state of a decision on a session: the observation, the changes, the action.

The rules in `decide` and `start` use it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions.lab_orders import LabNode
from labfleet.decisions.lifecycle.draft import StatusDraft
from labfleet.decisions.lifecycle.session import budget, phases
from labfleet.kernel.clock import utc_text
from labfleet.resources import conditions
from labfleet.resources.definition import Definition
from labfleet.resources.history import Use
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    LabStatus,
    Session,
    SessionPhase,
    SessionStatus,
)
from labfleet.resources.session_conditions import (
    PhaseReason,
    SessionCondition,
    SessionReason,
    StoredReason,
)

AnyReason = PhaseReason | StoredReason

S = SessionPhase
Action = Literal[
    "import", "tag", "start", "stop", "wipe", "delete", "observe",
    "start_node", "stop_node", "wipe_node",
]  # fmt: skip

ON_DEMAND_PATIENCE = timedelta(hours=24)
# How many workers one session may lose before it is failed.
PLACEMENTS = 5
PRESENT = (
    SessionCondition.START_TURN,
    SessionCondition.LAB_STARTED,
    SessionCondition.LAB_CHANGED,
    SessionCondition.PORTS_TAGGED,
    SessionCondition.PORT_DRIFT,
    SessionCondition.PORTS_OPEN,
    SessionCondition.HOST_REACHABLE,
    SessionCondition.ENDS_SOON,
)
"""Facts about a lab and its place; they mean nothing once the session has ended or moved."""
ANSWERS = SessionCondition.HOST_REACHABLE
SOON, POLL, WATCH = 1.0, 5.0, 20.0


class SessionObservation(msgspec.Struct, frozen=True):
    """What the controller just observed; None means not read, or unknown.

    `host_lost`: the worker failed or is on its way out without us. `host_dead`: its instance
    is surely gone, so every lab on it is. `host_unfit` says why no lab would start there, though
    it serves those that run; "" when it would. `lab` None with `looked` True means that no lab of
    ours is on the server. `active` counts nodes that are queued, started or booted.
    `ports_open` None means not probed, `ports_untried` that settings want it so. `refused` is CML's
    final no to an import or start. `definition` is the session's, None when it is gone; `ahead`
    counts the labs of its worker that start before or beside this one.
    `watched_since` is when this process began to manage sessions: time in which no controller
    ran does not count against a lab. `before` is how many labs must have booted on the
    worker until it is this one's turn to start; 0 means now.
    `forced_out` is why its worker is emptied without waiting for it; None: it is not.
    `room_held` says who holds the room that a booked session needs; "" means that it may come.
    `tags_lost` are port tags that the import should have made and the server does not have,
    `tags_added` those of its nodes that it was not given; None: its nodes were not seen.
    `keep_seconds` is how long settings let a lab be kept before its teardown; 0: it is not.
    `ports_seen` are the ports that its nodes name; None: they were not looked at, or there are none.
    `nodes` are all of its lab when they were looked at while it is up, or at the end of its start.
    `used` is what its lab has used by `measured` readings, given when that is worth recording.
    """

    host_lost: bool = False
    host_dead: bool = False
    host_leaving: bool = False
    host_unfit: str = ""
    host_detail: str = ""
    looked: bool = False
    lab: LabStatus | None = None
    active: int | None = None
    converged: bool | None = None
    ports_open: bool | None = None
    ports_detail: str = ""
    ports_untried: bool = False
    refused: str | None = None
    forced_out: PhaseReason | None = None
    definition: Definition | None = None
    ahead: int = 0
    watched_since: datetime | None = None
    before: int = 0
    room_held: str = ""
    tags_lost: tuple[str, ...] = ()
    tags_added: tuple[str, ...] | None = None
    keep_seconds: float = 0.0
    ports_seen: dict[str, int] | None = None
    nodes: tuple[LabNode, ...] | None = None
    used: dict[str, Use] | None = None
    measured: int = 0
    trouble: str = ""


class Step(msgspec.Struct, frozen=True):
    """The next state, one action at most, what to give back, when to look again (seconds)."""

    status: SessionStatus
    finalizers: tuple[str, ...]
    action: Action | None = None
    release: bool = False
    again: float = POLL


class Draft(StatusDraft[SessionStatus, SessionCondition, SessionReason]):
    """The session being decided on."""

    def __init__(self, session: Session, seen: SessionObservation, now: datetime) -> None:
        super().__init__(session.metadata, session.status, now)
        self.session = session
        self.seen = seen
        self.budget = budget.of(session, seen.definition, seen.ahead)

    @property
    def reason(self) -> StoredReason:
        """Return the reason of the present phase."""
        return StoredReason(self.status.reason)

    @property
    def age(self) -> timedelta:
        """How long the phase lasts, counting only time in which a controller ran."""
        since = self.status.phase_since or self.now
        watched = self.seen.watched_since
        return self.now - (since if watched is None else max(since, watched))

    @property
    def stalled(self) -> timedelta:
        """How long the lab has made no progress, counting only time in which a controller ran."""
        lab, answers = self.status.lab, conditions.find(self.status.conditions, ANSWERS)
        since = None if lab is None else lab.progress_at
        if lab is None and answers is not None:
            since = answers.last_transition_time  # without an answer nothing could be imported
        return self.age if since is None else min(self.age, self.now - since)

    @property
    def silence(self) -> timedelta:
        """How long CML could not be asked, counting only time in which a controller ran."""
        answers = conditions.find(self.status.conditions, ANSWERS)
        if answers is None or answers.status == "True":
            return timedelta()
        since, watched = answers.last_transition_time, self.seen.watched_since
        return self.now - (since if watched is None else max(since, watched))

    @property
    def never_imported(self) -> bool:
        """Tell whether nothing of the session can be on its worker: no import was ever begun there.

        `status.lab` is written with the intent of an import, before its call, and taken back when
        that call certainly did nothing. While the outcome is unknown the record stays.
        """
        return self.status.lab is None

    @property
    def unfit_words(self) -> str:
        """Return why nothing would start on the worker, with its name."""
        return f"{self.status.worker}: {self.seen.host_unfit}"

    @property
    def expired(self) -> str | None:
        """Return why it is too late to start; None while it is not."""
        deadline = self.deadline
        if deadline is not None and self.now >= deadline:
            return f"not started by {utc_text(deadline)}"
        end = self.session.spec.slot.end
        if end is not None and self.now >= end:
            return "its slot is over"
        return None

    @property
    def deadline(self) -> datetime | None:
        """When a session that has not started is given up."""
        start = self.session.spec.slot.start
        if start is not None:
            return start + timedelta(seconds=self.budget.grace)
        if self.session.spec.slot.end is not None:
            return self.session.spec.slot.end
        created = self.session.metadata.creation_timestamp or self.now
        return created + ON_DEMAND_PATIENCE

    def go(
        self,
        phase: SessionPhase,
        reason: AnyReason | None = None,
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
            if phase is S.INSTANTIATING:
                self.set(hosted_since=self.now)
            if phase in TERMINAL:
                # Every way here has seen that nothing of the session is left on a server.
                self.set(ended_at=self.now)
                self.forget(*PRESENT, SessionCondition.PROMISE_SAFE)
                self.drop(FINALIZER_LAB)
        self.set(reason="" if reason is None else str(reason), message=message)
        if release:
            self.set(reservation=None, hosted_since=None)
        self.set(observed_generation=self.session.metadata.generation)
        return Step(self.status, self.finalizers, do, release, again)

    def stay(self, message: str = "", *, do: Action | None = None, again: float = POLL) -> Step:
        kept = message or self.status.message
        return self.go(self.status.phase, self.reason, kept, do=do, again=again)

    @property
    def movable(self) -> bool:
        """Tell whether the session, which has not begun, may be placed once more."""
        return self.replaces and self.status.placements < PLACEMENTS

    @property
    def replaces(self) -> bool:
        """Tell whether its definition lets it move at all."""
        definition = self.seen.definition
        return definition is None or definition.spec.on_worker_loss == "replace"

    def teardown(self, outcome: SessionPhase, reason: AnyReason, message: str = "") -> Step:
        """Begin the end of a session whose lab may exist; PENDING means: to be placed again."""
        self.set(outcome=outcome, outcome_message=message)
        return self.go(S.STOPPING, reason, message)
