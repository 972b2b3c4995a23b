"""Sums paid time: by pool, session, person, course or machine, and so that rounded rows add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal

from labfleet.decisions.costs.shares import KINDS, Kind, Part

By = Literal["pool", "session", "person", "course"]
MICRO = Decimal("0.000001")
_NAMES: Mapping[By, Callable[[Part], str]] = {
    "pool": lambda part: label(part.paid.namespace, part.paid.pool),
    "session": lambda part: part.session,
    "person": lambda part: part.owner,
    "course": lambda part: part.course,
}


@dataclass(slots=True)
class Sum:
    """What some parts come to: US dollars and hours by kind, and what of it has no price."""

    usd: dict[Kind, Decimal] = field(default_factory=lambda: dict.fromkeys(KINDS, Decimal(0)))
    seconds: dict[Kind, Decimal] = field(default_factory=lambda: dict.fromkeys(KINDS, Decimal(0)))
    unpriced_seconds: Decimal = Decimal(0)
    unpriced: set[str] = field(default_factory=set)

    @property
    def total(self) -> Decimal:
        """Return the sum over all kinds, of what has a price."""
        return sum(self.usd.values(), Decimal(0))

    def add(self, part: Part) -> None:
        """Take a part in."""
        self.seconds[part.kind] += part.seconds
        if part.usd is None:
            self.unpriced_seconds += part.seconds
            self.unpriced.update(part.paid.unpriced)
        else:
            self.usd[part.kind] += part.usd


def label(namespace: str, name: str) -> str:
    """Return a name for people, with its namespace unless that is `default`; of nothing it is empty."""
    return name if namespace == "default" or not name else f"{namespace}/{name}"


def summed(parts: Iterable[Part], by: By) -> dict[str, Sum]:
    """Return what parts come to by name; the name "" has what belongs to none."""
    found: dict[str, Sum] = {}
    name = _NAMES[by]
    for part in parts:
        found.setdefault(name(part), Sum()).add(part)
    return found


def whole(parts: Iterable[Part]) -> Sum:
    """Return what all parts come to."""
    found = Sum()
    for part in parts:
        found.add(part)
    return found


def rounded(amounts: list[Decimal], unit: Decimal = MICRO) -> list[Decimal]:
    """Return amounts in whole units that come to what their exact sum does, rounded.

    Each is cut off, and what is missing then goes to those that lost most.
    """
    total = sum(amounts, Decimal(0)).quantize(unit, ROUND_HALF_EVEN)
    cut = [each.quantize(unit, ROUND_FLOOR) for each in amounts]
    missing = int((total - sum(cut, Decimal(0))) / unit)
    order = sorted(range(len(amounts)), key=lambda place: (cut[place] - amounts[place], place))
    for place in order[:missing]:
        cut[place] += unit
    return cut
