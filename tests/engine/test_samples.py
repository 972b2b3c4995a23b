"""Samples in memory: bounded for each worker and in all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from labfleet.engine.samples import SampleRing
from labfleet.interfaces.telemetry import Samples
from labfleet.resources.telemetry import Sample

START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)


def sample(worker: str, number: int = 0) -> Sample:
    return Sample(worker=worker, at=START + timedelta(seconds=number), boot="i-1")


def test_the_newest_samples_of_a_worker_are_kept() -> None:
    """The oldest leave; what is asked for comes oldest first."""
    ring: Samples = SampleRing(kept=3)
    for number in range(5):
        ring.put(sample("w", number))
    assert [each.at.second for each in ring.recent("w", 10)] == [2, 3, 4]
    assert [each.at.second for each in ring.recent("w", 2)] == [3, 4]
    assert ring.newest("w") == sample("w", 4)
    assert ring.recent("w", 0) == ()


def test_the_number_of_workers_is_bounded() -> None:
    """The worker longest without a sample leaves first."""
    ring = SampleRing(workers=2)
    for name in ("a", "b", "a", "c"):
        ring.put(sample(name))
    assert set(ring.workers()) == {"a", "c"}
    assert ring.newest("b") is None
    ring.forget("a")
    ring.forget("a")
    assert ring.workers() == ("c",)
