"""The tab of a worker's numbers over time: 6 hours, 3 days or 35 days, each with its source."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import series
from labfleet.service.reads.series import Metric, Point, Series
from labfleet.web import addresses, charts, values
from labfleet.web.sheet import Choice, Head, Part
from labfleet.web.values import Cell
from labfleet.web.view import Asked

WIDTH, HEIGHT = 1000.0, 100.0
SPANS = {"6h": "6 hours", "3d": "3 days", "35d": "35 days"}
FOLDED = 72
"""So many rows a table beside the curves has at most; a row sums up several buckets."""
GAP = 2.5
"""A curve is broken where nothing was measured for more than so many steps."""
TITLES = {
    "cpu": "CPU, as CML says", "ec2Cpu": "CPU, as CloudWatch says", "memory": "Memory",
    "disk": "Fullest disk", "networkIn": "Network in", "networkOut": "Network out",
    "nodes": "Running nodes", "labs": "Labs", "sessions": "Sessions",
}  # fmt: skip
_ORDER = tuple(TITLES)


@dataclass(frozen=True, slots=True)
class Plot:
    """One metric: its figures in words, and its curve in a box of WIDTH and HEIGHT.

    `between` are the areas from the least to the greatest of each bucket, `lines` the means.
    """

    title: str
    source: str
    newest: Cell
    at: Cell | None
    figures: tuple[tuple[str, str], ...]
    top: str
    lines: tuple[str, ...]
    between: tuple[str, ...]
    gaps: str


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The tab: plots of what was measured, where the others are named, and a table of it all."""

    plots: tuple[Plot, ...]
    spans: tuple[Choice, ...]
    begins: str
    middle: str
    ends: str
    step: str
    note: str
    table: Part


async def make(
    services: ServiceContext, _caller: Caller, obj: Resource, asked: Asked
) -> Monitoring:
    """Return the tab of an object; Invalid for a span that is none."""
    span = asked.last("since", "6h")
    if span not in SPANS:
        raise errors.Invalid(f"since: {span[:40]!r} is none of {', '.join(SPANS)}")
    found, now = await series.of(services, obj, since=span), services.clock.now()
    shown = [name for name in _ORDER if name in found.metrics and found.metrics[name].points]
    missing = [TITLES[name] for name in _ORDER if name in found.metrics and name not in shown]
    note = f"Not measured in this time: {', '.join(missing)}." if missing else ""
    base = values.address(KINDS[obj.kind].plural, obj.name, obj.namespace)
    here = addresses.tab(base, "monitoring")
    half = found.since + (found.until - found.since) / 2
    return Monitoring(
        plots=tuple(_plot(name, found, found.metrics[name], now) for name in shown),
        spans=tuple(
            Choice(text, "" if each == span else f"{here}&since={each}")
            for each, text in SPANS.items()
        ),
        begins=utc_text(found.since),
        middle=utc_text(half),
        ends=utc_text(found.until),
        step=_step(found.step),
        note=note,
        table=_table(found, shown),
    )


