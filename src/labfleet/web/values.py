"""Turns one value of an object into one cell: text, link, state, relative time or load bar.

Pure. Escaping is Jinja's; nothing here makes HTML. `static/cells.js` draws the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from labfleet.decisions import ledger
from labfleet.decisions.admission.targets import targets
from labfleet.kernel import clock
from labfleet.kernel.clock import utc_text
from labfleet.resources import kinds, paths
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.cluster import Cluster, as_seen
from labfleet.resources.declaration import PageColumn
from labfleet.resources.meta import Resource
from labfleet.resources.worker import Worker
from labfleet.service.reads.measured import Value
from labfleet.web import words

_OF_USE = frozenset({"live", "load"})
_NAMES = {"cpuMilli": "cpu_milli", "memoryMib": "memory_mib", "nodes": "nodes"}


@dataclass(frozen=True, slots=True)
class Cell:
    """What one cell shows. `why` is the reason of an unknown; `percent` fills the bar.

    `age` is how long ago `at` was, where both a value and its age are shown, `beside` what stands
    in the same cell.
    """

    show: str
    text: str
    href: str = ""
    tone: str = ""
    shape: str = ""
    at: str = ""
    exact: str = ""
    why: str = ""
    percent: int | None = None
    age: str = ""
    beside: Cell | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is reserved on a worker or cluster, by how many, and what was measured of it.

    `measured` is called for rows that are shown only.
    """

    live: int = 0
    held: Amounts = Amounts()
    measured: Callable[[], Mapping[str, Value]] = dict


def cell(
    column: PageColumn,
    obj: Resource,
    now: datetime,
    uses: Mapping[str, Use],
    readable: Collection[str],
) -> Cell:
    """Return the cell of an object in a column. `uses` is by the holder's namespace and name.

    What leads to none of the `readable` kinds (plurals) is text: its link would lead to a refusal.
    """
    show, _, plural = column.show.partition(":")
    if show == "name":
        href = address(kinds.KINDS[obj.kind].plural, obj.name, obj.metadata.namespace)
        return Cell("link", obj.name, href=href)
    if show in _OF_USE:
        return _used(column, obj, now, uses.get(obj.key.path, Use()))
    value = read(obj, column.path)
    if value is None or value == "":
        return absent(column)
    if show == "link" and plural in readable:
        return Cell("link", str(value), href=address(plural, value, obj.metadata.namespace))
    if show == "time":
        return instant(value, now)
    if show == "state":
        return state(obj.kind, str(value))
    if show == "health":
        return state("Health", str(value))
    if show == "flag":
        return Cell("text", words.FLAGS[bool(value)])
    if show == "why":
        return Cell("text", gist(str(value)), exact=str(value))
    return Cell("text", str(value))


def _used(column: PageColumn, obj: Resource, now: datetime, use: Use) -> Cell:
    """Return a cell of what others hold of an object, with what was measured of it beside."""
    if column.show == "live":
        return Cell("text", str(use.live))
    capacity = capacity_of(obj)
    shown = absent(column) if capacity is None else _load(column.path, use.held, capacity)
    if not column.measured:
        return shown
    return replace(shown, beside=_measured(use.measured().get(column.measured), now))


def read(obj: Resource, path: str) -> Any:
    """Return the first value of the alternatives, or None."""
    for one in path.split("|"):
        getter = paths.getter(type(obj), one)
        value = None if getter is None else getter(obj)
        if value is not None and value != "":
            return value
    return None


def state(kind: str, phase: str) -> Cell:
    """Return a state as shape and word, with a tone for the eye."""
    found = words.state(kind, phase)
    return Cell("state", phase, tone=found.tone, shape=found.shape)


def gist(sentence: str) -> str:
    """Return what is short, without what was asked for, because a row has little room."""
    asked, found, rest = sentence.partition("; ")
    return rest if found and asked.startswith("needs ") else sentence


