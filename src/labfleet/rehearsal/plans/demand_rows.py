"""The rows of a demand file, each with the line it stands on: CSV or JSON lines.

Knows how tables are spelled (separators, byte-order marks, quoting), not what the columns mean.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
from pathlib import Path
from typing import Any, NoReturn

from labfleet.kernel import errors
from labfleet.rehearsal.plans import plan as plans

Row = dict[str, Any]
JSON_LINES = frozenset({".jsonl", ".ndjson"})
_SEPARATORS = ",;\t"


def read(path: Path, columns: frozenset[str]) -> list[tuple[int, Row]]:
    """Return (line, row) of every row, empty cells left out; Invalid names file and line.

    A column that is not one of `columns` is refused as soon as something stands in it.
    """
    text = plans.read_text(path).removeprefix("\ufeff")
    found = _json(path, text) if path.suffix in JSON_LINES else _csv(path, text)
    for line, row in found:
        for name in row:
            if name not in columns:
                _unknown(path, 1 if path.suffix not in JSON_LINES else line, name, columns)
    if not found:
        raise errors.Invalid(f"{path}: there is no row in it, so nobody asks", reason="BadDemand")
    return found


def _unknown(path: Path, line: int, name: str, columns: frozenset[str]) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), columns, 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(columns))}"
    refuse(path, line, f"unknown column {name[:40]!r}; {hint}")


def refuse(path: Path, line: int, told: str) -> NoReturn:
    """Raise what is wrong with a line of a demand file."""
    raise errors.Invalid(f"{path}, line {line}: {told}", reason="BadDemand") from None


def _csv(path: Path, text: str) -> list[tuple[int, Row]]:
    first = text.split("\n", 1)[0]
    # A spreadsheet in a country with decimal commas separates by semicolons.
    separator = max(_SEPARATORS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    found: list[tuple[int, Row]] = []
    before = 0
    try:
        for cells in rows:
            line, before = before + 1, rows.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _header(path, line, cells)
            else:
                found.append((line, _row(path, line, header, cells)))
    except csv.Error as problem:
        refuse(path, rows.line_num, f"this is no CSV: {problem}")
    return found


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for number, name in enumerate(names):
        if name and name in names[:number]:
            refuse(path, line, f"two columns have the name {name}")
    return names


def _row(path: Path, line: int, header: list[str], cells: list[str]) -> Row:
    more = cells[len(header) :]
    if any(cell.strip() for cell in more):
        refuse(path, line, f"{len(cells)} values for {len(header)} columns; quote what has a comma")
    row = {}
    for name, cell in zip(header, cells, strict=False):
        if cell.strip():
            if not name:
                refuse(path, line, f"{cell[:40]!r} stands in a column without a name")
            row[name] = cell.strip()
    return row


def _json(path: Path, text: str) -> list[tuple[int, Row]]:
    found = []
    # Not splitlines(), which also cuts at separators that may stand inside a string.
    for line, each in enumerate(text.split("\n"), start=1):
        if not each.strip():
            continue
        try:
            row = json.loads(each)
        except (ValueError, RecursionError) as problem:
            where = f" at character {problem.pos + 1}" if hasattr(problem, "pos") else ""
            refuse(path, line, f"this is no JSON: {getattr(problem, 'msg', 'too deep')}{where}")
        if not isinstance(row, dict):
            refuse(path, line, "each line is one JSON object, {...}")
        found.append((line, {key: value for key, value in row.items() if value not in (None, "")}))
    return found
