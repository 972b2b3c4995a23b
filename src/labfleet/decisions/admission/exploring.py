"""How far a prediction is believed while most runs of a family have not ended yet.

The runs that have ended by now are the short ones, and short ones are light. While more of a
family live than have ended, its draws may therefore describe the wrong runs. Two remedies:

- Far more live than have ended: each further run counts as no less than its bound.
- What has ended took but a sliver of what is declared: what is declared stays possible, in one
  outcome, and there for every such run of the family at once, since they would be wrong together.

As the runs end, the draws are believed again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from labfleet.decisions.admission.draws import TARGETED
from labfleet.resources.prediction import Forecast, Prediction

LIVING_FOR_EACH_KNOWN = 5
"""So many runs of a family may live for each that has ended before its draws are doubted."""
SLIVER = 0.1
"""A bound below this share of what is declared is believed only when enough runs have ended."""


def believed(prediction: Prediction, living: int, declared: Mapping[str, float]) -> Prediction:
    """Return the prediction to judge and to store, where so many runs of its family live.

    `declared` is by resource what somebody stated; absent is unknown. What is returned says in
    its evidence when draws were raised, so that a stored prediction gives the draws that were
    decided on.
    """
    return msgspec.structs.replace(
        prediction,
        forecasts=tuple(
            _believed(each, living, declared.get(each.resource, 0.0))
            if each.resource in TARGETED and each.spread and living > each.known
            else each
            for each in prediction.forecasts
        ),
    )


def _believed(found: Forecast, living: int, declared: float) -> Forecast:
    """Return the forecast, raised where too few of its family have ended."""
    said = f"{living} of the family run and {found.known} have ended: counted as"
    if found.bound < SLIVER * declared and not found.together:
        raised = msgspec.structs.replace(
            found,
            together=True,
            spread=_greatest(found.spread, declared),
            later=tuple(
                msgspec.structs.replace(each, spread=_greatest(each.spread, declared))
                for each in found.later
            ),
            sentence=f"{found.sentence} {said} if all might take what is declared.".strip(),
        )
        return _believed(raised, living, declared)
    if living <= LIVING_FOR_EACH_KNOWN * found.known or found.spread[0] >= found.bound:
        return found
    return msgspec.structs.replace(
        found,
        spread=_raised(found.spread, found.bound),
        later=tuple(
            msgspec.structs.replace(each, spread=_raised(each.spread, found.bound))
            for each in found.later
        ),
        sentence=f"{found.sentence} {said} no less than the bound.".strip(),
    )


def _raised(spread: tuple[float, ...], least: float) -> tuple[float, ...]:
    return tuple(max(amount, least) for amount in spread)


def _greatest(spread: tuple[float, ...], most: float) -> tuple[float, ...]:
    return (*spread[:-1], max(spread[-1], most))
