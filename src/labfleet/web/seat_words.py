"""Where a session stands in words of whoever sits there, for pages of people and classes.

No word here needs the glossary: neither workers nor phases are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.definition import WARN_MINUTES, Definition
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition
from labfleet.web.values import Cell

S = SessionPhase
UP = frozenset({S.READY, S.RUNNING})
_CLOSING = TERMINAL | {S.COLLECTING, S.STOPPING}
_BEFORE = frozenset({S.PENDING, S.SCHEDULED, S.INSTANTIATING, S.READY})
_MINUTE = timedelta(minutes=1)
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Left:
    """How long a lab still lasts: its end, what is left in words, and from which minutes it is warned.

    `end` is as programs write it, for the script that counts down by the server's clock; `warning`
    is what is said now, "" while there is time.
    """

    end: str
    text: str
    minutes: str
    warning: str = ""


def standing(session: Session, now: datetime) -> Cell:
    """Return where a session stands, as shape and words."""
    status = session.status
    if session.spec.cancel is not None and status.phase not in _CLOSING:
        return _cell("is being ended", "busy", "◑")
    match status.phase:
        case S.PENDING:
            return _pending(session, now)
        case S.SCHEDULED:
            return _cell("has a place, starts soon", "busy", "◔")
        case S.INSTANTIATING:
            lab = status.lab
            up = "" if lab is None or not lab.nodes else f": {lab.booted} of {lab.nodes} devices up"
            return _cell(f"is being started{up}", "busy", "◔")
        case S.READY:
            return _cell("ready", "good", "●")
        case S.RUNNING:
            return _cell("running", "good", "●")
        case S.COLLECTING | S.STOPPING:
            return _cell("is being closed", "busy", "◑")
        case S.COMPLETED:
            return _cell("over", "calm", "✓")
        case S.CANCELLED:
            return _cell("ended early", "calm", "■")
        case S.EXPIRED:
            return _cell("did not start in time", "warn", "▲")
    return _cell("failed", "bad", "✕")


def _pending(session: Session, now: datetime) -> Cell:
    status = session.status
    start = session.spec.slot.start or status.start
    if endangered(session):
        return _cell("may not start on time", "warn", "▲")
    if start is not None and start > now:
        if status.claim is not None:
            return _cell("booked", "good", "○")
        if session.spec.when_full == "wait":
            return _cell("on the waiting list", "wait", "○")
        return _cell("booked, without a promised place", "wait", "○")
    return _cell("waits for room", "wait", "○")


def _cell(text: str, tone: str, shape: str) -> Cell:
    return Cell("state", text, tone=tone, shape=shape)


def endangered(session: Session) -> bool:
    """Tell whether what was promised to a session was last said to be in danger."""
    fact = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    return fact is not None and fact.status == "False"


def is_late(session: Session, now: datetime) -> bool:
    """Tell whether a lab should run and does not: its slot has begun, as groups count it."""
    begins = session.spec.slot.start or session.status.start
    return begins is not None and begins <= now and session.status.phase in _BEFORE


def place(session: Session) -> str:
    """Return the place in the line and when the lab starts, in sentences; "" when nobody knows."""
    found = session.status.outlook
    if found is None:
        return ""
    said = f"You are {found.position} of {found.waiting} who wait."
    if found.earliest is None:
        return f"{said} Nobody can tell yet when it starts."
    if found.latest is None:
        return f"{said} It starts at {utc_text(found.earliest)} or later."
    sure = "" if found.coverage is None else f", in {found.coverage:.0%} of such cases"
    span = f"between {utc_text(found.earliest)} and {utc_text(found.latest)}"
    return f"{said} It starts {span}{sure}."


def ended(session: Session) -> str:
    """Return why a session that is over ended, as it was recorded."""
    status, cancel = session.status, session.spec.cancel
    if status.phase is S.CANCELLED and cancel is not None:
        who = f"by {cancel.by}" if cancel.by else "by somebody"
        return f"{who}: {cancel.reason}"[:_QUOTED] if cancel.reason else who
    return (status.outcome_message or status.message)[:_QUOTED]


def left(session: Session, definition: Definition | None, now: datetime) -> Left | None:
    """Return how long a lab that is up still lasts; None when it is not up, or has no end."""
    end = session.status.end
    if session.status.phase not in UP or end is None or session.spec.cancel is not None:
        return None
    warned = WARN_MINUTES if definition is None else definition.spec.warn_minutes
    minutes = sorted(warned, reverse=True)
    rest = end - now
    near = min((each for each in minutes if rest <= each * _MINUTE), default=None)
    warning = "" if near is None else warned_at(near)
    return Left(end.isoformat(), lasting(rest), ",".join(map(str, minutes)), warning)


def warned_at(minutes: int) -> str:
    """Return what is said when less than so many minutes are left; `countdown.js` says the same."""
    return f"Less than {count(minutes, 'minute')} left: save your work, or ask for more time."


def lasting(span: timedelta) -> str:
    """Return a span in words, such as `1 h 05 min`; `countdown.js` has the same steps."""
    seconds = max(0, int(span.total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if seconds >= 36 * 3600:
        return f"{seconds // 86400} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    if minutes >= 10:
        return f"{minutes} min"
    return f"{minutes} min {seconds % 60:02d} s"
