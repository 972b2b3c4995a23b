"""The pace of launches: a pool that grows by hundreds does not empty EC2's bucket."""

from __future__ import annotations

from labfleet.controllers.worker.launch import Turnstile


def test_launches_never_outrun_the_bucket_of_ec2() -> None:
    """Two hundred launches asked for at once stay inside 5 tokens and 2 a second."""
    turnstile, level, now = Turnstile(), 5.0, 0.0
    for _ in range(200):
        wait = turnstile.wait(now)
        while wait:
            level = min(5.0, level + 2.0 * wait)
            now += wait
            wait = turnstile.wait(now)
        level -= 1
        assert level >= 0
    assert now < 200


def test_a_few_launches_go_at_once() -> None:
    """A pool that grows by a handful notices nothing."""
    turnstile = Turnstile()
    assert [turnstile.wait(0.0) for _ in range(4)] == [0.0] * 4
    assert turnstile.wait(0.0) > 0
