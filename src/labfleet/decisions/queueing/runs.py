"""The runs of a cluster in the order in which they will have ended at the latest."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.queueing.durations import OVERDUE
from labfleet.decisions.queueing.requests import Request

_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Running:
    """A request whose run holds something: until when at the latest, and where it stood."""

    request: Request
    need: tuple[int, ...]
    start: datetime
    end: datetime
    place: tuple[float, str]


class Runs:
    """All runs, and those of each queue and cohort, by their latest end."""

    def __init__(self) -> None:
        self.of: dict[str, Running] = {}
        self._ends: dict[str, list[tuple[datetime, str]]] = {"": []}
        self._places: dict[str, list[tuple[tuple[float, str], str]]] = {}

    def add(self, run: Running, group: str) -> None:
        """Count a run, in its queue and in its cohort `group`."""
        self.of[run.request.uid] = run
        row = (run.end, run.request.uid)
        for name in ("", f"in {run.request.queue}", group):
            insort(self._ends.setdefault(name, []), row)
        insort(self._places.setdefault(run.request.queue, []), (run.place, run.request.uid))

    def remove(self, uid: str, group: str) -> Running | None:
        """Count a run no longer, and return it; None when it is not counted."""
        run = self.of.pop(uid, None)
        if run is None:
            return None
        row = (run.end, uid)
        for name in ("", f"in {run.request.queue}", group):
            rows = self._ends[name]
            del rows[bisect_left(rows, row)]
        places = self._places[run.request.queue]
        del places[bisect_left(places, (run.place, uid))]
        return run

    def ends(self, name: str, now: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield (end, uid) in order: of all runs (""), of a queue ("in QUEUE") or of a cohort.

        A run past its bound is taken to end OVERDUE from now.
        """
        rows = self._ends.get(name, [])
        late = bisect_right(rows, (now, _LAST))
        if not late:
            return iter(rows)
        overdue = sorted((now + OVERDUE, uid) for _, uid in rows[:late])
        return heapq.merge(overdue, rows[late:])

    def after(self, queue: str, place: tuple[float, str]) -> Iterator[Running]:
        """Yield the runs of a queue that stood behind this place: they were started past it."""
        rows = self._places.get(queue, [])
        for each in range(len(rows) - 1, -1, -1):
            if rows[each][0] <= place:
                return
            yield self.of[rows[each][1]]
