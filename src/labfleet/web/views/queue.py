"""The data of the page of what waits: place, reason, start, what would help, what workers lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import queue
from labfleet.service.reads.queue import Teller, Waits
from labfleet.web import values, words
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/queue"
CHOICES = 200
"""Values that a filter lists; others are typed into the address."""
HELPS = 3
_TITLES = {
    "kind": "Kind", "line": "Waits for", "owner": "Owner", "definition": "Definition",
    "reason": "Reason",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """One filter: its name, its word, what is chosen, and its values with how many there are."""

    name: str
    title: str
    chosen: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One that waits, as it is shown."""

    key: str
    kind: str
    name: Cell
    place: str
    line: str
    owner: str
    definition: str
    since: Cell | None
    starts: str
    because: str
    why: str
    reason: str
    helps: tuple[str, ...]
    short: tuple[tuple[str, str], ...]
    more: int


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The page: its rows, its filters, and the pages beside it ("" when there is none)."""

    rows: tuple[QueueRow, ...]
    total: int
    all: int
    first: int
    choices: tuple[Choice, ...]
    filtered: bool
    before: str
    after: str


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> QueuePage:
    """Return the page that the query asks for; Invalid when its number means nothing."""
    wanted = {name: asked.last(name) for name in queue.FIELDS if asked.last(name)}
    number = _number(asked.last("page", "1"))
    first = (number - 1) * words.ROWS
    found = await queue.read(services, caller, wanted=wanted, first=first, limit=words.ROWS)
    teller, now = Teller(services, caller), services.clock.now()
    last = first + len(found.rows)
    return QueuePage(
        rows=tuple(_row(each, teller, now) for each in found.rows),
        total=found.total,
        all=found.all,
        first=first,
        choices=tuple(
            Choice(name, _TITLES[name], wanted.get(name, ""), found.choices[name][:CHOICES])
            for name in queue.FIELDS
            if len(found.choices[name]) > 1 or name in wanted
        ),
        filtered=bool(wanted),
        before=_address(wanted, number - 1) if number > 1 else "",
        after=_address(wanted, number + 1) if last < found.total else "",
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 6 or int(text) < 1:
        raise errors.Invalid("There is no such page: give its number, from 1.")
    return int(text)


def _address(wanted: Mapping[str, str], number: int) -> str:
    said = dict(wanted) if number == 1 else {**wanted, "page": str(number)}
    return f"{ROOT}?{urlencode(said)}" if said else ROOT


def _row(each: Waits, teller: Teller, now: datetime) -> QueueRow:
    told, obj = teller.told(each), each.obj
    href = values.address(KINDS[obj.kind].plural, obj.name, obj.namespace, obj.metadata.uid)
    space = "" if obj.namespace == "default" else f"{obj.namespace}/"
    return QueueRow(
        key=f"{obj.kind}/{obj.namespace}/{obj.name}",
        kind=obj.kind,
        name=Cell("link", f"{space}{obj.name}", href=href),
        place=_place(each),
        line=each.line,
        owner=each.owner,
        definition=each.definition,
        since=None if each.since is None else values.instant(each.since, now),
        starts=starts(each),
        because=each.because if isinstance(obj, Session) else "",
        why=told.why,
        reason=each.reason,
        helps=told.helps[:HELPS],
        short=told.short,
        more=told.more,
    )


def _place(each: Waits) -> str:
    if each.position is None:
        return ""
    return f"{each.position}" if each.of is None else f"{each.position} of {each.of}"


def starts(each: Waits) -> str:
    """Return between when and when it starts, "" when nobody can tell."""
    if each.earliest is None:
        return ""
    early = utc_text(each.earliest)
    if each.latest is None:
        return f"{early} or later"
    sure = "" if each.coverage is None else f" ({each.coverage:.0%})"
    late = utc_text(each.latest)
    return f"{early}{sure}" if late == early else f"{early} to {late}{sure}"
