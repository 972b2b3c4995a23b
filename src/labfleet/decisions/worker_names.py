"""Names of a pool's new workers: prefix, track and a number that is never used twice."""

from __future__ import annotations

from collections.abc import Container

from labfleet.kernel import ids
from labfleet.resources.pool import PoolSpec


def fresh(
    spec: PoolSpec, count: int, *, last: int, mine: Container[str], taken: Container[str]
) -> tuple[tuple[str, ...], int]:
    """Return new names, and the counter's new value; `last` is the highest number so far.

    `mine` are names of the pool's workers, `taken` those of workers outside it.
    """
    prefix = spec.name_prefix
    track = ids.slug(spec.track, limit=max(12, ids.NAME_LIMIT - len(prefix) - 8))
    made: list[str] = []
    while len(made) < count:
        last += 1
        name = f"{prefix}-{track}-{last:03d}"
        if name not in mine and name not in taken:
            made.append(name)
    return tuple(made), last
