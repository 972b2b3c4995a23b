"""The real clock, random numbers and ids."""

from __future__ import annotations

import time
import uuid

import pytest

from labfleet.app.system import SystemClock, SystemIds, SystemRng
from labfleet.kernel import errors

EPOCH = 1_795_000_000.0


def test_two_clocks_with_one_epoch_and_rate_share_the_time() -> None:
    """Server and simulators agree on fleet time because epoch and factor are all of it."""
    one, other = SystemClock(EPOCH, 500.0), SystemClock(EPOCH, 500.0)
    begun = time.monotonic()
    first, second = one.now(), other.now()
    took = time.monotonic() - begun
    assert -0.1 <= (second - first).total_seconds() <= 500.0 * took + 0.1
    assert one.rate == 500.0


def test_a_clock_that_stands_still_is_refused() -> None:
    """A rate of zero or less would make every wait endless."""
    for rate in (0.0, -1.0):
        with pytest.raises(errors.Invalid):
            SystemClock(0.0, rate)


def test_streams_of_a_seed_depend_on_the_name_only() -> None:
    """One more draw in one stream does not shift another."""
    first, second = SystemRng("s"), SystemRng("s")
    first.stream("a").random()
    assert first.stream("b").random() == second.stream("b").random()
    assert first.stream("a").random() != first.stream("b").random()


def test_ids_and_tokens_never_repeat() -> None:
    """A thousand draws give a thousand identities and secrets of 256 bits."""
    ids = SystemIds()
    uids = {ids.uid() for _ in range(1000)}
    assert len(uids) == 1000
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in uids} == {
        (4, uuid.RFC_4122)
    }
    tokens = {ids.token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert min(len(token) for token in tokens) >= 43
