"""How far a prediction is believed while most runs of a family have not ended yet.

The runs that have ended by now are the short ones, and short ones are light. While many more of
a family live than have ended, its draws therefore describe the wrong runs; each further one counts
as no less than its bound in every outcome. As they end, the draws are believed again.
"""

from __future__ import annotations

import msgspec

from labfleet.decisions.admission.draws import TARGETED
from labfleet.resources.prediction import Prediction

LIVING_FOR_EACH_KNOWN = 3
"""So many runs of a family may live for each that has ended before its draws are doubted."""


def believed(prediction: Prediction, living: int) -> Prediction:
    """Return the prediction to judge and to store, where so many runs of its family live.

    What is returned says in its evidence when draws were raised, so that a stored prediction
    gives the draws that were decided on.
    """
    if living <= LIVING_FOR_EACH_KNOWN * min(
        (each.known for each in prediction.forecasts), default=0
    ):
        return prediction
    forecasts = []
    for each in prediction.forecasts:
        doubted = each.resource in TARGETED and living > LIVING_FOR_EACH_KNOWN * each.known
        if not doubted or not each.spread or each.spread[0] >= each.bound:
            forecasts.append(each)
            continue
        said = f"{living} of the family run and {each.known} have ended: counted as no less than"
        forecasts.append(
            msgspec.structs.replace(
                each,
                spread=_raised(each.spread, each.bound),
                later=tuple(
                    msgspec.structs.replace(one, spread=_raised(one.spread, each.bound))
                    for one in each.later
                ),
                sentence=f"{each.sentence} {said} the bound.".strip(),
            )
        )
    return msgspec.structs.replace(prediction, forecasts=tuple(forecasts))


def _raised(spread: tuple[float, ...], least: float) -> tuple[float, ...]:
    return tuple(max(amount, least) for amount in spread)
