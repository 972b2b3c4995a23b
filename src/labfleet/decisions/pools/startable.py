"""How many workers a pool will have for a slot: what it will not start cannot be promised.

Pure, and the one function for that: `claims` asks it for every place that it gives, and the change of
a pool's spec is judged by it. A further bound, such as one of money, is one more `min` in `workers`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.decisions.pools import policy_kinds, windows
from labfleet.decisions.pools.windows import Zones
from labfleet.resources.pool import Scaling


@dataclass(frozen=True, slots=True, kw_only=True)
class Startable:
    """What bounds the workers of a pool over time.

    `here` are those that are there and not on their way out, where nothing adds or removes any, or a
    budget bounds them; `paid` is how many its budget pays for, None without one: what is there stays.
    `early` is how long before a slot its workers are made.
    """

    scaling: Scaling
    here: int = 0
    paid: int | None = None
    early: timedelta = timedelta(0)
    zones: Zones = field(default_factory=dict)
    _known: dict[datetime, int] = field(default_factory=dict, compare=False, repr=False)

    def workers(self, start: datetime) -> int:
        """Return how many workers there can be for a slot that starts then."""
        known = self._known.get(start)  # the seats of a class all ask for one start
        if known is None:
            known = min(self.scaling.max_workers, self._by_policy(start), self._by_budget())
            self._known[start] = known
        return known

    @property
    def most(self) -> int:
        """Return how many workers there can be at any time at all."""
        scaling, least = self.scaling, self.scaling.min_workers
        if policy_kinds.resting(scaling):
            least = max(least, self.here)
        elif policy_kinds.demand(scaling):
            least = scaling.max_workers
        elif policy_kinds.timed(scaling):
            least = max(least, *(each.workers for each in scaling.timetable), 0)
        return min(scaling.max_workers, least, self._by_budget())

    def _by_budget(self) -> int:
        return self.scaling.max_workers if self.paid is None else max(self.paid, self.here)

    def _by_policy(self, start: datetime) -> int:
        scaling, least = self.scaling, self.scaling.min_workers
        if policy_kinds.resting(scaling):
            return max(least, self.here)
        if scaling.hours and not windows.is_open(scaling.hours, self.zones, start - self.early):
            return least
        if policy_kinds.demand(scaling):
            return scaling.max_workers
        if policy_kinds.timed(scaling):
            found = windows.workers(scaling.timetable, self.zones, start)
            return max(least, found or 0)
        return least
