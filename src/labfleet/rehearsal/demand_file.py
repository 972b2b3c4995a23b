"""Demand from a CSV or JSON-lines file: one session a row.

Instants are ISO, or numbers: minutes from the start. A row that gives amounts instead of a
definition gets a definition made that asks for just these.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from labfleet.kernel import errors
from labfleet.rehearsal import plan as plans
from labfleet.rehearsal.demand import Act, Crowd, Wish, ordered
from labfleet.resources import amounts

COLUMNS = frozenset({
    "submitted", "start", "minutes", "definition", "owner", "track", "priority",
    "cancel_after_minutes", "extend_after_minutes", "extend_by_minutes",
    "cpu", "memory", "storage", "nodes",
})  # fmt: skip
Row = dict[str, Any]
When = datetime | float | None


def read(path: Path, start: datetime | None, minutes: dict[str, int], seconds: float) -> Crowd:
    """Return the demand of a file; Invalid names the row.

    With ISO instants second 0 is `start`, or the midnight before the first. `minutes` is how
    long each known definition usually runs; `seconds` 0 means as long as the file needs.
    """
    text = plans.read_text(path)
    rows = _json_rows(text) if path.suffix in {".jsonl", ".ndjson"} else _csv_rows(text)
    reader = _Reader(minutes)
    for number, row in enumerate(rows, start=1):
        try:
            reader.take(row)
        except (TypeError, ValueError) as problem:
            raise errors.Invalid(f"{path}, row {number}: {problem}", reason="BadDemand") from None
    wishes = reader.wishes(start)
    end = max((each.end or each.start or each.at for each in wishes), default=0.0)
    span = seconds or -(-end // 3600) * 3600 + 3600
    kept = [each for each in wishes if each.at < span]
    return Crowd(ordered(kept), span, tuple(sorted(reader.made.items())))


def _csv_rows(text: str) -> list[Row]:
    rows = csv.DictReader(io.StringIO(text))
    return [{key: value for key, value in row.items() if value} for row in rows]


def _json_rows(text: str) -> list[Row]:
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as problem:
        raise errors.Invalid(f"the demand is not JSON lines: {problem}") from None
    if not all(isinstance(row, dict) for row in rows):
        raise errors.Invalid("each line of the demand is one JSON object")
    return rows


@dataclass(slots=True)
class _Reader:
    """Takes rows one by one; the first instant is known only when all are in."""

    minutes: dict[str, int]
    made: dict[str, Row] = field(default_factory=dict)
    rows: list[tuple[Row, str, When, When]] = field(default_factory=list)

    def take(self, row: Row) -> None:
        """Check a row and keep it; ValueError says what is wrong with it."""
        odd = sorted(set(row) - COLUMNS)
        if odd:
            raise ValueError(f"unknown column {odd[0]}; known: {', '.join(sorted(COLUMNS))}")
        start, submitted = _when(row.get("start")), _when(row.get("submitted"))
        if start is None and submitted is None:
            raise ValueError("give start or submitted")
        name = str(row.get("definition") or self._by_amounts(row))
        if name not in self.minutes and name not in self.made:
            raise ValueError(f"no definition {name} in the plan")
        _wish(0, row, name, 0.0, 0.0)
        self.rows.append((row, name, start, submitted))

    def _by_amounts(self, row: Row) -> str:
        """Return a definition that asks for just the row's amounts."""
        asked = {key: str(row[key]) for key in ("cpu", "memory", "storage") if row.get(key)}
        if not asked:
            raise ValueError("give a definition, or cpu and memory")
        wanted = amounts.expand(asked, supply=False)
        wanted |= {"nodes": int(row.get("nodes") or 1), "labs": 1}
        keys = ("cpuMilli", "memoryMib", "storageMib", "nodes")
        name = "amounts-" + "-".join(str(wanted.get(key, 0)) for key in keys)
        self.made[name] = {"topology": plans.topology(name, ("alpine",)), "resources": wanted}
        return name

    def wishes(self, first: datetime | None) -> list[Wish]:
        """Return the rows as wishes, with instants counted from the first midnight."""
        if first is None:
            instants = [each for row in self.rows for each in row[2:] if isinstance(each, datetime)]
            first = min(instants, default=None)
            first = first and first.replace(hour=0, minute=0, second=0, microsecond=0)
        return [
            _wish(number, row, name, _seconds(start, first), _seconds(submitted, first))
            for number, (row, name, start, submitted) in enumerate(self.rows, start=1)
        ]


def _when(value: Any) -> When:
    if value is None or value == "":
        return None
    try:
        return float(value) * 60
    except (TypeError, ValueError):
        return plans.instant(str(value))


def _seconds(value: When, first: datetime | None) -> float | None:
    if isinstance(value, datetime):
        return (value - (first or value)).total_seconds()
    return value


def _wish(number: int, row: Row, name: str, start: float | None, submitted: float | None) -> Wish:
    at = submitted if submitted is not None else start or 0.0
    at = at if start is None else min(at, start)
    begin = at if start is None else start
    length = float(row["minutes"]) * 60 if row.get("minutes") else None
    return Wish(
        max(at, 0.0),
        name,
        str(row.get("owner", "")),
        f"r{number:06d}",
        start,
        None if length is None else begin + length,
        row.get("track") or None,
        int(row.get("priority") or 0),
        _acts(row, begin),
    )


def _acts(row: Row, begin: float) -> tuple[Act, ...]:
    acts = []
    if row.get("cancel_after_minutes"):
        acts.append(Act(begin + float(row["cancel_after_minutes"]) * 60, "cancel"))
    if row.get("extend_by_minutes"):
        at = begin + float(row.get("extend_after_minutes") or 10) * 60
        acts.append(Act(at, "extend", float(row["extend_by_minutes"]) * 60))
    return tuple(sorted(acts, key=lambda act: act.at))
