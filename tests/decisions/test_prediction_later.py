"""What a forecast says of a run that lives on."""

from __future__ import annotations

import random

from past_runs import learned, memory, past

from labfleet.resources.prediction import LEVELS


def linked(count: int):
    """Runs whose memory grows with how long they take."""
    rng = random.Random(3)
    times = [rng.uniform(10, 100) for _ in range(count)]
    return [past(at, 5 * each, seconds=each) for at, each in enumerate(times, 1)]


def test_a_run_that_lives_on_is_one_of_the_heavy_ones():
    """At each later age a light outcome is heavier than before, and ages only grow."""
    found = memory(learned(linked(200)))
    light = LEVELS.index(0.05)
    ages = [each.after_seconds for each in found.later]
    lightest = [found.spread[light], *[each.spread[light] for each in found.later]]
    assert len(ages) == 3
    assert ages == sorted(ages)
    assert lightest == sorted(set(lightest))
    assert all(len(each.spread) == len(LEVELS) for each in found.later)


def test_no_later_spread_passes_what_is_declared():
    """The limit that holds for the bound holds for every draw."""
    found = memory(learned(linked(200)), declared=505.0)
    assert max(each.spread[-1] for each in found.later) <= 505.0


def test_a_young_family_has_no_ages_and_says_how_few_it_knows():
    """Three runs tell nothing of who lives on; the count stands beside the bound."""
    found = memory(learned(linked(3)))
    assert (found.later, found.known) == ((), 3)
    assert memory(learned(linked(200))).known == 200


def burst(light: float = 0.7, **more):
    """Runs that scatter around 300 MiB, and 30 lighter ones that were the first to end."""
    rng = random.Random(4)
    peaks = [300 * rng.lognormvariate(0, 0.3) for _ in range(180)]
    peaks[150:] = [light * each for each in peaks[150:]]
    return [past(at, peak, seconds=peak, **more) for at, peak in enumerate(peaks, 1)]


def test_light_runs_that_end_first_make_no_draws_lighter():
    """Of runs that asked for the same, the latest alone say little: the heavy ones may live on."""
    before, after = memory(learned(burst()[:150])), memory(learned(burst()))
    middle = LEVELS.index(0.5)
    assert after.expected < 0.85 * before.expected
    assert after.spread[middle] > 0.9 * before.spread[middle]
    heavier = memory(learned(burst(light=1.5)))
    assert heavier.spread[middle] > 1.2 * before.spread[middle]


def test_runs_that_asked_for_something_else_are_no_part_of_the_middle():
    """Where sizes differ the closest runs count for draws, however many heavier ones there are."""
    others = [past(at, 3000.0, seconds=9.0, parameters={"size": 900}) for at in range(1, 100)]
    mine = [past(at, 100.0 + at % 5, parameters={"size": 5}) for at in range(100, 150)]
    assert memory(learned([*others, *mine]), {"size": 5}).spread[-1] < 200


def test_a_run_that_far_outlives_a_young_family_is_like_none_of_it():
    """At three times the longest run time it counts as a first run does, by what was declared."""
    firsts = [
        past(at, 500.0, family=f"other-{at}", allocation={"memory_mib": 1000})
        for at in range(1, 31)
    ]
    light = [past(at, 140.0, seconds=80.0 + at) for at in range(31, 34)]
    found = memory(learned([*firsts, *light]), declared=2000.0)
    middle = LEVELS.index(0.5)
    assert found.spread[middle] < 200
    assert [each.after_seconds for each in found.later] == [3 * 113.0]
    assert found.later[0].spread[middle] > 900
    assert max(found.later[0].spread) <= 2000
    assert memory(learned(light), declared=2000.0).later == ()
    settled = [*light, *(past(at, 140.0, seconds=80.0) for at in range(34, 40))]
    assert memory(learned([*firsts, *settled]), declared=2000.0).later == ()
