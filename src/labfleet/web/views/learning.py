"""The page of what was learned: how bounds held, each family's figures, what the next run would need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labfleet.kernel import errors
from labfleet.resources.history import RunKind
from labfleet.resources.prediction import Achieved, Forecast
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import learned, past_runs, predictions
from labfleet.service.reads.learned import FamilyLearned
from labfleet.web import past_runs as history_page
from labfleet.web import values
from labfleet.web.addresses import changed
from labfleet.web.bars import TITLES, short
from labfleet.web.overview import Row
from labfleet.web.part_of_rows import PartOfRows, part
from labfleet.web.values import Cell
from labfleet.web.view import Asked, Tab

ROOT = "/learning"
CLOSE = 0.02
"""How far below what is stated an achieved share still counts as held: chance alone does as much."""
FEW = 20
"""Runs below which an achieved share is not judged."""
RUNS = 5
"""Past runs that a row leads to."""
_TITLES = {**TITLES, "start": "Start range"}
_NONE = Cell("absent", "not judged")
_UNKNOWN = Cell("unknown", "unknown", why="not measured")
_FEW_RUNS = Cell("absent", "too few runs")


@dataclass(frozen=True, slots=True)
class NextRun:
    """What a run like the newest of a family would need: its title, rows, and its past runs."""

    family: str
    rows: tuple[Row, ...]
    history: str


@dataclass(frozen=True, slots=True)
class LearningPage:
    """The page; `levels` are the headings of the stated coverages."""

    levels: tuple[str, ...]
    held: tuple[Row, ...]
    version: int
    kinds: tuple[Tab, ...]
    families: PartOfRows[Row]
    looked_at: int
    chosen: NextRun | None


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> LearningPage:
    """Return the page; Denied who may read no simulation, Invalid or Gone for odd questions."""
    found = await learned.families(services, caller)
    achieved, version = await predictions.achieved(services, caller)
    kind = asked.last("kind")
    if kind and kind not in tuple(RunKind):
        raise errors.Invalid("There is no such kind of run.")
    levels = sorted({each.stated for each in achieved})
    shown = [each for each in found.items if kind in {"", each.kind}]
    rows = part(shown, asked, "families")
    return LearningPage(
        levels=tuple(f"{each:.0%}" for each in levels),
        held=_held(achieved, levels),
        version=version,
        kinds=_kinds(caller, kind),
        families=rows.of(tuple(_family(services, each) for each in rows.rows)),
        looked_at=found.looked_at,
        chosen=await _chosen(services, caller, asked),
    )


def _kinds(caller: Caller, chosen: str) -> tuple[Tab, ...]:
    found = past_runs.visible(caller.principal)
    if len(found) < 2:
        return ()
    titles = [(history_page.KINDS[each], each.value) for each in found]
    return tuple(
        Tab(title, "" if each == chosen else f"{ROOT}?kind={each}" if each else ROOT)
        for title, each in [("All", ""), *titles]
    )


def _held(achieved: Sequence[Achieved], levels: Sequence[float]) -> tuple[Row, ...]:
    """Return a row for each kind and resource: how many runs, and the share by stated coverage."""
    found: dict[tuple[RunKind, str], dict[float, Achieved]] = {}
    for each in achieved:
        found.setdefault((each.kind, each.resource), {})[each.stated] = each
    rows = []
    for (kind, resource), by_level in found.items():
        cells = [
            Cell("text", kind.value),
            Cell("text", _TITLES.get(resource, resource)),
            Cell("text", str(max(each.runs for each in by_level.values()))),
            *(_share(by_level.get(level)) for level in levels),
        ]
        rows.append(Row(f"{kind}/{resource}", tuple(cells)))
    return tuple(rows)


def _share(each: Achieved | None) -> Cell:
    """Return how often bounds held, with a sign for held, missed, or too few runs to tell."""
    if each is None:
        return _NONE
    text = f"{each.share:.1%}"
    if each.runs < FEW:
        return Cell("state", text, tone="calm", shape="○")
    if each.share >= each.stated - CLOSE:
        return Cell("state", text, tone="good", shape="●")
    return Cell("state", text, tone="warn", shape="▲")


def _family(services: ServiceContext, each: FamilyLearned) -> Row:
    name = {"kind": each.kind.value, "family": each.family, "namespace": each.namespace}
    at = changed(Asked({}), "next", **name)
    cells = [
        Cell("link", each.family, href=at),
        Cell("text", each.kind.value),
        Cell("link", str(each.runs), href=history_page.address(**name)),
        *_figures(each, "cpu_milli"),
        *_figures(each, "memory_mib"),
        *_figures(each, "duration_seconds")[:1],
        _bounds(each),
        _NONE if each.held.width is None
        else Cell("text", f"{each.held.width:.2f} times what was used"),
        values.instant(each.newest, services.clock.now()),
    ]  # fmt: skip
    return Row(f"{each.kind}/{each.namespace}/{each.family}", tuple(cells))


def _figures(each: FamilyLearned, resource: str) -> tuple[Cell, Cell]:
    """Return median and 95 % of what was used, and how that has changed."""
    found = each.figures.get(resource)
    if found is None:
        return _UNKNOWN, _UNKNOWN
    told = f"{short(resource, found.median)}, 95 % {short(resource, found.p95)}"
    exact = f"{told} of {found.runs} measured runs"
    drift = _FEW_RUNS
    if found.drift is not None:
        drift = Cell("text", f"{found.drift:+.0%}", exact="newer half against the older half")
    return Cell("text", told, exact=exact), drift


def _bounds(each: FamilyLearned) -> Cell:
    held = each.held
    if not held.runs or held.stated is None:
        return _NONE
    text = f"{held.within} of {held.runs}"
    return Cell("text", text, exact=f"{text} bounds held; stated {held.stated:.0%}")


async def _chosen(services: ServiceContext, caller: Caller, asked: Asked) -> NextRun | None:
    """Return what the next run of the family in the query would need; Gone for none of yours."""
    family, kind = asked.last("family"), asked.last("kind")
    if not family:
        return None
    namespace = asked.last("namespace", "default")
    rows, _ = await past_runs.read(
        services, caller, kind=RunKind(kind) if kind else None, family=family,
        namespace=namespace, limit=1,
    )  # fmt: skip
    if not rows:
        raise errors.Gone("No run of this family is known.")
    newest = rows[0].run
    told = await learned.next_run(services, caller, newest)
    return NextRun(
        family,
        tuple(_forecast(services, caller, newest.namespace, each) for each in told.forecasts),
        history_page.address(kind=newest.kind.value, family=family, namespace=namespace),
    )


def _forecast(services: ServiceContext, caller: Caller, space: str, each: Forecast) -> Row:
    name = each.resource
    cells = [
        Cell("text", _TITLES.get(name, name)),
        Cell("text", short(name, each.expected)),
        Cell("text", short(name, each.bound)),
        Cell("text", f"{each.coverage:.0%}"),
        Cell("text", each.sentence),
    ]
    runs = history_page.links(services, caller, space, each.runs[:RUNS])
    return Row(name, (*cells, *runs))
