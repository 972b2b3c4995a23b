"""A token bucket: how often something may happen, with room for a burst. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

LEAST_SHARE = 1 / 64
NEARLY = 1 - 1e-6  # counts as 1: a remainder too small to wait for would never be reached


@dataclass(slots=True)
class TokenBucket:
    """`most` tokens, and `rate` more a second (machine time).

    Being throttled by the other side shows that others use its bucket too: then only `share` of
    the rate is used, and slowly more again.
    """

    most: float
    rate: float
    level: float = field(init=False)
    at: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        self.level = self.most

    def wait(self, now: float) -> float:
        """Take a token and return 0, or return how many seconds it is until there is one."""
        rate = self.rate * self.share
        grown = self.level + max(0.0, now - self.at) * rate
        self.level, self.at = min(self.most, grown), now
        if self.level >= NEARLY:
            self.level = max(self.level - 1, 0.0)
            return 0.0
        return (1 - self.level) / rate

    def throttled(self) -> None:
        """Halve the rate from now on (facts/aws-bugs.md#case-14)."""
        self.level, self.share = 0.0, max(self.share / 2, LEAST_SHARE)

    def passed(self) -> None:
        """Raise the rate a little again."""
        self.share = min(self.share * 1.1, 1.0)
