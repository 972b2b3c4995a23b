"""Samples: where measurements of workers are kept, bounded, outside the store.

Samples append no event and survive no restart (design.md 5): losing them costs the time until
the next look. Only the process whose worker controller leads has fresh ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from labfleet.resources.telemetry import Sample


class Samples(Protocol):
    """The newest samples of each worker."""

    def put(self, sample: Sample) -> None:
        """Keep a sample; the oldest of its worker leaves when there are too many."""
        ...

    def newest(self, worker: str) -> Sample | None:
        """Return the newest sample, or None when there is none."""
        ...

    def recent(self, worker: str, count: int) -> Sequence[Sample]:
        """Return up to this many newest samples, oldest first."""
        ...

    def forget(self, worker: str) -> None:
        """Drop what is kept of a worker that is gone."""
        ...

    def workers(self) -> Sequence[str]:
        """Return the names of the workers that have a sample."""
        ...
