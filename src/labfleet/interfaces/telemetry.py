"""Samples: where measurements of workers are kept in memory, bounded, outside the store.

They append no event and survive no restart: losing them costs the time until the
next look. Only the process whose worker controller leads has fresh ones. What shall survive is
folded into series by the minute (`Store.merge_series`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from labfleet.resources.meta import Key
from labfleet.resources.telemetry import Change, ProviderPoint, Sample


class Samples(Protocol):
    """The newest samples and provider points of each worker, and the feed of what moved."""

    def put(self, sample: Sample, *, change_percent: float = 5.0) -> None:
        """Keep a sample; the oldest of its worker leaves when there are too many.

        `change_percent` is by how much a number must move to be told as a change.
        """
        ...

    def put_points(
        self, worker: Key, points: Sequence[ProviderPoint], *, change_percent: float = 5.0
    ) -> None:
        """Keep what the provider measured, oldest first; what is known already is left out."""
        ...

    def newest(self, worker: Key) -> Sample | None:
        """Return the newest sample, or None when there is none."""
        ...

    def recent(self, worker: Key, count: int) -> Sequence[Sample]:
        """Return up to this many newest samples, oldest first."""
        ...

    def points(self, worker: Key) -> Sequence[ProviderPoint]:
        """Return what the provider measured of a worker lately, oldest first."""
        ...

    def forget(self, worker: Key) -> None:
        """Drop what is kept of a worker that is gone."""
        ...

    def workers(self) -> Sequence[Key]:
        """Return the keys of the workers that were measured."""
        ...

    def changes(self, after: int) -> Sequence[Change]:
        """Return the changes with a number greater than `after`, oldest first.

        The feed of `worker.metrics` events: one change when a number of a worker moved by the
        setting or more since it was last told (percentages by points, counts by one, rates
        relative, unknown is a state of its own). Bounded: when the first number returned is
        greater than `after` + 1, changes in between have left and the newest samples are to be
        read whole. Numbers begin at 1 in each process; start with `last_change`.
        """
        ...

    @property
    def last_change(self) -> int:
        """Return the number of the newest change, 0 before the first."""
        ...
