"""The informer cache: every object, typed, in memory, with the revision it is true at.

Reads are cheap and consistent: all events up to `revision` are applied, none after it. Ledger
preconditions are checked against that number. Handlers are called with (old, new) after the
change is applied. `reached` lets a writer wait until the cache has its own write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from labfleet.engine.index import Index, SortedKeys, Table
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.meta import Key, Ref, Resource

R = TypeVar("R", bound=Resource)
V = TypeVar("V", bound=Hashable)
Handler = Callable[[Resource | None, Resource | None], None]
AWAITED = 1_000
"""Objects that were written here and whose events may be on their way."""


@dataclass(frozen=True, slots=True)
class Names:
    """Tells which names are taken now, without listing them."""

    cache: Cache
    kind: type[Resource]
    namespace: str

    def __contains__(self, name: object) -> bool:
        return self.cache.get(self.kind, str(name), self.namespace) is not None


class ObjectsAndLog(stores.ObjectReader, stores.EventLog, Protocol):
    """What a cache reads: lists of objects, and the log from there on."""


class Cache:
    """A `feed.Listener` that keeps the objects of the named kinds."""

    def __init__(self, store: ObjectsAndLog, names: Sequence[str] | None = None) -> None:
        self._store = store
        self._names = tuple(names or kinds.KINDS)
        self._objects: dict[str, dict[Key, Resource]] = {name: {} for name in self._names}
        self._keys: dict[str, SortedKeys] = {name: SortedKeys() for name in self._names}
        self._uids: dict[str, dict[str, Key]] = {name: {} for name in self._names}
        self._tables: dict[str, list[Table]] = {name: [] for name in self._names}
        self._table_of: dict[Index[Any, Any], Table] = {}
        self._handlers: dict[str, list[Handler]] = {name: [] for name in self._names}
        self._tuples: dict[str, tuple[Resource, ...]] = {}
        self._written: dict[Key, Resource] = {}
        self._moved = asyncio.Event()
        self.cursor: stores.Cursor | None = None
        self.quarantined: dict[Key, str] = {}

    @property
    def revision(self) -> int:
        """Return the revision of this cache's content; 0 before the first list."""
        return 0 if self.cursor is None else self.cursor.revision

    def find(self, ref: Ref[R] | None) -> R | None:
        """Return the referenced object; None when there is no reference or no such object."""
        return None if ref is None else self.get(ref.kind, ref.name, ref.namespace)

    def get(self, kind: type[R], name: str, namespace: str) -> R | None:
        """Return the object, or None when there is none at `revision`."""
        return self._objects[kind.__name__].get(Key(kind.__name__, namespace, name))  # type: ignore[return-value]

    def at(self, key: Key) -> Resource | None:
        """Return the object of a key."""
        return self._objects[key.kind].get(key)

    def of_uid(self, kind: type[R], uid: str) -> R | None:
        """Return the object with this uid, or None when there is none at `revision`."""
        key = self._uids[kind.__name__].get(uid)
        return None if key is None else self._objects[kind.__name__][key]  # type: ignore[return-value]

    def all(self, kind: type[R]) -> tuple[R, ...]:
        """Return all objects of a kind, in key order, so that decisions are repeatable.

        The same tuple until one of them changes. It holds what has ended too: a decision that is
        taken often reads an index instead, so that its cost does not grow with the records kept.
        """
        name = kind.__name__
        found = self._tuples.get(name)
        if found is None:
            rows = self._objects[name]
            found = self._tuples[name] = tuple([rows[key] for key in self._keys[name].list()])
        return found  # type: ignore[return-value]

    def keys(self, kind: type[R]) -> tuple[Key, ...]:
        """Return the keys of a kind, in order; the same tuple until an object comes or goes."""
        return self._keys[kind.__name__].tuple()

    def names(self, kind: type[Resource], namespace: str) -> Names:
        """Return the names that a kind's objects have in a namespace, to be asked one by one."""
        return Names(self, kind, namespace)

    def declare(self, *indices: Index[Any, Any]) -> None:
        """Keep these indices from now on; those of kinds that this cache does not keep are left out.

        Declaring one again changes nothing.
        """
        for index in indices:
            name = index.kind.__name__
            if name not in self._objects or index in self._table_of:
                continue
            table = self._table_of[index] = Table(index)
            self._tables[name].append(table)
            for key, obj in self._objects[name].items():
                table.change(key, None, obj)

    def by(self, index: Index[R, V], value: V) -> tuple[R, ...]:
        """Return the objects whose index holds the value, in key order.

        The same tuple until one of them changes, so that a caller may memoize what it computes
        from the tuple and check by identity whether that is still valid.
        """
        rows = self._objects[index.kind.__name__]
        return self._table_of[index].found(value, rows)  # type: ignore[return-value]

    def each(self, index: Index[R, V], value: V) -> Iterator[R]:
        """Yield the objects of a value one by one, in key order, for a reader that stops early.

        The reader does not wait between two of them: the cache may change meanwhile.
        """
        rows = self._objects[index.kind.__name__]
        for key in self._table_of[index].keys(value):
            yield rows[key]  # type: ignore[misc]

    def count(self, index: Index[R, V], value: V) -> int:
        """Return how many objects have the value, without reading them."""
        return len(self._table_of[index].keys(value))

    def values(self, index: Index[R, V]) -> tuple[V, ...]:
        """Return the values that some object has, in no promised order, without reading objects."""
        return self._table_of[index].values()  # type: ignore[return-value]

    def on_change(self, kind: type[Resource], handler: Handler) -> None:
        """Call the handler with (old, new) after each change; None stands for absent."""
        self._handlers[kind.__name__].append(handler)

    def wrote(self, obj: Resource) -> None:
        """Keep an object as this process has just stored it, until its event comes.

        It saves decoding what is known already; nobody reads it here before. An event that does not
        come, or came already, costs the place of one of AWAITED.
        """
        self._written[obj.key] = obj
        if len(self._written) > AWAITED:
            del self._written[next(iter(self._written))]

    async def ready(self) -> None:
        """Return once the first list is applied."""
        await self._until(lambda: self.cursor is not None)

    async def reached(self, revision: int) -> None:
        """Return once every event up to the revision is applied."""
        await self._until(lambda: self.revision >= revision)

    async def reached_head(self) -> None:
        """Return once everything is applied that was stored before this call."""
        head = await self._store.head()
        await self.reached(head.revision)

    async def reset(self) -> stores.Cursor:
        """List every kind again (feed.Listener); handlers are called for the differences.

        The pages are of different revisions, so they are collected separately and the events
        between the first and the last are applied to them. The result, which replaces the
        content in one step, is the state at exactly the returned cursor.
        """
        start = await self._store.head()
        rows, newest = await self._listed(start)
        cursor = start
        while cursor.revision < newest:
            page = await self._store.events(cursor)
            for event in page.events:
                self._amend(rows, event)
            if page.cursor == cursor:
                break
            cursor = page.cursor
        self._replace(rows, afresh=self.cursor is not None and self.cursor.epoch != start.epoch)
        return cursor

    async def _listed(self, start: stores.Cursor) -> tuple[dict[Key, tuple[bytes, int]], int]:
        """Return the rows of every kind, and the revision of the newest page."""
        rows: dict[Key, tuple[bytes, int]] = {}
        newest = start.revision
        for name in self._names:
            after: tuple[str, str] | None = None
            while True:
                page = await self._store.list(name, after=after)
                if page.cursor.epoch != start.epoch:
                    raise errors.TooOld("the store was restored while it was listed")
                newest = max(newest, page.cursor.revision)
                rows.update((item.key, (item.doc, item.revision)) for item in page.items)
                if page.after is None:
                    break
                after = page.after
        return rows, newest

    def _amend(self, rows: dict[Key, tuple[bytes, int]], event: stores.Event) -> None:
        if event.key.kind not in self._objects:
            return
        _, revision = rows.get(event.key, (b"", 0))
        if revision >= event.revision:
            return
        if event.type == "DELETED":
            rows.pop(event.key, None)
        else:
            rows[event.key] = (event.doc, event.revision)

    def _replace(self, rows: dict[Key, tuple[bytes, int]], *, afresh: bool) -> None:
        """Replace the content by the rows; `afresh` when a restore has reset the revisions."""
        self._written.clear()  # of the other life perhaps, under a revision that is given again
        for name in self._names:
            for key in sorted(set(self._objects[name]) - set(rows)):
                self._set(key, None)
        for key in set(self.quarantined) - set(rows):
            del self.quarantined[key]
        for key in sorted(rows):
            self._take(key, *rows[key], afresh=afresh)

    def event(self, event: stores.Event) -> None:
        """Apply one event (feed.Listener)."""
        if event.key.kind not in self._objects:
            return
        if event.type == "DELETED":
            old = self._objects[event.key.kind].get(event.key)
            self.quarantined.pop(event.key, None)
            if old is not None and old.revision < event.revision:
                self._set(event.key, None)
            return
        self._take(event.key, event.doc, event.revision)

    def caught_up(self, cursor: stores.Cursor) -> None:
        """Publish the revision (feed.Listener)."""
        self.cursor = cursor
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _take(self, key: Key, doc: bytes, revision: int, *, afresh: bool = False) -> None:
        old = self._objects[key.kind].get(key)
        if old is not None and old.revision >= revision and not afresh:
            return
        try:
            new = self._written.pop(key, None)
            if new is None or new.revision != revision:
                new = kinds.decode(key.kind, doc, revision)
        except ValueError as problem:
            # One unreadable row must not stop all others (facts/aws-bugs.md#case-42). The last
            # readable version is kept, because its reservations still hold.
            self.quarantined[key] = str(problem)
            return
        self.quarantined.pop(key, None)
        self._set(key, new)

    def _set(self, key: Key, new: Resource | None) -> None:
        rows, uids = self._objects[key.kind], self._uids[key.kind]
        old = rows.pop(key, None) if new is None else rows.get(key)
        if new is not None:
            rows[key] = new
        self._tuples.pop(key.kind, None)
        if old is not None and uids.get(old.metadata.uid) == key:
            del uids[old.metadata.uid]
        if new is not None:
            uids[new.metadata.uid] = key
        if old is None and new is not None:
            self._keys[key.kind].add(key)
        elif old is not None and new is None:
            self._keys[key.kind].discard(key)
        for table in self._tables[key.kind]:
            table.change(key, old, new)
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
