"""What a lab should ask for: past sessions of its family turned into a bound for each dimension.

Sessions of one family run the same lab, so their peaks are compared as they are; runs whose
parameters make them what they are have `decisions.prediction`. Pure, and a page of sessions costs
about a millisecond.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from labfleet.decisions.prediction.conformal import conformal
from labfleet.kernel.quantity import count
from labfleet.resources.amounts import LABELS, MOST, Amounts
from labfleet.resources.history import Run, RunKind, Source, peak
from labfleet.resources.lab_bound import HARD, SIZED, LabBound
from labfleet.resources.prediction import Evidence

COVERAGE = 0.95
LEAST_SESSIONS = 5
"""Sessions below which there is no bound (facts/fleet-bugs.md#t25)."""
LOOKED_AT = 200
"""Newest sessions of a family that are looked at."""
MARGIN = 1.15
"""What the greatest peak is multiplied by while so few sessions say nothing of the asked coverage."""
MEMORY_BUMP = 1.2
"""A lab that was ended for want of memory needed at least this many times what it had."""
LEAST = {"cpu_milli": 25, "memory_mib": 250, "storage_mib": 1}
"""No bound is below: an idle lab still has to boot."""


_OOM = re.compile(r"\boom", re.IGNORECASE)
"""Begins a word that says a lab was ended for want of memory, such as OOMKilled; no part of NoRoom."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about a definition's lab.

    name: Name of the definition; sessions of other names are of other versions of its family.
    declared: What one lab asks for.
    reserved: What its nodes reserve by themselves; no bound of memory or CPU is below it, because
    CML starts no node before it has that, whatever is declared.
    most: What the largest worker has that may host it; None when no worker is known.
    coverage: Share of sessions that shall stay within the bound.
    least_sessions: Sessions below which there is no bound.
    """

    name: str
    declared: Amounts
    reserved: Amounts = field(default_factory=Amounts)
    most: Amounts | None = None
    coverage: float = COVERAGE
    least_sessions: int = LEAST_SESSIONS


def bounds(newest_first: Sequence[Run], asked: Asked) -> dict[str, LabBound]:
    """Return for each dimension that is measured what past sessions of the family say of it.

    A session of which nobody measured a dimension does not count for it.
    """
    return {name: _bound(newest_first, asked, name) for name in SIZED}


@dataclass(slots=True)
class _Replay:
    """Peaks in the order of their size, with how the bound would have held for each in its turn."""

    coverage: float
    least: int
    floor: int
    ordered: list[float] = field(default_factory=list)
    latest: float | None = None
    left_out: int = 0
    judged: int = 0
    held: int = 0

    def add(self, found: float, given: int | None, *, cut_off: bool) -> None:
        """Count a session; one that was cut off below what is expected anyway says nothing."""
        expected = _raw(self.ordered, self.coverage)[0] if self.ordered else given
        if cut_off and (expected is None or found <= expected):
            self.left_out += 1
            return
        if len(self.ordered) >= self.least and expected is not None:
            self.judged += 1
            self.held += found <= max(expected, self.floor)
        insort(self.ordered, found)
        self.latest = found


def _floor(asked: Asked, name: str) -> int:
    """Return what no bound of a dimension is below."""
    return max(LEAST[name], getattr(asked.reserved, name) if name in HARD else 0)


def _raw(ordered: Sequence[float], coverage: float) -> tuple[float, float]:
    """Return the bound of some peaks before any limit, and the coverage that may be stated of it."""
    found, known = conformal(ordered, coverage)
    if known:
        return found, coverage
    return found * MARGIN, len(ordered) / (len(ordered) + 1)


def _bound(newest_first: Sequence[Run], asked: Asked, name: str) -> LabBound:
    declared, reserved = getattr(asked.declared, name), getattr(asked.reserved, name)
    replay, same = _replayed(newest_first, asked, name)
    told = LabBound(
        resource=name,
        declared=declared,
        reserved=reserved,
        sessions=len(replay.ordered),
        left_out=replay.left_out,
    )
    return _with_bound(told, replay, asked, same=same) if replay.ordered else _nothing(told)


def _nothing(told: LabBound) -> LabBound:
    if told.left_out:
        cut = f"{count(told.left_out, 'session')} cut off below what it asks for"
        return _with(told, sentence=f"no whole session was measured yet; {cut}")
    return _with(told, sentence="no session of it was measured yet")


def _with_bound(told: LabBound, replay: _Replay, asked: Asked, *, same: bool) -> LabBound:
    ordered, name = replay.ordered, told.resource
    mean = sum(ordered) / len(ordered)
    told = _with(
        told,
        latest=replay.latest,
        mean=mean,
        max=ordered[-1],
        **{f"p{share}": _quantile(ordered, share / 100) for share in (50, 90, 95, 99)},
        achieved=replay.held / replay.judged if replay.judged else None,
        slack=1 - mean / told.declared if told.declared else None,
    )
    if len(ordered) < asked.least_sessions:
        needed = count(asked.least_sessions, "session")
        few = f"{len(ordered)} of the {needed} that a bound needs"
        return _with(told, sentence=f"{few} were measured")
    raw, coverage = _raw(ordered, asked.coverage)
    floor = _floor(asked, name)
    bound, capped = max(floor, whole(raw)), False
    most = getattr(asked.most, name) if asked.most is not None else 0
    if most and bound > most:
        bound, capped = max(floor, most), True
    return _with(
        told,
        bound=bound,
        coverage=coverage,
        exceeded=exceeding(ordered, bound),
        evidence=Evidence.EXACT if same else Evidence.CLOSEST,
        capped=capped,
        sentence=_sentence(told, asked, raw, bound, capped=capped),
    )


def _sentence(told: LabBound, asked: Asked, raw: float, bound: int, *, capped: bool) -> str:
    """Return what the bound was made of, for people."""
    unit, sessions = LABELS[told.resource], count(told.sessions, "session")
    if told.sessions / (told.sessions + 1) < asked.coverage:
        more = math.ceil(asked.coverage / (1 - asked.coverage) - 1e-9)
        found = (
            f"the greatest of {sessions} and {round((MARGIN - 1) * 100)} %; "
            f"{asked.coverage:.0%} can be stated from {more} on"
        )
    else:
        found = f"{asked.coverage:.0%} of {sessions} stay within it"
    if capped:
        return f"{found}; lowered to the largest worker's {bound} {unit}"
    if told.resource in HARD and told.reserved == bound > raw:
        own = "ram reserves" if told.resource == "memory_mib" else "CPUs reserve"
        return f"the nodes' own {own} {bound} {unit}, more than they use; {found}"
    return found


def whole(amount: float) -> int:
    """Return an amount rounded up to whole units, as large as one may be; 2300.0000000005 are 2300."""
    return min(MOST, math.ceil(round(amount, 6)))


def exceeding(ordered: Sequence[float], value: float) -> int:
    """Return how many of some peaks, in order, are above a value."""
    return len(ordered) - bisect_right(ordered, value)


def _replayed(newest_first: Sequence[Run], asked: Asked, name: str) -> tuple[_Replay, bool]:
    """Return the sessions in the order they were, and whether one was of this very version."""
    replay = _Replay(asked.coverage, asked.least_sessions, _floor(asked, name))
    same = False
    for run in reversed(newest_first):
        found = peak_of(run, name)
        if found is None:
            continue
        cut_off = bool(run.censored) and not (name == "memory_mib" and _starved(run))
        replay.add(found, run.allocation.get(name), cut_off=cut_off)
        same = same or run.parameters.get("definition") == asked.name
    return replay, same


def peak_of(run: Run, name: str) -> float | None:
    """Return the peak that a session counts with; None when it says nothing of the dimension.

    A lab that is up uses some of everything: a peak of 0 is a counter that was not read. What a
    caller reports of its own run is no measurement.
    """
    if run.kind is not RunKind.SESSION or run.source is Source.REPORTED:
        return None
    found = peak(run.use, name)
    if name == "memory_mib" and _starved(run):
        given = run.allocation.get(name, 0)
        least = max(found or 0.0, float(given)) * MEMORY_BUMP
        return least or None
    return found if found is not None and math.isfinite(found) and found > 0 else None


def _starved(run: Run) -> bool:
    """Tell whether a lab was ended because it wanted more memory than it had."""
    return _OOM.search(run.censored) is not None


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies; between two it is a straight line."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _with(told: LabBound, **fields: Any) -> LabBound:
    return msgspec.structs.replace(told, **fields)
