"""What this process learned from the history of past runs, brought up to date when asked.

One learner for all that predict or show predictions. It is made at the first question, since it
brings numpy, which a server that judges no runs never needs. It begins with the last runs alone, so
that a restart costs the same however long the history is; older runs of a family are read when
a run of it is asked about, as are those of a family that made room for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from labfleet.interfaces import store as stores
from labfleet.resources.history import KeptRun, RunKind, Source

if TYPE_CHECKING:
    from labfleet.decisions.prediction.learner import Key, Learner


AT_ONCE = 25
"""Runs that are learned before other tasks run: some ten milliseconds."""
FIRST = 10_000
"""Runs that are learned in order when a process begins: some seconds."""
PAGES = 4
"""Pages of a family's runs that are read again at most: most of them may teach others than it."""


class Learning:
    """The learner and the place in the history up to which it has learned."""

    def __init__(self, history: stores.HistoryStore) -> None:
        self._history = history
        self._learner: Learner | None = None
        self._lock = asyncio.Lock()
        self._unread: dict[Key, None] = {}
        self.stale = True
        """Whether runs were added since the last time; others than this process tell nobody."""

    @property
    def known(self) -> Learner | None:
        """Return the learner as it is now; None before the first question."""
        return self._learner

    async def current(self, *, trust_reports: bool = False) -> Learner:
        """Return the learner once it has learned from every run that is over.

        `trust_reports`: whether what callers reported teaches the runs of others too; a change of
        that learns everything anew. Other tasks run meanwhile.
        """
        async with self._lock:
            self.stale = False
            found = self._learner
            if found is None or found.trusts_reports != trust_reports:
                from labfleet.decisions.prediction.learner import Learner

                size = await self._history.history_size()
                since = max(0, size.place - FIRST)
                found = Learner(trust_reports=trust_reports, since=since)
            while True:
                runs = await self._history.history(found.version)
                await _learn(found, runs)
                if len(runs) < stores.PAGE_LIMIT:
                    break
            self._learner = found
            return found

    @property
    def waits(self) -> bool:
        """Tell whether a family was asked about that has to be read first."""
        return bool(self._unread)

    def unread(self, namespace: str, family: str, owner: str) -> bool:
        """Tell whether a simulation's family has to be read first, and let the next `read` do it."""
        learner = self._learner
        if learner is None or not learner.partial:
            return False
        keys = learner.unread(RunKind.SIMULATION, namespace, family, owner)
        self._unread.update(dict.fromkeys(keys))
        return bool(keys)

    async def read(self, asked: Iterable[tuple[str, str, str]]) -> None:
        """Read what is missing of the families of simulations: (namespace, family, owner) of each.

        Nothing where nothing is missing. Raises what the store raises; then it is read next time.
        """
        for each in asked:
            self.unread(*each)
        while self._unread:
            async with self._lock:
                key = next(iter(self._unread))
                if self._learner is not None:
                    await self._read(self._learner, key)
                del self._unread[key]

    async def _read(self, learner: Learner, key: Key) -> None:
        """Learn a family apart, from its last runs that are learned from already."""
        from labfleet.decisions.prediction.learner import Learner
        from labfleet.decisions.prediction.window import KEPT

        kind, namespace, family, owner = key
        found: list[KeptRun] = []
        before = learner.version + 1
        for _ in range(PAGES):
            page = await self._history.newest_runs(
                kind=kind, family=family, namespace=namespace, owner=owner or None, before=before,
                limit=KEPT,
            )  # fmt: skip
            found += page
            teach = sum(_teaches(each, learner, owner) for each in found)
            if len(page) < KEPT or teach >= KEPT:
                break
            before = page[-1].place
        apart = Learner(trust_reports=learner.trusts_reports)
        await _learn(apart, found[::-1])
        learner.adopt(key, apart)


async def _learn(learner: Learner, runs: Iterable[KeptRun]) -> None:
    for number, each in enumerate(runs):
        learner.learn(each)
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)


def _teaches(kept: KeptRun, learner: Learner, owner: str) -> bool:
    """Tell whether a run teaches those of one owner alone ("": of all)."""
    reported = kept.run.source is Source.REPORTED and not learner.trusts_reports
    return reported == bool(owner)
