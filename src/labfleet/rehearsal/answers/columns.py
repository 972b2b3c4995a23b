"""The columns of an answer: a variant with its result for each seed, and the spread of these."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, fields
from typing import Any

from labfleet.rehearsal.figures.tally import Figures
from labfleet.rehearsal.whatif.what_if import Answer

FIGURES = tuple(each.name for each in fields(Figures))
DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over the draws; all three are the same when there is one draw."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class VariantColumn:
    """One variant: an answer for each seed, in their order."""

    name: str
    draws: tuple[Answer, ...]

    @property
    def seeds(self) -> list[int]:
        """Return the seeds that were played."""
        return [each.seed for each in self.draws]

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the pools as they were played."""
        return self.draws[0].settings

    @property
    def figures(self) -> list[Figures]:
        """Return the figures of each draw."""
        return [each.figures for each in self.draws]

    @property
    def broken(self) -> bool:
        """Tell whether a rule was broken in a draw; such a draw was not played to its end."""
        return any(each.violations for each in self.draws)

    @property
    def worst(self) -> Answer:
        """Return the draw in which the fewest were served in time."""
        return min(self.draws, key=lambda each: (_in_time(each), -each.figures.unserved))


def _in_time(each: Answer) -> float:
    return 1.0 if each.figures.in_time is None else each.figures.in_time


def gathered(answers: list[Answer]) -> list[VariantColumn]:
    """Return the answers by variant, in the order in which they came."""
    found: dict[str, list[Answer]] = {}
    for each in answers:
        found.setdefault(each.name, []).append(each)
    return [VariantColumn(name, tuple(draws)) for name, draws in found.items()]


def spread(found: list[Figures], name: str) -> Spread | None:
    """Return the spread of a figure over draws; None when it is unknown in one of them."""
    values = [getattr(each, name) for each in found]
    told = [value for value in values if value is not None]
    if not told or len(told) < len(values):
        return None
    return Spread(min(told), statistics.median(told), max(told))


def middle(found: list[Figures]) -> dict[str, Any]:
    """Return the median of every figure, as JSON has it."""
    made = {}
    for name in FIGURES:
        each = spread(found, name)
        made[name] = None if each is None else rounded(each.mid)
    return made


def ranges(found: list[Figures]) -> dict[str, list[Any]]:
    """Return the lowest and the highest of the figures that differ between draws."""
    made = {}
    for name in FIGURES:
        each = spread(found, name)
        if each is not None and each.low != each.high:
            made[name] = [rounded(each.low), rounded(each.high)]
    return made


def plain(found: Figures) -> dict[str, Any]:
    """Return the figures of one draw, as JSON has them."""
    return {name: rounded(value) for name, value in asdict(found).items()}


def rounded(value: Any) -> Any:
    """Return a figure rounded for people."""
    return round(value, DECIMALS) if isinstance(value, float) else value


def apart(recorded: Figures, played: list[Figures]) -> dict[str, float | None]:
    """Return how far the played median is from the recorded figure, as a share of the latter."""
    made: dict[str, float | None] = {}
    for name in FIGURES:
        one, two = getattr(recorded, name), spread(played, name)
        if one is None or two is None:
            made[name] = None
        elif one == two.mid:
            made[name] = 0.0
        else:
            made[name] = round((two.mid - one) / one, DECIMALS) if one else None
    return made
