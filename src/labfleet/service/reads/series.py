"""Reading a worker's numbers over time: bounded, at one step, with units and sources."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext

POINTS = 1000
PAGES = 10
"""How many pages of a worker's events are looked through for an earlier one of its name."""
DEFAULT_SINCE = timedelta(hours=6)
SOURCES = {"networkIn": "cloudwatch", "networkOut": "cloudwatch", "ec2Cpu": "cloudwatch",
           "sessions": "labfleet"}  # fmt: skip
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Point(Record, frozen=True, kw_only=True):
    """A bucket that begins at `at`: how many measurements, the least, their mean, the greatest.

    at: When the bucket begins.
    count: Measurements in it.
    min: The least of them.
    mean: Their mean.
    max: The greatest of them.
    """

    at: datetime
    count: int
    min: float
    mean: float
    max: float


class Metric(Record, frozen=True, kw_only=True):
    """One metric's points, oldest first; a bucket in which nothing was measured is not there.

    unit: Unit of the values.
    source: Who measured them.
    points: The buckets, oldest first.
    """

    unit: str
    source: str
    points: tuple[Point, ...] = ()


class Series(Record, frozen=True, kw_only=True):
    """What was asked for, and the step in seconds that it is kept or was summed up to.

    worker: Name of the worker.
    since: Beginning of the time that was asked for.
    until: End of the time that was asked for.
    step: Seconds of one bucket.
    metrics: Each metric by its name.
    """

    worker: str
    since: datetime
    until: datetime
    step: int
    metrics: dict[str, Metric]


async def read(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    metrics: str = "",
    since: str = "",
    step: int | None = None,
) -> Series:
    """Return a worker's series; Gone when there is no such worker, Invalid for odd questions.

    `metrics`: names with commas, all without. `since`: an instant or a duration back from now
    (`90m`, `6h`, `3d`); six hours without. `step` in seconds: no finer; chosen so that at most
    `POINTS` come back.
    """
    access.demand(caller.principal, "read", "Worker")
    worker = await lookup.found(services, caller, Worker, name, namespace)
    now = services.clock.now()
    begin, wanted = _since(since, now), _metrics(metrics)
    tier = series.tier_for(begin, step, now)
    begin = max(begin, now - tier.window)
    width = tier.step * max(1, math.ceil((step or 0) / tier.step))
    many = (now - begin).total_seconds() / width
    if many > POINTS:
        width *= math.ceil(many / POINTS)
    start = series.bucket_start(begin, width)
    rows = await services.series.series(worker.key.path, tier.step, start)
    born = series.bucket_start(await _begun(services, worker, start), tier.step)
    rows = tuple(each for each in rows if each.at >= born)
    buckets = series.resampled(((each.at, series.unpack(each.data)) for each in rows), width)
    return Series(
        worker=worker.name,
        since=start,
        until=now,
        step=width,
        metrics={
            name_: Metric(
                unit=series.METRICS[name_],
                source=SOURCES.get(name_, "cml"),
                points=tuple(
                    _point(at, bucket[name_]) for at, bucket in buckets if name_ in bucket
                ),
            )
            for name_ in wanted
        },
    )


async def _begun(services: ServiceContext, worker: Worker, start: datetime) -> datetime:
    """Return from when on the rows are this worker's: they are kept by name, which another had."""
    made = worker.metadata.creation_timestamp
    if made is None or made <= start:
        return start
    before: int | None = None
    for _ in range(PAGES):
        found = await services.log.events_of(worker.key, before=before)
        if any(each.uid != worker.metadata.uid for each in found):
            return made
        if len(found) < stores.PAGE_LIMIT:
            break
        before = found[-1].revision
    return start


def _point(at: datetime, spread: series.Spread) -> Point:
    low, mean, high = (float(f"{each:.6g}") for each in (spread.low, spread.mean, spread.high))
    return Point(at=at, count=spread.count, min=low, mean=mean, max=high)


def _metrics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for name in names:
        if name not in series.METRICS:
            known = ", ".join(series.NAMES)
            raise errors.Invalid(f"metric: {name[:40]!r} is none of {known}", reason="NoSuchMetric")
    return names or series.NAMES


def _since(text: str, now: datetime) -> datetime:
    if not text:
        return now - DEFAULT_SINCE
    number, unit = text[:-1], UNITS.get(text[-1:])
    if unit is not None and number.isdecimal() and len(number) <= 9:
        back = min(int(number) * unit, int(series.TIERS[-1].window.total_seconds()))
        return now - timedelta(seconds=max(back, 1))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"since: {text[:40]!r} is neither an instant nor a duration such as 6h"
        raise errors.Invalid(message, reason="NoInstant") from None
    if found.tzinfo is None:
        raise errors.Invalid("since: an instant needs its zone, for example Z", reason="NoInstant")
    return max(min(found, now), now - series.TIERS[-1].window)
