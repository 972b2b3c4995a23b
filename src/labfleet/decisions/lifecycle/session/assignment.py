"""The fact that a session has a worker, or why it has none: condition WorkerAssigned. Pure."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import SessionCondition, SessionReason


def assigned(session: Session, worker: str, now: datetime) -> tuple[Condition, ...]:
    """Return a session's conditions once a worker was found for it."""
    return conditions.put(
        session.status.conditions,
        SessionCondition.WORKER_ASSIGNED,
        "True",
        SessionReason.PLACED,
        f"on {worker}",
        now=now,
        generation=session.metadata.generation,
    )


def unassigned(session: Session, decision: Decision) -> tuple[Condition, ...]:
    """Return a session's conditions once it was looked for and none was found."""
    refused = decision.outcome == "refused"
    return conditions.put(
        session.status.conditions,
        SessionCondition.WORKER_ASSIGNED,
        "False",
        SessionReason.REFUSED if refused else SessionReason.NO_PLACE,
        decision.reason,
        now=decision.at,
        generation=session.metadata.generation,
    )
