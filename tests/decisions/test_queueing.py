"""Who starts, and when: limits, promises, turns and positions hold in every game."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_game import (
    NOW,
    Game,
    after,
    cpus,
    game,
    promises,
    request,
    some_requests,
    some_terms,
)

from labfleet.decisions.queueing.holding import Hold
from labfleet.decisions.queueing.line import DEPTH, PATIENCE, Line, within
from labfleet.decisions.queueing.quotas import Level
from labfleet.decisions.queueing.requests import AGING, Request, Terms, head_start, place, terms
from labfleet.decisions.queueing.room import SumRoom
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.meta import Metadata
from labfleet.resources.queue import Queue, QueueOrder, QueueSpec

TEN = cpus(10)
FEW = settings(max_examples=60, deadline=None)


def within_limits(played: Game) -> None:
    """Assert that quotas, borrowing limits, cohorts and the cluster hold what they may."""
    quotas = played.line.quotas
    for account in (*quotas.queues.values(), *quotas.cohorts.values()):
        assert all(account.used[dim] <= most for dim, most in account.limits)
    held = sum(run.need[0] for run in played.line.runs.of.values())
    assert held <= quotas.capacity[0]


@FEW
@given(some_terms(), some_requests(), st.sampled_from((0.3, 1.0)))
def test_no_limit_is_exceeded(queues: list[Terms], coming: list[Request], early: float) -> None:
    """Neither quota with borrowing limit, nor a cohort's quotas, nor the cluster, ever."""
    played = game(queues, TEN, early=early)
    played.play(coming, check=within_limits)
    borrowable = {each.name: each for each in queues}
    for each in played.line.requests.values():
        assert each.queue in borrowable, "whoever still waits waits in a queue"
        assert played.line.quotas.never(each.queue, vector(each.amounts))


@FEW
@given(some_terms(), some_requests())
def test_a_decision_changes_nothing_and_repeats(queues: list[Terms], coming: list[Request]) -> None:
    """The same line decides the same twice, in whatever order it was fed; nor is it changed."""
    lines = [Line(queues, TEN) for _ in range(2)]
    for each in coming:
        lines[0].wait(each)
    for each in reversed(coming):
        lines[1].wait(each)
    room = SumRoom(vector(TEN))
    first, again, other = (line.decide(room, after(60)) for line in (lines[0], *lines))
    assert first == again == other
    assert lines[0].runs.of == {}
    assert not any(any(each.used) for each in lines[0].quotas.queues.values())
    assert room.fits(request("all", 10))


@FEW
@given(some_terms(), some_requests(), st.integers(0, 12))
def test_a_line_made_anew_is_the_line_that_was_kept(
    queues: list[Terms], coming: list[Request], steps: int
) -> None:
    """What was fed change by change decides as one that is built from what waits and runs."""
    played = game(queues, TEN)
    played.play(coming, until=lambda each: len(each.rounds) >= steps)
    anew = played.line.changed(queues, TEN)
    at = after(played.at + 1)
    assert anew.decide(played.room, at) == played.line.decide(played.room, at)


@FEW
@given(some_requests(queues=("a",)), st.sampled_from(QueueOrder), st.sampled_from((0.2, 0.7, 1.0)))
def test_no_backfill_delays_the_head(
    coming: list[Request], order: QueueOrder, early: float
) -> None:
    """What the first that waits is told never moves later, unless one comes that goes before it."""
    told: dict[str, datetime] = {}
    heads: list[str] = []

    def check(played: Game) -> None:
        first = [each.uid for each in played.line.first("a", 1)]
        places = [played.line.place(each) for each in played.rounds[-1].started]
        for each in played.line.first("a", 1):
            # One that came meanwhile and stands before it, has gone before it.
            if heads != first or any(at < played.line.place(each) for at in places):
                told.clear()
        heads[:] = first
        for uid in first:
            start = played.rounds[-1].blocked[uid].start
            assert start is not None
            before = told.setdefault(uid, start)
            assert start <= before
            told[uid] = start

    game([Terms(name="a", order=order)], TEN, early=early).play(coming, check=check)


@FEW
@given(some_terms(), some_requests(), st.integers(0, 60))
def test_a_decision_keeps_its_own_promise(
    queues: list[Terms], coming: list[Request], at: int
) -> None:
    """With all that was started counted, the first blocked one may start no later than told."""
    played = game(queues, TEN)
    played.at = at
    for each in coming:
        played.line.wait(each)
    made = played.decide()
    for uid, told in list(promises(made).items())[:1]:
        again = played.line.decide(played.room, after(at))
        assert again.started == ()
        assert again.blocked[uid].start == told.start