def _step(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds < 3600 else f"{values.number(seconds / 3600)} h"


def said(unit: str, value: float) -> str:
    """Return a value with its unit, for people."""
    if unit == "percent":
        return f"{values.number(value)} %"
    if unit in {"nodes", "labs", "sessions"}:
        return values.number(value)
    return charts.amount(unit, value)


def _plot(name: str, found: Series, metric: Metric, now: datetime) -> Plot:
    points, unit = metric.points, metric.unit
    many = sum(each.count for each in points)
    mean = sum(each.mean * each.count for each in points) / many
    greatest = max(each.max for each in points)
    top = 100.0 if unit == "percent" else _round_up(greatest)
    runs = list(_runs(points, found.step))
    last = points[-1]
    return Plot(
        title=TITLES.get(name, name),
        source=metric.source,
        newest=Cell("text", said(unit, last.mean)),
        at=values.instant(last.at, now),
        figures=(
            ("least", said(unit, min(each.min for each in points))),
            ("mean", said(unit, mean)),
            ("greatest", said(unit, greatest)),
        ),
        top=said(unit, top),
        lines=tuple(_line(run, found, top) for run in runs),
        between=tuple(_between(run, found, top) for run in runs),
        gaps=_gaps(runs, found),
    )


def _round_up(value: float) -> float:
    """Return the next number of the form 1, 2 or 5 times a power of ten; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= value)


def _runs(points: Sequence[Point], step: int) -> Iterator[list[Point]]:
    """Yield the points without a gap between them."""
    run: list[Point] = []
    for each in points:
        if run and (each.at - run[-1].at).total_seconds() > GAP * step:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _across(at: datetime, found: Series) -> float:
    whole = max((found.until - found.since).total_seconds(), found.step)
    return (at - found.since).total_seconds() / whole * WIDTH


def _up(value: float, top: float) -> float:
    return HEIGHT - min(value / top, 1.0) * (HEIGHT - 2)


def _line(run: list[Point], found: Series, top: float) -> str:
    made = [f"{_across(each.at, found):.1f},{_up(each.mean, top):.1f}" for each in run]
    if len(made) == 1:
        # One point alone would not be seen.
        across = _across(run[0].at, found) + 2
        made.append(f"{across:.1f},{_up(run[0].mean, top):.1f}")
    return " ".join(made)


def _between(run: list[Point], found: Series, top: float) -> str:
    over = [f"{_across(each.at, found):.1f},{_up(each.max, top):.1f}" for each in run]
    under = [f"{_across(each.at, found):.1f},{_up(each.min, top):.1f}" for each in reversed(run)]
    return " ".join((*over, *under))


def _gaps(runs: list[list[Point]], found: Series) -> str:
    edges = [(before[-1].at, after[0].at) for before, after in itertools.pairwise(runs)]
    if (runs[0][0].at - found.since).total_seconds() > GAP * found.step:
        edges.insert(0, (found.since, runs[0][0].at))
    if (found.until - runs[-1][-1].at).total_seconds() > GAP * found.step:
        edges.append((runs[-1][-1].at, found.until))
    if not edges:
        return ""
    begin, end = max(edges, key=lambda edge: edge[1] - edge[0])
    more = f", and {len(edges) - 1} shorter" if len(edges) > 1 else ""
    return f"nothing measured {utc_text(begin)} to {utc_text(end)}{more}"


def _table(found: Series, shown: Sequence[str]) -> Part:
    """Return the same in a table: what several buckets have together, newest first."""
    whole = max(1.0, (found.until - found.since).total_seconds())
    width = found.step * max(1, math.ceil(whole / found.step / FOLDED))
    rows: dict[int, dict[str, list[Point]]] = {}
    for name in shown:
        for each in found.metrics[name].points:
            number = int((each.at - found.since).total_seconds() // width)
            rows.setdefault(number, {}).setdefault(name, []).append(each)
    heads = [Head(TITLES.get(name, name), 3) for name in shown]
    return Part(
        "The same as a table",
        heads=(Head("From", 3), *heads),
        rows=tuple(
            (
                Cell("text", utc_text(found.since + timedelta(seconds=number * width))),
                *(_folded(found.metrics[name].unit, rows[number].get(name, [])) for name in shown),
            )
            for number in sorted(rows, reverse=True)
        ),
        note=f"Mean of each {_step(width)}, with the least and the greatest.",
        empty="Nothing was measured in this time.",
        caption="What was measured, newest first",
    )


def _folded(unit: str, points: list[Point]) -> Cell:
    if not points:
        return Cell("unknown", "unknown", why="not measured")
    many = sum(each.count for each in points)
    mean = sum(each.mean * each.count for each in points) / many
    least, greatest = min(each.min for each in points), max(each.max for each in points)
    return Cell("text", f"{said(unit, mean)} ({said(unit, least)} to {said(unit, greatest)})")
