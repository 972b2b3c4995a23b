"""Samples: where measurements of workers are kept in memory, bounded, in every process.

They append no event. The newest ones go to the other processes, and over a restart, through the
store (`SampleStore`). For longer storage they are merged into series once a minute
(`Store.merge_series`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from labfleet.resources.meta import Key
from labfleet.resources.telemetry import Change, ProviderPoint, Sample


class Samples(Protocol):
    """The newest samples and provider points of each worker, and the log of changes."""

    def put(self, sample: Sample, *, change_percent: float = 5.0) -> None:
        """Keep a sample; the worker's oldest is dropped when there are too many.

        `change_percent` is by how much a value must move to be logged as a change.
        """
        ...

    def put_points(
        self, worker: Key, points: Sequence[ProviderPoint], *, change_percent: float = 5.0
    ) -> None:
        """Keep the provider's points, given oldest first; known ones are left out."""
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

    def listen(self, told: Callable[[Key], None]) -> None:
        """Call this with the worker's key after each new measurement of it, until `leave`."""
        ...

    def leave(self, told: Callable[[Key], None]) -> None:
        """Call it no more."""
        ...

    def changes(self, after: int) -> Sequence[Change]:
        """Return the changes with a number greater than `after`, oldest first.

        The source of `worker.metrics` events: one change when a worker's value moved by the
        setting or more since its last change (percentages by points, counts by one, rates
        relative; to or from unknown counts too). Bounded: when the first number returned is
        greater than `after` + 1, changes in between were dropped, so read the newest samples
        instead. Numbers begin at 1 in each process; start with `last_change`.
        """
        ...

    @property
    def last_change(self) -> int:
        """Return the number of the newest change, 0 before the first."""
        ...
