"""What is told of a session that waits for a worker: its place, and when it starts."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Record


class SessionOutlook(Record, frozen=True, kw_only=True):
    """Where a session stands that waits for a worker, and between when and when it starts.

    Worked out from what is stored while people look, and never stored itself.

    line: Pool or track for whose workers it waits.
    position: Its place among those that wait for the same, 1 for the next one.
    waiting: How many wait there.
    earliest: It starts not before this; null when nobody can tell.
    latest: Not after this; null when it does not start in each future that was played.
    coverage: Share of such ranges that hold the start, by what was achieved where that is less than
    was to be; null when something is only declared.
    because: What its start depends on, or why nobody can tell, in a sentence.
    words: Place and range in a few words, such as `2 of 3, 14:35-14:50Z (80 %)`.
    at: When this was worked out.
    """

    line: str
    position: int
    waiting: int
    earliest: datetime | None = None
    latest: datetime | None = None
    coverage: float | None = None
    because: str = ""
    words: str = ""
    at: datetime
