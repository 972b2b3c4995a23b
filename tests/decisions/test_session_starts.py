"""When waiting sessions start: drawn futures of ends, boots and growth, with stated coverage."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.placement import Candidate, PlacementRequest, WorkerShape
from labfleet.decisions.queueing import durations, session_starts
from labfleet.decisions.queueing.durations import Lasting, draw, learned
from labfleet.decisions.queueing.fleet import Booked, Cause, Fleet, Growth, Host, Stay, Waiter
from labfleet.decisions.queueing.session_starts import foresee
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.prediction import LEVELS

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
AT_ONCE = Lasting(most=0.0, spread=(0.0,) * len(LEVELS))
HOUR = Lasting(most=3600.0)


def after(minutes: float) -> datetime:
    """Return an instant so many minutes from now."""
    return NOW + timedelta(minutes=minutes)


def sure(minutes: float) -> Lasting:
    """Return what always lasts so long."""
    return Lasting(most=60 * minutes, spread=(60.0 * minutes,) * len(LEVELS))


def cpus(number: int) -> Amounts:
    """Return so many CPUs."""
    return Amounts(cpu_milli=1000 * number, labs=1)


def candidate(name: str = "w1", cpu: int = 4) -> Candidate:
    """Return an empty worker that serves."""
    return Candidate(name=name, licensed=True, capacity=Amounts(cpu_milli=1000 * cpu, labs=20))


def stay(uid: str, cpu: int, *, ends: float, lasts: Lasting = HOUR, began: float = 0.0) -> Stay:
    """Return a session on a worker whose slot ends so many minutes from now."""
    row = vector(cpus(cpu))
    return Stay(
        uid=uid, row=row, began=after(began), lasts=lasts, ends=after(ends), until=after(ends)
    )


def waiter(uid: str, cpu: int = 4, *, minutes: float = 60, lab: Lasting = AT_ONCE) -> Waiter:
    """Return a session that waits for so many CPUs."""
    asked = PlacementRequest(amounts=cpus(cpu), start=NOW, end=after(minutes), track="default")
    return Waiter(uid=uid, request=asked, lab=lab, lasts=sure(minutes))


def fleet(*hosts: Host, waiters: tuple[Waiter, ...], growths: tuple[Growth, ...] = ()) -> Fleet:
    """Return a fleet whose labs are gone as soon as they end."""
    return Fleet(now=NOW, hosts=hosts, growths=growths, waiters=waiters, clearing=AT_ONCE)


def grows(room: int, *, boot: Lasting, pause: float = 60.0, cpu: int = 4) -> Growth:
    """Return a pool that may have so many more workers."""
    shape = WorkerShape(
        name="pool p", track="default", capacity=Amounts(cpu_milli=1000 * cpu, labs=20)
    )
    return Growth(pool="p", shape=shape, room=room, boot=boot, pause=pause)


def test_the_ends_of_slots_say_when_those_that_wait_start() -> None:
    """Where nothing else is known, each starts when a slot before it ends; that is a bound alone."""
    host = Host(worker=candidate(), stays=(stay("a", 4, ends=20),))
    found = foresee(fleet(host, waiters=(waiter("one"), waiter("two"))))
    assert [(each.start.earliest, each.start.latest) for each in found.values()] == [
        (after(20), after(20)), (after(80), after(80))
    ]  # fmt: skip
    assert found["one"].cause == Cause(what="ends", name="w1", uid="a")
    assert (found["one"].start.coverage, found["one"].declared) == (None, ("sessions",))


def test_a_boot_under_way_is_judged_by_its_age() -> None:
    """Boots took 15 to 25 minutes; one that lasts 20 already is up within 5 and the overdue time."""
    past = learned([60.0 * minutes for minutes in range(15, 26)], most=3600)
    young = Host(worker=candidate(), boot=past, since=NOW)
    old = replace(young, since=after(-20))
    ranges = [foresee(fleet(each, waiters=(waiter("one"),)))["one"].start for each in (young, old)]
    assert ranges[0].earliest is not None
    assert ranges[1].latest is not None
    assert ranges[0].earliest >= after(7.5)
    assert NOW <= (ranges[1].earliest or NOW) <= ranges[1].latest <= after(20)
    assert {each.coverage for each in ranges} == {0.8}


def test_a_boot_that_overstays_all_that_is_known_is_taken_to_go_on_a_little() -> None:
    """What lasts longer than ever ends in the next quarter of an hour; never in the past."""
    past = learned([600.0] * 12, most=3600)
    host = Host(worker=candidate(), boot=past, since=after(-50))
    start = foresee(fleet(host, waiters=(waiter("one"),)))["one"].start
    assert NOW <= (start.earliest or NOW) <= (start.latest or NOW) <= NOW + durations.OVERDUE


def test_a_pool_adds_workers_one_after_the_other() -> None:
    """Two that need a whole worker each wait for two boots, the second one a pause later."""
    found = foresee(
        fleet(
            waiters=(waiter("one"), waiter("two"), waiter("three")),
            growths=(grows(2, boot=sure(10), pause=300),),
        )
    )
    starts = [each.start.latest for each in found.values()]
    assert starts == [after(10), after(15), after(70)]
    assert [each.cause and each.cause.what for each in found.values()] == ["grows", "grows", "ends"]


def test_a_small_one_passes_a_large_one_that_cannot_start() -> None:
    """What wants more than any worker has is told nothing and holds up nobody.

    As in facts/fleet-bugs.md#t20.
    """
    host = Host(worker=candidate(cpu=4), stays=(stay("a", 3, ends=30, lasts=sure(30)),))
    many = tuple(waiter(f"small{number}", 1) for number in range(20))
    found = foresee(fleet(host, waiters=(waiter("large", 64), *many)))
    assert (found["large"].start.earliest, found["large"].suited) == (None, False)
    assert found["small0"].start.latest == NOW
    assert found["small1"].start.latest == after(30)
    assert all(found[each.uid].start.latest is not None for each in many)


def test_room_that_is_booked_for_a_later_slot_is_not_given_away() -> None:
    """A session of an hour does not start where a slot begins in half an hour; a short one does."""
    booked = Booked(uid="later", row=vector(cpus(4)), start=after(30), end=after(90))
    host = Host(worker=candidate(), booked=(booked,))
    long, short = waiter("long"), waiter("short", minutes=30)
    found = foresee(fleet(host, waiters=(long, short)))
    assert found["short"].start.latest == NOW
    assert found["long"].start.latest == after(90)
    own = foresee(fleet(host, waiters=(waiter("later"),)))
    assert own["later"].start.latest == NOW  # it is its own


def test_a_slot_does_not_begin_before_its_time() -> None:
    """A session that has a place before its slot starts with its slot."""
    early = replace(waiter("one"), begins=after(25))
    found = foresee(fleet(Host(worker=candidate()), waiters=(early,)))
    assert (found["one"].start.earliest, found["one"].start.latest) == (after(25), after(25))


def test_nothing_that_could_take_it_is_said_as_such() -> None:
    """Without a worker, a boot or a pool that grows there is no range, and no chance of one."""
    closed = replace(candidate(), closed="Cordoned")
    for hosts in ((), (Host(worker=closed),)):
        found = foresee(fleet(*hosts, waiters=(waiter("one"),)))["one"]
        assert (found.start.earliest, found.start.latest, found.suited) == (None, None, False)
        assert (found.cause, found.start.coverage) == (None, None)


def drawn(rng: random.Random) -> float:
    """Return how long something takes: ten minutes to two hours, mostly short."""
    return 600 + 6600 * rng.random() ** 2


def test_as_many_starts_lie_in_their_range_as_is_stated() -> None:
    """Sessions that end and boot as past ones did start within their 80 % range as often as that."""
    rng = random.Random(5)
    inside = total = 0
    for number in range(120):
        past = learned([drawn(rng) for _ in range(30)], most=7200)
        boots = learned([drawn(rng) for _ in range(30)], most=7200)
        there = Host(
            worker=candidate(f"w{number}"),
            stays=(stay(f"s{number}", 4, ends=1000, lasts=past, began=0),),
        )
        comes = Host(worker=candidate(f"b{number}"), boot=boots, since=NOW)
        told = foresee(fleet(there, comes, waiters=(waiter(f"x{number}"), waiter(f"y{number}"))))
        truth = sorted((drawn(rng), drawn(rng)))
        for uid, seconds in zip((f"x{number}", f"y{number}"), truth, strict=True):
            start = told[uid].start
            assert start.coverage == 0.8
            assert start.earliest is not None
            assert start.latest is not None
            total += 1
            inside += start.earliest <= NOW + timedelta(seconds=seconds) <= start.latest
    assert total == 240
    assert 0.7 <= inside / total <= 0.9


def test_the_same_fleet_gives_the_same_answer() -> None:
    """Nothing but names is drawn from: asked twice, or in another process, it says the same."""
    past = learned([600.0 + 60 * each for each in range(20)], most=7200)
    host = Host(worker=candidate(), stays=(stay("a", 4, ends=300, lasts=past),))
    asked = fleet(host, waiters=tuple(waiter(f"w{each}") for each in range(5)))
    assert foresee(asked) == foresee(asked)


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 that wait and 1,200 workers only the first and the soonest are played."""
    monkeypatch.setattr(session_starts, "HOSTS", 30)
    hosts = tuple(
        Host(worker=candidate(f"w{number:04}"), stays=(stay(f"s{number}", 4, ends=5 + number),))
        for number in range(1200)
    )
    found = foresee(fleet(*hosts, waiters=tuple(waiter(f"q{number}") for number in range(400))))
    assert list(found) == [f"q{number}" for number in range(session_starts.AHEAD)]
    assert found["q0"].start.latest == after(5)
    assert found["q29"].start.latest == after(34)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_few_past_ones_say_nothing(count: int) -> None:
    """Below ten past ones a duration is only declared."""
    found = learned([60.0] * count, most=120)
    assert (found.spread, found.usual) == ((), None)
    assert 0 <= draw("x", found) <= 120


