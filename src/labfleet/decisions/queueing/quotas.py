"""Quotas of queues and cohorts: what their runs hold, what is left, and whose turn it is.

Integer arithmetic. A dimension is divided in a cohort when any of its queues has a quota in it.
A queue's share is the largest part that it borrows of any divided dimension, by its weight: a
queue within its quota has share 0 (Kueue's dominant share). In a cohort that divides nothing all
is borrowed, of the cluster itself (dominant resource fairness).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from operator import sub

from labfleet.decisions.queueing.requests import NONE, Terms
from labfleet.resources.amounts import DIMENSIONS

ALL = range(len(DIMENSIONS))


class Level(StrEnum):
    """What keeps a request waiting: nothing below it does."""

    UNKNOWN_QUEUE = "UnknownQueue"
    QUEUE = "Queue"
    COHORT = "Cohort"
    CLUSTER = "Cluster"
    HELD_FREE = "HeldFree"


class Account:
    """What is held of a limit; `most` has None where there is no limit."""

    __slots__ = ("limits", "most", "used")

    def __init__(self, most: Sequence[int | None], used: Sequence[int] = NONE) -> None:
        self.most = tuple(most)
        self.limits = [(each, limit) for each, limit in enumerate(most) if limit is not None]
        self.used = list(used)

    def short(self, need: tuple[int, ...]) -> bool:
        """Tell whether the need is above what is left; what is not needed is never short."""
        used = self.used
        return any(need[each] and used[each] + need[each] > most for each, most in self.limits)

    def never(self, need: tuple[int, ...]) -> bool:
        """Tell whether the need is above the limit even when nothing is held."""
        return any(need[each] > most for each, most in self.limits)

    def add(self, need: tuple[int, ...], sign: int = 1) -> None:
        """Count the need as held, or with sign -1 as given back."""
        used = self.used
        for each, amount in enumerate(need):
            if amount:
                used[each] += sign * amount

    def copy(self) -> Account:
        """Return one to try something on."""
        return Account(self.most, self.used)


class Quotas:
    """The accounts of all queues and cohorts of one cluster; `capacity` is what it may be filled to."""

    def __init__(self, queues: Iterable[Terms], capacity: tuple[int, ...]) -> None:
        self.terms = {each.name: each for each in queues}
        # Requests that name no queue stand beside the queues, limited by the cluster alone.
        self.terms.setdefault("", Terms(name=""))
        self.capacity = capacity
        groups: dict[str, list[Terms]] = {}
        for each in self.terms.values():
            groups.setdefault(_group(each), []).append(each)
        self._groups = {each.name: _group(each) for each in self.terms.values()}
        self.cohorts: dict[str, Account] = {}
        self.queues: dict[str, Account] = {}
        self._shared: dict[str, list[tuple[int, int, float]]] = {}
        for group, members in groups.items():
            self._divide(group, members)

    def _divide(self, group: str, members: list[Terms]) -> None:
        whole = [sum(each.quota[dim] for each in members) for dim in ALL]
        divided = [dim for dim in ALL if whole[dim]]
        self.cohorts[group] = Account([amount or None for amount in whole])
        for each in members:
            alone, more = each.cohort is None, each.borrowing
            most: list[int | None] = [None for _ in ALL]
            for dim in divided:
                if alone or more is not None:
                    most[dim] = each.quota[dim] + (0 if alone or more is None else more[dim])
            self.queues[each.name] = Account(most)
            of = [(dim, whole[dim]) for dim in divided]
            of = of or [(dim, self.capacity[dim]) for dim in ALL if self.capacity[dim]]
            self._shared[each.name] = [
                (dim, each.quota[dim], float(total * each.weight)) for dim, total in of
            ]

    def group(self, queue: str) -> str:
        """Return the key of a queue's cohort, which for one without is its own; "" when unknown."""
        return self._groups.get(queue, "")

    def short(self, queue: str, need: tuple[int, ...]) -> Level | None:
        """Return the lowest level that is short of the need, or None."""
        own = self.queues.get(queue)
        if own is None:
            return Level.UNKNOWN_QUEUE
        if own.short(need):
            return Level.QUEUE
        return Level.COHORT if self.cohorts[self._groups[queue]].short(need) else None

    def never(self, queue: str, need: tuple[int, ...]) -> bool:
        """Tell whether the quotas let the need in even when nothing runs: True means never."""
        own = self.queues.get(queue)
        return own is None or own.never(need) or self.cohorts[self.group(queue)].never(need)

    def add(self, queue: str, need: tuple[int, ...], sign: int = 1) -> None:
        """Count a run's need as held, or with sign -1 as given back.

        Of a queue that is gone nothing is counted: its limits are gone too.
        """
        own = self.queues.get(queue)
        if own is not None:
            own.add(need, sign)
            self.cohorts[self.group(queue)].add(need, sign)

    def share(self, queue: str, apart: Sequence[int] = NONE) -> float:
        """Return how much a queue borrows, by its weight; the least goes first.

        `apart` is held by runs that do not count.
        """
        own = self.queues.get(queue)
        if own is None:
            return 0.0
        used = own.used if apart is NONE else list(map(sub, own.used, apart))
        most = 0.0
        for dim, quota, total in self._shared[queue]:
            if used[dim] > quota:
                most = max(most, (used[dim] - quota) / total)
        return most

    def borrows(self, queue: str, need: tuple[int, ...], apart: Sequence[int] = NONE) -> bool:
        """Tell whether a queue would hold more than its quota with this; `apart` does not count."""
        own = self.queues.get(queue)
        if own is None:
            return True
        used = own.used
        for dim, quota, _ in self._shared[queue]:
            if need[dim] and used[dim] - apart[dim] + need[dim] > quota:
                return True
        return False


def _group(terms: Terms) -> str:
    return f"queue {terms.name}" if terms.cohort is None else f"cohort {terms.cohort}"