def instant(at: datetime, now: datetime) -> Cell:
    """Return an instant: relative for reading, absolute with its zone for hover and readers."""
    text = clock.format_instant(at)
    return Cell("time", relative((at - now).total_seconds()), at=text, exact=exact(at))


def exact(at: datetime) -> str:
    """Return an instant as people write it, in UTC and saying so."""
    return f"{utc_text(at, seconds=True)[:-1]} UTC"


def relative(seconds: float) -> str:
    """Return `12 min ago` or `in 3 h`; the script has the same steps."""
    size = abs(seconds)
    if size < 1:
        return "now"
    if size < 90:
        text = f"{int(size)} s"
    elif size < 90 * 60:
        text = f"{int(size / 60)} min"
    elif size < 36 * 3600:
        text = f"{int(size / 3600)} h"
    else:
        text = f"{int(size / 86400)} d"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def absent(column: PageColumn) -> Cell:
    """Return the text shown without a value; for an unknown value it gives the reason."""
    if column.absent.startswith("unknown"):
        return Cell("unknown", "unknown", why=column.absent.partition(": ")[2])
    return Cell("absent", column.absent)


def address(plural: str, name: object, namespace: str = "default", uid: str = "") -> str:
    """Return the page of an object; `uid` says which of those that have had the name."""
    made = f"/{plural}/{quote(str(name), safe='')}"
    asked = [] if namespace == "default" else [f"namespace={quote(namespace, safe='')}"]
    asked += [f"uid={quote(uid, safe='')}"] if uid else []
    return f"{made}?{'&'.join(asked)}" if asked else made


def capacity_of(obj: Resource) -> Amounts | None:
    """Return what a worker or cluster has to give; None when it was not seen yet."""
    if isinstance(obj, Worker):
        return obj.status.capacity
    if isinstance(obj, Cluster):
        return targets(as_seen(obj))
    return None


def uses_of(holders: Iterable[tuple[str, Reservation | None]], now: datetime) -> dict[str, Use]:
    """Return what is reserved on each holder, from the (holder, reservation) of live objects.

    As the ledger sums it: the most at any instant from now on. `static/fleet.js` does the same.
    """
    found: dict[str, list[Reservation | None]] = {}
    for name, reservation in holders:
        found.setdefault(name, []).append(reservation)
    return {
        name: Use(len(rows), ledger.promised([each for each in rows if each is not None], now))
        for name, rows in found.items()
    }


def sized(path: str, value: object) -> Cell | None:
    """Return an amount or length of time in units for people, exact on hover; None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    field = path.rpartition(".")[2]
    if field == "cpuMilli":
        return Cell("text", f"{value / 1000:g} CPU", exact=f"{value:,.0f} thousandths of a CPU")
    if field in {"memoryMib", "storageMib"}:
        return Cell("text", f"{number(value / 1024)} GiB", exact=f"{value:,.0f} MiB")
    if path == "status.lead.seconds":
        return Cell("text", f"{number(value / 60)} min", exact=f"{value:,.0f} s")
    return None


def number(value: float) -> str:
    """Return a number with at most one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")


def _measured(found: Value | None, now: datetime) -> Cell:
    """Return a measured number with its age; an unknown one with the reason."""
    if found is None or found.value is None or found.at is None:
        return Cell("unused", "use unknown", why="not measured" if found is None else found.reason)
    sign = "%" if found.unit == "percent" else found.unit
    moment = instant(found.at, now)
    return Cell(
        "used", f"{number(found.value)} {sign} used", at=moment.at, exact=moment.exact,
        age=moment.text, why=found.source or "",
    )  # fmt: skip


def _load(path: str, held: Amounts, capacity: Amounts) -> Cell:
    unit, name = words.UNITS[path], _NAMES[path]
    have, all_ = getattr(held, name), getattr(capacity, name)
    percent = 0 if all_ == 0 else min(100, have * 100 // all_)
    tone = "bad" if have > all_ else "warn" if percent >= 90 else "good"
    text = f"{number(have / unit)} of {number(all_ / unit)}"
    return Cell("load", text, percent=percent, tone=tone)
