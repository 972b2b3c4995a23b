"""The data of a list page: the objects of one kind, filtered, sorted and a page at a time.

What it shows is in its address: `q` (a text), the kind's filters by name, `show` (live, over or
all), `sort` and `cursor`. The rows are those of the API's list. Kinds with a table on the first
page have its columns here too, the others those of `labfleet get`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from labfleet.resources import paths
from labfleet.resources.declaration import OVER, Page, PageColumn
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import DEFAULT_NAMESPACE, Resource
from labfleet.service.core import access, intake, views
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import listing
from labfleet.web import overview, values, words
from labfleet.web.overview import Row, Table
from labfleet.web.values import Cell
from labfleet.web.view import Asked, Tab
from labfleet.web.words import Section

SHOWS = {"live": "Live", "over": "Over", "all": "All"}
"""What may be shown of a kind whose objects end: those that do not yet, those that have, or both."""
FEW = 5
"""Up to so many columns beside the name a list has wide ones."""
_NEWEST = "-metadata.creationTimestamp"
_WORKED_OUT = frozenset({"live", "load"})
_BESIDE = {
    "Worker": ("Session", "samples"),
    "Cluster": ("Simulation",),
    "Queue": ("Simulation", "queue"),
}
"""What changes the cells of a kind beside its own objects."""


@dataclass(frozen=True, slots=True)
class Field:
    """One filter of the form; `choices` are the words it may have, none when it is any text."""

    name: str
    title: str
    value: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """One heading; `href` sorts by it ("": nothing is sorted by it), `sorted` says how it is now."""

    title: str
    href: str = ""
    sorted: str = ""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Everything on the page.

    `said` is what an address still says beside the form; `clear` is the list without any filter,
    `more` the next page, `first` the first one, each "" when there is none. `command` is the same in
    a terminal; `wider`: there it shows more, since it has neither the kind's filters nor `show`.
    """

    plural: str
    said: str
    table: Table
    heads: tuple[Head, ...]
    fields: tuple[Field, ...]
    text: str
    shows: tuple[Tab, ...]
    shown: str
    hidden: tuple[tuple[str, str], ...]
    clear: str
    more: str
    first: str
    follows: str
    command: str
    wider: bool
    empty: Page | None


@dataclass(frozen=True, slots=True)
class _Wish:
    """What an address asks of a kind; `filters` are those that it names."""

    row: Kind
    filters: Mapping[str, str]
    text: str
    namespace: str
    show: str
    sort: str
    cursor: str

    def address(self, **changes: str) -> str:
        """Return the address of the same list with some of it changed; from its first page on."""
        said = {"q": self.text, "namespace": self.namespace, **self.filters}
        if self.show and self.show != _first_show(
            self.row, narrowed=bool(self.text or self.filters)
        ):
            said["show"] = self.show
        if self.sort:
            said["sort"] = self.sort
        found = {name: value for name, value in {**said, **changes}.items() if value}
        return f"/{self.row.plural}?{urlencode(found)}" if found else f"/{self.row.plural}"


async def page(services: ServiceContext, caller: Caller, row: Kind, asked: Asked) -> ListPage:
    """Return what an address asks of a kind; Denied, or Invalid naming what it cannot ask."""
    access.demand(caller.principal, "read", row.name)
    section = words.section(row.name) or section_of(row)
    wish = _wish(row, section, asked)
    sort = wish.sort or _usual(row, wish.show)
    query = listing.Query(
        namespace=wish.namespace or None,
        filters=(*wish.filters.items(), *_phases(row, wish)),
        sort=sort,
        text=wish.text,
        limit=words.ROWS,
        cursor=wish.cursor,
    )
    found = await listing.listed(services, caller, row, query)
    narrowed = bool(wish.filters or wish.text or wish.namespace)
    return ListPage(
        plural=row.plural,
        said=row.summary,
        table=_table(services, caller, row, section, found),
        heads=tuple(_head(row, column, wish, sort) for column in section.columns),
        fields=_fields(row, wish),
        text=wish.text,
        shows=_shows(row, wish),
        shown=wish.show,
        hidden=tuple((name, value) for name, value in (("sort", wish.sort),) if value),
        clear=f"/{row.plural}" if narrowed else "",
        more="" if found.next is None else wish.address(cursor=found.next),
        first=wish.address() if wish.cursor else "",
        follows=" ".join((row.name, *_BESIDE.get(row.name, ()))),
        command=_command(row, wish),
        wider=bool(wish.filters) or wish.show in {"live", "over"},
        empty=row.page,
    )


def section_of(row: Kind) -> Section:
    """Return the table of a kind, of the columns that it declares for terminals."""
    own = [each for each in row.columns if not each.wide]
    wide = 3 if len(own) <= FEW else 2  # many in the width of a laptop
    shown = [
        PageColumn(words.label(each.title), "text", each.path, absent="none", wide=wide)
        for each in own
    ]
    columns = (PageColumn("Name", "name", wide=3), *shown)
    return Section(row.name, row.plural, row.plural.capitalize(), columns, "")


