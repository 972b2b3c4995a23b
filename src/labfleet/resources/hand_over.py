"""What a session keeps of being given from one person to another."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Record


class SessionOffer(Record, frozen=True, kw_only=True, gc=False):
    """A session that its person offers to somebody; it is theirs once they take it.

    to: To whom it is offered.
    by: Who offers it.
    at: Since when.
    """

    to: str
    by: str
    at: datetime


class HandedOver(Record, frozen=True, kw_only=True, gc=False):
    """That a session was given to its present person by somebody.

    by: Who gave it: an operator, whoever booked the group, or the person who had it.
    at: Since when it is the present person's.
    """

    by: str
    at: datetime
