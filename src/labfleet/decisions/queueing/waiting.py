"""The requests that wait in one queue, in their order and by shape.

Requests of one shape ask for the same, so when one cannot start none of them can: a decision looks
at the first of each shape and not at every request.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Hashable

Place = tuple[float, str]


class Waiting:
    """One queue's requests by their place; adding and removing costs no walk over the others."""

    def __init__(self) -> None:
        self.all: list[Place] = []
        self.shapes: dict[Hashable, list[Place]] = {}
        self.heads: list[tuple[Place, Hashable]] = []

    def add(self, place: Place, shape: Hashable) -> None:
        """Let a request wait."""
        insort(self.all, place)
        rows = self.shapes.setdefault(shape, [])
        if rows and rows[0] < place:
            insort(rows, place)
            return
        if rows:
            self._forget(rows[0])
        rows.insert(0, place)
        insort(self.heads, (place, shape), key=_place)

    def remove(self, place: Place, shape: Hashable) -> None:
        """Let a request wait no longer."""
        del self.all[bisect_left(self.all, place)]
        rows = self.shapes[shape]
        at = bisect_left(rows, place)
        del rows[at]
        if at:
            return
        self._forget(place)
        if rows:
            insort(self.heads, (rows[0], shape), key=_place)
        else:
            del self.shapes[shape]

    def rank(self, place: Place) -> int:
        """Return how many requests stand before this place."""
        return bisect_left(self.all, place)

    def _forget(self, head: Place) -> None:
        del self.heads[bisect_left(self.heads, head, key=_place)]


class Walk:
    """A walk over one queue's requests in order, past the shapes that are given up."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._next = 0
        self._opened: list[tuple[Place, int, Hashable]] = []
        self.looked = 0

    def first(self) -> Place | None:
        """Return the place of the next request; None at the end."""
        heads, opened = self._waiting.heads, self._opened
        if self._next < len(heads) and (not opened or heads[self._next][0] < opened[0][0]):
            return heads[self._next][0]
        return opened[0][0] if opened else None

    def take(self) -> None:
        """Go on past this request alone."""
        self._step(further=True)

    def give_up(self) -> None:
        """Go on past all of this request's shape."""
        self._step(further=False)

    def _step(self, *, further: bool) -> None:
        heads, opened = self._waiting.heads, self._opened
        self.looked += 1
        if self._next < len(heads) and (not opened or heads[self._next][0] < opened[0][0]):
            at, shape = 0, heads[self._next][1]
            self._next += 1
        else:
            _, at, shape = heapq.heappop(opened)
        rows = self._waiting.shapes[shape]
        if further and at + 1 < len(rows):
            heapq.heappush(opened, (rows[at + 1], at + 1, shape))


def _place(row: tuple[Place, Hashable]) -> Place:
    return row[0]
