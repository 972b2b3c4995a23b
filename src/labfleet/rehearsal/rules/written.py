"""What a commit wrote, for the rules that watch objects: each write with the revision it was given."""

from __future__ import annotations

from collections.abc import Iterator

from labfleet.interfaces import store
from labfleet.stores import rules


def written(
    commit: store.Commit, outcome: rules.Outcome
) -> Iterator[tuple[store.Put | store.Delete, int]]:
    """Yield the objects that a commit put or deleted, each with its revision; none of a refused one."""
    if not isinstance(outcome, store.Committed):
        return
    objects = (each for each in commit.writes if isinstance(each, store.Put | store.Delete))
    yield from zip(objects, outcome.revisions, strict=True)
