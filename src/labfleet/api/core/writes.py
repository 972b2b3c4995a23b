"""How often one token may change something: one caller's loop must not stop the others' work."""

from __future__ import annotations

from labfleet.kernel import errors
from labfleet.kernel.token_bucket import TokenBucket
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role

LIMITED = frozenset({Role.USER, Role.RUNNER})
"""Those who run the fleet are not held up: an operator applies a thousand sessions at once."""
KEPT = 10_000
BURSTS = 6
"""A burst may be the sixth of a minute's writes."""


class Writes:
    """The buckets of one process's callers; the one that wrote longest ago is dropped first."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, who: Principal, per_minute: int, now: float) -> None:
        """Count one write at `now` (machine seconds); raise Throttled beyond the limit."""
        if who.role not in LIMITED:
            return
        bucket = self._buckets.pop(who.id, None)
        if bucket is None or bucket.rate != per_minute / 60:
            bucket = TokenBucket(max(per_minute / BURSTS, 1.0), per_minute / 60, at=now)
        self._buckets[who.id] = bucket
        while len(self._buckets) > KEPT:
            del self._buckets[next(iter(self._buckets))]
        wait = bucket.wait(now)
        if wait:
            message = f"one token may write {per_minute} times a minute (limits.writesPerMinute)"
            raise errors.Throttled(message, reason="TooManyWrites", retry_after=wait)
