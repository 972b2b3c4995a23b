"""Clusters of a rehearsal: what truly runs on them, who asks, and what is said of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubernetes_simulator.core.node_use import OWN_CORES
from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.rules.overload import CONFIDENCE, LEAST, Seen, least_share
from labfleet.rehearsal.seeds import playing
from labfleet.rehearsal.seeds.run import Options, plan_of, rehearse
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cluster_meter import WorldReader
from labfleet.rehearsal.worlds.clusters import FAMILIES, Clusters, Script, Shape, drawn
from labfleet.rehearsal.worlds.kube_cluster import WINDOW
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import Figure, MetricsSource
from labfleet.resources.meta import Metadata

RUNS = Options(hours=0.5, workers=1, sessions=0, simulations=720)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_what_runs_is_heavier_than_runs_are(family):
    """Length bias: weighed by their time, runs take more than on the plain mean."""
    rng = SeededRng("shapes")
    shapes = [drawn(family, family.sizes[1], rng) for _ in range(400)]
    plain = sum(each.peaks[1] for each in shapes) / len(shapes)
    time = sum(each.lasts for each in shapes)
    weighed = sum(each.peaks[1] * each.lasts for each in shapes) / time
    assert weighed > plain * 1.03


ROOM = (32_000.0, 49_152.0, 300_000.0)


class Hand:
    """A loop whose time is set by hand; what a cluster spawns is closed and not run."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        """Return the time."""
        return self.now

    @staticmethod
    def spawn(name: str, coro: Any) -> None:
        """Run nothing."""
        del name
        coro.close()


def two_clusters() -> tuple[Clusters, Hand]:
    """Clusters `a` and `b`, with two runs on the first and one on the second."""
    hand, rng = Hand(), SeededRng("two")
    world = Clusters(hand, rng, hand.spawn)
    for name in ("a", "b"):
        world.found(name, ROOM)
    for number, place in enumerate(("a", "a", "b")):
        script = Script(float(number), place, "waku", keyed=True)
        world.scripts[script.wish] = script
        shape = Shape((4000.0, 4096.0, 9000.0), 1500.0)
        world.begin(script, f"sim-{number}", shape, rng.stream(str(number)))
    return world, hand


def lived(world: Clusters, hand: Hand, until: float) -> None:
    """Let time pass in steps, as a cluster's own task would."""
    while hand.now < until:
        hand.now = min(until, hand.now + 5.0)
        for place in world.places.values():
            place.settle()


def test_a_run_stays_within_its_peaks_and_takes_nothing_when_it_is_over():
    """Its pods rise to their share of the peaks and never above; afterwards nothing is left."""
    world, hand = two_clusters()
    peaks, seen = world.scripts[2.0].shape.peaks, [0.0, 0.0, 0.0]
    while not world.places["b"].runs["sim-2"].ended.is_set():
        lived(world, hand, hand.now + 10.0)
        now = world.load("b")
        assert all(0 <= each <= most * 1.001 for each, most in zip(now, peaks, strict=True))
        seen = [max(pair) for pair in zip(seen, now, strict=True)]
    assert 1500 < hand.now < 1530
    assert world.how(world.scripts[2.0]) == "Completed"
    assert all(each > 0.95 * most for each, most in zip(seen, peaks, strict=True))
    assert world.places["b"].most("sim-2") == pytest.approx(peaks, rel=0.001)
    assert world.load("b") == (0.0, 0.0, 0.0)
    assert world.running("b") == []


def test_a_run_whose_memory_is_limited_is_killed_for_it():
    """It ends before its time, as a pod that was killed does."""
    hand, rng = Hand(), SeededRng("killed")
    world = Clusters(hand, rng, hand.spawn)
    world.found("a", ROOM)
    script = Script(1.0, "a", "waku", keyed=True)
    world.begin(script, "sim", Shape((100.0, 512.0, 10.0), 1000.0, killed=True), rng)
    limited = world.places["a"].runs["sim"].pods[0]
    lived(world, hand, 900.0)
    assert limited not in world.places["a"].runs["sim"].live
    assert world.places["a"].runs["sim"].ends[0][1] == "OOMKilled"


