"""Whether a CML version lies between two others; by numbers, so that 2.10 comes after 2.9."""

from __future__ import annotations

import functools
import re

Versions = tuple[str | None, str | None]
"""The first and the last version that will do, each with all that begin like it; None for any."""
_NUMBERS = re.compile(r"\d+(\.\d+)*")


@functools.lru_cache(maxsize=256)
def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with; none when it begins otherwise."""
    found = _NUMBERS.match(version)
    return () if found is None else tuple(int(each) for each in found[0].split("."))


def within(version: str | None, wanted: Versions) -> bool:
    """Tell whether a version will do; one that is not known never does."""
    mine = numbers(version or "")
    if not mine:
        return False
    first, last = numbers(wanted[0] or ""), numbers(wanted[1] or "")
    return mine >= first and (not last or mine[: len(last)] <= last)
