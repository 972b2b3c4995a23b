"""Series rows in both databases: merged into their rings, read back, dropped with their worker.

Not objects: no event, no revision, no fence. Two writers at once merge, they do not overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from labfleet.interfaces.store import SERIES_LIMIT, SeriesRow
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.stores.database import Rows, Run
from labfleet.stores.instants import from_micros, to_micros

_TIERS = {each.step: each for each in series.TIERS}
_encode = msgspec.json.Encoder().encode
Listed = Callable[[tuple[str, ...]], Any]
_Place = tuple[str, int, int]


def check(rows: Sequence[SeriesRow]) -> None:
    """Refuse what no ring has room for."""
    if len(rows) > SERIES_LIMIT:
        message = f"at most {SERIES_LIMIT} series rows at once, not {len(rows)}"
        raise errors.Invalid(message, reason="CommitTooLarge")
    for row in rows:
        if row.step not in _TIERS:
            raise errors.Invalid(f"no series has steps of {row.step} s", reason="UnknownStep")


def merge(sql: dict[str, str], listed: Listed, rows: Sequence[SeriesRow], run: Run) -> None:
    """Merge rows into what lies in their slots; a bucket older than what is there is late."""
    places = {_place(row) for row in rows}
    keys = tuple(str(_encode(place), "utf-8") for place in sorted(places))
    kept: dict[_Place, tuple[int, str]] = {}
    for worker, step, place, at, data in run(sql["load_series"], (listed(keys),)):
        kept[worker, step, place] = (at, data)
    changed: dict[_Place, tuple[int, str]] = {}
    for row in rows:
        place_, at = _place(row), to_micros(row.at)
        known = kept.get(place_)
        if known is not None and known[0] > at:
            continue  # a whole ring later: its place is taken
        data = row.data
        if known is not None and known[0] == at:
            data = series.pack(series.merged(series.unpack(known[1]), series.unpack(data)))
        kept[place_] = changed[place_] = (at, data)
    if changed:
        texts = tuple(str(_encode([*at_, *value]), "utf-8") for at_, value in changed.items())
        run(sql["save_series"], (listed(texts),))


def read(rows: Rows) -> tuple[SeriesRow, ...]:
    """Return the rows of the statement `series`."""
    return tuple(SeriesRow(worker, step, from_micros(at), data) for worker, step, at, data in rows)


def drop(sql: dict[str, str], workers: Iterable[str], run: Run) -> int:
    """Drop every row of these workers, samples too; return how many rows went."""
    return sum(
        len(run(sql[name], (worker,)))
        for worker in workers
        for name in ("drop_series", "drop_samples")
    )


def parameters(worker: str, step: int, since: datetime) -> tuple[str, int, int]:
    """Return the parameters of the statement `series`."""
    return worker, step, to_micros(since)


def _place(row: SeriesRow) -> _Place:
    return row.worker, row.step, series.slot(row.at, _TIERS[row.step])
