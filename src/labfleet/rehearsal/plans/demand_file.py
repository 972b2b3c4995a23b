"""Demand from a CSV or JSON-lines file: one session a row.

Instants are ISO (without a zone: UTC), or numbers: minutes from the start; a file uses only one
of the two. For a row that gives amounts instead of a definition, a definition with just these
amounts is made. No row is dropped silently: a row outside the period is refused, unless the plan
gives both `start` and a length, and so asks for a part of a longer file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from labfleet.rehearsal.plans import demand_rows
from labfleet.rehearsal.plans import plan as plans
from labfleet.rehearsal.plans.demand import Act, Crowd, PlannedSession, ordered
from labfleet.rehearsal.plans.demand_rows import Row
from labfleet.rehearsal.plans.planned_fleet import topology
from labfleet.resources import amounts

COLUMNS = frozenset({
    "submitted", "start", "minutes", "definition", "owner", "track", "priority",
    "cancel_after_minutes", "extend_after_minutes", "extend_by_minutes",
    "cpu", "memory", "storage", "nodes",
})  # fmt: skip
OWNER_LENGTH, PRIORITIES = 256, 1000
LATEST_MINUTES = plans.LONGEST_HOURS * 60
FURTHEST_YEARS = 100
When = datetime | float | None


def read(path: Path, start: datetime | None, minutes: dict[str, int], seconds: float) -> Crowd:
    """Return the demand of a file; Invalid names the file and the line.

    With ISO instants second 0 is `start`, or the midnight before the first. `minutes` is how
    long each known definition usually runs; `seconds` 0 means as long as the file needs.
    """
    reader = _Reader(minutes)
    for line, row in demand_rows.read(path, COLUMNS):
        try:
            reader.take(line, row)
        except (TypeError, ValueError) as problem:
            demand_rows.refuse(path, line, str(problem))
    wishes = reader.wishes(start)
    for wish in wishes:
        if any(act.at < wish.at for act in wish.acts):
            demand_rows.refuse(
                path, wish.line, "it is cancelled or extended before it is asked for"
            )
    last = max(wishes, key=lambda each: each.end or _begin(each))
    span = seconds or -(-(last.end or _begin(last)) // 3600) * 3600 + 3600
    if span > plans.LONGEST_HOURS * 3600:
        told = f"it lies {span / 86400:.0f} days after the beginning; a plan has at most 366"
        demand_rows.refuse(path, last.line, told)
    kept = [replace(each, at=max(0.0, each.at)) for each in wishes if 0 <= _begin(each) < span]
    notes = _outside(path, wishes, kept, span, window=start is not None and seconds > 0)
    return Crowd(ordered(kept), span, tuple(sorted(reader.made.items())), notes)


def _begin(wish: PlannedSession) -> float:
    """Return when a wish wants to begin."""
    return wish.at if wish.start is None else wish.start


def _outside(
    path: Path,
    wishes: list[PlannedSession],
    kept: list[PlannedSession],
    span: float,
    *,
    window: bool,
) -> tuple[str, ...]:
    """Return a note about rows outside the period; Invalid unless the plan asks for a part."""
    inside = {each.line for each in kept}
    out = next((each for each in wishes if each.line not in inside), None)
    if out is None:
        return ()
    if window and kept:
        told = f"{len(wishes) - len(kept)} of {len(wishes)} rows lie outside the period"
        return (f"{path}: {told} and are not played, the first on line {out.line}",)
    told = f"it begins after the period of {span / 3600:g} h; the plan needs more days or hours"
    if _begin(out) < 0:
        told = "it begins before the plan's start"
    told += " (with start and a length, a part of the file is played)"
    return demand_rows.refuse(path, out.line, told)


@dataclass(slots=True)
class _Reader:
    """Takes rows one by one; the first instant is known only after the last row."""

    minutes: dict[str, int]
    made: dict[str, Row] = field(default_factory=dict)
    rows: list[tuple[int, Row, str, When, When]] = field(default_factory=list)
    dated: int = 0
    counted: int = 0

    def take(self, line: int, row: Row) -> None:
        """Check a row and keep it; ValueError says what is wrong with it."""
        start, submitted = _when(row, "start"), _when(row, "submitted")
        if start is None and submitted is None:
            raise ValueError("give start or submitted")
        for each in (start, submitted):
            self._one_sort(line, each)
        name = str(row.get("definition") or self._by_amounts(row))
        if name not in self.minutes and name not in self.made:
            known = ", ".join(sorted(self.minutes)) or "none"
            raise ValueError(f"no definition {name} in the plan; there are {known}")
        _wish((line, 0), row, name, 0.0, 0.0)
        self.rows.append((line, row, name, start, submitted))

    def _one_sort(self, line: int, when: When) -> None:
        if isinstance(when, datetime):
            self.dated = self.dated or line
        elif when is not None:
            self.counted = self.counted or line
        if self.dated and self.counted:
            raise ValueError(
                f"minutes from the start (line {self.counted}) and instants (line {self.dated}) "
                "do not go together; write one sort in the whole file"
            )

    def _by_amounts(self, row: Row) -> str:
        """Return a definition that asks for just the row's amounts."""
        asked = {key: str(row[key]) for key in ("cpu", "memory", "storage") if row.get(key)}
        if not asked:
            raise ValueError("give a definition, or cpu and memory")
        wanted: Row = {}
        for key, value in asked.items():
            try:
                wanted |= amounts.expand({key: value}, supply=False)
            except ValueError as problem:
                raise ValueError(f"{key}: {problem}") from None
        nodes = _number(row, "nodes", least=1, whole=True)
        wanted |= {"nodes": 1 if nodes is None else int(nodes), "labs": 1}
        keys = ("cpuMilli", "memoryMib", "storageMib", "nodes")
        name = "amounts-" + "-".join(str(wanted.get(key, 0)) for key in keys)
        self.made[name] = {"topology": topology(name, ("alpine",)), "resources": wanted}
        return name

    def wishes(self, first: datetime | None) -> list[PlannedSession]:
        """Return the rows as wishes, with instants counted from the first midnight."""
        if first is None:
            instants = [each for row in self.rows for each in row[3:] if isinstance(each, datetime)]
            first = min(instants, default=None)
            first = first and first.replace(hour=0, minute=0, second=0, microsecond=0)
        return [
            _wish((line, number), row, name, _seconds(start, first), _seconds(submitted, first))
            for number, (line, row, name, start, submitted) in enumerate(self.rows, start=1)
        ]


