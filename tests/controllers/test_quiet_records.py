"""What is recorded while nothing happens: the log, which every client follows, stays quiet."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from test_promises import booked, fleet
from virtual_time import play
from world import World, later, world

from labfleet.controllers.clusters import KEPT_EVERY, worth
from labfleet.interfaces import store as stores
from labfleet.resources.cluster import Overload
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool

HOUR = 3600


async def written(w: World, since: stores.Cursor) -> Counter[str]:
    """Return how often objects of each kind were written since a place in the log."""
    page = await w.store.events(since)
    return Counter(each.key.kind for each in page.events)


def test_an_hour_in_which_nothing_happens_is_recorded_by_a_handful_of_writes() -> None:
    """Two workers that are up and a lab that runs: labs' use is recorded, nothing else."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 2, "maxWorkers": 2})
            await w.definition()
            await w.until(
                lambda: [str(each.status.phase) for each in w.cache.all(Pool)] == ["READY"]
            )
            await w.session("s", slot={"start": later(w, 1)}, durationMinutes=240)
            await w.until(w.in_phase("s", "RUNNING"))
            await w.let_pass(120)
            since = await w.store.head()
            await w.let_pass(HOUR)
            found = await written(w, since)
            assert found["Worker"] == found["Pool"] == found["Template"] == 0
            assert sum(found.values()) <= 6, found

    play(story)


def test_a_class_that_is_booked_seat_by_seat_is_one_or_two_records_of_its_pool() -> None:
    """Counts are recorded at once, then together; the event says which they are, and they are right."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 8)
            await w.let_pass(60)
            key = Key("Pool", "default", "p1")
            before = len(await w.store.events_of(key))
            await booked(w, "abcdefghijklmnop")
            await w.let_pass(60)
            [pool] = w.cache.all(Pool)
            assert pool.status.promised == 16
            new = (await w.store.events_of(key))[:-before]  # the newest first
            assert 1 <= len(new) <= 3
            assert new[0].reason == "0 sessions wait, 16 promised"
            assert not any(each.reason.endswith(" ready") for each in new)

    play(story)


def test_a_server_that_stays_silent_is_counted_ten_times_and_then_told_now_and_then() -> None:
    """An hour of failed looks: the count to ten, and when the last was once in five minutes."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(120)
            w.hosts.cut.add("w1")
            since = await w.store.head()
            await w.let_pass(HOUR)
            found = await written(w, since)
            worker = w.get_worker()
            assert worker.status.failed_checks == 10
            assert worker.status.failed_check_at is not None
            assert w.clock.now() - worker.status.failed_check_at <= timedelta(minutes=6)
            assert found["Worker"] <= 10 + HOUR // 300 + 4, found

    play(story)


@pytest.mark.parametrize(("days", "most"), [(1, 40), (30, 90)])
def test_a_promise_that_is_kept_is_recorded_ever_more_rarely(days: int, most: int) -> None:
    """Each record adds a tenth, or a day: a quarter of an hour each would be 96 a day."""
    kept, records = Overload(), 0
    for look in range(1, days * 24 * 120 + 1):
        now = Overload(seconds=30.0 * look)
        if worth(kept, now):
            kept, records = now, records + 1
    assert records <= most
    assert 30.0 * days * 24 * 120 - kept.seconds <= max(KEPT_EVERY, kept.seconds / 9)


def test_what_a_broken_promise_costs_is_recorded_at_once() -> None:
    """Slack that moves by a tenth, or to the other side of nothing, waits for no quarter of an hour."""
    kept = Overload(seconds=1e6, slack=0.5)
    assert worth(kept, Overload(seconds=1e6 + 30, slack=0.39))
    assert worth(Overload(slack=0.01), Overload(slack=-0.01))
    assert not worth(kept, Overload(seconds=1e6 + 900, slack=0.5))
