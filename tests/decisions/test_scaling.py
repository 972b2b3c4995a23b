"""How many workers a pool should have.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import scaling
from labfleet.decisions.placement import PlacementRequest, WorkerShape
from labfleet.decisions.pools import groups
from labfleet.decisions.scaling import PoolView, PoolWorker
from labfleet.kernel import ids
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.pool import PoolPhase, PoolSpec, Scaling, ScalingPolicy
from labfleet.resources.worker import WorkerPhase

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
ROOM = Amounts(cpu_milli=4000, memory_mib=8192, nodes=50, labs=4, ports=100)
SHAPE = WorkerShape(name="t", track="default", capacity=ROOM, product="CML_Enterprise")


def ago(seconds: int) -> datetime:
    """The instant this long before now."""
    return NOW - timedelta(seconds=seconds)


def view(*workers: PoolWorker, **over) -> PoolView:
    """A pool of 0 to 3 workers that has had none, but for what is given."""
    limits = {"min_workers": 0, "max_workers": 3}
    limits |= {key: over.pop(key) for key in list(over) if key in Scaling.__struct_fields__}
    desired = over.pop("desired", "Ready")
    spec = PoolSpec(template="t", name_prefix="w", desired=desired, scaling=Scaling(**limits))
    fields = {"name": "p", "spec": spec, "phase": PoolPhase.READY, "shape": SHAPE}
    return PoolView(**{**fields, "workers": workers, **over})


def worker(name: str = "w-default-001", phase=WorkerPhase.READY, **over) -> PoolWorker:
    """A ready worker, but for what is given."""
    return PoolWorker(name=name, phase=phase, **over)


def ask(cpu: int = 1000, start: int = 0) -> PlacementRequest:
    """A session that waits, from so many seconds from now on."""
    begin = NOW + timedelta(seconds=start)
    amounts = Amounts(cpu_milli=cpu, memory_mib=1, labs=1)
    return PlacementRequest(amounts=amounts, start=begin, end=begin + timedelta(hours=1))


def booked(cpu: int = 4000) -> Reservation:
    """A reservation from now on."""
    return Reservation(holder="s", amounts=Amounts(cpu_milli=cpu, labs=1), start=NOW)


def decide(*workers: PoolWorker, **over):
    """The decision on such a pool."""
    return scaling.decide_pool(view(*workers, **over), NOW)


def test_minimum_is_filled_at_once():
    """A new pool of at least two gets both in one decision."""
    found = decide(min_workers=2, phase=PoolPhase.PENDING)
    assert found.create == ("w-default-001", "w-default-002")
    assert (found.created_workers, found.phase) == (2, PoolPhase.INITIALIZING)
    assert [each.reason for each in found.events] == ["BelowMinimum", "BelowMinimum"]


def test_idle_pool_is_quiet():
    """Nothing to do is no change and no message of trouble."""
    found = decide(worker(), min_workers=1)
    assert (found.create, found.retire, found.phase) == ((), (), PoolPhase.READY)


def test_waiting_sessions_are_packed_into_whole_workers():
    """Five of half a worker bring three at once, as far as the maximum allows, each with its event."""
    found = decide(waiting=tuple(ask(2000) for _ in range(5)), max_workers=9)
    assert found.create == ("w-default-001", "w-default-002", "w-default-003")
    assert found.phase is PoolPhase.SCALING_UP
    assert [each.after for each in found.events] == [1, 2, 3]
    assert {each.reason for each in found.events} == {"SessionsWaiting"}
    assert len(decide(waiting=tuple(ask(4000) for _ in range(5))).create) == 3


def test_booting_worker_covers_who_waits():
    """A worker on its way is capacity already, as far as it reaches."""
    boot = worker(phase=WorkerPhase.STARTING)
    assert decide(boot, waiting=(ask(4000),)).create == ()
    found = decide(boot, waiting=(ask(4000), ask(4000)), created_workers=1)
    assert found.create == ("w-default-002",)


def test_free_ready_worker_covers_who_waits():
    """A session that the scheduler has not looked at yet brings no worker."""
    assert decide(worker(), waiting=(ask(),)).create == ()
    assert decide(worker(reservations=(booked(),)), waiting=(ask(),)).create
    assert decide(worker(cordoned=True), waiting=(ask(),)).create
    assert decide(worker(unreachable=True), waiting=(ask(),)).create


def test_unlicensed_worker_counts_as_what_it_will_be():
    """A worker that is about to be licensed covers a lab beyond the free node limit."""
    small = Amounts(cpu_milli=4000, memory_mib=8192, nodes=5, labs=4, ports=100)
    lab = PlacementRequest(amounts=Amounts(nodes=20, labs=1), start=NOW)
    bare = worker(phase=WorkerPhase.READY_UNLICENSED, capacity=small)
    assert decide(bare, waiting=(lab,)).create == ()


def test_draining_counts_neither_way():
    """A draining worker is no capacity, and its going is no loss (T17)."""
    going = worker(phase=WorkerPhase.DRAINING, leaving=True, reservations=(booked(),))
    assert decide(worker("w-default-002"), going, min_workers=1).create == ()
    found = decide(going, waiting=(ask(),), created_workers=1)
    assert found.create == ("w-default-002",)


def test_far_slots_bring_no_worker_yet():
    """Capacity is looked for only within the lead time of a slot."""
    assert decide(waiting=(ask(start=3000),)).create == ()
    assert decide(waiting=(ask(start=2000),)).create


def test_a_worker_that_would_not_help_is_not_added():
    """A session larger than the template's worker brings no machine."""
    assert decide(waiting=(ask(5000),)).create == ()


