"""The recent runs of one family as points, and which of them are closest to a new one.

Pure. Numbers are compared by their logarithm against the range seen so far, so that 10 and 20
are as far apart as 100 and 200; flags and words are equal or they are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import copysign, exp, expm1, log1p

import numpy as np
from numpy.typing import NDArray

from labfleet.resources.history import Parameter

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]

KEPT = 256
"""Runs kept of one family; an older one gives its slot to a new one."""
CLOSE = 25
"""Closest runs that a guess may look at."""
COLUMNS = 16
"""Parameters that are compared; further ones are ignored, the first seen count."""
WORDS = 256
"""Different words kept of one parameter; further ones all count as one."""
FARTHEST_REACH = 100.0
SAME = 1e-6
"""Distance below which two runs asked for the same; ages are what is left of it."""
ABSENT = -1000.0
"""Stands for a number that a run does not have; logarithms of floats stay within 710."""
LONGEST_WORD = 80


@dataclass(slots=True)
class Query:
    """A run that is to be compared with the kept ones.

    values: Its parameters, one number a column.
    closest: Slots of the closest kept runs, closest first, the newer one where equal.
    slots: The same as plain numbers.
    distance: How far the closest is; 0 is equal in every parameter.
    far: Distance of every slot, with the age breaking ties.
    reach: How many times larger its greatest number is than any that was seen, at least 1.
    alike: Whether all kept runs asked for the same as it.
    points: Parameters of those kept runs that somebody has asked for, by slot.
    """

    values: list[float]
    closest: Slots
    slots: list[int]
    distance: float
    far: Floats
    reach: float
    alike: bool = False
    points: dict[int, list[float]] = field(default_factory=dict)


class Window:
    """The last KEPT runs of a family; slot numbers name them."""

    def __init__(self) -> None:
        """Begin with no runs."""
        self.count = 0
        """Runs added so far, also those that were dropped since."""
        self.names: list[str] = []
        self.seconds: Floats = np.zeros(8)
        """How long each run took; 0 where nobody knows."""
        self._points: Floats = np.zeros((1, 8))  # a row for each column of parameters
        self._age: Floats = np.zeros(8)
        self._columns: dict[tuple[bool, str], int] = {}
        self._words: list[dict[str, int]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._scale: Floats = np.zeros((1, 1))
        self._clip: Floats = np.zeros((1, 1))
        self.numbers: list[int] = []
        """Columns that hold numbers of which at least two differ."""

    def __len__(self) -> int:
        """Return how many runs are kept."""
        return len(self.names)

    @property
    def points(self) -> Floats:
        """The kept runs, one row each."""
        return self._points[:, : len(self.names)].T

    @property
    def longest(self) -> float:
        """How long the longest kept run took, in seconds."""
        return float(self.seconds[: len(self.names)].max())

    def query(self, parameters: Mapping[str, Parameter]) -> Query:
        """Return where a run would stand among the kept ones; at least one is kept."""
        values = self._values(parameters)
        kept = len(self.names)
        apart = self._points[:, :kept] - np.array(values).reshape(-1, 1)
        np.abs(apart, out=apart)
        apart *= self._scale
        np.minimum(apart, self._clip, out=apart)
        far = np.add.reduce(apart, axis=0)
        far += (self.count - self._age[:kept]) * 1e-9
        closest = nearest(far)
        slots: list[int] = closest.tolist()
        # Ages are below 1e-6 in this unit, and parameters that differ are farther apart.
        distance = float(far[slots[0]])
        alike = distance < SAME and float(np.maximum.reduce(far)) < SAME
        reach = 1.0
        for column in self.numbers:
            if values[column] > self._high[column]:
                reach = max(reach, exp(min(values[column] - self._high[column], 20.0)))
        apart_by = 0.0 if distance < SAME else distance
        return Query(values, closest, slots, apart_by, far, min(reach, FARTHEST_REACH), alike)

    def largest(self, name: str) -> float | None:
        """Return the largest number that a parameter had in any run; None when it had none."""
        column = self._columns.get((True, name))
        if column is None:
            return None
        high = self._high[column]
        return copysign(expm1(abs(high)), high)

    def at(self, slot: int, query: Query) -> list[float]:
        """Return a kept run's parameters, one number a column; a query asks for few, and again."""
        found = query.points.get(slot)
        if found is None:
            found = query.points[slot] = self._points[:, slot].tolist()
        return found

    def add(self, parameters: Mapping[str, Parameter], name: str, seconds: float) -> int:
        """Keep a run and return its slot."""
        self._see(parameters)
        slot = self.count % KEPT
        if slot == len(self.names):
            self.names.append(name)
            if slot >= len(self._age):
                self._grow()
        else:
            self.names[slot] = name
        self._points[:, slot] = self._values(parameters)
        self._age[slot] = self.count
        self.seconds[slot] = seconds
        self.count += 1
        return slot

    def _grow(self) -> None:
        size = min(KEPT, 2 * len(self._age))
        self._age = grown(self._age, size)
        self.seconds = grown(self.seconds, size)
        points = np.zeros((len(self._points), size))
        points[:, : self._points.shape[1]] = self._points
        self._points = points

    def _see(self, parameters: Mapping[str, Parameter]) -> None:
        """Take in columns, words and ranges of a run that is about to be kept."""
        for name, value in sorted(parameters.items()):
            key = (_is_number(value), name)
            column = self._columns.get(key)
            if column is None:
                if len(self._columns) >= COLUMNS:
                    continue
                column = self._new_column(key)
            if key[0]:
                number = _logarithm(value)  # type: ignore[arg-type]
                self._low[column] = min(self._low[column], number)
                self._high[column] = max(self._high[column], number)
                span = self._high[column] - self._low[column]
                if span > 0 and column not in self.numbers:
                    self.numbers.append(column)
                self._scale[column] = 1.0 / max(span, 0.1)
            else:
                words = self._words[column]
                if len(words) < WORDS:
                    words.setdefault(_word(value), len(words) + 2)

    def _new_column(self, key: tuple[bool, str]) -> int:
        column = len(self._columns)
        self._columns[key] = column
        self._words.append({})
        self._low.append(float("inf"))
        self._high.append(float("-inf"))
        if column:
            row = np.zeros((1, self._points.shape[1]))
            self._points = np.concatenate((self._points, row))
            self._scale = np.concatenate((self._scale, np.zeros((1, 1))))
            self._clip = np.concatenate((self._clip, np.zeros((1, 1))))
        self._points[column] = ABSENT if key[0] else 0.0
        self._scale[column] = 1.0
        self._clip[column] = 10.0 if key[0] else 1.0
        return column

    def _values(self, parameters: Mapping[str, Parameter]) -> list[float]:
        found = []
        for (number, name), column in self._columns.items():
            value = parameters.get(name)
            if value is None or _is_number(value) is not number:
                found.append(ABSENT if number else 0.0)
            elif number:
                found.append(_logarithm(value))  # type: ignore[arg-type]
            else:
                found.append(float(self._words[column].get(_word(value), 1)))
        return found or [0.0]


def nearest(far: Floats) -> Slots:
    """Return the slots of the CLOSE smallest distances, smallest first."""
    return far.argsort()[:CLOSE]


def grown(row: Floats, size: int) -> Floats:
    """Return a row lengthened by zeros."""
    longer = np.zeros(size)
    longer[: len(row)] = row
    return longer


def _is_number(value: Parameter) -> bool:
    # What is not finite has no place among numbers; it is compared as a word.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _logarithm(value: float) -> float:
    return copysign(log1p(abs(value)), value)


def _word(value: Parameter) -> str:
    text = value if isinstance(value, str) else str(value).lower()
    if len(text) <= LONGEST_WORD:
        return text
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
