"""Cells of CSV that a spreadsheet may open: text that it would run as a formula is neutralised.

Owners, labels and names are typed by strangers; a spreadsheet takes a cell that begins with
`=HYPERLINK(` for a formula, whoever wrote it. An apostrophe before it makes it text everywhere.
Numbers stay numbers, and JSON is never changed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_BEGINS = frozenset("=+@\t\r")
_NUMBER = re.compile(r"-\d+(?:\.\d*)?[eE][+-]?\d+|-\d[\w\s.,:%-]*")
"""What may follow a minus: `-5`, `-0.25`, `-3 days`. An operator after it would be computed."""


def cell(value: object) -> object:
    """Return a cell that no spreadsheet computes: text as text, everything else as it is."""
    return f"'{value}" if isinstance(value, str) and _computed(value) else value


def _computed(text: str) -> bool:
    """Tell whether a spreadsheet would take the text for a formula; a bare `-` is none."""
    if text[:1] == "-":
        return len(text) > 1 and _NUMBER.fullmatch(text) is None
    return bool(text) and text[0] in _BEGINS


def marked(text: str) -> str:
    """Return text for a cell that `unmarked` turns back into it, whatever it is."""
    return f"'{text}" if text[:1] == "'" or _computed(text) else text


def unmarked(text: str) -> str:
    """Return what a cell of `marked` says, and one without an apostrophe as it is."""
    return text[1:] if text[:1] == "'" else text


def rows(found: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV, each cell neutralised."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerows([cell(each) for each in row] for row in found)
    return made.getvalue()