def test_pods_that_are_removed_end_as_nobody_saw():
    """A script that is stopped deletes its pods, which are gone after their grace."""
    world, hand = two_clusters()
    lived(world, hand, 300.0)
    world.end(world.scripts[0.0])
    assert world.how(world.scripts[0.0]) == ""
    lived(world, hand, 340.0)
    assert world.how(world.scripts[0.0]) == "Gone"
    assert world.running("a") == ["sim-1"]


def test_a_clusters_load_is_the_sum_of_what_runs_there():
    """Runs of other clusters, those that are over and those left out count for nothing."""
    world, hand = two_clusters()
    lived(world, hand, 300.0)
    whole, one = world.load("a"), world.load("a", without=frozenset({"sim-1"}))
    other = world.load("a", without=frozenset({"sim-0"}))
    assert whole == pytest.approx([sum(each) for each in zip(one, other, strict=True)])
    assert all(one)
    assert all(other)
    assert world.load("a", without=frozenset({"sim-0", "sim-1"})) == (0.0, 0.0, 0.0)


@given(st.floats(60, 1400))
@settings(max_examples=20)
def test_what_is_measured_is_what_the_pods_have_taken(at):
    """A counter's rate is what was taken over the window, memory what is held: to the digit."""
    world, hand = two_clusters()
    lived(world, hand, at)
    place = world.places["a"]
    runs, nodes = place.measured()
    for name, (cpu, memory, _) in runs.items():
        truth = [place.world.runs[uid] for uid in place.runs[name].live]
        last, first = place.world.now, place.world.now - WINDOW
        taken = sum(each.total("cpu", last) - each.total("cpu", first) for each in truth)
        assert cpu == pytest.approx(taken / WINDOW * 1000)
        assert memory == pytest.approx(sum(each.takes("memory", last) for each in truth) / 2**20)
    own = 2 * OWN_CORES * 1000
    whole = sum(row[0] for row in runs.values()) + own
    assert sum(row[0] for row in nodes.values()) == pytest.approx(whole)


CLUSTER = Cluster(metadata=Metadata(name="a"), spec=ClusterSpec(capacity=Amounts()))
SOURCE = MetricsSource(name="prometheus", url="http://prometheus.a.test:9090")


def reading(**rates: float) -> tuple[WorldReader, Clusters, Hand]:
    """A source of the first of two clusters, five minutes after their runs began."""
    world, hand = two_clusters()
    lived(world, hand, 300.0)
    injector = faults.FaultInjector(faults.FaultPlan(rates=rates), SeededRng("meter"))
    return WorldReader(world, injector), world, hand


def test_a_source_tells_each_run_its_own_and_the_nodes_all() -> None:
    """What it tells of a run is kept, for the rule that what is taught lies within it."""

    async def story() -> None:
        reader, world, _ = reading()
        found = await reader.read(CLUSTER, SOURCE, tuple(Figure))
        assert set(found.values[Figure.RUN_CPU]) == {"sim-0", "sim-1"}
        assert set(found.values[Figure.NODE_MEMORY]) == {"node-1", "node-2"}
        assert Figure.RUN_STORAGE in found.gaps
        told = world.places["a"].told["sim-0"]["memory_mib"]
        assert told.least == told.most == found.values[Figure.RUN_MEMORY]["sim-0"]

    asyncio.run(story())


def test_a_source_may_be_late_or_away() -> None:
    """Late is what was told before; away is an error and no 0."""

    async def story() -> None:
        reader, _, hand = reading(meter_late=1.0)
        first = await reader.read(CLUSTER, SOURCE, tuple(Figure))
        hand.now += 600.0
        assert await reader.read(CLUSTER, SOURCE, tuple(Figure)) is first
        away, _, _ = reading(meter_away=1.0)
        with pytest.raises(errors.Unreachable):
            await away.read(CLUSTER, SOURCE, tuple(Figure))

    asyncio.run(story())


