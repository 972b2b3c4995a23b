"""What a run has used: exact peaks and means, close quantiles, bounded, and never a 0 for unknown."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.run_use import Histogram, RunUse, at_end, grown, joined, metrics, moved
from labfleet.resources import series
from labfleet.resources.history import FIGURES, Use
from labfleet.resources.series import Spread

HOUR = timedelta(hours=1)
VALUES = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1e12)), min_size=1, max_size=150)


def seen(values: list[float]) -> Use:
    """What a run used that was measured so."""
    use = RunUse()
    for value in values:
        use.add({"cpu_milli": value})
    return use.used()["cpu_milli"]


@given(VALUES)
def test_peak_and_mean_are_exact_and_quantiles_two_percent_off_at_most(values: list[float]) -> None:
    """Against the sorted values: half of them are no greater than the median, 95 % than p95."""
    found, ranked = seen(values), sorted(values)
    assert found.peak == pytest.approx(max(values), rel=1e-5)
    assert found.mean == pytest.approx(sum(values) / len(values), rel=1e-5)
    for share, told in ((50, found.median), (95, found.p95)):
        true = ranked[-(-share * len(ranked) // 100) - 1]
        assert told == pytest.approx(true, rel=0.021, abs=1e-3)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(values: list[float], dice) -> None:
    """Another order gives the same figures, but for the last digits of the sum."""
    mixed = list(values)
    dice.shuffle(mixed)
    one, other = seen(values), seen(mixed)
    assert (one.peak, one.median, one.p95) == (other.peak, other.median, other.p95)
    assert one.mean == pytest.approx(other.mean, rel=1e-4)


@given(st.lists(st.floats(0, 1e30), min_size=1, max_size=300))
def test_a_histogram_is_bounded(values: list[float]) -> None:
    """Whatever is added, no class lies beyond the last."""
    found = Histogram()
    for value in values:
        found.add(Spread(1, value, value, value))
    # private _classes: what is bounded is the number of them
    assert all(-1 <= place <= 1100 for place in found._classes)
    assert found.count == len(values)


def test_what_nobody_measured_is_absent_and_nonsense_is_left_out() -> None:
    """No figure at all, one of two, and values that no pod can use."""
    use = RunUse()
    assert use.used() == {}
    use.add({"cpu_milli": float("nan"), "memory_mib": -1.0, "heat": 3.0, "pods": 2.0})
    assert (use.used(), use.samples) == ({}, 0)
    use.add({"memory_mib": 0.0})
    assert use.used() == {"memory_mib": Use(peak=0, mean=0, median=0, p95=0)}


def test_a_bucket_counts_as_its_measurements_do() -> None:
    """In the units of the figures: bytes a second become kbit/s; its peak is the bucket's own."""
    use = RunUse()
    use.add_bucket({"networkIn": Spread(2, 125.0, 500.0, 375.0), "pods": Spread(1, 3, 3, 3)})
    found = use.used()
    assert set(found) == {"network_in_kbps"}
    assert (found["network_in_kbps"].peak, found["network_in_kbps"].mean) == (3.0, 2.0)


def test_a_meters_figures_have_a_metric_each() -> None:
    """All that may be measured of a run, in the units of the series, absent ones absent."""
    told = metrics(dict.fromkeys((*FIGURES, "pods"), 2.0))
    assert set(told) == set(series.METRICS["Simulation"])
    assert (told["networkOut"], told["cpu"]) == (250.0, 2.0)
    assert metrics({"load": 1.0}) == {}


PARTS = st.none() | st.floats(0, 1e9)
USES = st.dictionaries(
    st.sampled_from(FIGURES), st.builds(Use, peak=PARTS, mean=PARTS, median=PARTS, p95=PARTS)
)


@given(USES, USES, USES)
def test_a_peak_never_falls_and_a_meter_goes_first(told, seen_, before) -> None:
    """Of the rest the meter's word counts, then what was seen, then what was recorded."""
    found = joined(told, seen_, before)
    assert set(found) == {*told, *seen_, *before}
    for name, use in found.items():
        ranked = [each[name] for each in (told, seen_, before) if name in each]
        peaks = [each.peak for each in ranked if each.peak is not None]
        assert use.peak == max(peaks, default=None)
        known = [each.mean for each in ranked if each.mean is not None]
        assert use.mean == (known[0] if known else None)
    assert not grown(found, joined(told, seen_, found))
    assert not moved(found, joined(told, seen_, found))


def test_at_the_end_the_minutes_count_and_of_a_long_run_only_their_peak() -> None:
    """A run that the minutes hold whole gets all of them; six hours of a day tell no mean of it."""
    recorded = {"cpu_milli": Use(peak=900, mean=800, median=800, p95=850)}
    minutes = [series.single("Simulation", {"cpu": value}) for value in (100.0, 100.0, 1000.0)]
    short = at_end(recorded, minutes, HOUR)["cpu_milli"]
    assert (short.peak, short.mean) == (1000, 400)
    assert short.median == pytest.approx(100, rel=0.02)
    long = at_end(recorded, minutes, 7 * HOUR)["cpu_milli"]
    assert long == Use(peak=1000, mean=800, median=800, p95=850)
    assert at_end(recorded, [], HOUR) == recorded
    assert at_end({}, [], HOUR) == {}
