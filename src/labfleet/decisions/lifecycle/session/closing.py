"""What is said before a session's end, and when nobody came for it.

Pure. Warnings are facts of the record, so the stream, pages, webhooks and the command line say the same.
A session is released for absence only where its definition asks for that: nobody loses an exam
because of being late, and the product cannot see who sits at a console.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.decisions.lifecycle.session.draft import Draft
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources.definition import WARN_MINUTES, Definition
from labfleet.resources.session import Session, SessionStatus
from labfleet.resources.session_conditions import SessionCondition, SessionReason

_MINUTE = timedelta(minutes=1)


def warn(draft: Draft, end: datetime) -> None:
    """Record that the end is near, for each of the definition's minutes; not when it moved away.

    Minutes in which the whole slot lies warn of nothing.
    """
    definition = draft.seen.definition
    wanted = WARN_MINUTES if definition is None else definition.spec.warn_minutes
    length = end - (draft.status.start or draft.now)
    left = end - draft.now
    near = min((each for each in wanted if left <= each * _MINUTE < length), default=None)
    draft.set(warned_minutes=near)
    if near is None:
        draft.forget(SessionCondition.ENDS_SOON)
        return
    told = f"it ends at {utc_text(end, seconds=True)}"
    draft.fact(SessionCondition.ENDS_SOON, "True", SessionReason.END_NEAR, told)


def warned_anew(before: SessionStatus, now: SessionStatus) -> bool:
    """Tell whether it was said for the first time that the end is so near."""
    near, was = now.warned_minutes, before.warned_minutes
    return near is not None and (was is None or near < was)


def released_at(session: Session, definition: Definition | None) -> datetime | None:
    """Return when a running session is released because nobody came; None: never, or somebody did.

    Its time counts from when its lab ran, so a lab that was late costs nobody the session; and from
    when it was given to its present person, who could not come before.
    """
    status = session.status
    if definition is None or definition.spec.no_show_minutes is None:
        return None
    if status.checked_in_at is not None or status.started_at is None:
        return None
    begun = max(status.started_at, status.start or status.started_at)
    if status.handed_over is not None:
        begun = max(begun, status.handed_over.at)
    return begun + definition.spec.no_show_minutes * _MINUTE


def absent(draft: Draft) -> str:
    """Return that nobody came in time; "" while somebody did, or still may."""
    definition = draft.seen.definition
    until = released_at(draft.session, definition)
    if definition is None or until is None or draft.now < until:
        return ""
    minutes = count(definition.spec.no_show_minutes or 0, "minute")
    return f"nobody checked in within {minutes}, by {utc_text(until)}"
