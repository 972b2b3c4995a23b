"""A cache that counts the objects it hands out, for tests of how much a decision reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from labfleet.engine.cache import Cache
from labfleet.engine.index import Index
from labfleet.resources.meta import Key


class CountingCache(Cache):
    """Counts each object, key and index value that a reader gets, also from a kept tuple."""

    touched = 0

    def get(self, kind: type[Any], name: str, namespace: str) -> Any:
        """Count one."""
        self.touched += 1
        return super().get(kind, name, namespace)

    def at(self, key: Key) -> Any:
        """Count one."""
        self.touched += 1
        return super().at(key)

    def of_uid(self, kind: type[Any], uid: str) -> Any:
        """Count one."""
        self.touched += 1
        return super().of_uid(kind, uid)

    def all(self, kind: type[Any]) -> tuple[Any, ...]:
        """Count all."""
        return self._counted(super().all(kind))

    def keys(self, kind: type[Any]) -> tuple[Key, ...]:
        """Count all."""
        return self._counted(super().keys(kind))

    def by(self, index: Index[Any, Any], value: Hashable) -> tuple[Any, ...]:
        """Count those of the value."""
        return self._counted(super().by(index, value))

    def values(self, index: Index[Any, Any]) -> tuple[Any, ...]:
        """Count the values."""
        return self._counted(super().values(index))

    def each(self, index: Index[Any, Any], value: Hashable) -> Iterator[Any]:
        """Count those that the reader takes."""
        for found in super().each(index, value):
            self.touched += 1
            yield found

    def _counted(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        self.touched += len(found)
        return found
