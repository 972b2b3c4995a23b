"""Tells which stored secretRefs the host would refuse, before somebody needs one of them.

At the start and every half a minute: a fleet that ran under wider rules learns of it then, and not
at its next log-in. What is not refused and cannot be read is said where it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from labfleet.engine.cache import Cache
from labfleet.engine.wakeup import Pause
from labfleet.interfaces.outside import AllowedSecrets
from labfleet.kernel.clock import Clock
from labfleet.resources import secret_refs
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Resource, SecretRef
from labfleet.resources.worker import Worker, WorkerPhase

# Machine seconds.
EVERY_SECONDS = 30.0
NAMED = 3
"""How many references the alert names."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A reference that leads nowhere: whose, where it stands in the object, why and what to do."""

    key: Key
    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.key.kind.lower()}/{self.key.label} {self.path}: {self.words}"


Refusals = tuple[Refused, ...]


class SecretsCheck:
    """What this process knows of the fleet's references; `refused` is empty while all are good."""

    def __init__(
        self,
        allowed: AllowedSecrets,
        cache: Cache,
        clock: Clock,
        *,
        told: Callable[[Refusals, Refusals], None] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take what judges a reference; `told` gets what is refused since now, and no more."""
        self._allowed = allowed
        self._cache = cache
        self._clock = clock
        self._told = told
        self._pause = pause
        self._kinds = [KINDS[name].type for name in secret_refs.kinds()]
        # Walking a spec costs more than looking whether it changed.
        self._refs: dict[Key, tuple[str, int, tuple[tuple[str, SecretRef], ...]]] = {}
        self.refused: Refusals = ()
        self.since: datetime | None = None

    @property
    def words(self) -> str:
        """Return what is refused, in words."""
        more = len(self.refused) - NAMED
        named = "; ".join(str(each) for each in self.refused[:NAMED])
        return named + (f"; and {more} more, see the server's log" if more > 0 else "")

    async def run(self) -> None:
        """Look now and every half a minute until cancelled."""
        await self._cache.ready()
        while True:
            self.look()
            await self._pause(EVERY_SECONDS)

    def look(self) -> None:
        """Judge each reference of each object that may still use it."""
        known: dict[SecretRef, str | None] = {}
        found = []
        seen = {}
        for obj in self._using():
            seen[obj.key] = row = self._row(obj)
            for path, ref in row[2]:
                if ref not in known:
                    known[ref] = self._allowed.outside(ref)
                words = known[ref]
                if words is not None:
                    found.append(Refused(obj.key, path, words))
        self._refs = seen
        self._tell(tuple(found))

    def of(self, obj: Resource) -> tuple[str, ...]:
        """Return a sentence on each reference of an object that would be refused."""
        judged = [(path, self._allowed.outside(ref)) for path, ref in secret_refs.of(obj)]
        return tuple(f"{path} leads nowhere: {words}" for path, words in judged if words)

    def _using(self) -> Iterable[Resource]:
        for kind in self._kinds:
            for obj in self._cache.all(kind):
                ended = isinstance(obj, Worker) and obj.status.phase is WorkerPhase.TERMINATED
                if not ended:
                    yield obj

    def _row(self, obj: Resource) -> tuple[str, int, tuple[tuple[str, SecretRef], ...]]:
        uid, generation = obj.metadata.uid, obj.metadata.generation
        row = self._refs.get(obj.key)
        if row is not None and row[:2] == (uid, generation):
            return row
        return uid, generation, tuple(secret_refs.of(obj))

    def _tell(self, found: Refusals) -> None:
        before, self.refused = self.refused, found
        if not found:
            self.since = None
        elif self.since is None:
            self.since = self._clock.now()
        if self._told is not None and found != before:
            old, new = frozenset(before), frozenset(found)
            self._told(
                tuple(each for each in found if each not in old),
                tuple(each for each in before if each not in new),
            )