@given(st.integers(1, 60), st.data())
def test_the_lower_end_of_an_interval_is_where_so_many_hits_are_just_credible(sample, data):
    """At that share so many hits or more have the probability that the confidence leaves."""
    hits = data.draw(st.integers(1, sample))
    least = least_share(hits, sample)
    more = sum(
        comb(sample, each) * least**each * (1 - least) ** (sample - each)
        for each in range(hits, sample + 1)
    )
    assert more == pytest.approx(1 - CONFIDENCE, rel=1e-3)
    assert least_share(0, sample) == 0.0


def looked_at(*stretches: tuple[int, bool]) -> Seen:
    """A cluster with a new run each half hour; one run lives through an overload of hours."""
    seen = Seen()
    for minutes, over in stretches:
        for _ in range(minutes):
            giant = {"giant"} if over and minutes > 60 else set()
            seen.count({f"run-{seen.minutes // 30}", *giant}, over=over)
    return seen


def test_one_run_that_is_too_heavy_for_hours_is_one_overload():
    """Of 1,500 minutes 406 in a row over a target by one run say nothing surely: it is one event."""
    seen = looked_at((130, False), (406, True), (964, False))
    assert seen.lives > LEAST
    assert (seen.over, seen.lasted) == (406, [406])
    assert seen.sample == 4
    assert seen.surely < 0.001


def test_as_many_minutes_of_many_runs_are_surely_too_many():
    """The same minutes over a target, of runs that came one after the other, break the promise."""
    seen = looked_at(*[(81, False), (30, True)] * 13)
    assert seen.lives > LEAST
    assert len(seen.lasted) >= 13
    assert seen.surely > 0.05


def test_a_long_overload_beside_short_ones_counts_for_little_more_than_itself():
    """Ten overloads of a minute beside one of six hours are no eleven of half an hour."""
    short = looked_at(*[(90, False), (1, True)] * 10)
    both = looked_at(*[(90, False), (1, True)] * 10, (90, False), (360, True))
    assert short.surely == looked_at(*[(91, False)] * 10).surely == 0.0
    assert both.lasted[:-1] == [1] * 10
    assert both.surely < 0.001


def test_a_short_look_is_only_told():
    """Below so many lives of runs nothing is judged, even where all minutes are over a target."""
    seen = looked_at((30 * (LEAST - 2), True))
    assert seen.over == seen.minutes
    assert seen.surely == 0.0


def test_faults_of_run_scripts_change_no_other_fault():
    """Plans without run scripts have none of theirs, and those with them all others as before."""
    plain = plan_of(3, Options(hours=24))
    more = plan_of(3, Options(hours=24, simulations=50))
    words = {*plain.rates, *(each.word for each in plain.scheduled)}
    assert not words & faults.OF_RUNS
    kept = more.without(faults.OF_RUNS)
    assert kept.rates == plain.rates
    assert [replace(each, number=0) for each in kept.scheduled] == [
        replace(each, number=0) for each in plain.scheduled
    ]


def test_a_seed_with_run_scripts_repeats_and_holds():
    """Scripts ask, run, crash and report under faults; twice the same, and no rule is broken."""
    first, second = rehearse(3, RUNS), rehearse(3, RUNS)
    assert first.violations == []
    assert (first.log, first.schedule, first.runs) == (second.log, second.schedule, second.runs)
    assert first.runs["completed"] > 3
    assert first.simulations["whole"] > 0
    assert first.simulations["loads compared"] > 0
    assert first.simulations["measured runs"] > 0
    answer = playing.answer([playing.row_of(first, RUNS)], RUNS, 1.0, 1)
    assert 0 <= answer["overload"]["joint"]["share"] <= 1
    assert "--simulations 720" in playing.command(3, RUNS)


def test_run_scripts_of_wire_seeds_ask_as_upstream_004_does():
    """POST /request_run, /simulation_heartbeat and /simulation_complete do the same over HTTP."""
    report = rehearse(1, replace(RUNS, wire=True, harshness=faults.NONE))
    assert report.violations == []
    assert report.runs["completed"] > 3
