"""The tabs of a simulation: what was predicted against what was used, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from labfleet.decisions.run_use import METRIC_OF
from labfleet.resources.history import RESOURCES, Use
from labfleet.resources.meta import Resource
from labfleet.resources.prediction import Forecast
from labfleet.resources.simulation import OPEN, Simulation, SimulationPhase
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import learned, series
from labfleet.web import past_runs
from labfleet.web.bars import TITLES, short
from labfleet.web.overview import Row
from labfleet.web.plots import Plot, Value, plot
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_DRAWN = {
    "cpu_milli": ("cpu",),
    "memory_mib": ("memory",),
    "network_kbps": ("networkIn", "networkOut"),
}
_UNKNOWN = Cell("unknown", "unknown", why="not measured")
_NOT_TOLD = Cell("absent", "not told")
_NOTHING = Cell("absent", "nothing known")


@dataclass(frozen=True, slots=True)
class ComparedPanel:
    """A row for each resource with what was predicted and used, and graphics of those measured."""

    rows: tuple[Row, ...]
    plots: tuple[Plot, ...]
    live: bool


async def compared(
    services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> ComparedPanel:
    """Return what was predicted of a run beside what was measured or reported of it."""
    assert isinstance(obj, Simulation)  # noqa: S101 - the table of tabs says so
    peaks = {each.resource: peak for each, peak in learned.compared(obj)}
    return ComparedPanel(
        rows=tuple(_row(obj, name, peaks.get(name)) for name in RESOURCES),
        plots=await _plots(services, obj),
        live=obj.status.phase in OPEN,
    )


def _row(run: Simulation, name: str, peak: float | None) -> Row:
    """Return one resource: declared, expected, bound, used, and whether the bound held."""
    found = None if run.status.prediction is None else run.status.prediction.of(name)
    cells = [
        Cell("text", TITLES[name]),
        _declared(run, name),
        _NOTHING if found is None else Cell("text", short(name, found.expected)),
        _NOTHING if found is None else Cell("text", short(name, found.bound)),
        _NOTHING if found is None else Cell("text", f"{found.coverage:.0%}"),
        _UNKNOWN if peak is None else Cell("text", short(name, peak)),
        _verdict(found, peak, over=run.status.phase not in OPEN),
        *_figures(run, name),
    ]
    return Row(name, tuple(cells))


def _declared(run: Simulation, name: str) -> Cell:
    """Return what the caller stated; a resource that it left out is not told."""
    if name == "duration_seconds":
        asked = run.spec.duration_seconds
    else:
        asked = None if run.spec.cost is None else run.spec.cost.stated.get(name)
    return _NOT_TOLD if asked is None else Cell("text", short(name, asked))


def _verdict(found: Forecast | None, peak: float | None, *, over: bool) -> Cell:
    """Return whether the bound held: while a run goes on it only has so far."""
    if found is None or peak is None:
        return Cell("absent", "cannot be told")
    share = f" ({peak / found.bound:.0%} of it)" if found.bound > 0 else ""
    if peak > found.bound:
        return Cell("state", f"passed{share}", tone="warn", shape="▲")
    return Cell("state", f"{'held' if over else 'so far'}{share}", tone="good", shape="●")


def _figures(run: Simulation, name: str) -> tuple[Cell, Cell, Cell]:
    """Return mean, median and 95 % of what was used, and by whose word in their hover texts."""
    status, key = run.status, "network_in_kbps" if name == "network_kbps" else name
    used, told = status.used.get(key), "measured"
    if used is None:
        used, told = status.observed.get(key), "reported by its caller"
    use = used or Use()

    def said(value: float | None) -> Cell:
        if value is None:
            return _UNKNOWN if name != "duration_seconds" else Cell("absent", "one number")
        return Cell("text", short(name, value), exact=f"{short(name, value)}, {told}")

    return said(use.mean), said(use.median), said(use.p95)


async def _plots(services: ServiceContext, run: Simulation) -> tuple[Plot, ...]:
    """Return a graphic for each resource of which minutes are still kept."""
    if run.status.decided_at is None or run.status.phase is SimulationPhase.DENIED:
        return ()
    kept = await series.of(services, run)
    made = []
    for name, metrics in _DRAWN.items():
        points = _points(kept, metrics)
        if len(points) < 2:
            continue
        found = None if run.status.prediction is None else run.status.prediction.of(name)
        levels = (
            []
            if found is None
            else [("median", "expected", found.expected), ("bound", "bound", found.bound)]
        )
        made.append(plot(TITLES[name], points, levels=levels, words=partial(short, name),
                         step=float(kept.step)))  # fmt: skip
    return tuple(made)


def _points(kept: series.Series, metrics: tuple[str, ...]) -> list[Value]:
    """Return the mean of each kept minute in base units; of two directions the busier one's."""
    factor = METRIC_OF["network_in_kbps"][1] if "networkIn" in metrics else 1.0
    found: dict[object, Value] = {}
    for metric in metrics:
        for each in kept.metrics[metric].points:
            value = each.mean / factor
            if each.at not in found or found[each.at].value < value:
                found[each.at] = Value(each.at, value)
    return sorted(found.values(), key=lambda each: each.at)


@dataclass(frozen=True, slots=True)
class EvidencePanel:
    """What a prediction rests on: sentences of the decision, rows by resource, the run's parameters."""

    sentences: tuple[str, ...]
    family: str
    version: int
    rows: tuple[tuple[str, Forecast, tuple[Cell, ...]], ...]
    parameters: tuple[tuple[str, str], ...]


async def evidence(
    services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked
) -> EvidencePanel:
    """Return the evidence of a run as its caller may see it: names of others' runs are left out."""
    assert isinstance(obj, Simulation)  # noqa: S101 - the table of tabs says so
    told = obj.status.prediction
    forecasts = () if told is None else told.forecasts
    return EvidencePanel(
        sentences=tuple(dict.fromkeys(obj.status.evidence)),
        family="" if told is None else told.family,
        version=0 if told is None else told.version,
        rows=tuple(
            (
                TITLES.get(each.resource, each.resource),
                each,
                past_runs.links(services, caller, obj.namespace, each.runs),
            )
            for each in forecasts
        ),
        parameters=_parameters(obj.spec.params),
    )


PARAMETERS = 64
"""Parameters of a run that are shown."""
VALUE = 200
"""Characters of a parameter that are shown; the YAML has all."""


def _parameters(given: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name[:VALUE], str(value)[:VALUE]) for name, value in list(given.items())[:PARAMETERS]
    )
