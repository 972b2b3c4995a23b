"""How many requests EC2 may be sent: its buckets never empty, and looks at a human's pace.

aws.md 6.3: two paged lists a region in 30 s are 0.1 to 0.2 requests a second, whatever the
fleet's size. A product that asked for each worker by itself would stay inside the buckets of a
small fleet for a long time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

HOUR = 3600.0
LOOKS_AN_HOUR = 720
"""Requests of one kind that only look: 0.2 a second, the upper of aws.md's two figures."""
LOOKS = ("Describe", "Get")


@dataclass(slots=True)
class Budget:
    """Judges the requests of each hour; `broken` takes the rule's word and what was seen."""

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
