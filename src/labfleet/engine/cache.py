"""The informer cache: every object, typed, in memory, with the revision it is true at.

Reads cost nothing and are consistent: all events up to `revision` are in, none after it. That
number is what a ledger precondition is checked against. Handlers hear (old, new) after the
change is in. `reached` lets a writer wait until the cache has its own write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.meta import Key, Resource

R = TypeVar("R", bound=Resource)
Handler = Callable[[Resource | None, Resource | None], None]
IndexOf = Callable[[Resource], Iterable[str]]


class Cache:
    """A `feed.Listener` that keeps the objects of the named kinds."""

    def __init__(self, store: stores.Store, names: Sequence[str] | None = None) -> None:
        self._store = store
        self._names = tuple(names or kinds.KINDS)
        self._objects: dict[str, dict[Key, Resource]] = {name: {} for name in self._names}
        self._indices: dict[tuple[str, str], tuple[IndexOf, dict[str, set[Key]]]] = {}
        self._handlers: dict[str, list[Handler]] = {name: [] for name in self._names}
        self._moved = asyncio.Event()
        self.cursor: stores.Cursor | None = None
        self.quarantined: dict[Key, str] = {}

    @property
    def revision(self) -> int:
        """Return the revision that everything here is true at; 0 before the first list."""
        return 0 if self.cursor is None else self.cursor.revision

    def get(self, kind: type[R], name: str, namespace: str = "default") -> R | None:
        """Return the object, or None when there is none at `revision`."""
        return self._objects[kind.__name__].get(Key(kind.__name__, namespace, name))  # type: ignore[return-value]

    def at(self, key: Key) -> Resource | None:
        """Return the object of a key."""
        return self._objects[key.kind].get(key)

    def all(self, kind: type[R]) -> list[R]:
        """Return all objects of a kind, in key order, so that decisions are repeatable."""
        rows = self._objects[kind.__name__]
        return [rows[key] for key in sorted(rows)]  # type: ignore[misc]

    def index(self, kind: type[Resource], name: str, values: IndexOf) -> None:
        """Keep an index of a kind by what `values` returns; call before the cache starts."""
        self._indices[kind.__name__, name] = (values, {})

    def by(self, kind: type[R], name: str, value: str) -> list[R]:
        """Return the objects whose index holds the value, in key order."""
        _, table = self._indices[kind.__name__, name]
        rows = self._objects[kind.__name__]
        return [rows[key] for key in sorted(table.get(value, ()))]  # type: ignore[misc]

    def on_change(self, kind: type[Resource], handler: Handler) -> None:
        """Call the handler with (old, new) after each change; None stands for absent."""
        self._handlers[kind.__name__].append(handler)

    async def ready(self) -> None:
        """Return once the first list is in."""
        await self._until(lambda: self.cursor is not None)

    async def reached(self, revision: int) -> None:
        """Return once every event up to the revision is in."""
        await self._until(lambda: self.revision >= revision)

    async def reset(self) -> stores.Cursor:
        """List every kind again (feed.Listener); handlers hear the differences."""
        start = await self._store.head()
        for name in self._names:
            seen: set[Key] = set()
            after: tuple[str, str] | None = None
            while True:
                page = await self._store.list(name, after=after)
                for stored in page.items:
                    seen.add(stored.key)
                    self._take(stored.key, stored.doc, stored.revision)
                if page.after is None:
                    break
                after = page.after
            for key in sorted(set(self._objects[name]) - seen):
                self._set(key, None)
        return start

    def event(self, event: stores.Event) -> None:
        """Take one event (feed.Listener)."""
        if event.key.kind not in self._objects:
            return
        if event.type == "DELETED":
            old = self._objects[event.key.kind].get(event.key)
            if old is None or old.revision < event.revision:
                self._set(event.key, None)
            return
        self._take(event.key, event.doc, event.revision)

    def caught_up(self, cursor: stores.Cursor) -> None:
        """Publish the revision (feed.Listener)."""
        self.cursor = cursor
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _take(self, key: Key, doc: bytes, revision: int) -> None:
        old = self._objects[key.kind].get(key)
        if old is not None and old.revision >= revision:
            return
        try:
            new = kinds.decode(key.kind, doc, revision)
        except ValueError as problem:
            # One unreadable row must not stop every other (aws.md 5, case 42).
            self.quarantined[key] = str(problem)
            return
        self.quarantined.pop(key, None)
        self._set(key, new)

    def _set(self, key: Key, new: Resource | None) -> None:
        rows = self._objects[key.kind]
        old = rows.pop(key, None) if new is None else rows.get(key)
        if new is not None:
            rows[key] = new
        for (kind, _), (values, table) in self._indices.items():
            if kind != key.kind:
                continue
            for value in () if old is None else values(old):
                table[value].discard(key)
            for value in () if new is None else values(new):
                table.setdefault(value, set()).add(key)
        for handler in self._handlers[key.kind]:
            handler(old, new)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._moved.wait()


def required(found: R | None, what: str) -> R:
    """Return what was found, or raise Gone with a sentence."""
    if found is None:
        message = f"{what} does not exist"
        raise errors.Gone(message)
    return found
