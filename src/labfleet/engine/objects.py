"""Typed reads and writes of objects over the store.

Every write is a compare-and-set by resourceVersion and carries its cause. Saving an object that
has a deletionTimestamp and no finalizer left deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.meta import Key, Ref, Resource

R = TypeVar("R", bound=Resource)


class Objects:
    """Typed access to a store."""

    def __init__(self, store: stores.ObjectStore) -> None:
        self.store = store

    async def find(self, ref: Ref[R]) -> R | None:
        """Return the referenced object, read from the store and not a cache, or None."""
        return await self.get(ref.kind, ref.name, ref.namespace)

    async def get(self, kind: type[R], name: str, namespace: str) -> R | None:
        """Return the object, read from the store and not a cache, or None when there is none."""
        key = Key(kind.__name__, namespace, name)
        found = await self.store.get(key)
        return None if found is None else load(kind, found)

    def saved(self, kind: type[R]) -> tuple[R, ...]:
        """Return what was written through these objects, if they remember: a cache may lack it."""
        del kind
        return ()

    async def save(
        self,
        *objects: Resource,
        cause: stores.Cause,
        preconditions: Sequence[stores.Precondition] = (),
        writes: Sequence[stores.Write] = (),
        fence: stores.Fence | None = None,
    ) -> tuple[int, tuple[Resource, ...]]:
        """Write all objects in one commit; return its revision and the objects as stored.

        An object without a resourceVersion is created, any other replaced at that version.
        Raises Conflict when any version, extra precondition or unique row does not hold.
        """
        made: list[stores.Write] = []
        expected: list[stores.Precondition] = list(preconditions)
        for obj in objects:
            expected.append(stores.AtRevision(obj.key, obj.revision))
            made.append(_write(obj))
        done = await self.store.commit(
            stores.Commit(
                cause=cause,
                writes=(*made, *writes),
                preconditions=tuple(expected),
                fence=fence,
            )
        )
        stored = tuple(
            at_revision(obj, number)
            for obj, number in zip(objects, done.revisions[: len(objects)], strict=True)
        )
        return done.revision, stored


def is_finished(obj: Resource) -> bool:
    """Tell whether saving this object deletes it: deletion was requested, no finalizer is left."""
    return obj.deleting and not obj.metadata.finalizers


def at_revision(obj: R, revision: int) -> R:
    """Return the object with this version in its metadata."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=metadata)


def load(kind: type[R], stored: stores.Stored) -> R:
    """Return the typed object of a stored row; raise Permanent when it cannot be read."""
    try:
        obj: R = kinds.decode(kind.__name__, stored.doc, stored.revision)
    except ValueError as problem:
        message = f"{stored.key} at revision {stored.revision} cannot be read: {problem}"
        raise errors.Permanent(message, reason="Unreadable") from problem
    return obj


def _write(obj: Resource) -> stores.Write:
    if is_finished(obj):
        return stores.Delete(obj.key)
    return stores.Put(
        key=obj.key, uid=obj.metadata.uid, doc=kinds.encode(obj), labels=obj.metadata.labels
    )