def _wish(row: Kind, section: Section, asked: Asked) -> _Wish:
    """Return what the query says; Invalid names what means nothing here."""
    said = {name: asked.last(name).strip() for name in asked.query}
    filters = {name: said.pop(name) for name, _ in row.filters if said.get(name)}
    text, namespace, sort = (said.pop(name, "") for name in ("q", "namespace", "sort"))
    show, cursor = said.pop("show", ""), said.pop("cursor", "")
    strange = next((name for name, value in said.items() if value), None)
    if strange is not None:
        raise intake.invalid((strange[:60], f"{row.plural} cannot be filtered by {strange[:60]}"))
    if show and (show not in SHOWS or not _ends(row)):
        raise intake.invalid(("show", f"is none of {', '.join(SHOWS)}, for kinds that end"))
    path = sort.removeprefix("-")
    if path and path not in {_sorts(row, column) for column in section.columns}:
        raise intake.invalid(("sort", f"{row.plural} are not sorted by {path[:80]!r} here"))
    show = show or _first_show(row, narrowed=bool(filters or text))
    return _Wish(row, filters, text, namespace, show, sort, cursor)


def _ends(row: Kind) -> bool:
    """Tell whether objects of a kind end, by states that a list can be filtered by."""
    orders = [each.order for each in row.states.values()]
    return "phase" in dict(row.filters) and any(each >= OVER for each in orders)


def _first_show(row: Kind, *, narrowed: bool) -> str:
    """Return what is shown when the address does not say: who looks for something means all."""
    if not _ends(row):
        return ""
    return "all" if narrowed else "live"


def _phases(row: Kind, wish: _Wish) -> tuple[tuple[str, str], ...]:
    """Return the filter of what is shown; what has ended is not even looked at for what is live."""
    if wish.show in {"", "all"} or "phase" in wish.filters:
        return ()
    over = wish.show == "over"
    chosen = [str(phase) for phase, each in row.states.items() if (each.order >= OVER) == over]
    return (("phase", ",".join(chosen)),)


def _usual(row: Kind, show: str) -> str:
    """Return the order when the address does not say one: by name, or the newest of what ends."""
    if not show:
        return ""
    ended = row.page.since if show == "over" and row.page is not None else ""
    return f"-{ended}" if ended else _NEWEST


def _sorts(row: Kind, column: PageColumn) -> str:
    """Return the path by which a column sorts; "" for one of what is worked out when it is read."""
    if column.show == "name":
        return "metadata.name"
    path = column.path
    if not path or column.show in _WORKED_OUT or path.startswith(row.derived or ("\0",)):
        return ""
    return path if paths.getter(row.type, path) is not None else ""


def _head(row: Kind, column: PageColumn, wish: _Wish, sort: str) -> Head:
    path = _sorts(row, column)
    if not path:
        return Head(column.title)
    now = {path: "ascending", f"-{path}": "descending"}.get(sort, "")
    turned = f"-{path}" if now == "ascending" else path
    return Head(column.title, wish.address(sort=turned), now)


def _fields(row: Kind, wish: _Wish) -> tuple[Field, ...]:
    made = []
    for name, path in row.filters:
        choices = tuple(map(str, row.states)) if path == "status.phase" else ()
        value = wish.filters.get(name, "")
        if value and choices and value not in choices:  # several at once, by the address
            choices = (*choices, value)
        title = "State" if choices else words.label(name.capitalize())
        made.append(Field(name, title, value, choices))
    if wish.namespace:
        made.append(Field("namespace", "Namespace", wish.namespace))
    return tuple(made)


def _shows(row: Kind, wish: _Wish) -> tuple[Tab, ...]:
    """Return what else may be shown; nothing where the address names phases by itself."""
    if not _ends(row) or "phase" in wish.filters:
        return ()
    plain = replace(wish, sort="", show="")
    return tuple(
        Tab(title, "" if show == wish.show else plain.address(show=show))
        for show, title in SHOWS.items()
    )


def _command(row: Kind, wish: _Wish) -> str:
    where = f"-n {shlex.quote(wish.namespace)}" if wish.namespace else "-A"
    said = f"labfleet get {row.plural} {where}"
    if wish.text:
        said += f" --search {shlex.quote(wish.text)}"
    return f"{said} --sort-by {shlex.quote(wish.sort)}" if wish.sort else said


def _table(
    services: ServiceContext, caller: Caller, row: Kind, section: Section, found: listing.Listed
) -> Table:
    now, held = services.clock.now(), overview.uses(services, row.name)
    readable = overview.readable(caller.principal)
    rows = []
    for each in found.items:
        obj = views.of(services, caller.principal, each)
        made = (
            _row(section, obj, now)
            if row.page is None
            else overview.row(section, obj, now, held, readable)
        )
        rows.append(replace(made, cells=(_named(made.cells[0], obj), *made.cells[1:])))
    return Table(section=section, rows=tuple(rows), total=found.total)


def _named(cell: Cell, obj: Resource) -> Cell:
    """Return the cell of a name; what lies in another namespace says so."""
    space = "" if obj.namespace == DEFAULT_NAMESPACE else f"{obj.namespace}/"
    return replace(cell, text=space + cell.text)


def _row(section: Section, obj: Resource, now: datetime) -> Row:
    shown = tuple(_cell(column, obj, now) for column in section.columns)
    return Row(f"{obj.kind}/{obj.namespace}/{obj.name}", shown, version=obj.revision)


def _cell(column: PageColumn, obj: Resource, now: datetime) -> Cell:
    if column.show == "name":
        return values.cell(column, obj, now, {}, ())
    value: Any = values.read(obj, column.path)
    if value is None or value in {"", ()}:
        return values.absent(column)
    if isinstance(value, datetime):
        return values.instant(value, now)
    if column.path == "status.phase" and words.state(obj.kind, str(value)) is not words.STRANGE:
        return values.state(obj.kind, str(value))
    return values.sized(column.path.split("|")[0], value) or Cell("text", _text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(_text(each) for each in value)
    return str(value)
