"""The tabs of a definition: what its sessions used, which run, and the versions of its family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from labfleet.decisions import wording
from labfleet.kernel.quantity import count
from labfleet.resources import history
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import Run
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.lab_recommendation import LabRecommendation, PoolOutcome, SizeOption
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import family_use, indices
from labfleet.service.reads import recommendations
from labfleet.web import overview, recommended, sheet, values, words
from labfleet.web.addresses import changed
from labfleet.web.bars import TITLES, short
from labfleet.web.overview import Row, Table
from labfleet.web.part_of_rows import PartOfRows, part
from labfleet.web.plots import Plot, Value, plot
from labfleet.web.sheet import Head, Part
from labfleet.web.values import Cell
from labfleet.web.view import Asked, Tab

_SIZES = ("cpu_milli", "memory_mib", "storage_mib")
"""What a definition asks for."""
_UNKNOWN = Cell("unknown", "unknown", why="not measured")
_TOO_FEW = Cell("unknown", "unknown", why="too few sessions")
FEWEST = 2
"""Measured sessions from which on a dimension is drawn."""
_FIGURES = (
    Head("Dimension"), Head("Sessions", 1), Head("Configured"), Head("Latest"), Head("Mean"),
    Head("Half"), Head("95 %"), Head("Max"), Head("Bound"), Head("Stated", 1),
    Head("Achieved", 2), Head("Exceeded bound", 2), Head("Evidence", 5),
)  # fmt: skip
_OPTIONS = (
    Head("Value"), Head("One lab asks for", 4), Head("Would have exceeded", 5), Head("Pool", 3),
    Head("Sessions a worker"), Head("Each an hour"), Head("Why not", 4),
)  # fmt: skip


def recommends(caller: Caller, _obj: Resource) -> bool:
    """Tell whether somebody looks after definitions: the figures are of everybody's sessions."""
    return access.may(caller.principal, "recommend", "Definition")


@dataclass(frozen=True, slots=True)
class ObservationPanel:
    """What past sessions used: sentences, graphics, tables, and the commands that go on from it."""

    said: tuple[str, ...]
    choices: tuple[Tab, Tab]
    plots: tuple[Plot, ...]
    parts: tuple[Part, ...]
    commands: tuple[str, ...]


async def observation(
    services: ServiceContext, caller: Caller, obj: Resource, asked: Asked
) -> ObservationPanel:
    """Return what sessions of the family, or of this version alone, used; Denied for others."""
    assert isinstance(obj, Definition)  # noqa: S101 - the table of tabs says so
    access.demand(caller.principal, "recommend", "Definition")
    await services.fresh()
    alone = asked.last("of") == "version"
    known = await recommendations.known(services, obj, alone=alone)
    found = recommendations.of(services, obj, known)
    admin = access.may(caller.principal, "apply", "Definition")
    return ObservationPanel(
        said=(f"{count(found.looked_at, 'past session')} looked at, {found.most} at most",
              *recommended.sentences(found)),
        choices=(
            Tab("All versions", changed(asked, of=None) if alone else ""),
            Tab("This version alone", "" if alone else changed(asked, of="version")),
        ),
        plots=tuple(_plots(known.runs, found.dimensions)),
        parts=(
            Part("What was used", heads=_FIGURES,
                 rows=tuple(_figures(each) for each in found.dimensions), whole=True),
            Part("What may be applied", heads=_OPTIONS, rows=tuple(_options(found)), whole=True,
                 note="How many of those sessions would have used more, and what follows for each "
                 "pool of its track."),
        ),
        commands=recommended.commands(found, obj, admin=admin),
    )  # fmt: skip


def _figures(each: LabBound) -> sheet.Row:
    name = each.resource

    def said(value: float | None, unknown: Cell = _UNKNOWN) -> Cell:
        if value is None:
            return unknown
        return Cell("text", short(name, value), exact=f"{value:,.0f} {_unit(name)}")

    bound = said(each.bound, _TOO_FEW)
    sure = each.bound is not None
    return (
        Cell("text", TITLES[name]),
        Cell("text", str(each.sessions)),
        said(each.declared),
        said(each.latest),
        said(each.mean),
        said(each.p50),
        said(each.p95),
        said(each.max),
        bound,
        Cell("text", f"{each.coverage:.0%}") if sure else _TOO_FEW,
        _TOO_FEW if each.achieved is None else Cell("text", f"{each.achieved:.0%}"),
        Cell("text", f"{each.exceeded} of {each.sessions}") if sure else _TOO_FEW,
        Cell("text", each.sentence or "no session was measured"),
    )


def _unit(name: str) -> str:
    return "thousandths of a CPU" if name == "cpu_milli" else "MiB"


def _options(found: LabRecommendation) -> list[sheet.Row]:
    """Return a row for each value and pool; what holds for all pools stands in the first."""
    rows: list[sheet.Row] = []
    for each in found.options:
        rows += [_option(each, found.looked_at, one) for one in each.pools or (None,)]
    return rows