def test_maximum_holds():
    """At the maximum nothing is added, and the message says so."""
    full = [worker(f"w-default-00{n}", reservations=(booked(),)) for n in range(3)]
    found = decide(*full, waiting=(ask(),))
    assert found.create == ()
    assert "at the maximum of 3" in found.message


def test_failed_worker_is_replaced():
    """A failed worker goes and another comes, within the maximum."""
    bad = worker(phase=WorkerPhase.FAILED, phase_since=ago(10))
    found = decide(bad, min_workers=1, created_workers=1)
    assert [(each.name, each.reason) for each in found.retire] == [("w-default-001", "Failed")]
    assert found.create == ("w-default-002",)
    assert found.events[0].kind == "replace"


def test_failed_worker_with_labs_stays_for_now():
    """A failed worker that still holds sessions is not taken away under them."""
    bad = worker(phase=WorkerPhase.FAILED, reservations=(booked(),))
    assert decide(bad).retire == ()


def test_failed_worker_that_stays_failed_goes_with_its_sessions():
    """After half an hour only its end can release who is bound to it (rehearsal seed 11)."""
    broken = worker(phase=WorkerPhase.FAILED, reservations=(booked(),), phase_since=ago(1800))
    assert [each.reason for each in decide(broken).retire] == ["Failed"]


def test_failed_worker_blocks_the_maximum_for_a_while_only():
    """A failed worker that nobody gets rid of does not stop its replacement for ever."""
    for age, made in ((60, ()), (7200, ("w-default-002",))):
        bad = worker(phase=WorkerPhase.FAILED, leaving=True, phase_since=ago(age))
        found = decide(bad, min_workers=1, max_workers=1, created_workers=1)
        assert found.create == made


def test_terminated_record_goes():
    """A terminated worker's record is let go, and the minimum is made up."""
    found = decide(worker(phase=WorkerPhase.TERMINATED), min_workers=1, created_workers=1)
    assert [each.reason for each in found.retire] == ["Terminated"]
    assert found.create == ("w-default-002",)


def test_failing_launches_are_paced():
    """After a launch the next one waits for the cool-down, also below the minimum."""
    assert decide(min_workers=1, last_scale_up=ago(30)).create == ()
    assert decide(min_workers=1, last_scale_up=ago(60)).create


@pytest.mark.parametrize(
    ("over", "goes"),
    [
        ({"empty_since": ago(600)}, True),
        ({"empty_since": ago(599)}, False),
        ({"empty_since": None}, False),
        ({"empty_since": ago(900), "reservations": (booked(),)}, False),
        ({"empty_since": ago(900), "phase": WorkerPhase.ACTIVE}, False),
    ],
)
def test_empty_worker_goes_after_its_time(over, goes):
    """Only what has hosted nothing for long enough, with nothing booked, goes."""
    found = decide(worker(**over))
    assert [each.reason for each in found.retire] == (["Empty"] if goes else [])


@pytest.mark.parametrize("over", [{}, {"max_workers": 1, "min_workers": 0}])
def test_a_lab_that_somebody_started_by_hand_keeps_its_worker(over):
    """Empty of sessions is not empty: the next one goes, or none."""
    used = worker("a", empty_since=ago(90_000), in_use=True)
    free = worker("b", empty_since=ago(80_000))
    assert [each.name for each in decide(used, free, **over).retire] == ["b"]
    assert decide(used, replace(free, in_use=True), **over).retire == ()


