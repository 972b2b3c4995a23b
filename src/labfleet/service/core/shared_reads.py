"""Reads that the objects of one request share: two hundred sessions of one definition read it once.

A definition holds a whole topology, and to read and decode it for each session was most of the work.
What was read here is as old as the request; a rule that relies on it guards it by its revision, and a
commit that fails because of that lets everything be read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key, Resource

R = TypeVar("R", bound=Resource)


class SharedReads(Objects):
    """Objects that remember what was found, for as long as one request lasts."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.store)
        self._found: dict[Key, Resource] = {}
        self._saved: dict[Key, Resource] = {}

    def saved(self, kind: type[R]) -> tuple[R, ...]:
        """Return what this request has written: a rule that counts must not wait for the cache."""
        return tuple(each for each in self._saved.values() if isinstance(each, kind))

    async def get(self, kind: type[R], name: str, namespace: str) -> R | None:
        """Return the object as it was found first, or as it is now when it was not read yet."""
        key = Key(kind.__name__, namespace, name)
        known = self._found.get(key)
        if known is None:
            known = await super().get(kind, name, namespace)
            if known is not None:
                self._found[key] = known
        return known  # type: ignore[return-value]  # the key holds the kind

    async def save(
        self,
        *objects: Resource,
        cause: stores.Cause,
        preconditions: Sequence[stores.Precondition] = (),
        writes: Sequence[stores.Write] = (),
        fence: stores.Fence | None = None,
    ) -> tuple[int, tuple[Resource, ...]]:
        """Write as `Objects` does; what is written, or was not as it was read, is read anew."""
        for each in objects:
            self._found.pop(each.key, None)
        try:
            done = await super().save(
                *objects, cause=cause, preconditions=preconditions, writes=writes, fence=fence
            )
        except errors.Conflict:
            self._found.clear()
            raise
        for each in done[1]:
            self._found.pop(each.key, None)  # one that was read while this was written
            self._saved[each.key] = each
        return done
