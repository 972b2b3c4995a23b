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
