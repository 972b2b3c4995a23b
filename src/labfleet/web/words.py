"""The pages' vocabulary: columns, and a word, a shape and a tone for every state.

One table for both sides: Jinja renders the first rows from it and the scripts get it as JSON
(`as_json`), so that both draw a row in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labfleet.resources import happenings
from labfleet.resources.declaration import OVER, Page, PageColumn, State
from labfleet.resources.kinds import KINDS, Kind

__all__ = ["OVER", "PageColumn", "State"]

ROWS = 200
EVENTS = 100
LOOKED = 300
"""So many events are read for the lines of a list: what repeats is one line."""


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the page. `since` is the instant by which objects that are over are sorted."""

    kind: str
    plural: str
    title: str
    columns: tuple[PageColumn, ...]
    since: str


# A state that this program does not know, or none at all.
STRANGE = State("unknown", 5, "calm", "○")

_CAPITALS = re.compile(r"(?<!\()\b[A-Z]+\b")
_SHORT = frozenset({"CML", "CPU", "ID", "URL", "USD", "UUID"})
"""Words that are written in capitals everywhere."""
CHANGES = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}
UNITS = {"cpuMilli": 1000, "memoryMib": 1024, "nodes": 1}
FLAGS = {True: "licensed", False: "not licensed"}


def sections() -> tuple[Section, ...]:
    """Return the tables of the page, in their order."""
    shown = [(row.page, row) for row in KINDS.values() if row.page is not None]
    return tuple(
        [
            Section(row.name, row.plural, page.title, page.columns, page.since)
            for page, row in sorted(shown, key=lambda each: each[0].place)
        ]
    )


def section(kind: str) -> Section | None:
    """Return the table of a kind, None for one without."""
    return next((each for each in sections() if each.kind == kind), None)


def page(kind: str) -> Page | None:
    """Return what a kind declares of its table, None for one without."""
    return KINDS[kind].page


def listed() -> tuple[Kind, ...]:
    """Return the kinds without a table that the navigation leads to, by their lists."""
    return tuple(row for row in KINDS.values() if row.navigable and row.page is None)


def label(title: str) -> str:
    """Return a heading of a terminal's table as a page writes it: `CPU-RESERVED%` -> CPU reserved %.

    Without the units of `values.sized`, which pages write beside the value.
    """
    title = title.removesuffix("(m)").removesuffix("(MiB)").removesuffix("(s)")
    spaced = re.sub(r"(?<=\w)(?=[%(])", " ", title.replace("-", " "))
    text = _CAPITALS.sub(lambda found: _as_written(found[0]), spaced)
    return text[:1].upper() + text[1:]


def _as_written(word: str) -> str:
    return word if word in _SHORT else word.lower()


def groups(kind: str) -> tuple[str, ...]:
    """Return what the summary of a kind counts, in its order."""
    page = KINDS[kind].page
    return () if page is None else page.groups


def followed() -> dict[str, str]:
    """Return the plurals of the kinds in the list of events."""
    return {row.name: row.plural for row in KINDS.values() if row.followed}


def state(kind: str, phase: str | None) -> State:
    """Return how a phase of a kind, or a word of a list such as Health, is shown."""
    return _states(kind).get(phase or "", STRANGE)


def _states(name: str) -> Mapping[str, State]:
    row = KINDS.get(name)
    if row is not None:
        return row.states
    return next((each.words[name] for each in KINDS.values() if name in each.words), {})


def _names() -> list[str]:
    lists = [name for row in KINDS.values() for name in row.words]
    return [*(row.name for row in KINDS.values() if row.states), *lists]


def as_json() -> dict[str, Any]:
    """Return the tables for the script."""
    return {
        "states": {
            name: {str(phase): asdict(each) for phase, each in _states(name).items()}
            for name in _names()
        },
        "strange": asdict(STRANGE),
        "groups": {each.kind: groups(each.kind) for each in sections() if groups(each.kind)},
        "sections": {each.kind: asdict(each) for each in sections()},
        "followed": followed(),
        "changes": CHANGES,
        "namedBefore": happenings.NAMED_BEFORE,
        "units": UNITS,
        "flags": {"true": FLAGS[True], "false": FLAGS[False]},
        "rows": ROWS,
        "events": EVENTS,
        "over": OVER,
    }
