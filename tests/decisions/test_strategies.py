"""By what a worker is preferred: each strategy, the pool before the worker, upstream's points."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.app.system import SystemRng
from labfleet.decisions import cml_versions, placement, strategies
from labfleet.decisions.placement import Candidate, PlacementRequest, WorkerShape
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import Decision
from labfleet.resources.strategy import Strategy

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
SIZE = Amounts(cpu_milli=10_000, memory_mib=10_000, storage_mib=10_000, nodes=100, labs=40)
LAB = PlacementRequest(
    amounts=Amounts(cpu_milli=1, memory_mib=1, labs=1), start=NOW, end=NOW + timedelta(hours=1)
)


def worker(name: str, cpu: int = 0, labs: int = 0, *, hours: float = 1, **over) -> Candidate:
    """A licensed worker with so much CPU and memory booked, until so many hours from now."""
    held = Amounts(cpu_milli=cpu, memory_mib=cpu, labs=labs)
    end = NOW + timedelta(hours=hours)
    booked = (Reservation(holder=name, amounts=held, start=NOW, end=end),) if cpu or labs else ()
    fields = {"licensed": True, "capacity": SIZE, "reservations": booked, "sessions": labs}
    return Candidate(name=name, **{**fields, **over})


def place(strategy: Strategy, *workers: Candidate, **over) -> Decision:
    """The decision when all these workers are chosen by one strategy."""
    among = [replace(each, strategy=strategy) for each in workers]
    return placement.place(replace(LAB, **over), among, now=NOW)


FULL, HALF, EMPTY = worker("full", 9000, 2), worker("half", 5000, 9), worker("none")


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (Strategy.PACKED, ["full", "half", "none"]),
        (Strategy.BEST_FIT, ["none", "half", "full"]),
        (Strategy.LEAST_UTILIZED, ["none", "half", "full"]),
        (Strategy.LEAST_LABS, ["none", "full", "half"]),
    ],
)
def test_each_strategy_has_its_order(strategy: Strategy, order: list[str]) -> None:
    """PACKED fills, upstream's BestFit and LeastUtilized spread, LeastLabs counts labs."""
    found = place(strategy, HALF, FULL, EMPTY)
    assert [each.name for each in found.candidates] == order
    assert (found.chosen, found.strategy) == (order[0], strategy)


def test_packed_keeps_together_what_ends_late() -> None:
    """Of workers in the same quarter the one whose sessions end last comes first, if less full."""
    soon, late = worker("soon", 6000, 1, hours=1), worker("late", 5200, 1, hours=5)
    assert place(Strategy.PACKED, soon, late).chosen == "late"
    fuller = worker("soon", 8000, 1, hours=1)
    assert place(Strategy.PACKED, fuller, late).chosen == "soon"


def test_best_fit_has_upstreams_points() -> None:
    """An empty licensed worker has 0.95 points; one that is 80 % full or has 15 labs loses some."""
    parts = place(Strategy.BEST_FIT, EMPTY).parts
    assert parts == {
        "hasCapacity": 0.4, "fewLabs": 0.2, "free": 0.2, "licensed": 0.1, "noLabs": 0.05
    }  # fmt: skip
    busy = place(Strategy.BEST_FIT, worker("w", 8000, 15, licensed=False)).parts
    assert busy == {
        "hasCapacity": 0.0, "fewLabs": 0.0, "free": round(0.2 * (1 - 1.6 / 3), 6),
        "licensed": 0.0, "noLabs": 0.0,
    }  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 39)), min_size=1, max_size=8))
def test_scores_fall_as_keys_rise(loads: list[tuple[int, int]]) -> None:
    """What is shown as the better score is what is chosen first, but for PACKED's ends."""
    workers = [worker(f"w{n}", cpu, labs) for n, (cpu, labs) in enumerate(loads)]
    for strategy in set(Strategy) - {Strategy.PACKED, Strategy.RANDOM}:
        weighed = sorted(strategies.RULES[strategy].weigh(each) for each in workers)
        scores = [score for _, score in weighed]
        assert scores == sorted(scores, reverse=True)


