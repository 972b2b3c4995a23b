"""The session's phase table. Source: design.md 4; cancel is accepted in every phase."""

from __future__ import annotations

from labfleet.resources.session import TERMINAL, Session, SessionPhase

S = SessionPhase

EDGES: dict[SessionPhase, frozenset[SessionPhase]] = {
    S.PENDING: frozenset({S.SCHEDULED, S.EXPIRED, S.FAILED, S.CANCELLED}),
    S.SCHEDULED: frozenset(
        {S.INSTANTIATING, S.PENDING, S.STOPPING, S.EXPIRED, S.FAILED, S.CANCELLED}
    ),
    S.INSTANTIATING: frozenset({S.READY, S.STOPPING, S.PENDING}),
    S.READY: frozenset({S.RUNNING, S.STOPPING, S.PENDING}),
    S.RUNNING: frozenset({S.COLLECTING}),
    S.COLLECTING: frozenset({S.STOPPING}),
    S.STOPPING: frozenset({S.COMPLETED, S.FAILED, S.CANCELLED, S.EXPIRED, S.PENDING}),
    S.COMPLETED: frozenset(),
    S.EXPIRED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
}

BOUND = frozenset({S.SCHEDULED, S.INSTANTIATING, S.READY, S.RUNNING, S.COLLECTING, S.STOPPING})
"""Phases in which a session holds a reservation and ports on its worker."""

STARTED = BOUND - {S.SCHEDULED}
"""Phases in which something of the session may exist on the worker's CML."""


def is_live(session: Session) -> bool:
    """Tell whether the session has not reached one of its four ends."""
    return session.status.phase not in TERMINAL


def end_asked(session: Session) -> bool:
    """Tell whether somebody asked for the session's end."""
    return session.spec.cancel is not None or session.deleting
