"""Samples in memory: bounded for each worker and in all; the feed of what moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from labfleet.engine.samples import SampleRing
from labfleet.interfaces.telemetry import Samples
from labfleet.resources.meta import Key
from labfleet.resources.telemetry import ProviderPoint, Sample, SystemStats

START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)


def sample(worker: str, number: int = 0) -> Sample:
    return Sample(worker=worker, at=START + timedelta(seconds=number), boot="i-1")


def test_the_newest_samples_of_a_worker_are_kept() -> None:
    """The oldest leave; what is asked for comes oldest first."""
    ring: Samples = SampleRing(kept=3)
    for number in range(5):
        ring.put(sample("w", number))
    assert [each.at.second for each in ring.recent(Key("Worker", "default", "w"), 10)] == [2, 3, 4]
    assert [each.at.second for each in ring.recent(Key("Worker", "default", "w"), 2)] == [3, 4]
    assert ring.newest(Key("Worker", "default", "w")) == sample("w", 4)
    assert ring.recent(Key("Worker", "default", "w"), 0) == ()


def test_the_number_of_workers_is_bounded() -> None:
    """The worker longest without a sample leaves first."""
    ring = SampleRing(workers=2)
    for name in ("a", "b", "a", "c"):
        ring.put(sample(name))
    assert {each.name for each in ring.workers()} == {"a", "c"}
    assert ring.newest(Key("Worker", "default", "b")) is None
    ring.forget(Key("Worker", "default", "a"))
    ring.forget(Key("Worker", "default", "a"))
    assert [each.name for each in ring.workers()] == ["c"]


def cpu(percent: float | None, number: int = 0, worker: str = "w") -> Sample:
    stats = None if percent is None else SystemStats(cpu_percent=percent, running_nodes=1)
    return Sample(worker=worker, at=START + timedelta(seconds=number), boot="i-1", stats=stats)


def point(minute: int, percent: float = 5.0) -> ProviderPoint:
    return ProviderPoint(at=START + timedelta(minutes=minute), seconds=300, cpu_percent=percent)


def test_only_what_moved_far_enough_is_a_change() -> None:
    """Measured against what was told last, so that a slow drift is told too."""
    ring = SampleRing()
    for number, value in enumerate((10, 12, 14, 15.5, 15.6, None)):
        ring.put(cpu(value, number))
    assert [each.moved for each in ring.changes(0)] == [
        ("cpu", "nodes"),
        ("cpu",),
        ("cpu", "nodes"),
    ]
    assert [each.values["cpu"] for each in ring.changes(0)] == [10, 15.5, None]
    assert ring.changes(ring.last_change) == ()
    assert [each.number for each in ring.changes(1)] == [2, 3]


def test_the_setting_decides_how_far_is_far() -> None:
    """One percent is a change when one percent was asked for."""
    ring = SampleRing()
    ring.put(cpu(10))
    ring.put(cpu(11, 1), change_percent=1.0)
    assert ring.last_change == 2


def test_the_feed_is_bounded_and_a_gap_is_seen() -> None:
    """Who comes too late finds a first number beyond the next one."""
    ring = SampleRing(changes=3)
    for number in range(10):
        ring.put(cpu(float(number * 10), number))
    assert [each.number for each in ring.changes(2)] == [8, 9, 10]
    assert [each.number for each in ring.changes(-1)] == [8, 9, 10]


def test_points_are_kept_once_and_in_order() -> None:
    """CloudWatch tells the same points again and again."""
    ring = SampleRing(kept=3)
    ring.put_points(Key("Worker", "default", "w"), [point(0), point(5)])
    ring.put_points(Key("Worker", "default", "w"), [point(0), point(5), point(10), point(15)])
    assert [each.at.minute for each in ring.points(Key("Worker", "default", "w"))] == [5, 10, 15]
    assert [each.name for each in ring.workers()] == ["w"]
    ring.put_points(Key("Worker", "default", "v"), [])
    assert ring.points(Key("Worker", "default", "v")) == ()
    ring.forget(Key("Worker", "default", "w"))
    assert (ring.workers(), ring.points(Key("Worker", "default", "w"))) == ((), ())