def test_round_robin_takes_who_waited_longest() -> None:
    """Each worker has its turn before one has a second, also when all are placed at one instant."""
    workers = {name: worker(name, strategy=Strategy.ROUND_ROBIN) for name in "abc"}
    turns = []
    for minute in (0, 0, 0, 0, 0, 1, 2, 2):
        now = NOW + timedelta(minutes=minute)
        chosen = placement.place(LAB, list(workers.values()), now=now).chosen
        assert chosen is not None
        turns.append(chosen)
        before = workers[chosen]
        again = strategies.placed_again(before.placed, now)
        workers[chosen] = replace(before, placed=again)
    assert "".join(turns) == "abcabcab"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_turns_are_what_the_stored_instants_say(minutes: list[int]) -> None:
    """Counting placements one by one is reading their instants at once, so a restart loses none."""
    instants = sorted(NOW + timedelta(minutes=each) for each in minutes)
    counted = 0
    for each in instants:
        counted = strategies.placed_again(counted, each)
    assert counted == strategies.placed_at(instants)
    assert strategies.placed_at(()) == 0


def test_random_takes_each_as_often() -> None:
    """Of 600 draws each of three workers gets 150 to 250, and the same seed draws the same."""
    workers = [replace(each, strategy=Strategy.RANDOM) for each in (FULL, HALF, EMPTY)]

    def draws() -> list[str | None]:
        rng = SystemRng("seed")
        return [placement.place(LAB, workers, now=NOW, rng=rng).chosen for _ in range(600)]

    found = draws()
    assert found == draws()
    assert all(150 < count < 250 for count in Counter(found).values())
    assert len(set(found)) == 3


def test_first_the_pool_then_the_worker() -> None:
    """The preferred region comes first, then the known lower price, and only then the strategy."""
    far = strategies.rank_of("far", "us-west-2", 1.0, ("us-east-1",))
    dear = strategies.rank_of("dear", "us-east-1", 4.0, ("us-east-1",))
    cheap = strategies.rank_of("cheap", "us-east-1", 2.0, ("us-east-1",))
    unknown = strategies.rank_of("unknown", "us-east-1", None, ("us-east-1",))
    assert sorted([far, dear, cheap, unknown]) == [cheap, dear, unknown, far]
    among = [replace(FULL, rank=dear), replace(EMPTY, rank=cheap)]
    found = placement.place(LAB, among, now=NOW)
    assert found.chosen == "none"
    assert found.parts["dollarsAnHour"] == 2.0


def test_an_unknown_price_is_not_free() -> None:
    """A pool whose price nobody knows has no price among the parts, and comes after known ones."""
    rank = strategies.rank_of("p", "us-east-1", None, ())
    assert rank[1] == math.inf
    found = placement.place(LAB, [replace(EMPTY, rank=rank)], now=NOW)
    assert "dollarsAnHour" not in found.parts


@pytest.mark.parametrize(
    ("version", "first", "last", "fits"),
    [("2.9.1", "2.9", None, True), ("2.10.0", "2.9", None, True), ("2.8.1", "2.9", None, False),
     ("2.9.1+build.3", None, "2.9", True), ("2.10", None, "2.9", False), (None, "2.9", None, False)],
)  # fmt: skip
def test_cml_versions_are_compared_by_their_numbers(
    version: str | None, first: str | None, last: str | None, fits: bool
) -> None:
    """2.10 comes after 2.9, the last version has all that begin like it, unknown is never right."""
    assert cml_versions.within(version, (first, last)) is fits
    asked = replace(LAB, versions=(first, last))
    found = placement.place(asked, [worker("w", version=version)], now=NOW)
    assert (found.outcome == "assigned") is fits
    if not fits:
        assert found.reason == "NoMatchingVersion"
    shape = WorkerShape(name="p", track="default", capacity=SIZE, version=version)
    assert placement.fits_empty(asked, shape) is (fits or version is None)


def test_only_licensed_workers_when_that_is_asked_for() -> None:
    """A lab of few nodes goes to no unlicensed worker, and waits for a licence by that name."""
    bare = worker("bare", licensed=False)
    assert placement.place(LAB, [bare], now=NOW).chosen == "bare"
    found = placement.place(replace(LAB, licensed=True), [bare], now=NOW)
    assert (found.chosen, found.reason) == (None, "WorkerNotLicensed")
    shape = WorkerShape(name="p", track="default", capacity=SIZE)
    assert not placement.fits_empty(replace(LAB, licensed=True), shape)
    # A licence may be registered later, so nothing is refused for ever.
    assert placement.never_fits(replace(LAB, licensed=True), [shape], now=NOW) is None
