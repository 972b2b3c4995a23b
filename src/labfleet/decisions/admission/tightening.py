"""Realised overload beside epsilon, and how it tightens the rule by itself.

Adaptive conformal inference on epsilon: time within the targets raises what is allowed, time
above them lowers it, at rates at which the long-run share above stays within epsilon whatever
the predictions are worth. Below zero even "no outcome may exceed" was not enough: then the sum
of bounds is asked for, until enough time went well.
"""

from __future__ import annotations

from math import exp

from labfleet.resources.decision import Rule
from labfleet.resources.meta import Record

MEMORY_SECONDS = 30 * 86400.0
"""Over which time the realised share is told; what is older fades out."""
PATIENCE_SECONDS = 600.0
"""How long above the targets takes all that epsilon allows."""


class Tightening(Record, frozen=True, kw_only=True):
    """What became of the promise on one cluster; the beginning is a promise unbroken.

    over_seconds: Time above a target, what is older than 30 days faded out.
    seconds: Time looked at, faded likewise.
    slack: What is left of epsilon, as a share of it: 1 all, 0 nothing, -1 at the least.
    """

    over_seconds: float = 0.0
    seconds: float = 0.0
    slack: float = 1.0

    @property
    def realised(self) -> float | None:
        """The share of time above a target; None before anything was looked at."""
        return self.over_seconds / self.seconds if self.seconds > 0 else None


def after(before: Tightening, *, over: bool, seconds: float, epsilon: float) -> Tightening:
    """Return the record after so many seconds above a target or within all of them.

    Time that nobody looked at is not told here: it is neither over nor within.
    """
    if seconds <= 0:
        return before
    kept = exp(-seconds / MEMORY_SECONDS)
    gain = seconds * (epsilon - over) / PATIENCE_SECONDS
    return Tightening(
        over_seconds=before.over_seconds * kept + (seconds if over else 0.0),
        seconds=before.seconds * kept + seconds,
        slack=min(1.0, max(-1.0, before.slack + gain)),
    )


def in_force(rule: Rule, epsilon: float, found: Tightening) -> tuple[Rule, float]:
    """Return the rule and the epsilon to decide by now."""
    if rule is not Rule.CHANCE or found.slack >= 1:
        return rule, epsilon
    if found.slack < 0:
        return Rule.BOUNDS, epsilon
    return rule, epsilon * found.slack
