"""Reading an object's numbers over time: bounded, at one step, with units and sources."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.meta import Record, Resource
from labfleet.resources.simulation import Simulation
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext

POINTS = 1000
DEFAULT_SINCE = timedelta(hours=6)
_CLOUDWATCH = "cloudwatch"
SOURCES = {"networkIn": _CLOUDWATCH, "networkOut": _CLOUDWATCH, "ec2Cpu": _CLOUDWATCH,
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

    kind: Kind of the object.
    name: Name of the object.
    worker: Name of the worker once more; empty of another kind.
    since: Beginning of the time that was asked for.
    until: End of the time that was asked for; of a run that is over, its end.
    step: Seconds of one bucket.
    metrics: Each metric by its name.
    """

    kind: str = "Worker"
    name: str = ""
    worker: str
    since: datetime
    until: datetime
    step: int
    metrics: dict[str, Metric]


async def read(
    services: ServiceContext,
    caller: Caller,
    kind: type[Resource],
    name: str,
    namespace: str,
    *,
    metrics: str = "",
    since: str = "",
    step: int | None = None,
) -> Series:
    """Return an object's series; Gone when there is no such object, Invalid for odd questions.

    `metrics`: names with commas, all without. `since`: an instant, or a duration back from now or
    from the run's end (`90m`, `6h`, `3d`); six hours without, of a run its beginning. `step` in
    seconds: no finer; chosen so that at most `POINTS` come back.
    """
    access.demand(caller.principal, "read", kind.__name__)
    found = await lookup.found(services, caller, kind, name, namespace)
    return await of(services, found, metrics=metrics, since=since, step=step)


async def of(
    services: ServiceContext,
    found: Resource,
    *,
    metrics: str = "",
    since: str = "",
    step: int | None = None,
) -> Series:
    """Return the series of an object that the caller may see; `read` says the rest."""
    units = series.metrics_of(found.kind)
    tiers = series.tiers_of(found.kind)
    began, until = _lived(found, services.clock.now())
    wanted = _metrics(metrics, tuple(units))
    begin = began if began is not None and not since else _since(since, until, tiers[-1].window)
    tier = series.tier_for(found.kind, begin, step, until)
    begin = max(begin, until - tier.window)
    width = tier.step * max(1, math.ceil((step or 0) / tier.step))
    many = (until - begin).total_seconds() / width
    if many > POINTS:
        width *= math.ceil(many / POINTS)
    start = series.bucket_start(begin, width)
    owner = series.Owner(found.kind, found.metadata.uid)
    rows = await services.series.series(owner, tier.step, start)
    buckets = series.resampled(
        ((each.at, series.unpack(found.kind, each.data)) for each in rows), width
    )
    sources, source = (SOURCES, "cml") if isinstance(found, Worker) else ({}, "cluster")
    return Series(
        kind=found.kind,
        name=found.name,
        worker=found.name if isinstance(found, Worker) else "",
        since=start,
        until=until,
        step=width,
        metrics={
            name_: Metric(
                unit=units[name_],
                source=sources.get(name_, source),
                points=tuple(
                    _point(at, bucket[name_]) for at, bucket in buckets if name_ in bucket
                ),
            )
            for name_ in wanted
        },
    )


def _lived(obj: Resource, now: datetime) -> tuple[datetime | None, datetime]:
    """Return since when an object is worth reading, None if always, and until when."""
    if not isinstance(obj, Simulation):
        return None, now
    return obj.status.decided_at or now, obj.status.completed_at or now


def _point(at: datetime, spread: series.Spread) -> Point:
    low, mean, high = (float(f"{each:.6g}") for each in (spread.low, spread.mean, spread.high))
    return Point(at=at, count=spread.count, min=low, mean=mean, max=high)


def _metrics(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for name in names:
        if name not in known:
            told = ", ".join(known)
            raise errors.Invalid(f"metric: {name[:40]!r} is none of {told}", reason="NoSuchMetric")
    return names or known


def _since(text: str, until: datetime, window: timedelta) -> datetime:
    if not text:
        return until - min(DEFAULT_SINCE, window)
    number, unit = text[:-1], UNITS.get(text[-1:])
    if unit is not None and number.isdecimal() and len(number) <= 9:
        back = min(int(number) * unit, int(window.total_seconds()))
        return until - timedelta(seconds=max(back, 1))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"since: {text[:40]!r} is neither an instant nor a duration such as 6h"
        raise errors.Invalid(message, reason="NoInstant") from None
    if found.tzinfo is None:
        raise errors.Invalid("since: an instant needs its zone, for example Z", reason="NoInstant")
    return max(min(found, until), until - window)
