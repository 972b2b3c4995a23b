"""The data of the page of past runs: the newest first, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.resources.declaration import PageColumn
from labfleet.resources.history import LEARNED, KeptRun, Run, RunKind, nodes_of, used
from labfleet.resources.meta import Key
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import past_runs
from labfleet.web import values, words
from labfleet.web.overview import Row
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
_KINDS = {RunKind.SIMULATION: "Simulations", RunKind.SESSION: "Sessions", RunKind.BOOT: "Boots"}


@dataclass(frozen=True, slots=True)
class Link:
    """A page of other runs; the one that is shown has no address."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The page: its rows, the pages beside it, and that of older runs ("" when there are none)."""

    rows: tuple[Row, ...]
    kinds: tuple[Link, ...]
    older: str
    family: str
    section: Section = SECTION


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> PastRuns:
    """Return the page that the query asks for; Invalid when it means nothing."""
    query = asked.query
    given = {name: query[name][-1] for name in ("kind", "family", "cursor") if name in query}
    kind, family = given.get("kind"), given.get("family")
    if kind is not None and kind not in LEARNED:
        raise errors.Invalid("There is no such kind of run.")
    found, following = await past_runs.read(
        services, caller, kind=None if kind is None else RunKind(kind), family=family,
        cursor=given.get("cursor", ""), limit=words.ROWS,
    )  # fmt: skip
    shown = past_runs.visible(caller.principal)
    links = [Link(_KINDS[each], "" if each == kind else _address(kind=each)) for each in shown]
    if len(links) > 1:
        links.insert(0, Link("All", _address() if given else ""))
    return PastRuns(
        rows=tuple(_row(services, each) for each in found),
        kinds=tuple(links),
        older="" if following is None else _address(kind=kind, family=family, cursor=following),
        family=family or "",
    )


def _address(**wanted: str | None) -> str:
    said = urlencode({name: str(value) for name, value in wanted.items() if value is not None})
    return f"{ROOT}?{said}" if said else ROOT


def _row(services: ServiceContext, kept: KeptRun) -> Row:
    run = kept.run
    cpu, memory, nodes = used(run, "cpu_milli"), used(run, "memory_mib"), nodes_of(run)
    cells = (
        Cell("link", run.family, href=_address(kind=run.kind, family=run.family)),
        Cell("absent", "not told") if nodes is None else Cell("text", str(nodes)),
        _UNKNOWN if run.duration_seconds is None else Cell("text", _span(run.duration_seconds)),
        _UNKNOWN if cpu is None else Cell("text", f"{cpu / 1000:.2f}"),
        _UNKNOWN if memory is None else Cell("text", f"{values.number(memory / 1024)} GiB"),
        values.instant(run.ended_at, services.clock.now()),
        Cell("text", Key("", run.namespace, run.name).label),
        Cell("text", run.kind.value),
        Cell("text", run.source.value),
        Cell("text", _end(run)),
    )
    return Row(key=str(kept.place), cells=cells)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{values.number(seconds / 60)} min"


def _end(run: Run) -> str:
    return f"cut off: {run.censored}" if run.censored else "its own"
