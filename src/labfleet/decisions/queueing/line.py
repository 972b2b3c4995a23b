"""Line: all that waits for one cluster and runs on it, and which of it starts now.

Resident, not thread-safe: fed with what begins and ends to wait and to run. A decision costs by
the queues and shapes that it looks at, not by how many wait or have ended. It goes by turns: next
is who stays within its queue's quota, then the queue that borrows least by its weight, then who
came first by priority and waiting time.
What a queue's runs hold that were started past a request (backfill) does not cost that request its
turn; so nobody starves: `within` says after how long a request has started.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import add

from labfleet.decisions.queueing import holding
from labfleet.decisions.queueing.holding import Hold, Kept, Standing
from labfleet.decisions.queueing.quotas import Level, Quotas
from labfleet.decisions.queueing.requests import NONE, Request, Terms, head_start, place
from labfleet.decisions.queueing.room import Room
from labfleet.decisions.queueing.runs import Running, Runs
from labfleet.decisions.queueing.waiting import Place, Waiting, Walk
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.queue import QueueOrder

DEPTH = 64
"""How many shapes of one queue that cannot start a decision looks at."""
PATIENCE = timedelta(hours=1)
"""How long a request that must borrow lets those go first that are within their quotas."""
Turn = tuple[bool, float, float, str]
"""Whether it borrows, its queue's share, its place among all queues, uid: the least goes first."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a request that was looked at does not start, and when it does at the latest, if known."""

    level: Level
    start: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one decision says.

    started: Which requests may start now, in their order.
    blocked: Of each shape that was looked at the first request that may not, by uid.
    looked: How many requests were looked at: the work.
    """

    started: tuple[Request, ...] = ()
    blocked: dict[str, Blocked]
    looked: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """What a decision asks of a waiting request, worked out once.

    request: The request.
    need: Its amounts, in the order of DIMENSIONS.
    group: Key of its cohort.
    place: Where it stands in its queue.
    turn: Where it stands among all queues.
    """

    request: Request
    need: tuple[int, ...]
    group: str
    place: Place
    turn: Place


class Line:
    """The resident state of one cluster; `capacity` is what it may be filled to."""

    def __init__(self, queues: Iterable[Terms], capacity: Amounts) -> None:
        self.quotas = Quotas(queues, vector(capacity))
        self.runs = Runs()
        self.requests: dict[str, Request] = {}
        self.queues: dict[str, Waiting] = {}
        self._rows: dict[str, _Row] = {}

    def wait(self, request: Request) -> None:
        """Let a request wait; one that waits already stays as it is."""
        if request.uid not in self.requests:
            self.requests[request.uid] = request
            row = self._rows[request.uid] = self.row(request)
            self.queues.setdefault(request.queue, Waiting()).add(row.place, request.shape)

    def withdraw(self, uid: str) -> None:
        """Let a request wait no longer; one that does not wait is ignored."""
        request = self.requests.pop(uid, None)
        if request is not None:
            queue = self.queues[request.queue]
            queue.remove(self._rows.pop(uid).place, request.shape)
            if not queue.all:
                del self.queues[request.queue]

    def start(self, request: Request, start: datetime, end: datetime | None = None) -> None:
        """Count a run that holds something until `end` at the latest (default: its bound)."""
        self.withdraw(request.uid)
        self.end(request.uid)
        need = vector(request.amounts)
        last = start + request.lasts if end is None else end
        run = Running(request, need, start, last, self.place(request))
        self.quotas.add(request.queue, need)
        self.runs.add(run, self.quotas.group(request.queue))

    def end(self, uid: str) -> None:
        """Count a run no longer; one that is not counted is ignored."""
        run = self.runs.of.get(uid)
        if run is not None:
            self.runs.remove(uid, self.quotas.group(run.request.queue))
            self.quotas.add(run.request.queue, run.need, -1)

    def place(self, request: Request) -> tuple[float, str]:
        """Return where a request stands in its queue."""
        terms = self.quotas.terms.get(request.queue)
        return place(request, QueueOrder.FIFO if terms is None else terms.order)

    def row(self, request: Request) -> _Row:
        """Return what is worked out of a request, kept while it waits."""
        kept = self._rows.get(request.uid)
        if kept is not None:
            return kept
        group, here = self.quotas.group(request.queue), self.place(request)
        turn = place(request, QueueOrder.FIFO)
        return _Row(request, vector(request.amounts), group, here, turn)

    def position(self, uid: str) -> int | None:
        """Return a request's position in its queue, from 1; None when it does not wait."""
        request = self.requests.get(uid)
        if request is None:
            return None
        return self.queues[request.queue].rank(self.place(request)) + 1

    def first(self, queue: str, limit: int) -> list[Request]:
        """Return the first requests of a queue, in their order."""
        waiting = self.queues.get(queue)
        return [] if waiting is None else [self.requests[uid] for _, uid in waiting.all[:limit]]

    def changed(self, queues: Iterable[Terms], capacity: Amounts) -> Line:
        """Return the same requests and runs under other terms or another capacity."""
        made = Line(queues, capacity)
        for run in self.runs.of.values():
            made.start(run.request, run.start, run.end)
        for request in self.requests.values():
            made.wait(request)
        return made

    def decide(self, room: Room, now: datetime, holds: Sequence[Hold] = ()) -> Round:
        """Return which requests start now; nothing is changed, neither here nor in `room`.

        `holds` are the starts that were told as certain, also of requests that do not wait here.
        The caller records what was decided, then calls `start` of each.
        """
        trial = _Trial(self, room.copy(), now)
        try:
            trial.certain(holds)
            trial.turns()
        finally:
            trial.undo()
        return Round(started=tuple(trial.started), blocked=trial.blocked, looked=trial.looked)


