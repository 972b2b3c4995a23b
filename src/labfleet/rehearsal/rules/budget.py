"""The rule on requests to EC2: its token buckets never run empty, and reads stay rare.

facts/aws.md#request-buckets: two paged lists a region in 30 s are 0.1 to 0.2 requests a second,
whatever the fleet's size. Empty buckets alone would not reveal a product that asks for each
worker separately: in a small fleet it would stay inside them for a long time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

HOUR = 3600.0
LOOKS_AN_HOUR = 720
"""Read requests of one kind an hour: 0.2 a second, the upper of the two figures."""
LOOKS = ("Describe", "Get")


@dataclass(slots=True)
class Budget:
    """Judges the requests of each hour; `broken` gets the rule's name and what was seen."""

    broken: Callable[[str, str], None]
    _since: float = 0.0
    _before: dict[str, int] = field(default_factory=dict)

    def look(self, now: float, calls: Mapping[str, int], overdrawn: dict[str, int]) -> None:
        """Take the counts of requests since the beginning; `overdrawn` is emptied."""
        for action, count in overdrawn.items():
            self.broken("budget", f"{action}: the request bucket was empty {count} times")
        overdrawn.clear()
        if now - self._since < HOUR:
            return
        for action, count in calls.items():
            sent = count - self._before.get(action, 0)
            if action.startswith(LOOKS) and sent > LOOKS_AN_HOUR:
                told = f"{action}: {sent} requests in an hour, {LOOKS_AN_HOUR} are meant"
                self.broken("budget", told)
        self._since, self._before = now, dict(calls)
