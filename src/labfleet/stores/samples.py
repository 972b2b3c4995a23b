"""Rows of the newest samples in both databases: the last write of a worker's part stays.

Not objects: no event, no revision, no fence. A writer that lost its lead may put one old sample
over a new one; readers compare the times, and the next measurement mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from labfleet.interfaces.store import SAMPLES_LIMIT, SampleRow, SampleTime
from labfleet.kernel import errors
from labfleet.stores.database import Rows, Run
from labfleet.stores.instants import from_micros, to_micros

_encode = msgspec.json.Encoder().encode
Listed = Callable[[tuple[str, ...]], Any]


def check(rows: Sequence[SampleRow]) -> None:
    """Refuse a batch that would hold up other writers."""
    if len(rows) > SAMPLES_LIMIT:
        message = f"at most {SAMPLES_LIMIT} samples at once, not {len(rows)}"
        raise errors.Invalid(message, reason="CommitTooLarge")


def save(sql: dict[str, str], listed: Listed, rows: Sequence[SampleRow], run: Run) -> None:
    """Replace these rows; of two of one part, the last."""
    found = {(row.worker, row.part): (to_micros(row.at), row.data) for row in rows}
    # In the order of names: two writers that lock the same rows in two orders would deadlock.
    texts = tuple(str(_encode([*place, *found[place]]), "utf-8") for place in sorted(found))
    run(sql["save_samples"], (listed(texts),))


def read_times(rows: Rows) -> tuple[SampleTime, ...]:
    """Return the rows of the statement `sample_times`."""
    return tuple(SampleTime(worker, part, from_micros(at)) for worker, part, at in rows)


def read(rows: Rows) -> tuple[SampleRow, ...]:
    """Return the rows of the statement `samples`."""
    return tuple(SampleRow(worker, part, from_micros(at), data) for worker, part, at, data in rows)


def drop(sql: dict[str, str], workers: Iterable[str], run: Run) -> int:
    """Drop the rows of these workers; return how many went."""
    return sum(len(run(sql["drop_samples"], (worker,))) for worker in workers)
