"""When will a waiting request start? Answered when asked, by playing the line forward.

The same decision is played on as many drawn futures as the coverage needs; the range is from the
earliest to the latest start. With 19 futures a start that is drawn like them lies in it in 90 of
100 cases, whatever the distribution (an order statistic of exchangeable draws). What comes later
is not drawn: a request that comes and goes before the others makes them late, which the coverage
that is achieved shows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from labfleet.decisions.queueing.durations import Lasting, draw
from labfleet.decisions.queueing.holding import Hold, Standing
from labfleet.decisions.queueing.line import Line
from labfleet.decisions.queueing.requests import LONGEST, Request
from labfleet.decisions.queueing.room import Room
from labfleet.decisions.queueing.runs import Running
from labfleet.resources.amounts import of_vector

AHEAD = 200
"""How many waiting requests a future holds; those behind are told no range."""
STEPS = 2000
"""How many instants a future is played on."""
COVERAGE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRange:
    """When a request starts.

    earliest: Not before this; None when it starts in no future.
    latest: Not after this; None when it does not start in each future.
    coverage: Share of such ranges that hold the start; None when a duration is only declared.
    futures: How many were played.
    """

    earliest: datetime | None
    latest: datetime | None
    coverage: float | None
    futures: int


def futures(coverage: float) -> int:
    """Return how many draws have a further one between their ends with this probability."""
    if not 0 < coverage <= 0.99:
        message = f"coverage {coverage}: above 0, at most 0.99"
        raise ValueError(message)
    return max(1, ceil(round(2 / (1 - coverage), 6)) - 1)


def start_ranges(
    line: Line,
    room: Room,
    now: datetime,
    holds: Sequence[Hold] = (),
    *,
    ahead: int = AHEAD,
    coverage: float = COVERAGE,
) -> dict[str, StartRange]:
    """Return the start ranges of the requests that wait nearest to their turn, by uid.

    The first of each queue, in equal parts, at most `ahead` in all.
    """
    asked = _asked(line, ahead)
    count = futures(coverage)
    standing = Standing(line.quotas, line.runs, room, now)
    played = [_play(standing, asked, holds, future) for future in range(count)]
    known = all(each.spread for each in _concerned(line, asked, holds))
    found = {}
    for request in asked:
        at = [future[request.uid] for future in played if request.uid in future]
        found[request.uid] = StartRange(
            earliest=min(at, default=None),
            latest=max(at) if len(at) == count else None,
            coverage=coverage if known else None,
            futures=count,
        )
    return found


def nearest(line: Line, ahead: int = AHEAD) -> Line:
    """Return a line apart with the same runs, and those alone that `start_ranges` answers for.

    Its ranges are those of the whole line, and it may be played while the whole line changes.
    """
    made = Line(line.quotas.terms.values(), of_vector(line.quotas.capacity))
    for run in line.runs.of.values():
        made.start(run.request, run.start, run.end)
    for request in _asked(line, ahead):
        made.wait(request)
    return made


def _asked(line: Line, ahead: int) -> list[Request]:
    each_queue = ceil(ahead / max(1, len(line.queues)))
    return [each for name in sorted(line.queues) for each in line.first(name, each_queue)][:ahead]


def drawn(request: Request, future: int, elapsed: float = 0.0) -> float:
    """Return the seconds that a run lasts in one future, given that it has lasted `elapsed`.

    Drawn from uid and future alone. A duration that is only declared is drawn evenly up to its
    bound.
    """
    last = LONGEST if request.seconds is None else request.seconds
    return draw(f"{request.uid} {future}", Lasting(most=last, spread=request.spread), elapsed)


def _concerned(line: Line, asked: list[Request], holds: Sequence[Hold]) -> Iterable[Request]:
    yield from (run.request for run in line.runs.of.values())
    yield from (each.request for each in holds)
    yield from asked


def _play(
    standing: Standing, asked: list[Request], holds: Sequence[Hold], future: int
) -> dict[str, datetime]:
    """Return when each request starts in one future; those that do not are left out."""
    quotas, now, room = standing.quotas, standing.now, standing.room.copy()
    trial = Line(quotas.terms.values(), of_vector(quotas.capacity))
    open_holds = {each.request.uid: each for each in holds}
    ends = []
    for run in standing.runs.of.values():
        trial.start(run.request, run.start, run.end)
        ends.append((_end(run, now, future), run.request.uid))
    heapq.heapify(ends)
    for request in asked:
        trial.wait(request)
    found: dict[str, datetime] = {}
    at = now
    for _ in range(STEPS):
        for each in trial.decide(room, at, tuple(open_holds.values())).started:
            trial.start(each, at)
            room.add(each)
            open_holds.pop(each.uid, None)
            found[each.uid] = at
            heapq.heappush(ends, (at + timedelta(seconds=drawn(each, future)), each.uid))
        due = [each.start for each in open_holds.values() if each.start > at]
        if not trial.requests or not (ends or due):
            break
        at = min([*due, *(end for end, _ in ends[:1])])
        while ends and ends[0][0] <= at:
            _, uid = heapq.heappop(ends)
            trial.end(uid)
            room.remove(uid)
    return found


def _end(run: Running, now: datetime, future: int) -> datetime:
    elapsed = max(0.0, (now - run.start).total_seconds())
    return run.start + timedelta(seconds=drawn(run.request, future, elapsed))
