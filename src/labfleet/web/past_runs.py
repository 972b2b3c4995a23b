"""The data of the page of past runs: the newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.declaration import PageColumn
from labfleet.resources.history import LEARNED, KeptRun, Run, RunKind, nodes_of, used
from labfleet.resources.meta import Key
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import learned, past_runs
from labfleet.web import values, words
from labfleet.web.bars import TITLES, short
from labfleet.web.overview import Row
from labfleet.web.plots import Plot, Value, plot
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.words import Section

ROOT = "/history"
SECTION = Section(
    "Run", "history", "History",
    (
        PageColumn("Chart", "link", wide=3),
        PageColumn("Nodes", "text"),
        PageColumn("Duration", "text", wide=2),
        PageColumn("CPU", "text"),
        PageColumn("Memory", "text", wide=2),
        PageColumn("Observed at", "time", wide=2),
        PageColumn("Run", "text", wide=3),
        PageColumn("Kind", "text", wide=2),
        PageColumn("Source", "text", wide=2),
        PageColumn("End", "text", wide=2),
    ),
    "",
)  # fmt: skip
_UNKNOWN = Cell("absent", "not measured")
_ASKED = ("kind", "family", "namespace", "cursor")
_PLOTTED = ("cpu_milli", "memory_mib", "duration_seconds")
FEWEST = 2
"""Measured runs from which on they are drawn."""
KINDS = {RunKind.SIMULATION: "Simulations", RunKind.SESSION: "Sessions", RunKind.BOOT: "Boots"}


@dataclass(frozen=True, slots=True)
class Link:
    """A page of other runs; the one that is shown has no address."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The page: its rows, the pages beside it, and that of older runs ("" when there are none).

    `given` is what the rows are filtered by; of one family `plots` draw what its runs used.
    """

    rows: tuple[Row, ...]
    kinds: tuple[Link, ...]
    older: str
    family: str
    given: Mapping[str, str]
    plots: tuple[Plot, ...] = ()
    section: Section = SECTION


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> PastRuns:
    """Return the page that the query asks for; Invalid when it means nothing."""
    query = asked.query
    given = {name: query[name][-1] for name in _ASKED if query.get(name, [""])[-1]}
    kind, family = given.get("kind"), given.get("family")
    if kind is not None and kind not in LEARNED:
        raise errors.Invalid("There is no such kind of run.")
    found, following = await past_runs.read(
        services, caller, kind=None if kind is None else RunKind(kind), family=family,
        namespace=given.get("namespace"), cursor=given.get("cursor", ""), limit=words.ROWS,
    )  # fmt: skip
    shown = past_runs.visible(caller.principal)
    links = [Link(KINDS[each], "" if each == kind else address(kind=each)) for each in shown]
    if len(links) > 1:
        links.insert(0, Link("All", address() if given else ""))
    kept = {name: value for name, value in given.items() if name != "cursor"}
    return PastRuns(
        rows=tuple(_row(services, caller, each) for each in found),
        kinds=tuple(links),
        older="" if following is None else address(**kept, cursor=following),
        family=family or "",
        given=kept,
        plots=plots_of([each.run for each in found]) if family else (),
    )


def plots_of(runs: Sequence[Run]) -> tuple[Plot, ...]:
    """Return what runs of a family used, the newest first: a dot each, median and 95 % across."""
    made, figures = [], learned.figures(runs)
    for name in _PLOTTED:
        found = figures.get(name)
        if found is None or found.runs < FEWEST:
            continue
        values_ = [
            Value(run.ended_at, peak, f"{run.name or run.uid}: {short(name, peak)}")
            for run in reversed(runs)
            if (peak := used(run, name)) is not None
        ]
        levels = [("median", "median", found.median), ("p95", "95 %", found.p95)]
        values_.sort(key=lambda each: each.at)
        made.append(plot(f"{TITLES[name]} of {found.runs} runs", values_, levels=levels,
                         words=partial(short, name)))  # fmt: skip
    return tuple(made)


def address(**wanted: str | None) -> str:
    """Return the address of the page with this query; what is None is left out."""
    said = urlencode({name: str(value) for name, value in wanted.items() if value is not None})
    return f"{ROOT}?{said}" if said else ROOT


def _row(services: ServiceContext, caller: Caller, kept: KeptRun) -> Row:
    run = kept.run
    cpu, memory, nodes = used(run, "cpu_milli"), used(run, "memory_mib"), nodes_of(run)
    cells = (
        Cell("link", run.family, href=address(kind=run.kind, family=run.family)),
        Cell("absent", "not told") if nodes is None else Cell("text", str(nodes)),
        _UNKNOWN if run.duration_seconds is None else Cell("text", _span(run.duration_seconds)),
        _UNKNOWN if cpu is None else Cell("text", f"{cpu / 1000:.2f}"),
        _UNKNOWN if memory is None else Cell("text", f"{values.number(memory / 1024)} GiB"),
        values.instant(run.ended_at, services.clock.now()),
        _object(services, caller, run),
        Cell("text", run.kind.value),
        Cell("text", run.source.value),
        Cell("text", _end(run)),
    )
    return Row(key=str(kept.place), cells=cells)


def _object(services: ServiceContext, caller: Caller, run: Run) -> Cell:
    """Return the name of what ran; a link while it is still there and the caller sees it."""
    kind, label = past_runs.OBJECTS[run.kind], Key("", run.namespace, run.name).label
    found = services.cache.at(Key(kind, run.namespace, run.name))
    if found is None or found.metadata.uid != run.uid or not access.sees(caller.principal, found):
        return Cell("text", label)
    href = values.address(kinds.KINDS[kind].plural, run.name, run.namespace)
    return Cell("link", label, href=href)


def links(
    services: ServiceContext, caller: Caller, namespace: str, names: Sequence[str]
) -> tuple[Cell, ...]:
    """Return names of past simulations; links to those that are still there for the caller to see."""
    cells = []
    for name in names:
        run = services.cache.get(Simulation, name, namespace)
        there = run is not None and access.sees(caller.principal, run)
        href = values.address("simulations", name, namespace)
        cells.append(Cell("link", name, href=href) if there else Cell("text", name))
    return tuple(cells)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{values.number(seconds / 60)} min"


def _end(run: Run) -> str:
    return f"cut off: {run.censored}" if run.censored else "its own"
