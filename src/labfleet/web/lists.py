"""The data of a list page: the objects of one kind that has no table on the first page.

Its columns are those of `labfleet get`; a kind with a table on the first page is listed there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from labfleet.resources.declaration import PageColumn
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import DEFAULT_NAMESPACE, Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import overview, values, words
from labfleet.web.overview import Row, Table
from labfleet.web.values import Cell
from labfleet.web.words import Section


async def listed(services: ServiceContext, caller: Caller, row: Kind) -> Table:
    """Return the first objects of a kind by name; Denied when the caller may not read it."""
    access.demand(caller.principal, "read", row.name)
    await services.fresh()
    return table_of(services, row, overview.seen(services, caller, row.name))


def table_of(services: ServiceContext, row: Kind, objects: Iterable[Resource]) -> Table:
    """Return the first of some objects of a kind by name, with the columns of its list."""
    now, section = services.clock.now(), section_of(row)
    found = sorted(objects, key=lambda each: each.key)
    return Table(
        section=section,
        rows=tuple(_row(section, obj, now) for obj in found[: words.ROWS]),
        total=len(found),
    )


def section_of(row: Kind) -> Section:
    """Return the table of a kind, of the columns that it declares for terminals."""
    shown = [
        PageColumn(words.label(each.title), "text", each.path, absent="none", wide=3)
        for each in row.columns
        if not each.wide
    ]
    columns = (PageColumn("Name", "name", wide=3), *shown)
    return Section(row.name, row.plural, row.plural.capitalize(), columns, "")


def _row(section: Section, obj: Resource, now: datetime) -> Row:
    shown = tuple(_cell(column, obj, now) for column in section.columns)
    return Row(key=str(obj.key), cells=shown, version=obj.revision)


def _cell(column: PageColumn, obj: Resource, now: datetime) -> Cell:
    """Return a cell; what lies in another namespace says so with its name."""
    if column.show == "name":
        made = values.cell(column, obj, now, {}, ())
        space = "" if obj.namespace == DEFAULT_NAMESPACE else f"{obj.namespace}/"
        return Cell("link", space + made.text, href=made.href)
    value: Any = values.read(obj, column.path)
    if value is None or value in {"", ()}:
        return values.absent(column)
    if isinstance(value, datetime):
        return values.instant(value, now)
    if column.path == "status.phase" and words.state(obj.kind, str(value)) is not words.STRANGE:
        return values.state(obj.kind, str(value))
    return Cell("text", _text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(_text(each) for each in value)
    return str(value)
