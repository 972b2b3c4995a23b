"""What this process has learned from the history of past runs, brought up to date when asked.

One learner for all that predict or show predictions. It is made at the first question, since it
brings numpy, which a server that judges no runs never needs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from labfleet.interfaces import store as stores

if TYPE_CHECKING:
    from labfleet.decisions.prediction.learner import Learner


AT_ONCE = 25
"""Runs that are learned before other tasks run: some ten milliseconds."""


class Learning:
    """The learner and the place in the history up to which it has learned."""

    def __init__(self, history: stores.HistoryStore) -> None:
        self._history = history
        self._learner: Learner | None = None
        self._lock = asyncio.Lock()
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

                found = Learner(trust_reports=trust_reports)
            while True:
                runs = await self._history.history(found.version)
                for number, each in enumerate(runs):
                    found.learn(each)
                    if number % AT_ONCE == AT_ONCE - 1:
                        await asyncio.sleep(0)
                if len(runs) < stores.PAGE_LIMIT:
                    break
            self._learner = found
            return found
