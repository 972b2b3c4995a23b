"""How likely enough workers are up in time, by the boots that were measured, failed ones included.

Pure, and plain Python: a hundred boots are few (docs/decisions/0024-numpy.md). The boots of a pool
are those of its template's machine (`claims.lead`). Of a worker that has booted for a while the
question is asked again each time: what is still not up is ever more likely to have failed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST = 19
"""Boots from which on odds are known at all, as a lead's bound is."""
MORE = 20
"""Workers that are made at most beyond those that are needed, and at most as many again."""
HOPELESS = 0.05
"""A worker that is up in time with less than this is no help: it is not made for that."""


@dataclass(frozen=True, slots=True)
class BootOdds:
    """How boots went: after how many seconds workers came up, and which share of all was up by then.

    `measured` counts the boots that it rests on.
    """

    seconds: tuple[float, ...] = ()
    up: tuple[float, ...] = ()
    measured: int = 0

    @property
    def known(self) -> bool:
        """Tell whether enough boots were measured."""
        return self.measured >= LEAST

    def share(self, seconds: float) -> float:
        """Return which share of all boots is up after so long."""
        place = bisect.bisect_right(self.seconds, seconds)
        return self.up[place - 1] if place else 0.0

    def up_within(self, seconds: float, age: float = 0.0) -> float:
        """Return how likely a worker that has booted for `age` is up within `seconds` from now."""
        before = self.share(age)
        return (self.share(age + max(seconds, 0.0)) - before) / (1.0 - before)

    def within(self, coverage: float) -> float:
        """Return within which time so large a share of the boots that come up at all is up."""
        if not self.up:
            return 0.0
        place = bisect.bisect_left(self.up, coverage * self.up[-1])
        return self.seconds[min(place, len(self.seconds) - 1)]


def odds(whole: Iterable[float], failed: int, ended: Iterable[float]) -> BootOdds:
    """Return the odds of boots: those that came up, those that failed, and those that were ended.

    What somebody ended might have come up later: it counts among the others until its end and not
    after (the product-limit estimate of Kaplan and Meier), since what is given back is mostly what
    is slow. One boot more than was measured counts as failed: what never happened yet may.
    """
    ups, gone = sorted(whole), sorted(ended)
    seconds, shares = list[float](), list[float]()
    left, measured = 1.0, len(ups) + failed
    for place, each in enumerate(ups):
        at_risk = len(ups) - place + failed + 1 + len(gone) - bisect.bisect_left(gone, each)
        left *= 1.0 - 1.0 / at_risk
        seconds.append(each)
        shares.append(1.0 - left)
    return BootOdds(tuple(seconds), tuple(shares), measured)


def enough(chances: Iterable[float], wanted: int) -> float:
    """Return how likely at least so many of independent workers are up."""
    if wanted <= 0:
        return 1.0
    # by how many are up, from 0 to wanted - 1: all others are enough
    odds = [1.0] + [0.0] * (wanted - 1)
    for chance in chances:
        _with_one(odds, chance)
    return max(0.0, 1.0 - sum(odds))


def lacking(chances: Sequence[float], wanted: int, each: float, sure: float) -> int:
    """Return how many workers more, each up with one chance, make it sure that so many are up.

    As many as can be up at all, where no number of them makes it sure; none that would hardly help.
    """
    if wanted <= 0 or each < HOPELESS:
        return 0
    odds = [1.0] + [0.0] * (wanted - 1)
    for chance in chances:
        _with_one(odds, chance)
    short = max(0, wanted - len(chances))
    most = short + min(MORE, max(wanted, 2))
    for more in range(most + 1):
        if 1.0 - sum(odds) >= sure:
            return more
        _with_one(odds, each)
    return most


def _with_one(odds: list[float], chance: float) -> None:
    """Count one worker more in: `odds` by how many are up."""
    for up in range(len(odds) - 1, 0, -1):
        odds[up] += chance * (odds[up - 1] - odds[up])
    odds[0] *= 1.0 - chance
