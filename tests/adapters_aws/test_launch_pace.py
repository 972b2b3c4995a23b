"""The pace of changes: a pool that grows or ends by hundreds does not empty EC2's buckets."""

from __future__ import annotations

import pytest

from labfleet.adapters.aws.pace import PACES, token_buckets
from labfleet.rehearsal.worlds.ec2 import BUCKETS


@pytest.mark.parametrize("action", PACES)
def test_changes_never_outrun_the_buckets_of_ec2(action: str) -> None:
    """Two hundred asked for at once stay inside the bucket of their action."""
    most, refill = BUCKETS[f"{'Run' if action == 'launch' else action.title()}Instances"]
    bucket, level, now = token_buckets()[action], most, 0.0
    for _ in range(200):
        wait = bucket.wait(now)
        while wait:
            level = min(most, level + refill * wait)
            now += wait
            wait = bucket.wait(now)
        level -= 1
        assert level >= -0.001
    assert now < 200


def test_a_few_launches_go_at_once() -> None:
    """A pool that grows by a handful notices nothing."""
    bucket = token_buckets()["launch"]
    assert [bucket.wait(0.0) for _ in range(4)] == [0.0] * 4
    assert bucket.wait(0.0) > 0


def test_the_pace_gives_way_to_who_shares_the_bucket_and_comes_back() -> None:
    """At a tenth of EC2's bucket few calls are refused, and afterwards the pace is whole again."""
    bucket, level, now, refused = token_buckets()["launch"], 1.0, 0.0, 0
    for _ in range(300):
        wait = bucket.wait(now)
        while wait:
            level = min(1.0, level + 0.2 * wait)
            now += wait
            wait = bucket.wait(now)
        if level >= 0.999:
            level -= 1
            bucket.passed()
        else:
            refused += 1
            bucket.throttled()
    assert 0 < refused < 60
    for _ in range(60):
        bucket.passed()
    assert bucket.share == 1.0
