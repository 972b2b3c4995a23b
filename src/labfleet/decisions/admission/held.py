"""What the live runs of one cluster hold, as sums that are kept up run by run.

Nothing here grows with runs that are over, and a question costs the same however many there were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import add, sub

from labfleet.resources.amounts import Amounts, of_vector, vector


class Held:
    """Sums by dimension over the live runs, each counted once by its uid."""

    def __init__(self, runs: Iterable[tuple[str, Amounts]] = ()) -> None:
        self._of: dict[str, tuple[int, ...]] = {}
        self._sum = vector(Amounts())
        for uid, amounts in runs:
            self.put(uid, amounts)

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    @property
    def total(self) -> Amounts:
        """Return what all of them hold together."""
        return of_vector(self._sum)

    def put(self, uid: str, amounts: Amounts) -> None:
        """Count a run, in place of what it held before."""
        self.drop(uid)
        found = vector(amounts)
        self._of[uid] = found
        self._sum = tuple(map(add, self._sum, found))

    def drop(self, uid: str) -> None:
        """Count a run no longer; no error when it was not counted."""
        old = self._of.pop(uid, None)
        if old is not None:
            self._sum = tuple(map(sub, self._sum, old))