def _option(each: SizeOption, looked_at: int, pool: PoolOutcome | None) -> sheet.Row:
    told = (
        f"with this {each.exceeded} of the last {looked_at} would have exceeded"
        if looked_at else "no past session to tell by"
    )  # fmt: skip
    return (
        Cell("text", each.value),
        Cell("text", _amounts(each.amounts)),
        Cell("text", told),
        Cell("absent", "no pool serves its track") if pool is None else Cell("text", pool.pool),
        Cell("absent", "") if pool is None else Cell("text", str(pool.sessions_per_worker)),
        _price(pool),
        Cell("text", each.refused) if each.refused else Cell("absent", "none"),
    )


def _price(pool: PoolOutcome | None) -> Cell:
    if pool is None:
        return Cell("absent", "")
    if pool.usd_per_session_hour is None:
        why = "no price is known" if pool.sessions_per_worker else "none fits"
        return Cell("unknown", "unknown", why=why)
    return Cell("text", f"${pool.usd_per_session_hour:.2f}")


def _amounts(amounts: Amounts) -> str:
    sized = {name: getattr(amounts, name) for name in _SIZES}
    return wording.amounts(Amounts(**sized))


def _plots(runs: Sequence[Run], bounds: Sequence[LabBound]) -> list[Plot]:
    """Return a dot for each measured session, with what is configured and the bound across."""
    made = []
    for each in bounds:
        name = each.resource
        dots = [
            Value(run.ended_at, peak, f"{run.name or run.uid}: {short(name, peak)}")
            for run in runs
            if (peak := history.used(run, name)) is not None
        ]
        if len(dots) < FEWEST:
            continue
        levels = [("median", "configured", float(each.declared))]
        if each.bound is not None:
            levels.append(("bound", "bound", float(each.bound)))
        dots.sort(key=lambda dot: dot.at)
        made.append(plot(f"{TITLES[name]} of {count(len(dots), 'session')}", dots, levels=levels,
                         words=partial(short, name)))  # fmt: skip
    return made


@dataclass(frozen=True, slots=True)
class SessionsPanel:
    """The live sessions of a definition, and the list of all that there were."""

    table: Table
    all: str


async def sessions(
    services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked
) -> SessionsPanel:
    """Return the live sessions of a definition that the caller sees."""
    await services.fresh()
    section = words.section(Session.__name__)
    assert section is not None  # noqa: S101 - sessions have a table, for the type checker
    live = [
        each
        for each in services.cache.by(indices.SESSIONS_USING, obj.key.path)
        if access.sees(caller.principal, each)
    ]
    now, readable = services.clock.now(), overview.readable(caller.principal)
    found = overview.table(section, live, now, {}, readable)
    return SessionsPanel(found, "/sessions" + changed(Asked({}), definition=obj.name, show="all"))


_VERSIONS = (
    ("Version", 2), ("Name", 3), ("State", 2), ("Made", 2), ("One lab asks for", 4),
    ("How it came about", 5), ("Live sessions", 1), ("Nodes", 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VersionsPanel:
    """The versions of a definition's family, the newest first."""

    family: str
    newest: str
    headings: tuple[tuple[str, int], ...]
    rows: PartOfRows[Row]


async def versions(
    services: ServiceContext, caller: Caller, obj: Resource, asked: Asked
) -> VersionsPanel:
    """Return the versions of a definition's family that the caller sees."""
    assert isinstance(obj, Definition)  # noqa: S101 - the table of tabs says so
    await services.fresh()
    found = [
        each
        for each in family_use.versions(services.cache, obj)[::-1]
        if access.sees(caller.principal, each)
    ]
    usable = next((each.name for each in found if not each.spec.deprecated), "")
    rows = part(found, asked, "versions")
    return VersionsPanel(
        family=family_of(obj),
        newest=usable,
        headings=_VERSIONS,
        rows=rows.of(tuple(_version(services, caller, obj, each) for each in rows.rows)),
    )


def _version(services: ServiceContext, caller: Caller, shown: Definition, each: Definition) -> Row:
    made = each.metadata.creation_timestamp
    using, path = indices.SESSIONS_USING, each.key.path
    live = services.cache.count(using, path)
    if access.only_owner(caller.principal, Session.__name__) is not None:
        seen = (access.sees(caller.principal, one) for one in services.cache.by(using, path))
        live = sum(seen)
    href = values.address("definitions", each.name, each.namespace)
    here = f"{each.name} (this one)" if each.name == shown.name else each.name
    cells = (
        Cell("text", each.spec.version),
        Cell("link", here, href=href),
        values.state("Definition", each.status.phase),
        Cell("absent", "not told") if made is None
        else values.instant(made, services.clock.now()),
        Cell("text", wording.amounts(each.status.demand)),
        Cell("says", _came(each)),
        Cell("text", str(live)),
        Cell("text", str(each.status.node_count)),
    )  # fmt: skip
    return Row(f"Definition/{each.namespace}/{each.name}", cells)


def _came(each: Definition) -> str:
    """Return how a version came about, and which one it is replaced by."""
    applied, told = each.status.applied, []
    if applied is not None:
        why = f": {applied.reason}" if applied.reason else ""
        told.append(
            f"{applied.by} made it of {applied.source} by applying its {applied.value}{why}"
        )
    if each.spec.replacement:
        told.append(f"replaced by {each.spec.replacement}")
    return "; ".join(told) or "written by hand"
