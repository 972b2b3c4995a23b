"""How long the workers of each pool took to boot, as the history of past runs has it.

The newest boots of a template are kept in memory and read on along the history's places: when a
boot of the pool is over, and otherwise now and then for those of other pools. So the work is that
of what is new, however long the history is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.decisions.claims.lead import KEPT, BootTimes, boot_times
from labfleet.decisions.lifecycle.worker import phases
from labfleet.interfaces import store as stores
from labfleet.resources import refs
from labfleet.resources.history import Run, RunKind
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker

EVERY = timedelta(minutes=15)
"""After how long the history is asked although no boot of the pool is over (fleet time)."""
PAGES = 4
"""Pages of boots that one look reads on at most; the next look goes on."""
TEMPLATES = 1000
"""Templates whose boots are kept; the one that was asked for longest ago makes room."""


@dataclass(slots=True)
class _Read:
    """What was read of a template's boots, the newest last, up to a place of the history."""

    runs: deque[Run] = field(default_factory=lambda: deque(maxlen=KEPT))
    place: int = -1


class Boots:
    """Reads boots of templates; `reads` counts the looks at the history, for tests."""

    def __init__(self, history: stores.HistoryStore) -> None:
        self._history = history
        self._read: dict[Key, _Read] = {}
        self._seen: dict[Key, tuple[frozenset[str], datetime]] = {}
        self.reads = 0

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._seen.pop(pool, None)

    async def of(
        self, pool: Pool, template: Template | None, workers: Iterable[Worker], now: datetime
    ) -> BootTimes:
        """Return how long boots of a pool's machines took; nothing is known without a template."""
        if template is None:
            return BootTimes()
        key = refs.template_of(pool).key
        booting = frozenset(
            f"{each.metadata.uid}/{each.status.attempt}"
            for each in workers
            if each.status.phase in phases.BOOTING
        )
        before, at = self._seen.get(pool.key, (None, now))
        over = before is None or not before <= booting
        if over or now - at >= EVERY or key not in self._read:
            await self._on(key, pool.spec.template, pool.namespace)
            at = now
        self._seen[pool.key] = (booting, at)
        return boot_times(reversed(self._read[key].runs), template.spec.machine)

    async def _on(self, key: Key, family: str, namespace: str) -> None:
        """Read on from where the last look ended; at first the newest boots alone."""
        self.reads += 1
        found = self._read.pop(key, None) or _Read()
        kind = RunKind.BOOT
        if found.place < 0:
            newest = await self._history.newest_runs(
                kind=kind, family=family, namespace=namespace, limit=KEPT
            )
            found.runs.extend(each.run for each in reversed(newest))
            found.place = newest[0].place if newest else 0
        else:
            for _ in range(PAGES):
                page = await self._history.history(
                    found.place, kind=kind, family=family, namespace=namespace
                )
                found.runs.extend(each.run for each in page)
                found.place = page[-1].place if page else found.place
                if len(page) < stores.PAGE_LIMIT:
                    break
        self._read[key] = found
        if len(self._read) > TEMPLATES:
            del self._read[next(iter(self._read))]
