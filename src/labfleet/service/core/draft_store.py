"""A store whose writes stay in memory: the rules of admission run against it, nothing is changed.

What was written into it is read back, so that an object may need one that was drafted before it.
It checks what the real store checks of objects; ports and ledger rows are not its business.
"""

from __future__ import annotations

from collections.abc import Sequence

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key

_FIRST = 2**62
"""Revisions of drafts: larger than any real one, so that no real object has one."""


class DraftStore:
    """Reads from a store through the drafts; `commit` makes drafts."""

    def __init__(self, real: stores.ObjectReader) -> None:
        self._real = real
        self._drafts: dict[Key, stores.Stored | None] = {}
        self._last = _FIRST

    async def get(self, key: Key) -> stores.Stored | None:
        """Return the draft if there is one, else the stored object."""
        return self._drafts[key] if key in self._drafts else await self._real.get(key)

    async def list(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        selectors: Sequence[stores.Selector] = (),
        after: tuple[str, str] | None = None,
        limit: int = stores.PAGE_LIMIT,
    ) -> stores.Page:
        """Return stored objects; drafts are not in lists, as nothing that is new is in a cache."""
        return await self._real.list(
            kind, namespace=namespace, selectors=selectors, after=after, limit=limit
        )

    async def commit(self, commit: stores.Commit) -> stores.Committed:
        """Keep the commit's objects as drafts; Conflict when one is not as it was expected."""
        for each in commit.preconditions:
            if isinstance(each, stores.AtRevision):
                there = await self.get(each.key)
                if (0 if there is None else there.revision) != each.revision:
                    raise errors.Conflict(f"{each.key} is not at revision {each.revision}")
        given: list[int] = []
        for write in commit.writes:
            if isinstance(write, stores.Put | stores.Delete):
                self._last += 1
                given.append(self._last)
                self._drafts[write.key] = self._draft(write, commit)
        return stores.Committed(revisions=tuple(given), revision=self._last)

    def _draft(
        self, write: stores.Put | stores.Delete, commit: stores.Commit
    ) -> stores.Stored | None:
        if isinstance(write, stores.Delete):
            return None
        at, labels = commit.cause.at, dict(write.labels)
        return stores.Stored(write.key, write.uid, self._last, write.doc, labels, at)
