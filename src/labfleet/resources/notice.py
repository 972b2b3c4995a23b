"""Notice: one sentence for the owner of a session about what has just changed for them.

A notice is a value: what happened, whom to tell, the sentence, and facts for programs. How it is
sent is not known here, so a webhook, a page and a letter say the same.
"""

from __future__ import annotations

from typing import Any

from labfleet.resources.conditions import Word
from labfleet.resources.meta import Record


class NoticeType(Word):
    """What owners of sessions are told."""

    BOOKED = (
        "notice.booked",
        "a session was asked for and accepted (promised: whether a pool holds it)",
    )
    MOVED = (
        "notice.moved",
        "its start is another one, or comes later than was told; `reason` says why (before)",
    )
    READY = "notice.ready", "its lab is up; the link leads to where it is reached, after signing in"
    EXTENDED = "notice.extended", "it ends later (before)"
    SHORTENED = "notice.shortened", "it ends earlier (before)"
    ENDS_SOON = "notice.ends_soon", "its time is over soon (minutes)"
    STOPPED = "notice.stopped", "it is over: its time is, or somebody ended it (outcome, reason)"
    FAILED = (
        "notice.failed",
        "it ended, or never started, although nobody wanted that (outcome, reason)",
    )
    OFFERED = "notice.offered", "somebody offers it to the reader, who may take it (by)"
    GIVEN = "notice.given", "it is the reader's now: somebody handed it over (by)"
    GIVEN_AWAY = "notice.given_away", "it is no longer the reader's: it was handed over (by)"
    LAB_KEPT = "notice.lab_kept", "what was configured in its lab is kept (until, missing)"
    LAB_NOT_KEPT = (
        "notice.lab_not_kept",
        "what was configured in its lab was to be kept, and is lost (reason)",
    )
    LAB_CHANGED = (
        "notice.lab_changed",
        "its lab was stopped, wiped or edited, and nobody ordered that here (reason)",
    )
    LAB_ORDERED = (
        "notice.lab_ordered",
        "somebody else ordered something of its lab (order, node, by)",
    )
    IN_DANGER = "notice.in_danger", "what was promised to it may not be kept (reason)"
    PROMISE_SAFE = "notice.promise_safe", "what was in danger has a place again"


class Notice(Record, frozen=True, kw_only=True):
    """What one person is told of one change of one session.

    type: What happened.
    recipient: Name of the owner whom it is for.
    subject: The sentence, for a subject line or a chat.
    data: Facts for programs; no address of a lab, no account, no secret.
    """

    type: NoticeType
    recipient: str
    subject: str
    data: dict[str, Any] = {}