@FEW
@given(some_requests(queues=("",)), some_requests(most=3), st.sampled_from((0.5, 1.0)))
def test_a_certain_start_is_kept(
    coming: list[Request], certain: list[Request], early: float
) -> None:
    """What was told as certain starts at that instant, whatever comes and whatever is first."""
    played = game([], TEN, early=early)
    at = 70.0
    for number, each in enumerate(certain):
        lone = request(f"h{number}", vector(each.amounts)[0], each.seconds or 1)
        played.holds.append(Hold(lone, after(at)))
        at += each.seconds or 1
    due = {each.request.uid: each.start for each in played.holds}
    played.play(coming)
    assert {uid: after(played.starts[uid]) for uid in due} == due


@FEW
@given(st.integers(5, 10), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_nobody_starves(size: int, small: int, weight: int, runs: int, own: bool) -> None:
    """Streams without end, in its own queue or in another, do not keep a large request waiting."""
    queues = [Terms(name="a", weight=1), Terms(name="b", weight=weight)]
    large = request("large", size, 10, 5, queue="a")
    lane = "a" if own else "b"
    stream = [
        request(f"s{number:03d}", min(small, 10), 4 + number % runs, number * 0.5, queue=lane)
        for number in range(400)
    ]
    before = sum(each.since <= large.since for each in stream)
    limit = within(large, QueueOrder.FIFO, before=before, longest=timedelta(seconds=10), highest=0)
    played = game(queues, TEN)
    played.play([*stream, large], until=lambda each: "large" in each.starts)
    assert played.starts["large"] - 5 <= limit.total_seconds()
    assert played.starts["large"] < 200, "while the stream still came"


def test_what_always_borrows_starts_though_others_always_use_their_quota() -> None:
    """Quotas are not kept for those who come later once a request has waited for PATIENCE."""
    queues = [
        Terms(name="a", cohort="x", quota=vector(cpus(2))),
        Terms(name="b", cohort="x", quota=vector(cpus(8))),
    ]
    stream = [request(f"b{number:04d}", 4, 60, 20 * number, queue="b") for number in range(400)]
    large = request("large", 10, 60, 30, queue="a")
    played = game(queues, TEN)
    played.play([*stream, large], until=lambda each: "large" in each.starts)
    waited = timedelta(seconds=played.starts["large"] - 30)
    before = sum(each.since <= large.since + PATIENCE for each in stream)
    longest = timedelta(seconds=60)
    limit = within(large, QueueOrder.FIFO, before=before, longest=longest, highest=0)
    assert PATIENCE < waited <= limit


def test_backfill_past_a_request_does_not_cost_it_its_turn() -> None:
    """Small runs of its own queue, which always hold something, do not let others before it."""
    queues = [Terms(name="a"), Terms(name="b", weight=10)]
    played = game(queues, TEN)
    small = [request(f"a{number:03d}", 1, 0.8, number * 0.5, queue="a") for number in range(200)]
    others = [request(f"b{number:03d}", 4, 2, number, queue="b") for number in range(100)]
    large = request("large", 10, 10, 5.1, queue="a")
    played.play([*small, *others, large], until=lambda each: "large" in each.starts)
    assert played.starts["large"] < 10


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (4, 2, 1)])
def test_what_is_borrowed_goes_by_weight(weights: tuple[int, ...]) -> None:
    """Queues that always have something waiting hold capacity in the ratio of their weights."""
    queues = [Terms(name=str(each), weight=weight) for each, weight in enumerate(weights)]
    played = game(queues, cpus(84))
    held = [0.0 for _ in weights]
    before = 0.0

    def check(each: Game) -> None:
        nonlocal before
        for run in each.line.runs.of.values():
            held[int(run.request.queue)] += 1
        before = each.at

    stream = [
        request(f"{queue}-{number:04d}", 1, 5 + number % 7, 0, queue=queue.name)
        for queue in queues
        for number in range(700)
    ]
    played.play(stream, check=check, until=lambda each: each.at > 30)
    whole = sum(held)
    for weight, got in zip(weights, held, strict=True):
        assert got / whole == pytest.approx(weight / sum(weights), abs=0.02)


def test_a_queue_within_its_quota_goes_before_those_that_borrow() -> None:
    """Who came first does not matter then: the quota is its own."""
    queues = [
        Terms(name="a", cohort="x", quota=vector(cpus(4))),
        Terms(name="b", cohort="x", quota=vector(cpus(6))),
    ]
    played = game(queues, TEN)
    for number in range(20):
        played.line.wait(request(f"b{number:02d}", 1, 10, number, queue="b"))
    for number in range(20):
        played.line.wait(request(f"a{number:02d}", 1, 10, 30 + number, queue="a"))
    played.at = 60
    made = played.decide()
    assert sum(each.queue == "a" for each in made.started) == 4
    assert sum(each.queue == "b" for each in made.started) == 6


