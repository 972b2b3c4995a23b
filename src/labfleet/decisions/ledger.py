"""Capacity over time: how much is held, and when how much is free.

Exact integer arithmetic over reservations (half-open intervals). `peak` is what the invariant of
docs/explanation/capacity-and-ports.md rests on: no dimension is overbooked at any instant. The
store ensures it between concurrent writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import add, neg, sub

import msgspec

from labfleet.resources.amounts import (
    DIMENSIONS,
    Amounts,
    Reservation,
    Shortage,
    of_vector,
    vector,
)
from labfleet.resources.worker import Allocation, Shares

NOTHING = Amounts()
OVERDUE = timedelta(minutes=15)
"""How much longer a lab is assumed to hold its capacity once its slot's end has passed."""


def total(reservations: Iterable[Reservation]) -> Amounts:
    """Return the sum of all reservations, regardless of their times."""
    rows = [vector(each.amounts) for each in reservations]
    return of_vector(map(sum, zip(*rows, strict=True))) if rows else NOTHING


def settled(reservations: Iterable[Reservation], now: datetime) -> tuple[Reservation, ...]:
    """Return the reservations, with overdue ones extended until a little after now.

    The end of a slot frees nothing by itself: capacity is free once the lab was seen gone and
    its reservation was removed.
    """
    return tuple(
        msgspec.structs.replace(each, end=now + OVERDUE)
        if each.end is not None and each.end < now + OVERDUE and each.start <= now
        else each
        for each in reservations
    )


def peak(reservations: Iterable[Reservation], start: datetime, end: datetime | None) -> Amounts:
    """Return, for each dimension, the most that is held at any instant of [start, end).

    `end` None means for ever. An empty interval holds nothing.
    """
    if end is not None and end <= start:
        return NOTHING
    standing: list[tuple[int, ...]] = []
    changes: list[tuple[datetime, int, tuple[int, ...]]] = []
    for each in reservations:
        if (each.end is not None and each.end <= max(start, each.start)) or (
            end is not None and each.start >= end
        ):
            continue
        row = vector(each.amounts)
        if each.start <= start:
            standing.append(row)
        else:
            changes.append((each.start, 1, row))
        if each.end is not None:
            # At one instant, ends sort before starts: adjacent reservations do not overlap.
            changes.append((each.end, -1, tuple(map(neg, row))))
    if not standing and not changes:
        return NOTHING
    held = tuple(map(sum, zip(*standing, strict=True))) if standing else vector(NOTHING)
    most = held
    for _, sign, row in sorted(changes, key=_when):
        held = tuple(map(add, held, row))
        if sign > 0:
            most = tuple(map(max, most, held))
    return of_vector(most)


def promised(reservations: Iterable[Reservation], now: datetime) -> Amounts:
    """Return, for each dimension, the most that is held at any instant from now on."""
    return peak(settled(reservations, now), now, None)


def allocation(reserved: Amounts, capacity: Amounts | None) -> Allocation:
    """Return what is reserved with what is left and the shares; unknown without a capacity."""
    if capacity is None:
        return Allocation(reserved=reserved)
    shares = {
        name.partition("_")[0]: None if not all_ else round(100 * had / all_, 1)
        for name, had, all_ in zip(DIMENSIONS, vector(reserved), vector(capacity), strict=True)
    }
    return Allocation(
        reserved=reserved, available=less(capacity, reserved), percent=Shares(**shares)
    )


def free_at(capacity: Amounts, reservations: Iterable[Reservation], at: datetime) -> Amounts:
    """Return what is free at one instant; 0 where more is held than there is."""
    return less(capacity, peak(reservations, at, at + timedelta(microseconds=1)))


def full_from(
    wanted: Amounts, capacity: Amounts, reservations: Sequence[Reservation], since: datetime
) -> datetime:
    """Return the first instant from `since` on at which a further amount does not fit.

    The caller knows that there is one; without any it is `since`.
    """
    starts = sorted({since, *(each.start for each in reservations if each.start > since)})
    for at in starts:
        held = peak(reservations, at, at + timedelta(microseconds=1))
        if shortages(wanted, capacity, held):
            return at
    return since


def less(capacity: Amounts, held: Amounts) -> Amounts:
    """Return capacity minus held, never below zero."""
    return of_vector(max(0, left) for left in map(sub, vector(capacity), vector(held)))


def shortages(
    wanted: Amounts, capacity: Amounts, held: Amounts, *, dimensions: Sequence[str] = DIMENSIONS
) -> tuple[Shortage, ...]:
    """Return every dimension in which held plus wanted would exceed the capacity.

    A dimension that is not wanted is never short. So a worker that shrank in one dimension still
    takes requests that need none of it.
    """
    found = []
    for name in dimensions:
        need = getattr(wanted, name)
        free = getattr(capacity, name) - getattr(held, name)
        if need > 0 and need > free:
            found.append(Shortage(dimension=name, wanted=need, free=max(0, free)))
    return tuple(found)


def _when(change: tuple[datetime, int, tuple[int, ...]]) -> tuple[datetime, int]:
    return change[0], change[1]
