"""The policies of a pool: when each adds a worker, when it gives one back, and what holds for all.

The numbered cases are rows of facts/aws-bugs.md, T-numbers those of facts/fleet-bugs.md.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from test_scaling import NOW, ROOM, ago, ask, decide, view, worker

from labfleet.decisions import scaling
from labfleet.decisions.pools import policies, windows
from labfleet.decisions.pools.startable import Startable
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.pool import PoolPhase, Scaling, ScalingPolicy
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.pool_windows import Thresholds, Window, WorkersWindow
from labfleet.resources.worker import WorkerPhase

CAPACITY, LABS = ScalingPolicy.CAPACITY_BASED, ScalingPolicy.LAB_COUNT_BASED
SCHEDULED, HYBRID = ScalingPolicy.SCHEDULED, ScalingPolicy.HYBRID
NEW_YORK = {"America/New_York": ZoneInfo("America/New_York"), "UTC": UTC}
MORNING = Window(start="08:00", end="12:00")


def hosts(cpu: int = 0, memory: int = 0, labs: int = 1, name: str = "w-default-001", **over):
    """A worker that hosts so many labs, which booked so much together."""
    amounts = Amounts(cpu_milli=cpu // labs, memory_mib=memory // labs, labs=1)
    held = tuple(Reservation(holder=f"s{each}", amounts=amounts, start=NOW) for each in range(labs))
    return worker(name, WorkerPhase.ACTIVE, capacity=ROOM, reservations=held, **over)


def empty(number: int, seconds: int = 3600, **over):
    """A worker that has been empty for so long."""
    return worker(f"w-default-{number:03d}", capacity=ROOM, empty_since=ago(seconds), **over)


def test_each_policy_is_an_entry_of_the_table():
    """What a pool may say has its rule, and nothing else has."""
    assert set(policies.TABLE) == set(ScalingPolicy)


@pytest.mark.parametrize(
    ("policy", "busy", "grows"),
    [
        (CAPACITY, hosts(cpu=3000), False), (CAPACITY, hosts(cpu=3001), True),
        (CAPACITY, hosts(memory=6600), True), (CAPACITY, hosts(memory=6500, labs=20), False),
        (LABS, hosts(labs=15), False), (LABS, hosts(labs=16), True), (LABS, hosts(cpu=4000), False),
        (HYBRID, hosts(cpu=3001), True), (HYBRID, hosts(labs=16), True), (HYBRID, hosts(), False),
        (SCHEDULED, hosts(cpu=4000, labs=20), False), (ScalingPolicy.NONE, hosts(cpu=4000), False),
    ],
)  # fmt: skip
def test_growth_begins_above_the_threshold(policy, busy, grows):
    """More than 75 % of CPU, 80 % of memory or 15 labs a worker, as upstream 001 has it; one a step."""
    found = decide(busy, policy=policy, created_workers=1)
    assert len(found.create) == int(grows)


@pytest.mark.parametrize(
    ("policy", "busy", "goes"),
    [
        (CAPACITY, hosts(cpu=2300, memory=100), True), (CAPACITY, hosts(cpu=2500), False),
        (CAPACITY, hosts(cpu=10, memory=6600), False),
        (LABS, hosts(labs=5), True), (LABS, hosts(labs=6), False),
        (HYBRID, hosts(labs=5), True), (HYBRID, hosts(labs=6), False),
        (HYBRID, hosts(cpu=2500), False), (ScalingPolicy.NONE, hosts(), False),
    ],
)  # fmt: skip
def test_shrinking_begins_below_the_threshold(policy, busy, goes):
    """Less than 30 % of CPU and 40 % of memory, or 3 labs a worker; the empty worker goes."""
    found = decide(busy, empty(2), policy=policy)
    assert [each.name for each in found.retire] == ["w-default-002"] * goes


def test_what_would_be_added_again_is_not_taken_away():
    """With thresholds that lie close, the one that is left would be above the upper one (case 16)."""
    close = Thresholds(cpu_up_percent=45, cpu_down_percent=30)
    found = decide(hosts(cpu=2000), empty(2), policy=CAPACITY, thresholds=close)
    assert (found.retire, found.create) == ((), ())
    assert decide(hosts(cpu=1000), empty(2), policy=CAPACITY, thresholds=close).retire


@pytest.mark.parametrize("policy", [CAPACITY, LABS, ScalingPolicy.NEED_BASED, HYBRID])
def test_a_worker_on_its_way_counts_as_the_room_that_it_brings(policy):
    """While one boots for an excess no second is made for it (case 17)."""
    busy = hosts(cpu=4000, labs=16)
    boots = worker("w-default-002", WorkerPhase.STARTING)
    found = decide(busy, boots, policy=policy, waiting=(ask(4000),), created_workers=2)
    assert found.create == ()


def test_a_policy_that_makes_nothing_for_who_waits_says_so():
    """CAPACITY_BASED starts no worker for a session that the fleet's rest cannot hold."""
    found = decide(hosts(cpu=2000), policy=CAPACITY, waiting=(ask(4000),))
    assert (found.create, found.unmet) == ((), PoolReason.POLICY_RESTS)
    assert "policy CAPACITY_BASED makes no worker for that" in found.message
    fixed = decide(hosts(cpu=2000), policy=ScalingPolicy.NONE, waiting=(ask(4000),))
    assert fixed.unmet is None  # of a fixed pool a queue is no news


