"""How far a prediction is believed while most runs of its family have not ended."""

from __future__ import annotations

import pytest
from admission_runs import spread

from labfleet.decisions.admission.exploring import LIVING_FOR_EACH_KNOWN, believed
from labfleet.decisions.admission.load import Load, need
from labfleet.resources.amounts import Amounts
from labfleet.resources.prediction import Evidence, Forecast, Later, Prediction


def told(known: int, *, resource: str = "memory_mib", row: tuple[float, ...] = spread(50, 120)):
    """A prediction of one resource that rests on so many runs."""
    forecast = Forecast(
        resource=resource, expected=80, bound=100, coverage=0.95, evidence=Evidence.CLOSEST,
        spread=row, later=(Later(after_seconds=9, spread=row),), known=known, sentence="From the closest run.",
    )  # fmt: skip
    return Prediction(family="f", forecasts=(forecast,), version=7)


STATED = {"memory_mib": 5000.0}


@pytest.mark.parametrize("known", [0, 1, 7])
def test_draws_are_believed_until_too_many_live(known):
    """Five may live for each that ended; from then on a run counts as no less than its bound."""
    most = LIVING_FOR_EACH_KNOWN * known
    assert believed(told(known), most, {}) == told(known)
    doubted = believed(told(known), most + 1, {}).forecasts[0]
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
        assert believed(each, 50, {}) == each


def test_doubting_again_changes_nothing():
    """A stored prediction that was raised is rebuilt as it was decided on."""
    once = believed(told(1), 9, STATED)
    assert believed(once, 9, STATED) == once


def test_a_sliver_of_what_is_declared_is_believed_once_as_many_have_ended_as_live():
    """Until then all of the family may take what is declared, in the same outcome."""
    assert believed(told(7), 7, STATED) == told(7)
    found = believed(told(7), 8, STATED)
    forecast = found.forecasts[0]
    assert (forecast.spread[:-1], forecast.spread[-1]) == (spread(50, 120)[:-1], 5000)
    assert forecast.later[0].spread[-1] == 5000
    assert "8 of the family run and 7 have ended" in forecast.sentence
    asks = need(found, {}, Amounts())
    load = Load()
    for number in range(8):
        load.add(f"r{number}", asks)
    assert load.drawn[1].max() == 8 * 5000
    assert sorted(load.drawn[1].tolist())[-2] < 8 * 121


def test_a_bound_near_what_is_declared_is_no_sliver():
    """A bound of a tenth and more of what is declared stays believed."""
    assert believed(told(7), 8, {"memory_mib": 1000.0}) == told(7)
