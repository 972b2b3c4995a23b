"""How far a prediction is believed while most runs of its family have not ended."""

from __future__ import annotations

import pytest
from admission_runs import spread

from labfleet.decisions.admission.exploring import LIVING_FOR_EACH_KNOWN, believed
from labfleet.resources.prediction import Evidence, Forecast, Later, Prediction


def told(known: int, *, resource: str = "memory_mib", row: tuple[float, ...] = spread(50, 120)):
    """A prediction of one resource that rests on so many runs."""
    forecast = Forecast(
        resource=resource, expected=80, bound=100, coverage=0.95, evidence=Evidence.CLOSEST,
        spread=row, later=(Later(after_seconds=9, spread=row),), known=known, sentence="From the closest run.",
    )  # fmt: skip
    return Prediction(family="f", forecasts=(forecast,), version=7)


@pytest.mark.parametrize("known", [0, 1, 7])
def test_draws_are_believed_until_too_many_live(known):
    """Three may live for each that ended; from then on a run counts as no less than its bound."""
    most = LIVING_FOR_EACH_KNOWN * known
    assert believed(told(known), most) == told(known)
    doubted = believed(told(known), most + 1).forecasts[0]
    assert min(doubted.spread) == 100
    assert doubted.spread[-1] == 120
    assert doubted.later[0].spread == doubted.spread
    assert f"{most + 1} of the family run and {known} have ended" in doubted.sentence


def test_what_is_certain_or_no_dimension_stays():
    """Declared amounts, empty spreads and durations are left as they are."""
    for each in (
        told(0, row=(100.0,) * 21),
        told(0, row=()),
        told(0, resource="duration_seconds"),
    ):
        assert believed(each, 50) == each


def test_doubting_again_changes_nothing():
    """A stored prediction that was raised is rebuilt as it was decided on."""
    once = believed(told(1), 9)
    assert believed(once, 40) == once