def test_a_borrowing_limit_of_null_is_all_that_the_cohort_has() -> None:
    """And a queue without a cohort borrows nothing, whatever its limit says."""
    lender = Terms(name="lender", cohort="x", quota=vector(cpus(6)))
    wide = Terms(name="wide", cohort="x", quota=vector(cpus(2)))
    narrow = Terms(name="narrow", cohort="x", quota=vector(cpus(2)), borrowing=vector(cpus(1)))
    alone = Terms(name="alone", quota=vector(cpus(2)), borrowing=vector(cpus(50)))
    for each, may in ((wide, 8), (narrow, 3), (alone, 2)):
        played = game([lender, each], cpus(100))
        for number in range(20):
            played.line.wait(request(f"r{number:02d}", 1, queue=each.name))
        assert len(played.decide().started) == may


def test_a_dimension_without_any_quota_is_not_divided() -> None:
    """Quotas of CPU alone say nothing of memory: there the cluster is the limit."""
    queue = Terms(name="a", quota=vector(cpus(4)))
    line = Line([queue], cpus(10, memory=100))
    line.wait(Request(uid="r", queue="a", amounts=cpus(4, memory=100), seconds=1, since=NOW))
    assert len(line.decide(SumRoom(vector(cpus(10, memory=100))), NOW).started) == 1


def test_a_request_says_what_keeps_it_waiting() -> None:
    """Its queue's limit, its cohort, the cluster, or a queue that is gone."""
    queues = [
        Terms(name="own", cohort="x", quota=vector(cpus(2)), borrowing=vector(cpus(0))),
        Terms(name="mate", cohort="x", quota=vector(cpus(2))),
        Terms(name="free"),
    ]
    played = game(queues, TEN)
    played.line.wait(request("first", 2, 10, 0, queue="own"))
    played.line.wait(request("second", 1, 10, 1, queue="own"))
    played.line.wait(request("third", 3, 10, 2, queue="mate"))
    played.line.wait(request("large", 9, 10, 3, queue="free"))
    played.line.wait(request("lost", 1, 10, 4, queue="gone"))
    found = {uid: each.level for uid, each in played.decide().blocked.items()}
    assert found == {
        "second": Level.QUEUE,
        "third": Level.COHORT,
        "large": Level.CLUSTER,
        "lost": Level.UNKNOWN_QUEUE,
    }


def test_what_would_delay_the_head_waits_and_what_ends_before_does_not() -> None:
    """Backfill: of two that fit now the shorter one starts; the other says what is kept free."""
    played = game([], TEN)
    running = request("running", 5, 10)
    played.line.start(running, NOW)
    played.room.add(running)
    for each in (
        request("head", 10, 10, 1), request("long", 5, 11, 2), request("short", 5, 10, 3)
    ):  # fmt: skip
        played.line.wait(each)
    made = played.decide()
    assert [each.uid for each in made.started] == ["short"]
    assert {uid: each.level for uid, each in made.blocked.items()} == {
        "head": Level.CLUSTER,
        "long": Level.HELD_FREE,
    }
    assert made.blocked["head"].start == after(10)


def test_one_at_its_queues_limit_does_not_stand_in_for_those_that_the_cluster_lacks_room() -> None:
    """Beside the first of all, the first that finds no room on the cluster has a promise too."""
    queues = [Terms(name="small", quota=vector(cpus(2))), Terms(name="free")]
    played = game(queues, TEN)
    for number in range(5):
        played.line.wait(request(f"s{number}", 2, 10, number, queue="small"))
    played.line.wait(request("large", 10, 10, 6, queue="free"))
    made = played.decide()
    assert made.blocked["s1"].start == after(10)
    assert made.blocked["large"].start is not None


def test_priority_is_a_head_start_and_no_more() -> None:
    """A step of priority is worth AGING seconds of waiting, for ever."""
    old, new = request("old", at=0), request("new", at=2 * AGING, priority=1)
    newer = request("newer", at=0.5 * AGING, priority=1)
    rows = [place(each, QueueOrder.FIFO) for each in (newer, old, new)]
    assert rows == sorted(rows)
    assert head_start(old, QueueOrder.FIFO, highest=1) == timedelta(seconds=AGING)


