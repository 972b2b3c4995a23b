"""The pace of changes: a pool that grows or ends by hundreds does not empty EC2's buckets."""

from __future__ import annotations

import pytest

from labfleet.controllers.worker.launch import PACES, turnstiles
from labfleet.rehearsal.worlds.ec2 import BUCKETS


@pytest.mark.parametrize("action", PACES)
def test_changes_never_outrun_the_buckets_of_ec2(action: str) -> None:
    """Two hundred asked for at once stay inside the bucket of their action."""
    most, refill = BUCKETS[f"{'Run' if action == 'launch' else action.title()}Instances"]
    turnstile, level, now = turnstiles()[action], most, 0.0
    for _ in range(200):
        wait = turnstile.wait(now)
        while wait:
            level = min(most, level + refill * wait)
            now += wait
            wait = turnstile.wait(now)
        level -= 1
        assert level >= 0
    assert now < 200


def test_a_few_launches_go_at_once() -> None:
    """A pool that grows by a handful notices nothing."""
    turnstile = turnstiles()["launch"]
    assert [turnstile.wait(0.0) for _ in range(4)] == [0.0] * 4
    assert turnstile.wait(0.0) > 0