class _Trial:
    """One decision: starts are tried on the line itself and taken back at the end."""

    def __init__(self, line: Line, room: Room, now: datetime) -> None:
        self._line = line
        self._standing = Standing(line.quotas, line.runs, room, now)
        self._kept: list[Kept] = []
        self._holds: list[tuple[Hold, Kept]] = []
        self._led: set[str] = set()
        self._apart: frozenset[str] = frozenset()
        self.started: list[Request] = []
        self.blocked: dict[str, Blocked] = {}
        self.looked = 0

    def certain(self, holds: Sequence[Hold]) -> None:
        """Start what is due, and keep free what is due later."""
        now, order = (
            self._standing.now,
            sorted(holds, key=lambda each: (each.start, each.request.uid)),
        )
        order = [each for each in order if each.request.uid not in self._line.runs.of]
        self._apart = frozenset(each.request.uid for each in order)
        late = []
        for hold in [each for each in order if each.start <= now]:
            self.looked += 1
            row = self._line.row(hold.request)
            if self._level(row) is None:
                self._start(row)
            else:
                late.append(hold)
        ahead = [each for each in order if each.start > now]
        for number, hold in enumerate(ahead):
            kept = holding.for_hold(hold, ahead[:number], self._standing)
            self._holds.append((hold, kept))
            self._kept.append(kept)
        for hold in late:
            self._keep(self._line.row(hold.request), Level.CLUSTER)

    def turns(self) -> None:
        """Try requests turn by turn until every queue is done with."""
        walks = {name: Walk(queue) for name, queue in self._line.queues.items()}
        turns: list[tuple[Turn, str]] = []
        for name in walks:
            self._push(turns, walks, name)
        refused = dict.fromkeys(walks, 0)
        while turns:
            (*_, uid), name = heapq.heappop(turns)
            row, walk = self._line.row(self._line.requests[uid]), walks[name]
            if uid in self._apart or self._try(row):
                walk.take()
            else:
                walk.give_up()
                refused[name] += 1
            if refused[name] < DEPTH:
                self._push(turns, walks, name)

    def undo(self) -> None:
        """Leave the line as it was."""
        for request in self.started:
            run = self._line.runs.of[request.uid]
            self._line.runs.remove(request.uid, self._line.quotas.group(request.queue))
            self._line.quotas.add(request.queue, run.need, -1)

    def _push(self, turns: list[tuple[Turn, str]], walks: dict[str, Walk], name: str) -> None:
        first = walks[name].first()
        if first is not None:
            row = self._line.row(self._line.requests[first[1]])
            heapq.heappush(turns, (self._turn(row), name))

    def _turn(self, row: _Row) -> Turn:
        """Return when it is a request's turn: the least is tried first.

        Runs that were started past it do not count; and who has waited for long may borrow before
        others have what is theirs, else what always borrows would never start.
        """
        apart: tuple[int, ...] = NONE
        quotas, queue = self._line.quotas, row.request.queue
        for run in self._line.runs.after(queue, row.place):
            apart = tuple(map(add, apart, run.need))
        patient = self._standing.now < row.request.since + PATIENCE
        borrows = patient and quotas.borrows(queue, row.need, apart)
        return borrows, quotas.share(queue, apart), *row.turn

    def _try(self, row: _Row) -> bool:
        self.looked += 1
        request, level = row.request, self._level(row)
        if level is None:
            end = self._standing.now + request.lasts
            kept = self._kept
            stop = next((each for each in kept if not each.allows(request, row.group, end)), None)
            if stop is None:
                self._start(row)
                return True
            # What only a certain start keeps waiting is at the head itself.
            level = Level.CLUSTER if stop.certain else Level.HELD_FREE
        given = self._keep(row, level)
        self.blocked[request.uid] = Blocked(level, None if given is None else given.start)
        return False

    def _level(self, row: _Row) -> Level | None:
        level = self._line.quotas.short(row.request.queue, row.need)
        if level is None and not self._standing.room.fits(row.request):
            return Level.CLUSTER
        return level

    def _keep(self, row: _Row, level: Level) -> Kept | None:
        """Keep capacity free for the first that is blocked, and for the first of each limit."""
        if level in {Level.UNKNOWN_QUEUE, Level.HELD_FREE}:
            return None
        queue = row.request.queue
        name = {Level.QUEUE: f"in {queue}", Level.COHORT: row.group}.get(level, "cluster")
        # The very first is kept free for at every level: else its start could be delayed at
        # one while it is short at another.
        first = "first" not in self._led
        if (name in self._led and not first) or self._line.quotas.never(queue, row.need):
            return None
        reach = Level.CLUSTER if first else level
        kept = holding.for_head(row.request, reach, self._holds, self._standing)
        if kept is not None:
            self._led |= {name, "first"}
            self._kept.append(kept)
        return kept

    def _start(self, row: _Row) -> None:
        line, now, request = self._line, self._standing.now, row.request
        end = now + request.lasts
        line.quotas.add(request.queue, row.need)
        line.runs.add(Running(request, row.need, now, end, row.place), row.group)
        self._standing.room.add(request)
        for each in self._kept:
            each.count(request, row.group, end)
        self.started.append(request)


def within(
    request: Request, order: QueueOrder, *, before: int, longest: timedelta, highest: int
) -> timedelta:
    """Return after how long a request that fits the empty cluster has started at the latest.

    `before` is how many requests stand before it now or come before it later, `longest` the
    longest bound of any run, `highest` the highest priority that still comes. Runs keep their
    bounds, and no start is told as certain.
    """
    return PATIENCE + head_start(request, order, highest=highest) + (before + 2) * longest
