"""What one place holds over time, as steps: to be asked many times about one set of claims.

Pure. It changes only where a claim begins or ends, so a question about a slot is one search and a
walk over the changes within the slot, up to the first instant at which it is short.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import add, sub

from labfleet.resources.amounts import DIMENSIONS, Shortage

Row = tuple[int, ...]
NONE: Row = (0,) * len(DIMENSIONS)


@dataclass(frozen=True, slots=True)
class Steps:
    """Instants in order, and what is held from each of them to the next; before the first nothing."""

    at: list[datetime]
    held: list[Row]

    def first_short(
        self, begin: datetime, end: datetime | None, wanted: Row, has: Row
    ) -> tuple[datetime, tuple[Shortage, ...]] | None:
        """Return the first instant of a time at which a demand does not fit beside what is held.

        None: it fits all along. A time without end lasts for ever.
        """
        if end is not None and begin >= end:
            return None
        number = bisect_right(self.at, begin) - 1
        instant, held = begin, self.held[number] if number >= 0 else NONE
        while True:
            short = short_of(wanted, has, held)
            if short:
                return instant, short
            number += 1
            if number == len(self.at) or (end is not None and self.at[number] >= end):
                return None
            instant, held = self.at[number], self.held[number]


def steps_of(spans: Iterable[tuple[datetime, datetime, Row]]) -> Steps:
    """Return the steps of what is held from when to when."""
    changes = dict[datetime, Row]()
    for start, end, row in spans:
        changes[start] = tuple(map(add, changes.get(start, NONE), row))
        changes[end] = tuple(map(sub, changes.get(end, NONE), row))
    at, held, now = sorted(changes), list[Row](), NONE
    for instant in at:
        now = tuple(map(add, now, changes[instant]))
        held.append(now)
    return Steps(at, held)


def short_of(wanted: Row, has: Row, held: Row) -> tuple[Shortage, ...]:
    """Return what is missing for a demand beside what is held; nothing when it fits."""
    return tuple(
        Shortage(dimension=name, wanted=want, free=max(0, all_ - taken))
        for name, want, all_, taken in zip(DIMENSIONS, wanted, has, held, strict=True)
        if want > 0 and taken + want > all_
    )
