"""An hour in which every kind of facts/aws.md#fault-kinds comes leaves nothing behind."""

from __future__ import annotations

import fleet_hour
import pytest
from virtual_time import play


def played(workers: int, seed: int) -> fleet_hour.Told:
    """Play the hour."""
    told: list[fleet_hour.Told] = []

    async def story() -> None:
        told.append(await fleet_hour.hour(workers, seed))

    play(story)
    return told[0]


def judge(told: fleet_hour.Told) -> None:
    """Hold an hour against what must be true of every hour."""
    assert told.violations == []
    assert told.wrong == []
    assert told.left["instances"] == told.left["volumes"] == told.left["double_launches"] == 0
    assert set(told.phases) == {"TERMINATED"}
    # A licence that is not back is on record as leaked: nothing is forgotten.
    assert told.left["licences"] <= len(told.leaks)
    assert all(told.kinds.values()), told.kinds
    assert not set(told.images) & set(told.strangers)


@pytest.mark.timeout(300)
def test_a_small_fleet_goes_through_the_hour() -> None:
    """Twenty-four workers: every launch is one instance, every end is seen, every leak is told."""
    told = played(24, seed=3)
    judge(told)
    assert told.virtual_minutes >= 60


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_three_hundred_workers_go_through_the_hour() -> None:
    """At least 300 launches, 100 stops and 100 terminations, within EC2's buckets."""
    told = played(300, seed=1)
    judge(told)
    assert told.calls["RunInstances"] >= 300
    assert told.calls["StopInstances"] >= 100
    assert told.calls["TerminateInstances"] >= 100
    assert told.faults["bucket"] > 0
