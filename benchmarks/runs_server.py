"""`labfleet server` with a cache and a history that count what is read of them.

`python -m benchmarks.runs_server -- ARGUMENTS` runs the server as it is, but for the counting; each
line on stdin is answered on stdout with how many objects and rows were handed out so far. What a
decision touches must not depend on how many runs are over, and CPU time alone does not show that.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Hashable, Iterator
from typing import Any

from labfleet.app import main, wiring
from labfleet.decisions.prediction.learner import Learner
from labfleet.engine.cache import Cache
from labfleet.engine.index import Index
from labfleet.resources.history import KeptRun
from labfleet.resources.meta import Key


class Touched:
    """How many objects, keys, index values and rows of history were handed out."""

    count = 0


class CountingCache(Cache):
    """Counts each object, key and index value that a reader gets, also from a kept tuple."""

    def get(self, kind: type[Any], name: str, namespace: str) -> Any:
        """Count one."""
        Touched.count += 1
        return super().get(kind, name, namespace)

    def at(self, key: Key) -> Any:
        """Count one."""
        Touched.count += 1
        return super().at(key)

    def of_uid(self, kind: type[Any], uid: str) -> Any:
        """Count one."""
        Touched.count += 1
        return super().of_uid(kind, uid)

    def all(self, kind: type[Any]) -> tuple[Any, ...]:
        """Count all."""
        return _counted(super().all(kind))

    def keys(self, kind: type[Any]) -> tuple[Key, ...]:
        """Count all."""
        return _counted(super().keys(kind))

    def by(self, index: Index[Any, Any], value: Hashable) -> tuple[Any, ...]:
        """Count those of the value."""
        return _counted(super().by(index, value))

    def values(self, index: Index[Any, Any]) -> tuple[Any, ...]:
        """Count the values."""
        return _counted(super().values(index))

    def each(self, index: Index[Any, Any], value: Hashable) -> Iterator[Any]:
        """Count those that the reader takes."""
        for found in super().each(index, value):
            Touched.count += 1
            yield found


def _counted(found: tuple[Any, ...]) -> tuple[Any, ...]:
    Touched.count += len(found)
    return found


def _count_learning() -> None:
    """Count each row of the history that the learner is given."""
    learn = Learner.learn

    def counted(self: Learner, kept: KeptRun) -> None:
        Touched.count += 1
        learn(self, kept)

    Learner.learn = counted  # type: ignore[method-assign]


def _answer() -> None:
    for _ in sys.stdin:
        print(json.dumps({"touched": Touched.count}), flush=True)


if __name__ == "__main__":
    wiring.Cache = CountingCache  # type: ignore[misc, attr-defined]
    _count_learning()
    threading.Thread(target=_answer, daemon=True).start()
    sys.exit(main.main(sys.argv[2:]))