def test_a_timetable_is_kept_and_begun_early():
    """At 07:30 the two of 08:00 are made, by the lead; at noon the empty ones go again."""
    table = (WorkersWindow(start="08:00", end="12:00", workers=2),)
    fields = {"policy": SCHEDULED, "timetable": table, "zones": NEW_YORK}
    early = NOW.replace(hour=7, minute=30)
    assert len(scaling.decide_pool(view(**fields), early).create) == 2
    assert scaling.decide_pool(view(**fields), early.replace(hour=6)).create == ()
    over = view(empty(1), empty(2), **fields)
    assert scaling.decide_pool(over, NOW.replace(hour=10)).retire == ()
    assert len(scaling.decide_pool(over, NOW.replace(hour=13)).retire) == 1


def test_spares_are_kept_beside_what_is_used():
    """One spare is made though nobody waits, it is not taken away, and what waits may have it."""
    busy = hosts(cpu=4000)
    found = decide(busy, spare_workers=1, created_workers=1)
    assert (len(found.create), found.purpose) == (1, "Spare")
    assert decide(busy, empty(2), spare_workers=1).retire == ()
    assert decide(busy, empty(2), spare_workers=1).create == ()
    assert len(decide(busy, empty(2), empty(3), spare_workers=1).retire) == 1
    taken = decide(busy, empty(2), spare_workers=1, waiting=(ask(4000),), created_workers=2)
    assert taken.create == ("w-default-003",)


def test_spares_by_the_clock():
    """From eight to noon two are kept, else none."""
    times = (WorkersWindow(start="08:00", end="12:00", workers=2),)
    pool = view(spare_times=times, zones=NEW_YORK)
    assert len(scaling.decide_pool(pool, NOW).create) == 2
    assert scaling.decide_pool(pool, NOW.replace(hour=13)).create == ()


def test_outside_of_its_hours_a_pool_keeps_its_minimum_and_nothing_else():
    """Who waits is told so, nothing empty goes, and the minimum is made up all the same."""
    fields = {"hours": (MORNING,), "zones": NEW_YORK}
    late = NOW.replace(hour=20)
    found = scaling.decide_pool(view(waiting=(replace(ask(), start=late),), **fields), late)
    assert (found.create, found.unmet) == ((), PoolReason.OUTSIDE_HOURS)
    assert scaling.decide_pool(view(empty(1), **fields), late).retire == ()
    assert len(scaling.decide_pool(view(min_workers=1, **fields), late).create) == 1
    assert scaling.decide_pool(view(empty(1), **fields), NOW).retire


# --- windows -----------------------------------------------------------------------------


def opened(window: Window, first: datetime, minutes: int) -> list[datetime]:
    """The minutes from the first one on in which the window is open."""
    each = (first + timedelta(minutes=number) for number in range(minutes))
    return [at for at in each if windows.is_open((window,), NEW_YORK, at)]


