"""Figures of past runs: within what was used, and a drift only where enough runs say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import past_figures

PEAKS = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)


@given(PEAKS)
def test_figures_are_in_order_and_were_really_used(peaks: list[float]) -> None:
    """Median, 95 % and greatest are values of the runs, each at least the one before."""
    found = past_figures.figure(peaks)
    assert found is not None
    assert {found.median, found.p95, found.greatest} <= set(peaks)
    assert found.median <= found.p95 <= found.greatest == max(peaks)
    assert sum(peak <= found.p95 for peak in peaks) >= 0.95 * len(peaks)


def test_no_run_has_no_figures() -> None:
    """What nobody measured is unknown, not nothing."""
    assert past_figures.figure([]) is None


@pytest.mark.parametrize(("peaks", "drift"), [
    ([3.0] * 4 + [2.0] * 4, 0.5), ([1.0] * 4 + [2.0] * 4, -0.5), ([2.0] * 7, None),
    ([2.0] * 4 + [0.0] * 4, None),
])  # fmt: skip
def test_a_drift_compares_the_newer_half(peaks: list[float], drift: float | None) -> None:
    """The newest runs come first; with too few, or after runs of nothing, no drift is told."""
    found = past_figures.figure(peaks)
    assert found is not None
    assert found.drift == drift
