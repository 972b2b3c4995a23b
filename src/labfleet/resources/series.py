"""Series: an object's numbers over time, down-sampled into buckets and packed small.

They belong to an object by kind and uid, so that one made again under a name begins with none.
Three tiers: the last hours by the minute, days by ten minutes, weeks by the hour; runs and
sessions have the first alone. Each tier is a ring of slots, so that nobody ever has more rows
than `rows_of` says, however long it lives: a new bucket takes the place of the one that is a
whole ring older. Pure; where the rows lie is the store's, who writes them the controllers'.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from labfleet.kernel import errors

_RUN: dict[str, str] = {
    "cpu": "millicores",
    "memory": "MiB",
    "networkIn": "bytes/s",
    "networkOut": "bytes/s",
    "storage": "MiB",
    "pods": "pods",
}
METRICS: dict[str, dict[str, str]] = {
    "Worker": {
        "cpu": "percent",
        "memory": "percent",
        "disk": "percent",
        "networkIn": "bytes/s",
        "networkOut": "bytes/s",
        "nodes": "nodes",
        "labs": "labs",
        "sessions": "sessions",
        "ec2Cpu": "percent",
    },
    "Simulation": _RUN,
    "Session": _RUN,
    "Cluster": {**_RUN, "othersCpu": "millicores", "othersMemory": "MiB"},
}
"""Kind -> name -> unit. A worker's `cpu` is CML's, its `ec2Cpu` and network CloudWatch's; a
cluster's `others` are what is not ours. The order is that of the packed form, for ever: new names
are only ever added at the end of a kind, at most 16."""

_NAMES = {kind: tuple(metrics) for kind, metrics in METRICS.items()}


class Owner(NamedTuple):
    """Whose series: an object's kind and uid."""

    kind: str
    uid: str


class Tier(NamedTuple):
    """Buckets of `step` seconds, as many as `slots`."""

    step: int
    slots: int

    @property
    def window(self) -> timedelta:
        """How far back it reaches."""
        return timedelta(seconds=self.step * self.slots)


TIERS = (Tier(60, 360), Tier(600, 432), Tier(3600, 840))
"""1 minute for 6 hours, 10 minutes for 3 days, 1 hour for 35 days."""

_MINUTES_ALONE = frozenset({"Simulation", "Session"})


def metrics_of(kind: str) -> Mapping[str, str]:
    """Return name -> unit of a kind's metrics; Invalid for a kind that has none."""
    found = METRICS.get(kind)
    if found is None:
        known = ", ".join(METRICS)
        raise errors.Invalid(
            f"no series of {kind[:40]!r}: those with series are {known}", reason="NoSeries"
        )
    return found


def tiers_of(kind: str) -> tuple[Tier, ...]:
    """Return the tiers of a kind, the finest first."""
    return TIERS[:1] if kind in _MINUTES_ALONE else TIERS


def rows_of(kind: str) -> int:
    """Return how many rows one object of a kind has at most."""
    return sum(each.slots for each in tiers_of(kind))


class Spread(msgspec.Struct, frozen=True, gc=False):
    """What the values of a bucket were: how many, the least, the sum, the greatest.

    Made by msgspec, which is quick: each measurement makes one for each metric and tier.
    """

    count: int
    low: float
    total: float
    high: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count

    def joined(self, other: Spread) -> Spread:
        """Return the spread of both together."""
        return Spread(
            self.count + other.count,
            min(self.low, other.low),
            self.total + other.total,
            max(self.high, other.high),
        )


Bucket = Mapping[str, Spread]
"""Metric -> spread; a metric that nobody measured is absent, never 0."""


def single(kind: str, values: Mapping[str, float | None]) -> dict[str, Spread]:
    """Return the bucket of one measurement; what is unknown or no number stays out."""
    names = METRICS[kind]
    return {
        name: Spread(1, value, value, value)
        for name, value in values.items()
        if name in names and value is not None and math.isfinite(value)
    }


def merged(one: Bucket, other: Bucket) -> dict[str, Spread]:
    """Return both buckets in one."""
    found = dict(one)
    for name, spread in other.items():
        known = found.get(name)
        found[name] = spread if known is None else known.joined(spread)
    return found


