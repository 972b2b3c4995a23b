"""Series rows in both databases: merged into their rings, read back, dropped with their object.

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
from labfleet.resources.series import Owner
from labfleet.stores.database import Rows, Run
from labfleet.stores.instants import from_micros, to_micros

_TIERS = {kind: {each.step: each for each in series.tiers_of(kind)} for kind in series.METRICS}
_encode = msgspec.json.Encoder().encode
Listed = Callable[[tuple[str, ...]], Any]
_Place = tuple[str, str, int, int]


def check(rows: Sequence[SeriesRow]) -> None:
    """Refuse what no ring has room for."""
    _check_count(len(rows))
    for kind, step in {(row.owner.kind, row.step) for row in rows}:
        _tier(kind, step)


def merge(sql: dict[str, str], listed: Listed, rows: Sequence[SeriesRow], run: Run) -> None:
    """Merge rows into what lies in their slots; a bucket older than what is there is late."""
    places = {_place(row.owner, row.step, row.at) for row in rows}
    kept: dict[_Place, tuple[int, str]] = {}
    for kind, uid, step, place, at, data in run(sql["load_series"], (listed(_texts(places)),)):
        kept[kind, uid, step, place] = (at, data)
    changed: dict[_Place, tuple[int, str]] = {}
    for row in rows:
        place_, at = _place(row.owner, row.step, row.at), to_micros(row.at)
        known = kept.get(place_)
        if known is not None and known[0] > at:
            continue  # a whole ring later: its place is taken
        kind, data = row.owner.kind, row.data
        if known is not None and known[0] == at:
            both = series.merged(series.unpack(kind, known[1]), series.unpack(kind, data))
            data = series.pack(kind, both)
        kept[place_] = changed[place_] = (at, data)
    if changed:
        texts = tuple(str(_encode([*at_, *value]), "utf-8") for at_, value in changed.items())
        run(sql["save_series"], (listed(texts),))


def read(rows: Rows) -> tuple[SeriesRow, ...]:
    """Return the rows of the statement `series`."""
    return tuple(
        SeriesRow(Owner(kind, uid), step, from_micros(at), data)
        for kind, uid, step, at, data in rows
    )


def places_at(
    listed: Listed, owners: Sequence[Owner], step: int, instants: Sequence[datetime]
) -> tuple[Any]:
    """Return the parameters of the statement `load_series` for these buckets."""
    _check_count(len(owners) * len(instants))
    return (listed(_texts({_place(owner, step, at) for owner in owners for at in instants})),)


def read_at(rows: Rows, instants: Sequence[datetime]) -> tuple[SeriesRow, ...]:
    """Return the rows of the statement `load_series` that begin at these instants."""
    wanted = {to_micros(each) for each in instants}
    return read(
        [(kind, uid, step, at, data) for kind, uid, step, _, at, data in rows if at in wanted]
    )


def drop(sql: dict[str, str], owners: Iterable[Owner], run: Run) -> int:
    """Drop every row of these owners; return how many rows went."""
    return sum(len(run(sql["drop_series"], (kind, uid))) for kind, uid in owners)


def parameters(owner: Owner, step: int, since: datetime) -> tuple[str, str, int, int]:
    """Return the parameters of the statement `series`."""
    return *owner, step, to_micros(since)


def _check_count(rows: int) -> None:
    if rows > SERIES_LIMIT:
        message = f"at most {SERIES_LIMIT} series rows at once, not {rows}"
        raise errors.Invalid(message, reason="CommitTooLarge")


def _tier(kind: str, step: int) -> series.Tier:
    found = _TIERS.get(kind, {}).get(step)
    if found is None:
        raise errors.Invalid(
            f"no series of {kind[:40]} has steps of {step} s", reason="UnknownStep"
        )
    return found


def _place(owner: Owner, step: int, at: datetime) -> _Place:
    return *owner, step, series.slot(at, _tier(owner.kind, step))


def _texts(places: set[_Place]) -> tuple[str, ...]:
    return tuple(str(_encode(place), "utf-8") for place in sorted(places))
