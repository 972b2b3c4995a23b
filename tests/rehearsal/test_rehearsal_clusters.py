"""Clusters of a rehearsal: what truly runs on them, who asks, and what is said of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.rules.overload import CONFIDENCE, LEAST, Seen, least_share
from labfleet.rehearsal.seeds import playing
from labfleet.rehearsal.seeds.run import Options, plan_of, rehearse
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cluster_meter import FIGURES, WorldMeter
from labfleet.rehearsal.worlds.clusters import FAMILIES, Clusters, Script, drawn
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.meta import Key, Metadata

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


def test_a_run_stays_within_its_peaks_and_takes_nothing_when_it_is_over():
    """Its use rises to its peaks and never above; killed or not, afterwards nothing is left."""
    rng = SeededRng("curves")
    for number in range(60):
        shape = drawn(FAMILIES[number % 3], 10, rng)
        for step in range(40):
            now = shape.takes(shape.lasts * step / 40)
            assert all(0 <= each <= most for each, most in zip(now, shape.peaks, strict=True))
        assert shape.takes(shape.lasts) == shape.takes(-1.0) == (0.0, 0.0, 0.0)
        assert all(each > 0 for each in shape.most())


def test_a_clusters_load_is_the_sum_of_what_runs_there():
    """Runs of other clusters, those that are over and those left out count for nothing."""
    world, rng = Clusters(), SeededRng("sum")
    for number, place in enumerate(("a", "a", "b")):
        script = Script(float(number), place, "waku", keyed=True)
        world.begin(script, f"sim-{number}", drawn(FAMILIES[0], 10, rng), now=0.0)
    one, two = (world.running[number].shape.takes(300.0) for number in (0.0, 1.0))
    assert world.load("a", 300.0) == pytest.approx([sum(each) for each in zip(one, two)])
    assert world.load("a", 300.0, without=frozenset({"sim-1"})) == pytest.approx(one)
    world.end(world.running[0.0])
    assert world.load("a", 300.0) == pytest.approx(two)


def metered(**rates: float) -> tuple[WorldMeter, Clusters, list[float]]:
    """A meter of a world in which two runs are on one cluster; its time is the list's last."""
    world, rng, now = Clusters(), SeededRng("meter"), [300.0]
    for number in range(2):
        script = Script(float(number), "a", "waku", keyed=True)
        world.scripts[script.wish] = script
        world.begin(script, f"sim-{number}", drawn(FAMILIES[0], 10, rng), now=0.0)
    injector = faults.FaultInjector(faults.FaultPlan(rates=rates), rng)
    uids = {Key("Simulation", "default", "sim-0"): "uid-0"}
    return WorldMeter(world, lambda: now[-1], injector, uids.get), world, now


CLUSTER = Cluster(metadata=Metadata(name="a"), spec=ClusterSpec(capacity=Amounts()))


def test_a_meter_tells_each_run_its_own_and_the_cluster_all() -> None:
    """A run that no simulation is of any more counts in the load alone."""

    async def story() -> None:
        meter, world, _ = metered()
        found = await meter.usage(CLUSTER)
        assert found is not None
        one = world.running[0.0].shape.takes(300.0)
        assert found.now == {"uid-0": dict(zip(FIGURES, one, strict=True))}
        assert tuple(found.load.values()) == pytest.approx(world.load("a", 300.0))
        world.scripts.clear()
        assert await meter.usage(CLUSTER) is None

    asyncio.run(story())


def test_a_meter_may_be_late_or_away() -> None:
    """Late is what was told before, with its instant; away is an error and no 0."""

    async def story() -> None:
        meter, _, now = metered(meter_late=1.0)
        first = await meter.usage(CLUSTER)
        now.append(900.0)
        assert await meter.usage(CLUSTER) is first
        away, _, _ = metered(meter_away=1.0)
        with pytest.raises(errors.Unreachable):
            await away.usage(CLUSTER)

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
