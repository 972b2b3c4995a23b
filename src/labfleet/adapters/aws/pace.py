"""The rate of changes that EC2 accepts (facts/aws.md#request-buckets).

RunInstances and StartInstances have a bucket of 5 tokens and 2 more a second; a pool that grows by
two hundred at once would be throttled for minutes, and with it all other users of the account.
"""

from __future__ import annotations

from labfleet.kernel.token_bucket import TokenBucket

# Action -> (burst, per second): four fifths of EC2's buckets, the rest is left to others.
PACES = {"launch": (4, 1.6), "start": (4, 1.6), "stop": (40, 4.0), "terminate": (80, 4.0)}


def token_buckets() -> dict[str, TokenBucket]:
    """Return a token bucket for each action that has a rate limit."""
    return {action: TokenBucket(most, rate) for action, (most, rate) in PACES.items()}
