"""Realised overload beside epsilon, and how it tightens the rule by itself.

Adaptive conformal inference on epsilon: time within the targets raises what is allowed, time
above them lowers it, at rates at which the long-run share above stays within epsilon whatever
the predictions are worth. Below zero even "no outcome may exceed" was not enough: then the sum
of bounds is asked for, until enough time went well.
"""

from __future__ import annotations

from math import exp

from labfleet.resources.cluster import Overload
from labfleet.resources.decision import Rule

MEMORY_SECONDS = 30 * 86400.0
"""Over which time the realised share is told; what is older fades out."""
PATIENCE_SECONDS = 600.0
"""How long above the targets takes all that epsilon allows."""


def after(before: Overload, *, over: bool, seconds: float, epsilon: float) -> Overload:
    """Return the record after so many seconds above a target or within all of them.

    Time that nobody looked at is not told here: it is neither over nor within.
    """
    if seconds <= 0:
        return before
    kept = exp(-seconds / MEMORY_SECONDS)
    gain = seconds * (epsilon - over) / PATIENCE_SECONDS
    return Overload(
        over_seconds=before.over_seconds * kept + (seconds if over else 0.0),
        seconds=before.seconds * kept + seconds,
        slack=min(1.0, max(-1.0, before.slack + gain)),
    )


def in_force(rule: Rule, epsilon: float, found: Overload) -> tuple[Rule, float]:
    """Return the rule and the epsilon to decide by now."""
    if rule is not Rule.CHANCE or found.slack >= 1:
        return rule, epsilon
    if found.slack < 0:
        return Rule.BOUNDS, epsilon
    return rule, epsilon * found.slack
