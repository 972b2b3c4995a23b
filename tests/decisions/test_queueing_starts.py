"""Start ranges: drawn futures of the same decision, with the coverage that is stated."""

from __future__ import annotations

import random

import pytest
from queueing_game import NOW, Game, after, cpus, game, request

from labfleet.decisions.queueing.holding import Hold
from labfleet.decisions.queueing.requests import Request, Terms
from labfleet.decisions.queueing.starts import drawn, futures, nearest, start_ranges
from labfleet.resources.prediction import LEVELS

TEN = cpus(10)
WIDE = tuple(10 + 90 * level**2 for level in LEVELS)
"""Durations from 10 to 100 seconds, more of them short."""


def wide(uid: str, milli: int, at: float, queue: str = "") -> Request:
    """A request whose duration is drawn from WIDE."""
    return request(uid, milli, 100, at, queue=queue, spread=WIDE)


def crowd(rng: random.Random) -> Game:
    """Some runs of any age, and some that wait, in two queues; lasting as the dice say."""
    played = game([Terms(name="a"), Terms(name="b", weight=2)], TEN)
    for number in range(3):
        run = wide(f"run{number}-{rng.random()}", 3, 0, "a")
        played.line.start(run, NOW)
        played.room.add(run)
        played.ends.append((10 + 90 * rng.random() ** 2, run.uid))
    played.ends.sort()
    for number in range(8):
        name = f"w{number}-{rng.random()}"
        played.line.wait(wide(name, rng.randint(2, 7), number, rng.choice("ab")))
    return played


def test_as_many_starts_lie_in_their_range_as_is_stated() -> None:
    """The other crowds' runs are drawn like the futures, so 80 of 100 starts do."""
    rng = random.Random(7)
    inside = total = 0
    for _ in range(20):
        played = crowd(rng)
        told = start_ranges(played.line, played.room, NOW, coverage=0.8)
        played.lasts = lambda _: 10 + 90 * rng.random() ** 2
        played.decide()
        played.play([], steps=200)
        for uid, each in told.items():
            assert each.coverage == 0.8
            assert each.earliest is not None
            assert each.latest is not None
            total += 1
            inside += each.earliest <= after(played.starts[uid]) <= each.latest
    # Starts of one crowd hang together, so 160 of them say as much as some 40 apart would.
    assert total == 160
    assert 0.7 <= inside / total <= 0.95


def test_a_known_duration_gives_a_known_start() -> None:
    """Where every run lasts as long for sure, the range is one instant."""
    played = game([], TEN)
    sure = (10.0,) * len(LEVELS)
    run = request("run", 10, 10, spread=sure)
    played.line.start(run, NOW)
    played.room.add(run)
    for number in range(3):
        played.line.wait(request(f"w{number}", 10, 10, number, spread=sure))
    told = start_ranges(played.line, played.room, after(4))
    assert [(each.earliest, each.latest) for each in told.values()] == [
        (after(10 * number), after(10 * number)) for number in (1, 2, 3)
    ]
    assert {(each.coverage, each.futures) for each in told.values()} == {(0.9, 19)}


def test_a_declared_duration_states_no_coverage() -> None:
    """A bound that somebody declared says how late it may be, not how often."""
    played = game([], TEN)
    played.line.start(request("run", 10, 10), NOW)
    played.room.add(request("run", 10, 10))
    played.line.wait(wide("w", 10, 1))
    told = start_ranges(played.line, played.room, NOW)["w"]
    assert told.coverage is None
    assert told.earliest is not None
    assert told.latest is not None
    assert after(0) <= told.earliest <= told.latest <= after(10)


def test_what_never_starts_has_no_range() -> None:
    """A request larger than the cluster is told no instant at all."""
    played = game([], TEN)
    played.line.wait(wide("w", 11, 1))
    told = start_ranges(played.line, played.room, NOW)["w"]
    assert (told.earliest, told.latest) == (None, None)


def test_a_certain_start_is_in_every_future() -> None:
    """What is held free for another request is not told to one that waits."""
    played = game([], TEN)
    hold = Hold(request("exam", 10, 50, spread=(50.0,) * len(LEVELS)), after(20))
    played.line.wait(wide("w", 10, 1))
    told = start_ranges(played.line, played.room, NOW, [hold])["w"]
    assert (told.earliest, told.latest) == (after(70), after(70))


def test_only_the_first_ones_are_told() -> None:
    """A thousand that wait cost as much as the first 20 of them."""
    played = game([], TEN)
    for number in range(1000):
        played.line.wait(wide(f"w{number:03d}", 5, number * 0.01))
    told = start_ranges(played.line, played.room, after(20), ahead=20, coverage=0.5)
    assert sorted(told) == [f"w{number:03d}" for number in range(20)]


@pytest.mark.parametrize("ahead", [1, 3, 5, 50])
def test_the_nearest_alone_are_told_what_the_whole_line_tells_them(ahead: int) -> None:
    """What stands behind them is left out, apart from the line, and changes no range."""
    for seed in range(5):
        played = crowd(random.Random(seed))
        near = nearest(played.line, ahead)
        assert len(near.requests) == min(ahead, 8)
        told = start_ranges(played.line, played.room, NOW, ahead=ahead, coverage=0.5)
        assert start_ranges(near, played.room, NOW, ahead=ahead, coverage=0.5) == told
        near.withdraw(next(iter(told)))
        assert len(played.line.requests) == 8


def test_asking_changes_nothing_and_repeats() -> None:
    """The same line is told the same ranges twice, and still has all that waits."""
    played = crowd(random.Random(3))
    first = start_ranges(played.line, played.room, NOW)
    assert start_ranges(played.line, played.room, NOW) == first
    assert (len(played.line.requests), len(played.line.runs.of)) == (8, 3)


@pytest.mark.parametrize(("coverage", "draws"), [(0.5, 3), (0.8, 9), (0.9, 19), (0.95, 39)])
def test_the_coverage_is_that_of_the_ends_of_so_many_draws(coverage: float, draws: int) -> None:
    """Of n + 1 exchangeable draws the last lies between the ends of the others n - 1 times."""
    assert futures(coverage) == draws
    assert (draws - 1) / (draws + 1) == pytest.approx(coverage)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1.0])
def test_a_coverage_that_no_number_of_draws_gives_is_refused(coverage: float) -> None:
    """Certainty would need draws without end."""
    with pytest.raises(ValueError, match="coverage"):
        futures(coverage)


def test_a_run_lasts_longer_than_it_has() -> None:
    """Given its age a duration is drawn from what is left, beyond the last quantile a little more."""
    each = wide("r", 1, 0)
    lasted = [drawn(each, future) for future in range(200)]
    assert min(lasted) >= 10
    assert max(lasted) <= 100
    assert len(set(lasted)) > 150
    old = [drawn(each, future, 60.0) for future in range(200)]
    assert min(old) >= 60
    assert sum(old) / 200 == pytest.approx(79, abs=3)
    assert drawn(each, 1, 500.0) >= 500
    assert drawn(Request(uid="u", since=NOW), 1) > 0
