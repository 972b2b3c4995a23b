"""The quantile that a further value of the same kind stays within, in plain Python.

Apart from `quantiles`, which brings numpy: what needs one such figure now and then does without it.
"""

from __future__ import annotations

from collections.abc import Sequence


def conformal(ordered: Sequence[float], level: float) -> tuple[float, bool]:
    """Return the smallest ratio that a new one stays within at this level, and whether it is known.

    The k-th of n ratios is passed by one new one in (n + 1 - k) of n + 1; between two of them it
    is a straight line. No level above n / (n + 1) is known: the largest is returned with False.
    """
    count = len(ordered)
    place = (count + 1) * level - 1.0
    if place > count - 1:
        return ordered[-1], False
    if place <= 0:
        return ordered[0], True
    below = int(place)
    low = ordered[below]
    if below + 1 == count:
        return low, True
    return low + (place - below) * (ordered[below + 1] - low), True
