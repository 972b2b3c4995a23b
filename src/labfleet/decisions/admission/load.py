"""The load of one cluster, kept up run by run: what its live runs take, once each.

Three sums are kept, one for each rule: outcome by outcome (`drawn`), of bounds, and of what was
declared. Each is of the live runs alone, in whole numbers, so that a load that was kept up is
exactly the one that is built anew from the live runs, in any order. Nothing grows with past runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, sub

import numpy as np

from labfleet.decisions.admission.draws import DRAWS, TARGETED, Draws, draws
from labfleet.resources.amounts import DIMENSIONS, MOST, Amounts, of_vector, vector
from labfleet.resources.prediction import Prediction

Vector = tuple[int, ...]
_PLACES = tuple(DIMENSIONS.index(name) for name in TARGETED)
SPARE = 64
"""So many ends of waiting may be kept for nobody before they are dropped."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a run is expected to take of a cluster.

    spreads: For each of TARGETED, quantiles of what it takes while it runs, or one number.
    bounds: Upper bound in each dimension; plainly what it needs where nothing is predicted.
    declared: What it or the cluster's default declares.
    family: Which runs it is like; those of a family that live are counted.
    later: Age in seconds, place in TARGETED and spread from that age on, the youngest first.
    """

    spreads: tuple[tuple[float, ...], ...]
    bounds: Amounts
    declared: Amounts
    family: str = ""
    later: tuple[tuple[float, int, tuple[float, ...]], ...] = ()

    def later_on(self, later: tuple[tuple[float, int, tuple[float, ...]], ...]) -> Need:
        """Return the need with what holds from which age on."""
        return Need(self.spreads, self.bounds, self.declared, self.family, later)


def need(prediction: Prediction | None, declared: Mapping[str, float], default: Amounts) -> Need:
    """Return what a run is judged by: what is predicted, else declared, else the default.

    `declared` names dimensions that somebody stated, in base units; a dimension that is neither
    predicted nor stated is unknown and therefore costs the cluster's `default`, never nothing.
    """
    told = {} if prediction is None else {each.resource: each for each in prediction.forecasts}
    stated = [
        _whole(declared[name]) if name in declared else min(MOST, known)
        for name, known in zip(DIMENSIONS, vector(default), strict=True)
    ]
    bounds = [
        _whole(told[name].bound) if name in told else said
        for name, said in zip(DIMENSIONS, stated, strict=True)
    ]
    spreads: list[tuple[float, ...]] = []
    for name, place in zip(TARGETED, _PLACES, strict=True):
        found = told.get(name)
        certain = found is None or not found.spread
        spreads.append((float(bounds[place]),) if certain or found is None else found.spread)
    return Need(
        spreads=tuple(spreads),
        bounds=of_vector(bounds),
        declared=of_vector(stated),
        family=prediction.family if prediction is not None else "",
        later=() if prediction is None else later_of(prediction),
    )


def later_of(prediction: Prediction) -> tuple[tuple[float, int, tuple[float, ...]], ...]:
    """Return which spreads hold from which age on, as `Need` has them."""
    return tuple(
        sorted(
            (later.after_seconds, TARGETED.index(each.resource), later.spread)
            for each in prediction.forecasts
            if each.later and each.spread and each.resource in TARGETED
            for later in each.later
        )
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
    spreads: tuple[tuple[float, ...], ...]
    later: tuple[tuple[float, int, tuple[float, ...]], ...]
    since: float
    seen: Vector = (0,) * len(DIMENSIONS)


class Load:
    """What the live runs of one cluster take; O(DRAWS) for each change. Not thread-safe."""

    def __init__(self) -> None:
        self.drawn: Draws = np.zeros((len(TARGETED), DRAWS), dtype=np.int64)
        self._bounds: Vector = (0,) * len(DIMENSIONS)
        self._declared: Vector = self._bounds
        self._live: dict[str, _Live] = {}
        self._families: dict[str, int] = {}
        self._others: Vector = self._bounds
        self._due: list[tuple[float, str]] = []

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

    def held(self, *, declared: bool) -> Vector:
        """Return the sum of what was declared, or of bounds, in the order of DIMENSIONS."""
        return self._declared if declared else self._bounds

    def taken(self, uid: str) -> tuple[Draws, Vector, Vector] | None:
        """Return what a live run takes: outcomes, bounds, declared; None for another one."""
        live = self._live.get(uid)
        return None if live is None else (live.drawn, live.bounds, live.declared)

    def add(
        self,
        uid: str,
        wanted: Need,
        peaks: Mapping[str, float] | None = None,
        *,
        since: float = 0.0,
        drawn: Draws | None = None,
    ) -> None:
        """Count a run that lives since some second, with its peaks so far; once for each uid.

        A rebuilt load is an add of each live run, and `advance` to now. `drawn` are its outcomes
        where they are known already.
        """
        if uid in self._live:
            return
        live = _Live(
            drawn=draws(uid, wanted.spreads) if drawn is None else drawn,
            bounds=vector(wanted.bounds),
            declared=vector(wanted.declared),
            family=wanted.family,
            spreads=wanted.spreads,
            later=wanted.later,
            since=since,
        )
        self._live[uid] = live
        self._families[live.family] = self.living(live.family) + 1
        self._count(live, 1)
        self._await(uid, live)
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
        # Ends of waiting that no run waits for any more are dropped when they are the most.
        if len(self._due) > 2 * len(self._live) + SPARE:
            self._due = [each for each in self._due if each[1] in self._live]
            heapq.heapify(self._due)

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
        live.seen = tuple(map(max, live.seen, seen))
        live.drawn = np.maximum(live.drawn, _rows(live.seen))
        live.bounds = tuple(map(max, live.bounds, live.seen))
        live.declared = tuple(map(max, live.declared, live.seen))
        self._count(live, 1)

    def others(self, amounts: Amounts) -> None:
        """Count what pods take that are of no run, instead of what was counted of them before."""
        now = vector(amounts)
        if now == self._others:
            return
        change = tuple(map(sub, now, self._others))
        self._others = now
        self._bounds = tuple(map(add, self._bounds, change))
        self._declared = tuple(map(add, self._declared, change))
        self.drawn += _rows(change)

    def advance(self, now: float) -> None:
        """Draw anew the runs that have lived so long that another spread holds for them.

        `now` is of the clock of `since`. Each run is drawn anew at most once for each of its
        later spreads, whatever the number of calls.
        """
        while self._due and self._due[0][0] <= now:
            _, uid = heapq.heappop(self._due)
            live = self._live.get(uid)
            if live is None:
                continue
            spreads = list(live.spreads)
            while live.later and live.since + live.later[0][0] <= now:
                _, place, spread = live.later[0]
                live.later = live.later[1:]
                spreads[place] = spread
            live.spreads = tuple(spreads)
            self._count(live, -1)
            live.drawn = np.maximum(draws(uid, live.spreads), _rows(live.seen))
            self._count(live, 1)
            self._await(uid, live)

    def _await(self, uid: str, live: _Live) -> None:
        if live.later:
            heapq.heappush(self._due, (live.since + live.later[0][0], uid))

    def _count(self, live: _Live, sign: int) -> None:
        change = add if sign > 0 else sub
        self._bounds = tuple(map(change, self._bounds, live.bounds))
        self._declared = tuple(map(change, self._declared, live.declared))
        if sign > 0:
            self.drawn += live.drawn
        else:
            self.drawn -= live.drawn


def _rows(seen: Vector) -> Draws:
    """Return the peaks of TARGETED as a column beside outcomes."""
    return np.array([[seen[place]] for place in _PLACES], dtype=np.int64)
