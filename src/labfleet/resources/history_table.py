"""The history as a table of text, for CSV out and in: what is written is read back as it was.

Text that a spreadsheet would compute gets an apostrophe, which reading takes off again; an
absent figure is an empty cell. Parameters are JSON, for they differ from family to family.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from labfleet.kernel import spreadsheet
from labfleet.kernel.clock import format_instant, parse_instant
from labfleet.resources import history
from labfleet.resources.amounts import DIMENSIONS
from labfleet.resources.history import FIGURES, LEARNED, USES, Run, RunKind, Source, Use

_TEXTS = ("uid", "name", "namespace", "family", "owner", "place", "censored")
_GIVEN = {f"allocated_{name}": name for name in DIMENSIONS}
_USED = {f"{name}_{part}": (name, part) for name in FIGURES for part in USES}
COLUMNS = (
    "kind", *_TEXTS, "source", "started_at", "ended_at", "duration_seconds", "parameters",
    *_GIVEN, *_USED,
)  # fmt: skip
NEEDED = ("kind", "uid", "family", "ended_at")
"""Columns without which there is no run; of the others, any may be left out."""
LINE_LIMIT = 131_072


class Line(NamedTuple):
    """What one row of a table says: a run, or what is wrong with it, by column."""

    number: int
    run: Run | None
    wrong: tuple[tuple[str, str], ...] = ()


def text(runs: Iterable[Run], *, heading: bool) -> str:
    """Return runs as CSV, with the line of headings before them or without."""
    lines = [COLUMNS] if heading else []
    return "".join(_csv(cells) for cells in (*lines, *map(_cells, runs)))


def read(lines: Iterable[str], now: datetime) -> Iterator[Line]:
    """Yield the rows of a table, wrong ones too; number 1 is the line of headings.

    `lines` are of a file that was opened with `newline=""`. When its headings will not do, they
    are the only line. `now` is the latest end that a run may have.
    """
    rows = csv.reader(_bounded(lines), strict=True)
    try:
        heading = [each.strip().lower() for each in next(rows, [])]
        strange = [each for each in heading if each not in COLUMNS or heading.count(each) > 1]
        missing = [each for each in NEEDED if each not in heading]
        if strange or missing:
            said = [(each[:64], "is no column, or there twice") for each in strange[:5]]
            yield Line(1, None, (*said, *((each, "is missing") for each in missing)))
            return
        first = rows.line_num + 1
        for cells in rows:
            number, first = first, rows.line_num + 1
            if cells:
                yield _line(number, heading, cells, now)
    except (csv.Error, UnicodeDecodeError) as problem:
        yield Line(rows.line_num, None, (("", f"is no CSV: {str(problem)[:200]}"),))


def _csv(cells: Sequence[str]) -> str:
    """Return one line. Python quotes only what ends its own lines, and readers end them at CR too."""
    made = io.StringIO()
    csv.writer(made, lineterminator="\r\n").writerow(cells)
    return made.getvalue()[:-2] + "\n"


def _bounded(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if len(line) > LINE_LIMIT:
            raise csv.Error(f"a line has more than {LINE_LIMIT} characters")
        yield line


def _cells(run: Run) -> list[str]:
    plain = [spreadsheet.marked(getattr(run, name)) for name in _TEXTS]
    begun = "" if run.started_at is None else format_instant(run.started_at, "microseconds")
    parameters = msgspec.json.encode(run.parameters, order="sorted").decode()
    return [
        run.kind.value,
        *plain,
        run.source.value,
        begun,
        format_instant(run.ended_at, "microseconds"),
        _number(run.duration_seconds),
        parameters if run.parameters else "",
        *(_number(run.allocation.get(name)) for name in DIMENSIONS),
        *(_number(getattr(run.use.get(name, Use()), part)) for name, part in _USED.values()),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _line(number: int, heading: list[str], cells: list[str], now: datetime) -> Line:
    if len(cells) != len(heading):
        wrong = (("", f"has {len(cells)} cells under {len(heading)} headings"),)
        return Line(number, None, wrong)
    row = {name: cell for name, cell in zip(heading, cells, strict=True) if cell}
    found: dict[str, Any] = {}
    wrong_cells: list[tuple[str, str]] = []

    def take(column: str, read: Callable[[str], Any], said: str) -> Any:
        try:
            return read(row[column]) if column in row else None
        except (ValueError, msgspec.DecodeError):
            wrong_cells.append((column, f"{row[column][:40]!r} is no {said}"))
            return None

    found["kind"] = take("kind", RunKind, "kind of run: " + ", ".join(LEARNED))
    found["source"] = take("source", Source, "source: " + ", ".join(Source))
    found |= {name: spreadsheet.unmarked(row[name]) for name in _TEXTS if name in row}
    for name in ("started_at", "ended_at"):
        found[name] = take(name, parse_instant, "instant such as 2026-11-27T09:00:00Z")
    found["duration_seconds"] = take("duration_seconds", float, "number")
    found["parameters"] = take("parameters", _parameters, "JSON object of plain values")
    found["allocation"] = {
        name: amount for column, name in _GIVEN.items()
        if (amount := take(column, int, "whole number")) is not None
    }  # fmt: skip
    uses: dict[str, dict[str, float]] = {}
    for column, (name, part) in _USED.items():
        if (value := take(column, float, "number")) is not None:
            uses.setdefault(name, {})[part] = value
    absent = [(name, "is empty") for name in NEEDED if name not in row]
    if absent or wrong_cells:
        return Line(number, None, (*absent, *wrong_cells))
    given = {name: value for name, value in found.items() if value is not None}
    run = Run(**given, use={name: Use(**each) for name, each in uses.items()})
    said = history.problems(run, now)
    return Line(number, None if said else run, said)


def _parameters(cell: str) -> dict[str, Any]:
    return history.typed(msgspec.json.decode(cell, type=dict[str, Any]))