def test_a_start_that_the_clock_skips_is_the_first_instant_after_it():
    """02:30 on the day without a 02:30 opens at 03:00 local time, once (T01)."""
    window = Window(start="02:30", end="06:00", zone="America/New_York")
    found = opened(window, datetime(2027, 3, 14, 6, tzinfo=UTC), 300)
    assert found[0] == datetime(2027, 3, 14, 7, tzinfo=UTC)
    assert len(found) == 180


def test_a_window_in_the_hour_that_comes_twice_opens_once():
    """01:30 to 01:45 is open for 75 minutes on that day, without a gap (T02)."""
    window = Window(start="01:30", end="01:45", zone="America/New_York")
    found = opened(window, datetime(2026, 11, 1, 5, tzinfo=UTC), 180)
    assert found[0] == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert len(found) == 75
    assert found[-1] - found[0] == timedelta(minutes=74)


def test_a_window_over_midnight_is_of_the_day_on_which_it_opens():
    """22:00 to 06:00 on Fridays is open on Saturday morning and not on Friday's (case 30)."""
    window = Window(start="22:00", end="06:00", days=("FRI",))
    friday = datetime(2026, 11, 27, tzinfo=UTC)
    hours = [each for each in range(48) if opened(window, friday + timedelta(hours=each), 1)]
    assert hours == [22, 23, 24, 25, 26, 27, 28, 29]


def test_a_whole_day_is_open_at_every_minute():
    """From midnight to midnight leaves out nothing, also where the day has 25 hours."""
    window = Window(start="00:00", end="00:00", zone="America/New_York")
    assert len(opened(window, datetime(2026, 10, 31, 20, tzinfo=UTC), 2400)) == 2400


def test_a_zone_that_nobody_knows_is_never_open():
    """Such a window adds nothing, rather than counting in another zone."""
    assert opened(Window(start="00:00", end="23:59", zone="Mars/Base"), NOW, 5) == []


# --- what can be promised ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "hour", "workers"),
    [
        ({}, 9, 10),
        ({"max_workers": 4}, 9, 4),
        ({"policy": CAPACITY, "min_workers": 2}, 9, 2),
        ({"policy": "NONE", "min_workers": 2}, 9, 3),
        ({"enabled": False}, 9, 3),
        ({"hours": (MORNING,), "min_workers": 1}, 9, 10),
        ({"hours": (MORNING,), "min_workers": 1}, 8, 1),
        ({"policy": SCHEDULED, "timetable": (WorkersWindow(start="09:00", end="10:00", workers=5),)}, 9, 5),
        ({"policy": SCHEDULED, "timetable": (WorkersWindow(start="09:00", end="10:00", workers=5),)}, 11, 0),
    ],
)  # fmt: skip
def test_what_a_pool_will_not_start_cannot_be_promised(rules, hour, workers):
    """By policy, hours and maximum; outside of its hours a worker could not be made in time."""
    made = Scaling(**{**rules, "policy": ScalingPolicy(rules.get("policy", "NEED_BASED"))})
    found = Startable(scaling=made, here=3, early=timedelta(minutes=35), zones=NEW_YORK)
    assert found.workers(NOW.replace(hour=hour)) == workers
    assert found.workers(NOW.replace(hour=hour)) <= found.most


# --- stability ---------------------------------------------------------------------------


def played(pool: scaling.PoolView, minutes: int, load) -> int:
    """Play the pool for so long, boots taking five minutes; return how often it changed its size.

    `load(minute)` is how much CPU is booked in all, packed into the first workers.
    """
    changes, now, born = 0, NOW, dict[str, datetime]()
    for minute in range(minutes):
        now = NOW + timedelta(minutes=minute)
        rest, workers = load(minute), []
        for each in pool.workers:
            up = now - born.get(each.name, ago(3600)) >= timedelta(minutes=5)
            cpu = min(rest, ROOM.cpu_milli) if up else 0
            rest -= cpu
            held = (Reservation(holder="s", amounts=Amounts(cpu_milli=cpu), start=NOW),) * bool(cpu)
            phase = WorkerPhase.READY if up else WorkerPhase.STARTING
            since = None if held or not up else each.empty_since or now
            workers.append(
                replace(each, phase=phase, capacity=ROOM, reservations=held, empty_since=since)
            )
        waiting = (replace(ask(min(rest, 4000)), start=now),) if rest else ()
        pool = replace(pool, workers=tuple(workers), waiting=waiting)
        found = scaling.decide_pool(pool, now)
        gone = {each.name for each in found.retire}
        born |= dict.fromkeys(found.create, now)
        kept = [each for each in workers if each.name not in gone]
        kept += [worker(name, WorkerPhase.STARTING) for name in found.create]
        changes += bool(found.create) + bool(gone)
        pool = replace(
            pool, workers=tuple(kept), created_workers=found.created_workers,
            last_scale_up=now if found.create else pool.last_scale_up,
            last_scale_down=now if gone else pool.last_scale_down,
        )  # fmt: skip
    return changes


