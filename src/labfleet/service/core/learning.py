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


class Learning:
    """The learner and the place in the history up to which it has learned."""

    def __init__(self, history: stores.HistoryStore) -> None:
        self._history = history
        self._learner: Learner | None = None
        self._lock = asyncio.Lock()

    @property
    def known(self) -> Learner | None:
        """Return the learner as it is now; None before the first question."""
        return self._learner

    async def current(self, *, trust_reports: bool = False) -> Learner:
        """Return the learner once it has learned from every run that is over.

        `trust_reports`: whether what callers reported teaches the runs of others too; a change of
        that learns everything anew. Other tasks run between two pages of the history.
        """
        async with self._lock:
            found = self._learner
            if found is None or found.trusts_reports != trust_reports:
                from labfleet.decisions.prediction.learner import Learner

                found = Learner(trust_reports=trust_reports)
            while True:
                runs = await self._history.history(found.version)
                for each in runs:
                    found.learn(each)
                if len(runs) < stores.PAGE_LIMIT:
                    break
                await asyncio.sleep(0)
            self._learner = found
            return found
