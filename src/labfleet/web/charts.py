"""What an object used, as a page shows it: a line for each metric, with its figures and a curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labfleet.decisions.run_use import METRIC_OF, Histogram
from labfleet.resources.cluster import Cluster
from labfleet.resources.history import Use
from labfleet.resources.meta import Resource
from labfleet.resources.series import Spread
from labfleet.resources.simulation import OPEN, Simulation, SimulationPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import series
from labfleet.service.reads.series import Metric, Point

WIDTH, HEIGHT = 200, 20
UNKNOWN = "unknown"
TITLES = {
    "cpu": "CPU", "memory": "Memory", "networkIn": "Network in", "networkOut": "Network out",
    "storage": "Storage", "pods": "Pods", "othersCpu": "CPU of others",
    "othersMemory": "Memory of others",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chart:
    """One metric: its figures in words, and its curve as points of lines in a box of the size."""

    title: str
    newest: str
    peak: str
    mean: str
    median: str
    p95: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Used:
    """What was measured of an object, since when; `note` says it when nothing was."""

    charts: tuple[Chart, ...]
    live: bool
    note: str = ""


async def of(services: ServiceContext, obj: Resource | None) -> Used | None:
    """Return what a cluster or run used; None for another kind, or one that never began."""
    if isinstance(obj, Cluster):
        recorded, live = dict[str, Use](), True
    elif isinstance(obj, Simulation):
        began = obj.status.phase not in {SimulationPhase.DENIED, SimulationPhase.QUEUED}
        if not began or obj.status.decided_at is None:
            return None
        recorded, live = obj.status.used, obj.status.phase in OPEN
    else:
        return None
    found = await series.of(services, obj)
    figures = figures_of(recorded)
    charts = tuple(
        chart(name, found, metric, figures.get(name))
        for name, metric in found.metrics.items()
        if metric.points or name in figures
    )
    note = "" if charts else "Nobody has measured it: its use is unknown."
    return Used(charts, live, note)


def figures_of(recorded: Mapping[str, Use]) -> dict[str, tuple[Use, float]]:
    """Return by metric what was recorded of it, and by what its values are multiplied."""
    return {METRIC_OF[name][0]: (use, METRIC_OF[name][1]) for name, use in recorded.items()}


def chart(
    name: str, found: series.Series, metric: Metric, recorded: tuple[Use, float] | None
) -> Chart:
    """Return one metric of a series: its figures as recorded, else of the points that are kept."""
    if recorded is None:
        seen = Histogram()
        for each in metric.points:
            seen.add(Spread(each.count, each.min, each.mean * each.count, each.max))
        use, factor = seen.use() or Use(), 1.0
    else:
        use, factor = recorded

    def said(value: float | None) -> str:
        return UNKNOWN if value is None else amount(metric.unit, value * factor)

    newest = amount(metric.unit, metric.points[-1].mean) if metric.points else UNKNOWN
    drawn = tuple(lines(found, metric.points))
    return Chart(
        TITLES.get(name, name), newest, said(use.peak), said(use.mean), said(use.median),
        said(use.p95), drawn,
    )  # fmt: skip


def amount(unit: str, value: float) -> str:
    """Return a value with its unit, in words for people: `1.25 CPU`, `4.2 GiB`, `1.2 MB/s`."""
    if unit == "millicores":
        return f"{value / 1000:.3g} CPU"
    if unit == "MiB":
        return f"{value / 1024:.3g} GiB" if value >= 1024 else f"{value:.0f} MiB"
    if unit == "bytes/s":
        return _scaled(value, {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9})
    return f"{value:.3g}"


def _scaled(value: float, units: Mapping[str, float]) -> str:
    fit = [(name, size) for name, size in units.items() if value >= size]
    name, size = fit[-1] if fit else next(iter(units.items()))
    return f"{value / size:.3g} {name}"


def lines(
    found: series.Series,
    points: Sequence[Point],
    *,
    top: float = 0.0,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Iterator[str]:
    """Yield the curve as lines; where nobody measured for a while, it is broken.

    `top` is a value that has to fit in, whatever was measured.
    """
    whole = max((found.until - found.since).total_seconds(), found.step)
    top = top or max((each.mean for each in points), default=0.0)
    line, last = list[str](), None
    for each in points:
        if last is not None and (each.at - last).total_seconds() > 2.5 * found.step:
            yield " ".join(line)
            line = []
        last = each.at
        across = (each.at - found.since).total_seconds() / whole * size[0]
        line.append(f"{across:.1f},{height(each.mean, top, size[1]):.1f}")
    if line:
        yield " ".join(line)


def height(value: float, top: float, tall: int = HEIGHT) -> float:
    """Return where a value stands in a box, from its upper edge, with a margin of one."""
    return tall - 1 - (value / top * (tall - 2) if top > 0 else 0.0)
