"""The rate of changes that EC2 accepts (facts/aws.md#request-buckets). Pure: times are arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

LEAST_SHARE = 1 / 64
NEARLY = 1 - 1e-6  # counts as 1: a remainder too small to wait for would never be reached
# Action -> (burst, per second): four fifths of EC2's buckets, the rest is left to others.
PACES = {"launch": (4, 1.6), "start": (4, 1.6), "stop": (40, 4.0), "terminate": (80, 4.0)}


@dataclass(slots=True)
class TokenBucket:
    """Limits calls of one action to the rate that EC2 accepts.

    RunInstances and StartInstances have a bucket of 5 tokens and 2 more a second
    (facts/aws.md#request-buckets); a pool that grows by two hundred at once would be throttled for
    minutes, and with it all other users of the account. Being throttled shows that others use the
    bucket too: then only `share` of the rate is used, and slowly more again. Seconds are machine
    time.
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


def token_buckets() -> dict[str, TokenBucket]:
    """Return a token bucket for each action that has a rate limit."""
    return {action: TokenBucket(most, rate) for action, (most, rate) in PACES.items()}