def add(
    buckets: dict[tuple[int, datetime], dict[str, Spread]],
    kind: str,
    at: datetime,
    values: Mapping[str, float | None],
) -> None:
    """Merge one measurement into the buckets (step, start) of all of its kind's tiers."""
    measured = single(kind, values)
    for tier in tiers_of(kind) if measured else ():
        place = (tier.step, bucket_start(at, tier.step))
        buckets[place] = merged(buckets.get(place, {}), measured)


def bucket_start(at: datetime, step: int) -> datetime:
    """Return when the bucket of this instant begins; buckets are aligned to 1970 UTC."""
    return datetime.fromtimestamp(int(at.timestamp()) // step * step, tz=UTC)


def slot(at: datetime, tier: Tier) -> int:
    """Return the place of a bucket in its ring."""
    return int(at.timestamp()) // tier.step % tier.slots


# --- packed form -------------------------------------------------------------------------------
# Base64 of: two bytes of which metrics follow, two of which of them are flat, then for each a
# count (2 bytes, at most 65535) and mean, least, greatest as 4-byte floats, or the mean alone
# when all three are the same. One metric of a busy bucket costs 14 bytes, a quiet one 6.

_COUNT = 0xFFFF
_WIDEST = 3.4e38


def pack(kind: str, bucket: Bucket) -> str:
    """Return the text that is stored of a bucket of an object of this kind."""
    there = flat = 0
    named = [
        (place, spread)
        for place, name in enumerate(_NAMES[kind])
        if (spread := bucket.get(name)) is not None
    ]
    numbers = _singles([n for _, each in named for n in (each.mean, each.low, each.high)])
    shape = "<HH"
    values: list[float] = [0, 0]
    for number, (place, spread) in enumerate(named):
        there |= 1 << place
        mean, low, high = numbers[3 * number : 3 * number + 3]
        values.append(min(spread.count, _COUNT))
        if mean == low == high:
            flat |= 1 << place
            shape += "Hf"
            values.append(mean)
        else:
            shape += "Hfff"
            values += (mean, low, high)
    values[:2] = there, flat
    return base64.b64encode(struct.pack(shape, *values)).decode("ascii")


def unpack(kind: str, text: str) -> dict[str, Spread]:
    """Return the bucket of a kind's stored text; empty when it cannot be read."""
    found: dict[str, Spread] = {}
    try:
        raw = base64.b64decode(text, validate=True)
        there, flat = struct.unpack_from("<HH", raw)
        at = 4
        for place, name in enumerate(_NAMES[kind]):
            if not there >> place & 1:
                continue
            if flat >> place & 1:
                count, mean = struct.unpack_from("<Hf", raw, at)
                low = high = mean
                at += 6
            else:
                count, mean, low, high = struct.unpack_from("<Hfff", raw, at)
                at += 14
            found[name] = Spread(count, low, mean * count, high)
    except (ValueError, struct.error):
        return {}
    return found


def _singles(values: list[float]) -> tuple[float, ...]:
    """Return the values as the stored width keeps them."""
    shape = f"<{len(values)}f"
    if values and (max(values) > _WIDEST or min(values) < -_WIDEST):
        values = [max(-_WIDEST, min(value, _WIDEST)) for value in values]
    return struct.unpack(shape, struct.pack(shape, *values))


# --- reading -----------------------------------------------------------------------------------


def tier_for(kind: str, since: datetime, step: int | None, now: datetime) -> Tier:
    """Return a kind's finest tier that reaches back to `since` and is no finer than asked."""
    tiers = tiers_of(kind)
    able = [each for each in tiers if now - since <= each.window] or [tiers[-1]]
    fit = [each for each in able if step is None or each.step <= step]
    if step is None:
        return able[0]
    return fit[-1] if fit else able[0]


def resampled(
    rows: Iterable[tuple[datetime, Bucket]], step: int
) -> list[tuple[datetime, dict[str, Spread]]]:
    """Return buckets of `step` seconds out of finer ones, oldest first."""
    found: dict[datetime, dict[str, Spread]] = {}
    for at, bucket in rows:
        start = bucket_start(at, step)
        found[start] = merged(found.get(start, {}), bucket)
    return sorted(found.items())