def _when(row: Row, name: str) -> When:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return None if value is None else _no_instant(name, value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        try:
            return plans.instant(str(value))
        except (ValueError, OverflowError):
            return _no_instant(name, value)
    if not 0 <= number <= FURTHEST_YEARS * LATEST_MINUTES:  # NaN is neither
        return _no_instant(name, value)
    return number * 60


def _no_instant(name: str, value: object) -> When:
    told = f"{name}: {str(value)[:40]!r} is no instant; write 2026-11-30T08:00:00Z, or minutes"
    raise ValueError(f"{told} from the start")


def _number(
    row: Row, name: str, *, least: float | None = None, whole: bool = False
) -> float | None:
    """Return a number of a row, None when it has none; ValueError names the column."""
    value = row.get(name)
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found) or (whole and found != int(found)) or isinstance(value, bool):
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{name}: {str(value)[:40]!r} is not {kind}")
    if least is not None and found < least:
        raise ValueError(f"{name}: {found:g} is less than {least:g}")
    return found


def _seconds(value: When, first: datetime | None) -> float | None:
    if isinstance(value, datetime):
        return (value - (first or value)) / timedelta(seconds=1)
    return value


def _wish(
    place: tuple[int, int], row: Row, name: str, start: float | None, submitted: float | None
) -> PlannedSession:
    line, number = place
    at = submitted if submitted is not None else start or 0.0
    at = at if start is None else min(at, start)
    begin = at if start is None else start
    minutes = _number(row, "minutes")
    if minutes is not None and minutes <= 0:
        raise ValueError(f"minutes: {minutes:g} is not more than 0")
    owner, priority = str(row.get("owner", "")), _number(row, "priority", whole=True) or 0
    if len(owner) > OWNER_LENGTH or abs(priority) > PRIORITIES:
        raise ValueError(f"owner has at most {OWNER_LENGTH} letters, priority is -1000 to 1000")
    track = row.get("track")
    if not isinstance(track, str | None):
        raise TypeError(f"track: {str(track)[:40]!r} is not a name")
    return PlannedSession(
        at,
        name,
        owner,
        f"r{number:06d}",
        start,
        None if minutes is None else begin + minutes * 60,
        track or None,
        int(priority),
        _acts(row, begin),
        line,
    )


def _acts(row: Row, begin: float) -> tuple[Act, ...]:
    """Return what the owner did later; minutes from the slot's start, else from the request."""
    acts = []
    for name in ("cancel_after_minutes", "extend_after_minutes", "extend_by_minutes"):
        value = _number(row, name)
        if value is not None and value > LATEST_MINUTES:
            raise ValueError(f"{name}: {value:g} is more than {LATEST_MINUTES} (366 days)")
    cancel = _number(row, "cancel_after_minutes")
    if cancel is not None:
        acts.append(Act(begin + cancel * 60, "cancel"))
    longer, after = _number(row, "extend_by_minutes"), _number(row, "extend_after_minutes")
    if longer is not None and longer <= 0:
        raise ValueError(f"extend_by_minutes: {longer:g} is not more than 0")
    if after is not None and longer is None:
        raise ValueError("extend_after_minutes: give extend_by_minutes too")
    if longer is not None:
        acts.append(Act(begin + (10 if after is None else after) * 60, "extend", longer * 60))
    return tuple(sorted(acts, key=lambda act: act.at))