def test_longest_empty_goes_first_and_one_at_a_time():
    """Of two empty workers the one that has been empty longer goes."""
    found = decide(
        worker("w-default-001", empty_since=ago(700)), worker("w-default-002", empty_since=ago(800))
    )
    assert [each.name for each in found.retire] == ["w-default-002"]


@pytest.mark.parametrize(
    "over",
    [
        {"min_workers": 1},
        {"last_scale_down": ago(100)},
        {"waiting": (ask(),)},
        {"enabled": False},
        {"policy": ScalingPolicy.NONE},
    ],
)
def test_empty_worker_stays(over):
    """The minimum, the cool-down, who waits, and a policy of none keep a worker."""
    assert decide(worker(empty_since=ago(900)), **over).retire == ()


def test_lowered_maximum_removes_empty_workers():
    """Above a lowered maximum an empty worker goes at once, a busy one never."""
    busy = worker("w-default-001", reservations=(booked(),))
    spare = worker("w-default-002", empty_since=ago(1))
    found = decide(busy, spare, max_workers=1)
    assert [(each.name, each.reason) for each in found.retire] == [
        ("w-default-002", "AboveMaximum")
    ]


def test_names_are_never_used_twice():
    """The counter goes on after workers are gone, and steps over a name that is taken."""
    assert decide(min_workers=1, created_workers=7).create == ("w-default-008",)
    squatter = worker("w-default-008", phase=WorkerPhase.DRAINING, leaving=True)
    assert decide(squatter, min_workers=1, created_workers=7).create == ("w-default-009",)


def test_draining_pool_empties_and_stays():
    """A draining pool takes nothing new and does not flip back (facts/upstream.md#pools)."""
    found = decide(worker(), waiting=(ask(4000), ask(4000)), desired="Draining")
    assert (found.drain, found.create, found.phase) == (("w-default-001",), (), PoolPhase.DRAINING)
    assert decide(desired="Draining").phase is PoolPhase.DRAINING


@pytest.mark.parametrize("over", [{"desired": "Terminated"}, {"deleting": True}])
def test_terminating_pool_retires_everything(over):
    """The end of a pool is the end of all its workers, and then TERMINATED."""
    workers = [worker(f"w{n}", phase=phase) for n, phase in enumerate(WorkerPhase)]
    found = decide(*workers, min_workers=2, waiting=(ask(),), **over)
    assert len(found.retire) == len(workers)
    assert (found.create, found.phase) == ((), PoolPhase.TERMINATING)
    assert decide(min_workers=2, **over).phase is PoolPhase.TERMINATED


def test_missing_template_is_said():
    """Without a template nothing is made, and the pool tells why."""
    found = decide(min_workers=1, shape=None)
    assert (found.create, found.phase) == ((), PoolPhase.FAILED)
    assert "template t is missing" in found.message


instants = st.none() | st.integers(0, 9000).map(ago)
workers = st.builds(
    worker,
    st.integers(1, 9).map(lambda n: f"w-default-{n:03d}"),
    st.sampled_from(WorkerPhase),
    phase_since=instants,
    leaving=st.booleans(),
    cordoned=st.booleans(),
    unreachable=st.booleans(),
    capacity=st.none() | st.just(ROOM),
    reservations=st.sampled_from([(), (booked(1000),), (booked(9000),)]),
    empty_since=instants,
)
views = st.builds(
    lambda some, low, more, **over: view(
        *some, min_workers=low, max_workers=max(1, low + more), **over
    ),
    st.lists(workers, max_size=7, unique_by=lambda each: each.name),
    st.integers(0, 3),
    st.integers(0, 3),
    waiting=st.lists(st.builds(ask, st.integers(0, 5000), st.integers(0, 4000)), max_size=5).map(
        tuple
    ),
    shape=st.none() | st.just(SHAPE),
    deleting=st.booleans(),
    desired=st.sampled_from(["Ready", "Draining", "Terminated"]),
    enabled=st.booleans(),
    policy=st.sampled_from(ScalingPolicy),
    phase=st.sampled_from(PoolPhase),
    created_workers=st.integers(0, 9),
    last_scale_up=instants,
    last_scale_down=instants,
)


