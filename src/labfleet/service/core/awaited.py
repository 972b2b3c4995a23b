"""Waiting until an object is decided, woken by its next change in the cache."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from labfleet.engine.cache import Cache
from labfleet.kernel import errors
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import Key, Resource

R = TypeVar("R", bound=Resource)
LIMIT = 2_000
"""The most callers of a process that wait at a time."""
SHARE = 200
"""The most of them that one token may have."""


class Awaited:
    """Who waits for the next change of which object."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._waiting: dict[Key, list[asyncio.Future[None]]] = {}
        self._followed: set[str] = set()
        self._count: Counter[str] = Counter()

    async def settled(self, row: Kind, key: Key, seconds: float, who: str) -> Resource | None:
        """Return the object once its phase is no `waiting` one, at the latest after so long.

        Machine seconds. None when it is gone. Throttled when too many wait already, of all or of
        the token `who`.
        """
        if self._count.total() >= LIMIT or self._count[who] >= SHARE:
            message = f"{self._count[who]} calls of yours wait for a decision already; ask again"
            raise errors.Throttled(message, retry_after=1.0)
        self._count[who] += 1
        try:
            return await self.until(row, key, seconds, lambda obj: obj.status.phase in row.waiting)
        finally:
            self._count[who] -= 1
            if not self._count[who]:
                del self._count[who]

    async def until(
        self, row: Kind, key: Key, seconds: float, waits: Callable[[Any], bool]
    ) -> Resource | None:
        """Return the object once `waits` no longer holds for it, at the latest after so long.

        Not bounded here: for callers who are counted elsewhere.
        """
        self._follow(row)
        try:
            async with asyncio.timeout(seconds):
                while (found := self._cache.at(key)) is not None and waits(found):
                    await self._change(key)
        except TimeoutError:
            pass
        return self._cache.at(key)

    async def _change(self, key: Key) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(change)
        try:
            await change
        finally:
            left = [each for each in self._waiting.get(key, ()) if each is not change]
            if left:
                self._waiting[key] = left
            else:
                self._waiting.pop(key, None)

    def _follow(self, row: Kind) -> None:
        """Listen to a kind's changes from the first time on that somebody waits for one."""
        if row.name in self._followed:
            return
        self._followed.add(row.name)
        self._cache.on_change(row.type, self._changed)

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        named = new or old
        for change in self._waiting.get(named.key, ()) if named is not None else ():
            if not change.done():
                change.set_result(None)
