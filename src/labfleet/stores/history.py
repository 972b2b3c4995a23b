"""Rows of the history of past runs in both databases: made, read back, dropped when they are old."""

from __future__ import annotations

from typing import Any

import msgspec

from labfleet.interfaces.store import RUN_BYTES, HistorySize
from labfleet.kernel import errors
from labfleet.resources.history import KeptRun, Run
from labfleet.stores import database

# Columns in the order of the statement `save_run`: place, kind, uid, namespace, family, owner,
# kept_at, doc.
RunRow = tuple[int, str, str, str, str, str, int, bytes]
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Run).decode


def key_of(run: Run) -> tuple[str, str]:
    """Return what names a run once and for all: its kind and uid."""
    return run.kind.value, _text(run.uid)


def row_of(run: Run, place: int, at: int) -> RunRow:
    """Return the row of a run at its place; Invalid "RunTooLarge" for one beyond the bound."""
    doc = _encode(run)
    if len(doc) > RUN_BYTES:
        message = f"run {run.kind} {run.uid[:64]} has {len(doc)} bytes, more than {RUN_BYTES}"
        raise errors.Invalid(message, reason="RunTooLarge")
    space, family, owner = _text(run.namespace), _text(run.family), _text(run.owner)
    return (place, *key_of(run), space, family, owner, at, doc)


def read(rows: database.Rows) -> tuple[KeptRun, ...]:
    """Return the runs of the statements `history` and `newest_runs`."""
    return tuple(KeptRun(place=place, run=_decode(bytes(doc))) for place, doc in rows)


def size(rows: database.Rows) -> HistorySize:
    """Return the row of the statement `history_size`; there is none before the first run."""
    return HistorySize(int(rows[0][0]), int(rows[0][1])) if rows else HistorySize(0, 0)


def filtered(
    sql: dict[str, str], name: str, start: int, limit: int, **wanted: str | None
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement of this name with the filters that are not None, and its parameters."""
    given = {each: _text(value) for each, value in wanted.items() if value is not None}
    filters = " ".join(sql[f"filter_run_{each}"] for each in given)
    return sql[name].replace("/*filters*/", filters), (start, *given.values(), limit)


def drop(sql: dict[str, str], before: int, limit: int, run: database.Run) -> int:
    """Drop the oldest rows that were kept before an instant; return how many went."""
    run(sql["lock"], ())
    gone = len(run(sql["drop_runs"], (limit, before)))
    if gone:
        run(sql["shrink_history"], (gone,))
    return gone


def _text(text: str) -> str:
    """Return a text without NUL, which PostgreSQL's texts cannot hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