@given(views)
def test_decisions_keep_their_promises(pool):
    """Total; within the maximum; no booked worker retired unless stuck; new names; min kept."""
    found = scaling.decide_pool(pool, NOW)
    names = {each.name for each in pool.workers}
    assert not names & set(found.create)
    assert len(set(found.create)) == len(found.create)
    assert found.created_workers >= pool.created_workers
    assert all(ids.is_name(each) for each in found.create)
    ending = pool.deleting or pool.spec.desired != "Ready"
    stuck = [
        each for each in pool.workers
        if each.phase is WorkerPhase.FAILED and each.phase_since is not None
        and NOW - each.phase_since >= groups.STUCK
    ]  # fmt: skip
    live = [each for each in pool.workers if each.phase is not WorkerPhase.TERMINATED]
    if found.create:
        assert not ending
        assert len(live) - len(stuck) + len(found.create) <= pool.spec.scaling.max_workers
    if ending:
        return
    by_name = {each.name: each for each in pool.workers}
    gone = [by_name[each.name] for each in found.retire]
    kept = [each for each in gone if each.phase is not WorkerPhase.TERMINATED]
    assert all(not each.reservations or each in stuck for each in kept)
    serving = [
        each for each in gone if each.phase not in {WorkerPhase.FAILED, WorkerPhase.TERMINATED}
    ]
    if serving:
        assert found.ready - len(serving) >= pool.spec.scaling.min_workers


@given(st.integers(0, 3), st.integers(1, 4), st.integers(0, 6))
def test_pool_settles(low, high, sessions):
    """Played forward, the pool serves what fits its maximum, then falls back to its minimum."""
    pool = view(min_workers=min(low, high), max_workers=high, phase=PoolPhase.PENDING)
    now = NOW
    waiting = [ask(4000) for _ in range(sessions)]
    for _ in range(60):
        now += timedelta(seconds=400)
        workers = []
        for each in pool.workers:
            if each.leaving:
                continue
            ready = replace(each, phase=WorkerPhase.READY, capacity=ROOM)
            if not ready.reservations and waiting:
                waiting.pop()
                end = now + timedelta(seconds=600)
                hold = Reservation(holder="s", amounts=ROOM, start=now, end=end)
                ready = replace(ready, reservations=(hold,), empty_since=None)
            elif ready.reservations and ready.reservations[0].end <= now:
                ready = replace(ready, reservations=(), empty_since=now)
            elif not ready.reservations and ready.empty_since is None:
                ready = replace(ready, empty_since=now)
            workers.append(ready)
        pool = replace(pool, workers=tuple(workers), waiting=tuple(waiting))
        found = scaling.decide_pool(pool, now)
        assert len(workers) + len(found.create) <= high
        gone = {each.name for each in found.retire}
        workers = [replace(each, leaving=each.name in gone) for each in workers]
        workers += [PoolWorker(name=name, phase=WorkerPhase.PENDING) for name in found.create]
        pool = replace(
            pool,
            workers=tuple(workers),
            phase=found.phase,
            created_workers=found.created_workers,
            last_scale_up=now if found.create else pool.last_scale_up,
            last_scale_down=now if gone else pool.last_scale_down,
        )
    assert not waiting
    assert len(pool.workers) == min(low, high)
    assert pool.phase is PoolPhase.READY


def parked(name: str = "w-default-001", phase=WorkerPhase.STOPPED, **over) -> PoolWorker:
    """A worker that the idle rule stopped."""
    return worker(name, phase, leaving=True, parked=True, **over)


def three_parked() -> list[PoolWorker]:
    """Three of them."""
    return [parked(f"w-default-00{number}") for number in (1, 2, 3)]


def test_stopped_workers_have_a_count_of_their_own():
    """They take no place of the maximum, but their disks cost money; before, no count had them."""
    working = worker("w-default-004", WorkerPhase.ACTIVE)
    found = scaling.decide_pool(view(*three_parked(), working), NOW)
    assert (found.stopped, found.ready, found.draining, found.failed) == (3, 1, 0, 0)


def test_a_parked_worker_is_started_before_a_new_one_is_launched():
    """For the minimum and for who waits alike; a launch would pay twice (cases 7 and 48)."""
    found = decide(parked(), min_workers=1)
    assert (found.start, found.create) == (("w-default-001",), ())
    assert [each.reason for each in found.events] == ["ParkedForMinimum"]
    found = decide(parked(), waiting=(ask(),))
    assert (found.start, found.create) == (("w-default-001",), ())
    assert [each.reason for each in found.events] == ["ParkedForSessions"]