def test_past_ones_leave_room_beyond_themselves() -> None:
    """A next one may be shorter or longer than all before, as often as counting says."""
    found = learned([600.0 + 60 * each for each in range(19)], most=3600)
    assert (found.spread[0], found.spread[-1]) == (300.0, 2520.0)
    assert found.usual == 1140.0


@given(
    boots=st.lists(st.integers(0, 120), max_size=4),
    ends=st.lists(st.tuples(st.integers(-30, 240), st.booleans()), max_size=6),
    wanted=st.lists(st.integers(1, 6), max_size=8),
    room=st.integers(0, 3),
)
def test_a_range_is_in_order_and_never_past(
    boots: list[int], ends: list[tuple[int, bool]], wanted: list[int], room: int
) -> None:
    """Whatever boots, ends and waits: no start before now, none after the latest, none invented."""
    past = learned([60.0 * each for each in range(1, 31)], most=7200)
    hosts = [
        Host(worker=candidate(f"b{at}"), boot=past, since=after(-ago))
        for at, ago in enumerate(boots)
    ]
    hosts += [
        Host(
            worker=candidate(f"w{at}"),
            stays=(stay(f"s{at}", 3, ends=end, lasts=past if known else HOUR, began=-60),),
        )
        for at, (end, known) in enumerate(ends)
    ]
    waiters = tuple(waiter(f"q{at}", cpu) for at, cpu in enumerate(wanted))
    found = foresee(fleet(*hosts, waiters=waiters, growths=(grows(room, boot=past),)))
    assert set(found) == {each.uid for each in waiters}
    for each in waiters:
        told = found[each.uid]
        start = told.start
        assert told.suited == (each.row[0] <= 4000 and bool(hosts or room))
        assert (start.earliest is None) == (told.cause is None)
        if start.latest is not None:
            assert start.earliest is not None
            assert NOW <= start.earliest <= start.latest
        else:
            assert start.coverage is None
