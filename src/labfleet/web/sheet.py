"""A page or tab made of parts: facts, and tables of cells. `templates/sheet_parts.html` draws them.

Pure. For what is shown as it is, without a script's own drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from labfleet.resources.alerts import Raised
from labfleet.resources.kinds import KINDS
from labfleet.web import values, words
from labfleet.web.values import Cell

Facts = tuple[tuple[str, Cell], ...]
_EMS = (22, 6.5, 8.5, 12, 15.5, 21.5)
"""How wide a column of each `wide` is on a laptop, in ems, as in `static/fleet.css`."""
_SEVERITIES = {"critical": ("bad", "✕"), "warning": ("warn", "▲"), "info": ("calm", "○")}


@dataclass(frozen=True, slots=True)
class Head:
    """The heading of a column; `wide` is 1 to 5, and 0 for what the others leave."""

    title: str
    wide: int = 2


@dataclass(frozen=True, slots=True)
class Lines:
    """Several cells below each other in one cell of a table."""

    lines: tuple[Cell, ...]
    show: str = "lines"


Row = tuple[Cell | Lines, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a page: facts, then a table. `empty` is said when there is neither.

    `more` is how many rows there are beyond those shown, `further` where the next ones are. `whole`
    rows show all of their text, on several lines.
    """

    title: str
    facts: Facts = ()
    heads: tuple[Head, ...] = ()
    rows: tuple[Row, ...] = ()
    note: str = ""
    empty: str = "None."
    commands: tuple[str, ...] = ()
    more: int = 0
    further: str = ""
    whole: bool = False
    caption: str = ""

    @property
    def least(self) -> int:
        """Return how wide its table is at least, in ems and steps of ten: no column is squeezed."""
        return int(sum(_EMS[head.wide] for head in self.heads) // 10) * 10


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter, or one form of a page; the chosen one has no address."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Search:
    """A box for a text: where it is sent, what stands in it, and the other values that stay."""

    action: str
    text: str
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page of parts: its title, a sentence on it, what one may choose, and what keeps it current.

    `follows` are the kinds, and frames of the stream, at whose change it is fetched again; `search` is
    its box for a text, if it has one.
    """

    title: str
    lead: str
    parts: tuple[Part, ...]
    choices: tuple[Choice, ...] = ()
    follows: str = ""
    commands: tuple[str, ...] = ()
    search: Search | None = None


def text(value: object, *, why: str = "not told") -> Cell:
    """Return a value as text; None is unknown, with the reason."""
    if value is None:
        return Cell("unknown", "unknown", why=why)
    if value == "":
        return Cell("absent", "none")
    if isinstance(value, bool):
        return Cell("text", "yes" if value else "no")
    return Cell("text", str(value))


def flag(answer: object, *, good: bool = True, why: str = "the server does not tell") -> Cell:
    """Return a flag (true, false, None) as word, shape and tone; `good` is the one that is well."""
    if answer is None:
        return Cell("unknown", "unknown", why=why)
    word = "yes" if answer else "no"
    well = answer is good
    return Cell("state", word, tone="good" if well else "bad", shape="●" if well else "✕")


def gib(mib: float | None, *, why: str = "not told") -> Cell:
    """Return an amount of memory or disk in GiB, exact on hover."""
    if mib is None:
        return Cell("unknown", "unknown", why=why)
    return Cell("text", f"{values.number(mib / 1024)} GiB", exact=f"{mib:,.0f} MiB")


def of_bytes(size: int | None, *, why: str = "not told") -> Cell:
    """Return a number of bytes in GiB, exact on hover."""
    shown = gib(None if size is None else size / 2**20, why=why)
    return shown if size is None else replace(shown, exact=f"{size:,} bytes")


def severity(word: str) -> Cell:
    """Return how grave something is, as word, shape and tone."""
    tone, shape = _SEVERITIES.get(word, ("calm", "○"))
    return Cell("state", word, tone=tone, shape=shape)


def thing(alert: Raised) -> Cell:
    """Return what an alert is about, as a link to its page where it has one."""
    kind, _, name = alert.object.partition("/")
    row = next((each for each in KINDS.values() if each.name.lower() == kind), None)
    space = "" if alert.namespace == "default" else f"{alert.namespace}/"
    shown = f"{kind} {space}{name}"
    if row is None or not name:
        return Cell("text", shown)
    return Cell("link", shown, href=values.address(row.plural, name, alert.namespace))


def told(
    heads: tuple[Head, ...], rows: tuple[Row, ...]
) -> tuple[tuple[Head, ...], tuple[Row, ...]]:
    """Return headings and rows without their last column where no row says anything in it."""
    if any(row[-1].show != "absent" for row in rows):
        return heads, rows
    return heads[:-1], tuple(row[:-1] for row in rows)


def address(root: str, asked: Mapping[str, str], **changed: str | None) -> str:
    """Return the address of a page with some of its query changed; None takes a value away."""
    wanted = {**asked, **changed}
    said = urlencode({name: value for name, value in wanted.items() if value})
    return f"{root}?{said}" if said else root


def paged(rows: Sequence[Row], page: str, where: str) -> tuple[tuple[Row, ...], int, str]:
    """Return the rows of a page (1 is the first), how many follow, and where those are.

    `where` is the page's address, without a page's number. Of a page beyond the last, as one is left
    open while rows go, it is the last one: that there is nothing is said where there is nothing.
    """
    last = max(1, -(-len(rows) // words.ROWS))
    asked = int(page) if page.isascii() and page.isdecimal() and len(page) < 6 else 1
    number = min(max(asked, 1), last)
    begin = (number - 1) * words.ROWS
    shown = tuple(rows[begin : begin + words.ROWS])
    more = max(0, len(rows) - begin - len(shown))
    join = "&" if "?" in where else "?"
    return shown, more, f"{where}{join}page={number + 1}" if more else ""