def test_only_as_many_parked_workers_start_as_are_needed():
    """One session, one start; two that fill a worker each, two starts (case 18)."""
    assert len(decide(*three_parked(), waiting=(ask(),)).start) == 1
    assert len(decide(*three_parked(), waiting=(ask(4000), ask(4000))).start) == 2
    assert len(decide(*three_parked(), min_workers=2, waiting=(ask(),)).start) == 2


def test_a_parked_worker_on_its_way_back_covers_who_waits():
    """Nobody is started or launched twice for one session (facts/aws-bugs.md#case-17)."""
    for phase in (WorkerPhase.STOPPED, WorkerPhase.STOPPING, WorkerPhase.STARTING):
        back = worker(phase=phase)
        found = decide(back, parked("w-default-002"), waiting=(ask(4000),))
        assert (found.start, found.create) == ((), ())


def test_a_worker_stopped_by_people_stays_stopped():
    """Automation takes back only its own stops; the pool launches another one."""
    theirs = worker(phase=WorkerPhase.STOPPED, leaving=True)
    found = decide(theirs, waiting=(ask(),), created_workers=1)
    assert (found.start, found.create) == ((), ("w-default-002",))


def test_nobody_is_started_for_whom_the_session_does_not_fit():
    """A parked worker that turned out smaller than its template is left alone."""
    small = Amounts(cpu_milli=1000, memory_mib=8192, nodes=50, labs=4, ports=100)
    found = decide(parked(capacity=small), waiting=(ask(4000),), created_workers=1)
    assert (found.start, found.create) == ((), ("w-default-002",))


def test_parked_workers_start_at_the_maximum():
    """They have a place under the maximum already."""
    assert len(decide(*three_parked(), waiting=(ask(),)).start) == 1


def test_a_worker_that_still_drains_is_taken_back_first():
    """It serves at once, and a stopped one would have to boot."""
    found = decide(parked(), parked("w-default-002", WorkerPhase.DRAINING), waiting=(ask(),))
    assert found.start == ("w-default-002",)


def test_idle_parked_workers_rest():
    """Nobody waits: nothing is started, nothing is removed."""
    found = decide(*three_parked())
    assert (found.start, found.create, found.retire) == ((), (), ())


def ill(name: str = "w-default-001", **over) -> PoolWorker:
    """A ready worker on an impaired host."""
    return worker(name, unreachable=True, ill=True, **over)


def test_a_worker_on_an_impaired_host_is_replaced():
    """An empty one goes at once, and the pool makes another for it."""
    found = decide(ill(), min_workers=1, created_workers=1)
    assert [(each.name, each.reason) for each in found.retire] == [("w-default-001", "Impaired")]
    assert found.create == ("w-default-002",)
    assert {each.kind for each in found.events} == {"replace", "scale_down"}


@pytest.mark.parametrize(
    ("over", "goes"),
    [
        ({"reservations": (booked(),)}, False),
        ({"in_use": True}, False),
        ({"reservations": (booked(),), "retired": True}, True),
        ({"leaving": True}, False),
    ],
)
def test_what_runs_on_an_impaired_host_stays_until_its_end(over, goes):
    """Only a machine that the provider retires is emptied; the replacement comes all the same."""
    found = decide(ill(**over), min_workers=1, created_workers=1)
    assert bool(found.retire) is goes
    assert found.create == ("w-default-002",)


def test_impaired_hosts_are_replaced_within_the_disruption_budget():
    """Of five at once one goes, since the check may be what is wrong; the next after it."""
    five = [ill(f"w-default-{number:03d}") for number in range(1, 6)]
    assert len(decide(*five, min_workers=5, max_workers=10).retire) == 1
    five[0] = replace(five[0], leaving=True, phase=WorkerPhase.DRAINING)
    assert decide(*five, min_workers=5, max_workers=10).retire == ()
    five[0] = replace(five[0], phase=WorkerPhase.TERMINATING_EC2)
    assert len(decide(*five, min_workers=5, max_workers=10).retire) == 1


def test_a_pool_that_may_not_grow_says_so():
    """At its maximum, or without its template, with demand unmet; never while it is enough."""
    full = worker(reservations=(booked(),))
    assert decide(full, max_workers=1, waiting=(ask(4000),)).unmet == "AtMaximum"
    assert decide(full, max_workers=1, waiting=(ask(4000),)).phase is PoolPhase.READY
    assert decide(min_workers=1, shape=None).unmet == "NoTemplate"
    assert decide(full, max_workers=1).unmet is None
    assert decide(full, waiting=(ask(4000),)).unmet is None