def test_short_ones_go_first_where_that_is_the_order() -> None:
    """A long request is overtaken by short ones, until it has waited for its length's worth."""
    long, short = request("long", seconds=100), request("short", seconds=1, at=30)
    late = request("late", seconds=1, at=5000)
    line = Line([Terms(name="", order=QueueOrder.SHORTEST_FIRST)], TEN)
    for each in (long, short, late):
        line.wait(each)
    assert [each.uid for each in line.first("", 9)] == ["short", "long", "late"]
    unknown = Request(uid="u", since=NOW)
    assert place(unknown, QueueOrder.SHORTEST_FIRST) > place(late, QueueOrder.SHORTEST_FIRST)


@FEW
@given(some_requests(queues=("a",)), st.sampled_from(QueueOrder))
def test_positions_are_the_order_of_starts(coming: list[Request], order: QueueOrder) -> None:
    """Requests that need the whole cluster start in the order of their positions."""
    line = Line([Terms(name="a", order=order)], TEN)
    whole = [
        Request(
            uid=each.uid, queue="a", amounts=TEN, seconds=each.seconds, priority=each.priority,
            since=each.since,
        )
        for each in coming
    ]  # fmt: skip
    for each in whole:
        line.wait(each)
    positions = {each.uid: line.position(each.uid) or 0 for each in whole}
    assert sorted(positions.values()) == list(range(1, len(whole) + 1))
    started = []
    while line.requests:
        [each] = line.decide(SumRoom(vector(TEN)), after(60)).started
        started.append(each.uid)
        line.withdraw(each.uid)
    assert started == sorted(positions, key=lambda uid: positions[uid])
    assert line.position("r00") is None


@pytest.mark.parametrize("number", [1000, 10000])
def test_work_does_not_grow_with_what_waits(number: int) -> None:
    """Of one shape one is looked at; of as many shapes as requests, DEPTH for each queue."""
    full = SumRoom(vector(TEN))
    full.add(request("running", 10))
    alike, apart = Line([], TEN), Line([], TEN)
    for each in range(number):
        alike.wait(request(f"r{each:05d}", 2, 10, each * 0.01))
        apart.wait(request(f"r{each:05d}", 2, 10 + each, each * 0.01))
    assert alike.decide(full, after(100)).looked == 1
    assert apart.decide(full, after(100)).looked == DEPTH
    free = SumRoom(vector(TEN))
    assert alike.decide(free, after(100)).looked == 6, "five start, one is refused"
    assert apart.decide(free, after(100)).looked == 5 + DEPTH


def test_nothing_is_kept_of_what_has_ended() -> None:
    """After a thousand runs a line is as large as before, and a decision looks at as much."""
    line, room = Line([Terms(name="a")], TEN), SumRoom(vector(TEN))
    for number in range(1000):
        each = request(f"r{number:04d}", 1 + number % 10, queue="a")
        line.wait(each)
        line.start(each, after(number))
        line.end(each.uid)
    assert (line.requests, line.queues, line.runs.of) == ({}, {}, {})
    assert not any(line.runs.ends("", NOW))
    line.wait(request("next", queue="a"))
    assert line.decide(room, after(2000)).looked == 1


def test_any_rule_can_be_asked_for_room() -> None:
    """The decision asks a Room: with one that counts heads, three start."""

    class Heads:
        def __init__(self, uids: frozenset[str] = frozenset()) -> None:
            self.uids = uids

        def fits(self, request: Request) -> bool:
            return len(self.uids) < 3

        def add(self, request: Request) -> None:
            self.uids |= {request.uid}

        def remove(self, uid: str) -> None:
            self.uids -= {uid}

        def copy(self) -> Heads:
            return Heads(self.uids)

    line = Line([], Amounts())
    for number in range(5):
        line.wait(request(f"r{number}", 1000, 10, number))
    made = line.decide(Heads(), after(10))
    assert [each.uid for each in made.started] == ["r0", "r1", "r2"]
    assert made.blocked["r3"].start == after(20)


def test_a_run_past_its_bound_moves_the_promise_by_no_more_than_its_delay() -> None:
    """It is taken to end in a while; the head's start is told anew and stays in the future."""
    played = game([], TEN)
    long = request("long", 10, 10)
    played.line.start(long, NOW)
    played.room.add(long)
    played.line.wait(request("next", 10, 10, 1))
    on_time = played.line.decide(played.room, after(5)).blocked["next"].start
    late = played.line.decide(played.room, after(30)).blocked["next"].start
    assert (on_time, late) == (after(10), after(30 + 900))


def test_terms_go_by_namespace() -> None:
    """Two queues and two cohorts of one name in two namespaces are strangers."""
    spec = QueueSpec(cohort="c", quota=cpus(3), weight=2)
    made = terms(Queue(metadata=Metadata(name="q", namespace="exam"), spec=spec))
    assert (made.name, made.cohort, made.weight) == ("exam/q", "exam/c", 2)
    assert (made.quota, made.borrowing) == (vector(cpus(3)), None)
