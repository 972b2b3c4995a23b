"""Splits paid time by what it was for: used (and by whose sessions), idle, warming, stopped.

Warming is from running until a worker could host its first session, idle is time without one, and
stopped is the time in which only the disk is paid. Time with sessions is shared among them by their
claims: each by the larger of its shares of their CPU and their memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from labfleet.decisions.costs.paid_times import LONGEST_START

Kind = Literal["used", "idle", "warming", "stopped", "licence"]
KINDS: tuple[Kind, ...] = ("used", "idle", "warming", "stopped", "licence")
LEAST = timedelta(seconds=60)
"""What every start costs at least, however soon it is stopped (facts/aws.md#prices)."""
HOUR = Decimal(3600)


@dataclass(frozen=True, slots=True)
class Stay:
    """One session's time on a worker; `weight` are its CPU and memory, in any units."""

    worker: str
    session: str
    owner: str
    course: str
    start: datetime
    end: datetime
    weight: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a machine: from when to when, from when on it could host, the price of its hour.

    `hour` None is not known. `uncertain` are the seconds by which its times may be wrong;
    `idle_stop`: the idle rule ended it.
    """

    start: datetime
    end: datetime
    ready: datetime | None
    hour: Decimal | None
    uncertain: float = 0.0
    idle_stop: bool = False


@dataclass(frozen=True, slots=True)
class Paid:
    """The paid time of one machine: its runs, how long its disk was there, and their prices.

    `worker` is the uid of its worker, `name` that worker's name, `runs` in their order. `disk` is
    the price of a month of its disk, `licence` that of a month of its licence; None is not known.
    `unpriced` says of what.
    """

    worker: str
    name: str
    machine: str
    pool: str
    namespace: str
    region: str
    kind: str
    runs: tuple[Ran, ...]
    disk_from: datetime
    disk_to: datetime
    disk: Decimal | None
    licence: Decimal | None = Decimal(0)
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Some paid time of a machine, for one thing; `usd` None is not known, and never 0.

    `session`, `owner` and `course` are whose it was, empty unless it was used.
    """

    paid: Paid
    kind: Kind
    seconds: Decimal
    usd: Decimal | None
    session: str = ""
    owner: str = ""
    course: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """A time within one calendar month, and how long that month is: disks are paid by the month."""

    start: datetime
    end: datetime
    month: timedelta

    @classmethod
    def of(cls, start: datetime) -> Window:
        """Return the window from an instant to the end of its month of UTC.

        What is paid now lies in it to its least length, which a start costs at once.
        """
        return cls(start, month_end(start), month_end(start) - month_start(start))


def month_start(at: datetime) -> datetime:
    """Return when the month of UTC began that an instant lies in."""
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(at: datetime) -> datetime:
    """Return when the month of UTC ends that an instant lies in."""
    return month_start(month_start(at) + timedelta(days=32))


@dataclass(slots=True)
class _Segment:
    start: datetime
    end: datetime
    kind: Kind
    stays: tuple[tuple[Stay, Decimal], ...] = field(default=())


def parts(
    machines: Iterable[Paid], stays: Mapping[str, Sequence[Stay]], window: Window
) -> Iterator[Part]:
    """Yield what of the window is paid for each machine; `stays` are by the uid of the worker."""
    for paid in machines:
        here = stays.get(paid.worker, ())
        for run in paid.runs:
            until = max(run.end, run.start + LEAST)
            for each in _segments(run.start, until, run.end, run.ready, here):
                yield from _priced(paid, each, window, run.hour, HOUR)
        month = Decimal(window.month // timedelta(seconds=1))
        for each in _disk_segments(paid, here):
            yield from _priced(paid, each, window, paid.disk, month, shown=each.kind == "stopped")
        if paid.licence != 0:
            whole = _Segment(paid.disk_from, paid.disk_to, "licence")
            yield from _priced(paid, whole, window, paid.licence, month)


def _disk_segments(paid: Paid, here: Sequence[Stay]) -> Iterator[_Segment]:
    """Yield the time of the disk: as its machine's while that runs, else stopped.

    Of runs before the month nothing is known here: what is long after the launch is no start.
    """
    at = paid.disk_from
    for run in paid.runs:
        if run.start > at:
            yield from _off(paid, at, run.start)
        if run.end > max(at, run.start):
            yield from _segments(max(at, run.start), run.end, run.end, run.ready, here)
        at = max(at, run.end)
    if paid.disk_to > at:
        yield from _off(paid, at, paid.disk_to)


def _off(paid: Paid, start: datetime, end: datetime) -> Iterator[_Segment]:
    """Yield a time in which a machine does not run: its start while it may be that, else stopped."""
    begun = start
    if start == paid.disk_from:
        begun = min(end, start + LONGEST_START)
        yield _Segment(start, begun, "warming")
    if begun < end:
        yield _Segment(begun, end, "stopped")


def _segments(
    start: datetime, until: datetime, end: datetime, ready: datetime | None, here: Sequence[Stay]
) -> Iterator[_Segment]:
    """Yield a run cut where somebody came or went; after `end` it is only paid, and idle."""
    among = sorted((each for each in here if each.start < end and each.end > start), key=_begin)
    cuts = {start, until, end} | {each.start for each in among} | {each.end for each in among}
    if ready is not None:
        cuts.add(ready)
    marks = sorted(each for each in cuts if start <= each <= until)
    now: list[Stay] = []
    come = 0
    for low, high in pairwise(marks):
        while come < len(among) and among[come].start <= low:
            now.append(among[come])
            come += 1
        now = [each for each in now if each.end > low]
        if now and low < end:
            yield _Segment(low, high, "used", tuple(_weighed(now)))
        else:
            warm = ready is None or low < ready
            yield _Segment(low, high, "warming" if warm else "idle")


def _begin(stay: Stay) -> datetime:
    return stay.start


def _weighed(stays: Sequence[Stay]) -> Iterator[tuple[Stay, Decimal]]:
    """Yield each session with its share of the whole; the shares come to 1."""
    cpu = sum(each.weight[0] for each in stays)
    memory = sum(each.weight[1] for each in stays)
    larger = [
        Decimal(
            repr(
                max(
                    each.weight[0] / cpu if cpu else 0.0, each.weight[1] / memory if memory else 0.0
                )
            )
        )
        for each in stays
    ]
    total = sum(larger, Decimal(0))
    if not total:
        larger, total = [Decimal(1)] * len(stays), Decimal(len(stays))
    left = Decimal(1)
    for number, (stay, weight) in enumerate(zip(stays, larger, strict=True), 1):
        share = left if number == len(stays) else weight / total
        left -= share
        yield stay, share


def _priced(
    paid: Paid,
    segment: _Segment,
    window: Window,
    price: Decimal | None,
    per: Decimal,
    *,
    shown: bool = True,
) -> Iterator[Part]:
    """Yield a segment's parts inside the window; `shown` False adds money, but no time again."""
    low, high = max(segment.start, window.start), min(segment.end, window.end)
    if low >= high:
        return
    length = _seconds(low, high)
    usd = None if price is None else price * length / per
    seconds = length if shown else Decimal(0)
    whole = Part(paid, segment.kind, seconds, usd)
    for stay, share in segment.stays:
        yield replace(
            whole,
            seconds=seconds * share,
            usd=None if usd is None else usd * share,
            session=stay.session,
            owner=stay.owner,
            course=stay.course,
        )
    if not segment.stays:
        yield whole


def idle_saved(paid: Paid, window: Window) -> Decimal | None:
    """Return what the machine would have cost while the idle rule had it stopped; None: unknown."""
    total = Decimal(0)
    for number, run in enumerate(paid.runs):
        later = paid.runs[number + 1].start if number + 1 < len(paid.runs) else paid.disk_to
        low, high = max(run.end, window.start), min(later, window.end)
        if not run.idle_stop or low >= high:
            continue
        if run.hour is None:
            return None
        total += run.hour * _seconds(low, high) / HOUR
    return total


def doubt(paid: Paid, window: Window) -> Decimal:
    """Return by how much money the runs that touch the window may be wrong."""
    return sum(
        (
            run.hour * Decimal(repr(run.uncertain)) / HOUR
            for run in paid.runs
            if run.hour is not None and run.start < window.end and run.end > window.start
        ),
        Decimal(0),
    )


def _seconds(low: datetime, high: datetime) -> Decimal:
    return Decimal((high - low) // timedelta(microseconds=1)) / 1_000_000