@pytest.mark.parametrize("policy", [ScalingPolicy.NEED_BASED, CAPACITY, HYBRID])
@pytest.mark.parametrize("period", [3, 7, 20])
def test_load_that_oscillates_around_a_threshold_changes_little(policy, period):
    """Six hours of load around what one worker holds: six changes of size at most (case 16)."""
    pool = view(worker(capacity=ROOM), policy=policy, max_workers=5, created_workers=1)
    swing = lambda minute: 3900 if minute // period % 2 else 4100  # noqa: E731
    assert played(pool, 360, swing) <= 6
    assert played(replace(pool, spec=pool.spec), 360, lambda minute: 2900 + 200 * (minute % 2)) <= 6


def test_at_its_minimum_an_idle_pool_rests():
    """Two workers, nothing to do, an hour: nothing is made and nothing ended (T08)."""
    pool = view(empty(1), empty(2), min_workers=2, empty_seconds=300)
    assert played(pool, 60, lambda minute: 0) == 0


def test_a_cool_down_outlives_a_restart():
    """It is counted from the pool's record, so minute 9 of 10 is minute 9 for whoever looks (T19)."""
    fields = {"cooldown_up_seconds": 600, "waiting": (ask(4000),)}
    assert decide(last_scale_up=ago(540), **fields).create == ()
    assert decide(last_scale_up=ago(601), **fields).create
    down = {"cooldown_down_seconds": 600}
    assert decide(empty(1), last_scale_down=ago(540), **down).retire == ()
    assert decide(empty(1), last_scale_down=ago(601), last_scale_up=ago(1), **down).retire


def test_a_draining_worker_is_neither_replaced_nor_counted():
    """Of six with a minimum of five one drains: five serve, so nothing is made for it (T17)."""
    five = [worker(f"w-default-{each:03d}", capacity=ROOM) for each in range(5)]
    drains = worker("w-default-009", WorkerPhase.DRAINING, leaving=True)
    found = decide(*five, drains, min_workers=5, max_workers=9)
    assert (found.create, found.ready, found.draining) == ((), 5, 1)


def test_of_three_stopped_spares_one_is_started_for_one_that_is_needed():
    """Need less what is on its way: the second look starts no other one (case 18)."""
    stopped = [
        worker(f"w-default-{each:03d}", WorkerPhase.STOPPED, leaving=True, parked=True)
        for each in range(3)
    ]
    first = decide(*stopped, spare_workers=1, waiting=(ask(4000),), policy=ScalingPolicy.NEED_BASED)
    assert (len(first.start), first.create) == (1, ())


def test_while_a_worker_is_silent_nothing_is_given_back():
    """What a silent worker hosts is unknown, so the inventory is incomplete; others stay."""
    silent = worker("w-default-009", capacity=ROOM, unreachable=True)
    assert decide(empty(1), empty(2), silent).retire == ()
    assert decide(empty(1), empty(2)).retire


def test_failed_workers_are_replaced_inside_the_maximum():
    """A failed worker counts until it is gone; its replacement waits for that at the maximum."""
    failed = worker("w-default-001", WorkerPhase.FAILED, phase_since=NOW)
    found = decide(failed, min_workers=1, max_workers=1)
    assert (found.create, found.unmet) == ((), PoolReason.AT_MAXIMUM)
    assert [each.name for each in found.retire] == ["w-default-001"]
    assert decide(failed, min_workers=1, max_workers=2, phase=PoolPhase.READY).create
