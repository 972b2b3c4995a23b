"""What a session keeps of being extended by its own person."""

from __future__ import annotations

from labfleet.resources.meta import Record


class Extensions(Record, frozen=True, kw_only=True):
    """How far a session's own person has extended it, as its definition's `extension` counts.

    times: How often.
    seconds: By how many seconds in all; a shorter end gives none of them back.
    """

    times: int = 0
    seconds: int = 0
