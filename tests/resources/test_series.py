"""Buckets: packed and read back, merged in any order, resampled, bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.resources import series

W = "Worker"
START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
VALUES = st.dictionaries(
    st.sampled_from(tuple(series.METRICS["Worker"])),
    st.one_of(st.none(), st.floats(0, 1e12)),
    max_size=9,
)


@given(VALUES, VALUES)
def test_a_packed_bucket_is_read_back_and_merging_has_no_order(
    one: dict[str, float | None], other: dict[str, float | None]
) -> None:
    """Counts and extremes are kept, to the width that is stored."""
    whole = series.merged(series.single(W, one), series.single(W, other))
    again = series.merged(series.single(W, other), series.single(W, one))
    read = series.unpack(W, series.pack(W, whole))
    assert whole.keys() == again.keys() == read.keys()
    for name, spread in whole.items():
        assert (spread.count, spread.low, spread.high) == (
            again[name].count, again[name].low, again[name].high,
        )  # fmt: skip
        assert read[name].count == spread.count
        assert read[name].high == pytest.approx(spread.high, rel=1e-6)
        assert read[name].mean == pytest.approx(spread.mean, rel=1e-5)
        assert read[name].low <= read[name].high


def test_what_nobody_measured_is_absent_and_never_zero() -> None:
    """None and what is no number leave no trace."""
    assert series.single(W, {"cpu": None, "memory": float("nan"), "other": 1.0}) == {}
    assert series.unpack(W, series.pack(W, {})) == {}


@pytest.mark.parametrize("text", ["", "A", "!!!!", "/////w==", "AQA="])
def test_a_text_that_cannot_be_read_is_an_empty_bucket(text: str) -> None:
    """A damaged row costs a point and nothing else."""
    assert series.unpack(W, text) == {}


def test_a_bucket_is_small() -> None:
    """A busy minute with everything but CloudWatch takes less than 100 characters."""
    first = {"cpu": 10.0, "memory": 20.0, "disk": 30.0, "nodes": 5, "labs": 2, "sessions": 2}
    second = {**first, "cpu": 11.0, "memory": 21.0, "disk": 30.5}
    text = series.pack(W, series.merged(series.single(W, first), series.single(W, second)))
    assert len(text) < 100


@pytest.mark.parametrize(
    ("hours", "step", "expected"),
    [(1, None, 60), (6, None, 60), (7, None, 600), (72, None, 600), (73, None, 3600),
     (9999, None, 3600), (1, 600, 600), (1, 900, 600), (1, 7200, 3600), (100, 60, 3600)],
)  # fmt: skip
def test_the_finest_tier_that_reaches_back_is_read(
    hours: int, step: int | None, expected: int
) -> None:
    """No finer than asked, and never one that has forgotten the beginning."""
    now = START
    assert series.tier_for(W, now - timedelta(hours=hours), step, now).step == expected


def test_coarser_buckets_are_made_of_finer_ones() -> None:
    """Ten minutes out of minutes: the mean is weighted by the counts."""
    rows = [(START + timedelta(minutes=n), series.single(W, {"cpu": float(n)})) for n in range(20)]
    made = series.resampled(rows, 600)
    assert [at for at, _ in made] == [START, START + timedelta(minutes=10)]
    assert (made[0][1]["cpu"].mean, made[1][1]["cpu"].low) == (4.5, 10)


def test_slots_are_the_rings_places() -> None:
    """A bucket and the one a whole ring later share their place; neighbours do not."""
    tier = series.TIERS[0]
    assert series.slot(START, tier) == series.slot(START + tier.window, tier)
    assert series.slot(START, tier) != series.slot(START + timedelta(seconds=60), tier)
    assert series.rows_of(W) == 1632


ORDERS = {
    "Worker": "cpu memory disk networkIn networkOut nodes labs sessions ec2Cpu",
    "Simulation": "cpu memory networkIn networkOut storage pods",
    "Session": "cpu memory networkIn networkOut storage pods",
    "Cluster": "cpu memory networkIn networkOut storage pods othersCpu othersMemory",
}
"""As released: a name may be added at the end of a line, and nothing else may change."""


@pytest.mark.parametrize("kind", ORDERS)
def test_the_order_of_a_kinds_metrics_is_fixed_for_ever(kind: str) -> None:
    """The packed form names a metric by its place, so a stored row would change its meaning."""
    names = tuple(series.METRICS[kind])
    assert " ".join(names) == ORDERS[kind]
    assert len(names) <= 16


def test_rows_of_earlier_programs_are_read() -> None:
    """A text that was stored before series had owners, and one of a run as first released."""
    stored = "AwACAAIAAAAgQQAAAEAAAJBBAQAAAKBB"
    assert series.unpack(W, stored) == {
        "cpu": series.Spread(2, 2.0, 20.0, 18.0), "memory": series.Spread(1, 20.0, 20.0, 20.0),
    }  # fmt: skip
    packed = series.pack("Simulation", series.single("Simulation", {"cpu": 1500.0, "pods": 3.0}))
    assert packed == "IQAhAAEAAIC7RAEAAABAQA=="


def test_runs_and_sessions_have_minutes_alone() -> None:
    """Workers and clusters have three tiers; whatever is asked of a run is told by the minute."""
    assert {kind: series.rows_of(kind) for kind in series.METRICS} == {
        "Worker": 1632, "Cluster": 1632, "Simulation": 360, "Session": 360,
    }  # fmt: skip
    assert series.tier_for("Simulation", START - timedelta(days=9), 3600, START).step == 60
    with pytest.raises(errors.Invalid, match="no series of 'Pool'"):
        series.metrics_of("Pool")


def test_one_measurement_is_in_a_bucket_of_each_tier() -> None:
    """Merged with what is there; nothing measured makes no bucket."""
    buckets: dict[tuple[int, datetime], dict[str, series.Spread]] = {}
    series.add(buckets, W, START, {"cpu": None, "pods": 1.0})
    assert buckets == {}
    for value in (1.0, 3.0):
        series.add(buckets, W, START, {"cpu": value})
    assert {step for step, _ in buckets} == {60, 600, 3600}
    assert {bucket["cpu"].mean for bucket in buckets.values()} == {2.0}
