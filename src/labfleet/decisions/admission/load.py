"""The load of one cluster, kept up run by run: what its live runs take, once each.

Three sums are kept, one for each rule: outcome by outcome (`drawn`), of bounds, and of what was
declared. Each is of the live runs alone, in whole numbers, so that a load that was kept up is
exactly the one that is built anew from the live runs, in any order. Nothing grows with past runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, sub

import numpy as np

from labfleet.decisions.admission.draws import DRAWS, TARGETED, Draws, draws
from labfleet.resources.amounts import DIMENSIONS, MOST, Amounts, of_vector, vector
from labfleet.resources.prediction import Prediction

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What a run is expected to take of a cluster.

    spreads: For each of TARGETED, quantiles of what it takes while it runs, or one number.
    bounds: Upper bound in each dimension; plainly what it needs where nothing is predicted.
    declared: What it or the cluster's default declares.
    family: Which runs it is like; those of a family that live are counted.
    """

    spreads: tuple[tuple[float, ...], ...]
    bounds: Amounts
    declared: Amounts
    family: str = ""


def need(prediction: Prediction | None, declared: Mapping[str, float], default: Amounts) -> Need:
    """Return what a run is judged by: what is predicted, else declared, else the default.

    `declared` names dimensions that somebody stated, in base units; a dimension that is neither
    predicted nor stated is unknown and therefore costs the cluster's `default`, never nothing.
    """
    stated = {name: _whole(declared.get(name, getattr(default, name))) for name in DIMENSIONS}
    bounds, spreads = dict(stated), []
    for name in DIMENSIONS:
        found = prediction.of(name) if prediction is not None else None
        if found is not None:
            bounds[name] = _whole(found.bound)
        if name in TARGETED:
            spread = found.spread if found is not None else ()
            spreads.append((name, spread or (float(bounds[name]),)))
    rows = dict(spreads)
    return Need(
        spreads=tuple(rows[name] for name in TARGETED),
        bounds=Amounts(**bounds),
        declared=Amounts(**stated),
        family=prediction.family if prediction is not None else "",
    )


def _whole(amount: float) -> int:
    """Return a demand rounded up, within what an amount may be."""
    return min(MOST, max(0, -int(-amount // 1)))


@dataclass(slots=True)
class _Live:
    drawn: Draws
    bounds: Vector
    declared: Vector
    family: str


class Load:
    """What the live runs of one cluster take; O(DRAWS) for each change. Not thread-safe."""

    def __init__(self) -> None:
        self.drawn: Draws = np.zeros((len(TARGETED), DRAWS), dtype=np.int64)
        self._bounds: Vector = (0,) * len(DIMENSIONS)
        self._declared: Vector = self._bounds
        self._live: dict[str, _Live] = {}
        self._families: dict[str, int] = {}

    def __len__(self) -> int:
        """Return how many runs live."""
        return len(self._live)

    def __contains__(self, uid: str) -> bool:
        """Return whether a run of this uid lives."""
        return uid in self._live

    def living(self, family: str) -> int:
        """Return how many runs of a family live."""
        return self._families.get(family, 0)

    @property
    def bounds(self) -> Amounts:
        """The sum of max(observed so far, bound) in each dimension."""
        return of_vector(self._bounds)

    @property
    def declared(self) -> Amounts:
        """The sum of max(observed so far, declared) in each dimension."""
        return of_vector(self._declared)

    def add(self, uid: str, wanted: Need, peaks: Mapping[str, float] | None = None) -> None:
        """Count a run that lives, with its peaks so far; nothing changes when it is known.

        A rebuilt load is an add of each live run.
        """
        if uid in self._live:
            return
        live = _Live(
            drawn=draws(uid, wanted.spreads),
            bounds=vector(wanted.bounds),
            declared=vector(wanted.declared),
            family=wanted.family,
        )
        self._live[uid] = live
        self._families[live.family] = self.living(live.family) + 1
        self._count(live, 1)
        if peaks:
            self.observe(uid, peaks)

    def remove(self, uid: str) -> None:
        """Forget a run that ended; nothing changes when it is unknown."""
        live = self._live.pop(uid, None)
        if live is None:
            return
        self._count(live, -1)
        left = self._families.pop(live.family) - 1
        if left:
            self._families[live.family] = left

    def observe(self, uid: str, peaks: Mapping[str, float]) -> None:
        """Raise a live run to its peaks so far, in base units by dimension.

        Each outcome becomes max(observed, outcome), each bound max(observed, bound): a run is
        counted once. An absent dimension was not measured; an unknown run is none of ours.
        """
        live = self._live.get(uid)
        if live is None:
            return
        seen = tuple(_whole(peaks.get(name, 0)) for name in DIMENSIONS)
        self._count(live, -1)
        rows = np.array([_whole(peaks.get(name, 0)) for name in TARGETED], dtype=np.int64)
        live.drawn = np.maximum(live.drawn, rows[:, None])
        live.bounds = tuple(map(max, live.bounds, seen))
        live.declared = tuple(map(max, live.declared, seen))
        self._count(live, 1)

    def _count(self, live: _Live, sign: int) -> None:
        change = add if sign > 0 else sub
        self._bounds = tuple(map(change, self._bounds, live.bounds))
        self._declared = tuple(map(change, self._declared, live.declared))
        if sign > 0:
            self.drawn += live.drawn
        else:
            self.drawn -= live.drawn
