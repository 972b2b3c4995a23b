"""What a cluster has room for: the test that a decision asks, and the plainest one.

The decision does not know by which rule a run may start (sums or chance): it asks a Room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from labfleet.decisions.queueing.requests import Request
from labfleet.resources.amounts import vector


class Room(Protocol):
    """What runs on a cluster, and whether one more fits beside it.

    A smaller set of runs must have room for whatever a larger one has room for.
    """

    def fits(self, request: Request) -> bool:
        """Tell whether the request's run may start beside what is counted."""

    def add(self, request: Request) -> None:
        """Count the request's run."""

    def remove(self, uid: str) -> None:
        """Count a run no longer; one that is not counted is ignored."""

    def copy(self) -> Room:
        """Return one to try something on; the two change apart from each other."""


class SumRoom:
    """The rule by sums: what is counted and the request together are within the capacity.

    A dimension that is not needed is never short.
    """

    def __init__(
        self, capacity: Sequence[int], counted: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        """`capacity` is in the order of DIMENSIONS; `counted` are runs that it is left beside."""
        self._free = list(capacity)
        self._counted = dict(counted or {})

    def fits(self, request: Request) -> bool:
        """Tell whether each dimension that is needed has as much left."""
        pairs = zip(vector(request.amounts), self._free, strict=True)
        return all(not need or need <= free for need, free in pairs)

    def add(self, request: Request) -> None:
        """Count the run's amounts."""
        need = vector(request.amounts)
        self._counted[request.uid] = need
        self._free = [free - each for free, each in zip(self._free, need, strict=True)]

    def remove(self, uid: str) -> None:
        """Give back what the run was counted with."""
        need = self._counted.pop(uid, None)
        if need is not None:
            self._free = [free + each for free, each in zip(self._free, need, strict=True)]

    def copy(self) -> SumRoom:
        """Return the same sums, apart."""
        return SumRoom(self._free, self._counted)
