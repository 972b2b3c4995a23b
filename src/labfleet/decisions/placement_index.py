"""The choice of `placement.place` without looking at every worker again.

A placement changes one worker. For each shape of request and class of window a row keeps what was
decided of each worker, and the best of those that fit in order; when it is asked again it judges
only the workers that changed since. The answer, decision record included, is always that of the
scan.

When a row is exact: a shape is what is asked for without its times. The windows of a row begin now,
or all at one later instant, and end ever later. A worker on which nothing begins later and that is
not taken away is judged alike for each of them; the others are judged again once an end has passed
the next instant at which that may change. A window that fits no row gets a row of its own, which
costs one scan. The scan itself is used when fewer workers fit than a decision shows, since it also
names the nearest misses; its answer holds until a worker changes. It is used too where one of the
best is of a pool with strategy RANDOM, which draws anew for each request.

Pure: the caller puts candidates, books and asks, and may pause between the steps of a long answer.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import OrderedDict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

import msgspec

from labfleet.decisions import cml_versions, packed, placement, strategies
from labfleet.decisions.indexed_worker import FIRST, LAST, IndexedWorker, Order
from labfleet.decisions.ledger import OVERDUE
from labfleet.decisions.packed import TOPS
from labfleet.decisions.placement import DRAWN, Candidate, PlacementRequest
from labfleet.kernel.rng import Rng
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import CANDIDATES, Decision

ROWS = 64
"""Rows that are kept; the one asked longest ago makes place. Each costs 8 bytes a worker."""
STEP = 200
"""Workers judged between two pauses: about a millisecond."""
LOOKED_AT = 50
"""Workers that the scan looks at between two pauses."""
KINDS = 1_000
"""Kinds of workers that are told apart; with more the index begins again."""
KEPT = 64
"""Best workers that a row keeps in order; up to twice as many before the rest is cut off."""
LOG_LIMIT = 10_000
"""Changes that are kept for rows to read; with more, each row takes in what it has not read."""
_BEST: Order = ((-1, -math.inf, ""), -math.inf, "", placement.fitting(0.0, ""))
"""An order before that of every worker."""

_WORDS = {packed.top(name): word for name, word in placement.SHORT.items()}
CPU, PORTS = packed.top("cpu_milli"), packed.top("ports")
_SHORT_OF_CPU = _WORDS[CPU]  # the first dimension, so no other one is named before it

Steps = Generator[None, None, Decision]
Group = tuple[
    Amounts, str | None, tuple[str, ...], frozenset[str], bool, cml_versions.Versions | None,
    datetime | None, bool, bool,
]  # fmt: skip


class _Suits(dict[int, str]):
    """By kind of worker why none of the kind takes a request; found when first asked for."""

    def __init__(self, request: PlacementRequest, facts: list[Candidate]) -> None:
        self._request = request
        self._facts = facts

    def __missing__(self, kind: int) -> str:
        word = self[kind] = placement.unsuited(self._request, self._facts[kind]) or ""
        return word


@dataclass(slots=True, eq=False)
class _Row:
    """What was decided of each worker for one shape and class of window.

    request: One of the requests; its end is the latest.
    start: The instant at which its windows begin; None for now.
    seen: By number: the worker's order when it fits, the reason when not, None for no worker.
    suits: By kind of worker: the reason of `placement.unsuited`, empty for none.
    counts: How many do not fit, by reason.
    fitting: How many fit.
    best: Orders of the best that fit, sorted: all that are smaller than `beyond`, None for all.
    dirty: Numbers of the workers to be judged again, beside those in the index's log from `read` on.
    moving: Numbers of those whose verdict depends on the end; `until` is the last end for which
        all of these verdicts hold.
    unread: Whether no worker was judged yet.
    told: The decision of the scan, valid until the next verdict changes.
    """

    request: PlacementRequest
    start: datetime | None
    wanted: int
    needs: str
    seen: list[Order | str | None]
    suits: _Suits
    read: int = 0
    dirty: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    fitting: int = 0
    best: list[Order] = field(default_factory=list)
    beyond: Order | None = _BEST
    moving: set[int] = field(default_factory=set)
    until: datetime | None = None
    unread: bool = True
    told: Decision | None = None

    def move(self, old: Order | str | None, new: Order | str | None) -> None:
        """Count a worker with its new verdict and no longer with its old one."""
        best, beyond, counts = self.best, self.beyond, self.counts
        if isinstance(old, tuple):
            if beyond is None or old < beyond:
                del best[bisect.bisect_left(best, old)]
            if isinstance(new, tuple):
                if beyond is None or new < beyond:
                    bisect.insort(best, new)
                return
            self.fitting -= 1
        elif old is not None:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        if isinstance(new, tuple):
            self.fitting += 1
            if beyond is None or new < beyond:
                bisect.insort(best, new)
        elif new is not None:
            counts[new] = counts.get(new, 0) + 1

    def trim(self) -> None:
        """Keep the best only."""
        if len(self.best) > 2 * KEPT:
            self.beyond = self.best[KEPT]
            del self.best[KEPT:]


class PlacementIndex:
    """Workers, and who of them takes a request; `rng` is what RANDOM draws from."""

    def __init__(self, now: datetime, *, rows: int = ROWS, rng: Rng | None = None) -> None:
        self._limit = rows
        self._rng = rng
        self._drawn: set[str] = set()
        self._workers: list[IndexedWorker] = []
        self._gone = IndexedWorker(Candidate(name=""), -1, now)
        self._gone.last = LAST
        self._kinds: dict[tuple[object, ...], int] = {}
        self._facts: list[Candidate] = []
        self._free: list[int] = []
        self._by_name: dict[str, IndexedWorker] = {}
        self._rows: OrderedDict[_Row, Group] = OrderedDict()
        self._groups: dict[Group, list[_Row]] = {}
        self._turns: list[tuple[datetime, int]] = []
        # Numbers of the workers that changed, in order; each row knows how far it has read.
        self._log: list[int] = []
        self._now = now

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[str]:
        """Return the names of all workers."""
        return list(self._by_name)

    def get(self, name: str) -> Candidate | None:
        """Return a worker as it stands, or None."""
        found = self._by_name.get(name)
        return None if found is None else found.candidate

    def put(self, candidate: Candidate) -> None:
        """Take a worker in, or in place of the one of its name."""
        known = self._by_name.get(candidate.name)
        if known is not None:
            number = known.number
        elif self._free:
            number = self._free.pop()
        else:
            number = len(self._workers)
            self._workers.append(self._gone)
            for row in self._rows:
                row.seen.append(None)
        made = IndexedWorker(candidate, number, self._now)
        self._workers[number] = self._by_name[candidate.name] = made
        self._drawn.discard(candidate.name)
        if candidate.strategy in DRAWN:
            self._drawn.add(candidate.name)
        made.kind = self._kind(candidate)
        self._mark(made)

    def _kind(self, candidate: Candidate) -> int:
        """Return the number of all workers that `placement.unsuited` judges alike."""
        real, licensed = candidate.real, candidate.licensed
        facts = (
            candidate.closed, candidate.track, candidate.has, candidate.version, licensed,
            candidate.product if licensed else None, real is None,
            None if real is None or licensed else real.nodes,
        )  # fmt: skip
        kind = self._kinds.get(facts)
        if kind is None:
            if len(self._facts) >= KINDS:
                self._begin_again()
            kind = self._kinds[facts] = len(self._facts)
            self._facts.append(candidate)
        return kind

    def drop(self, name: str) -> None:
        """Take a worker out, if it is there."""
        gone = self._by_name.pop(name, None)
        if gone is not None:
            self._drawn.discard(name)
            self._workers[gone.number] = self._gone
            self._free.append(gone.number)
            self._log.append(gone.number)

    def book(self, name: str, reservation: Reservation) -> None:
        """Hold a reservation, for one more session, on a worker that is there."""
        worker = self._by_name[name]
        worker.book(reservation, self._now)
        self._mark(worker)

    def release(self, name: str, reservation: Reservation) -> None:
        """Give back a reservation that a worker holds, with its session."""
        worker = self._by_name[name]
        worker.release(reservation, self._now)
        self._mark(worker)

    def place(self, request: PlacementRequest, *, now: datetime, revision: int = 0) -> Decision:
        """Return the decision of `placement.place` on all workers."""
        steps = self.steps(request, now=now, revision=revision)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                found: Decision = done.value
                return found

    def steps(self, request: PlacementRequest, *, now: datetime, revision: int = 0) -> Steps:
        """Return the decision after some steps; the caller may pause, but change nothing meanwhile.

        Without much to do there is no pause. An answer that was not waited for to its end leaves
        the index usable.
        """
        if now != self._now or (self._turns and self._turns[0][0] <= now):
            yield from self._pass(now)
        if request.end is not None and request.end <= max(request.start, now):
            return (yield from self._scan(request, now, revision))
        row = self._row(request, now)
        if row.read < len(self._log) or row.dirty or row.unread:
            yield from self._catch_up(row, now)
        if len(row.best) < CANDIDATES and len(row.best) < row.fitting:
            yield from self._refill(row)
        if row.fitting >= CANDIDATES and not (self._drawn and self._draws(row.best)):
            return self._chosen(row, request, now, revision)
        if row.told is None or (self._drawn and self._draws(row.best)):
            row.told = yield from self._scan(request, now, revision)
        return msgspec.structs.replace(
            row.told, at=now, revision=revision, requested=request.amounts
        )

    def _draws(self, best: list[Order]) -> bool:
        """Tell whether one of the best is chosen by a draw, so that the order of now is none."""
        return any(each[2] in self._drawn for each in best[:CANDIDATES])

    def _chosen(
        self, row: _Row, request: PlacementRequest, now: datetime, revision: int
    ) -> Decision:
        best = row.best[:CANDIDATES]
        rank, _, chosen, _ = best[0]
        worker = self._by_name[chosen]
        strategy = worker.facts.strategy
        return Decision(
            outcome="assigned",
            reason="Fits",
            message=placement.placed_words(row.needs, chosen),
            at=now,
            revision=revision,
            requested=request.amounts,
            chosen=chosen,
            candidates=tuple([each[3] for each in best]),
            evaluated=len(self._by_name),
            rejected_by_reason={name: row.counts[name] for name in sorted(row.counts)},
            strategy=strategy,
            parts=strategies.parts_of(worker, strategy, rank, now),
        )

    def _scan(self, request: PlacementRequest, now: datetime, revision: int) -> Steps:
        scan = placement.Scan(request, now, self._rng)
        for looked, worker in enumerate(list(self._by_name.values()), 1):
            scan.look((worker.candidate,))
            if looked % LOOKED_AT == 0:
                yield
        return scan.decision(revision)

    def _pass(self, now: datetime) -> Iterator[None]:
        """Let time pass: what is free in a window may change by that alone."""
        before, self._now = self._now, now
        if now < before:
            self._begin_again()
        turns = self._turns
        refreshed = 0
        while turns and turns[0][0] <= now:
            turn, number = heapq.heappop(turns)
            worker = self._workers[number]
            if worker.turn == turn:
                worker.refresh(now)
                self._mark(worker)
                refreshed += 1
                if refreshed % STEP == 0:
                    yield

    def _begin_again(self) -> None:
        """Judge everything anew, without a pause: set back clocks and so many kinds are rare."""
        for kept in (
            self._rows, self._groups, self._turns, self._kinds, self._facts, self._log,
        ):  # fmt: skip
            kept.clear()
        for worker in self._by_name.values():
            worker.refresh(self._now)
            worker.kind = self._kind(worker.facts)
            self._mark(worker)

    def _mark(self, worker: IndexedWorker) -> None:
        """Have every row judge a worker again, and the index come back to it in time."""
        number, log = worker.number, self._log
        log.append(number)
        if len(log) > LOG_LIMIT:
            for row in self._rows:
                row.dirty.update(log[row.read :])
                row.read = 0
            log.clear()
        if worker.turn is not None:
            heapq.heappush(self._turns, (worker.turn, number))
            if len(self._turns) > 4 * len(self._workers) + 64:
                live = self._by_name.values()
                self._turns[:] = [(each.turn, each.number) for each in live if each.turn]
                heapq.heapify(self._turns)

    def _row(self, request: PlacementRequest, now: datetime) -> _Row:
        """Return the row of a request, with the request's end; it may have workers to judge."""
        start, end = request.start, request.end
        begin = start if start > now else None
        group: Group = (
            request.amounts, request.track, request.licence_affinity, request.needs,
            request.licensed, request.versions, begin, begin is not None and begin < now + OVERDUE, end is None,
        )  # fmt: skip
        rows = self._groups.setdefault(group, [])
        row = rows[0] if len(rows) == 1 and rows[0].request.end == end else _nearest(rows, end)
        if row is None:
            row = self._new_row(request, begin)
            rows.append(row)
            self._rows[row] = group
            if len(self._rows) > self._limit:
                self._forget()
        else:
            self._rows.move_to_end(row)
            if row.request.end != end:
                row.request = request
                if row.until is not None and end is not None and end > row.until:
                    row.dirty |= row.moving
                    row.moving, row.until = set(), None
        return row

    def _forget(self) -> None:
        """Drop the row that was asked longest ago."""
        old, group = self._rows.popitem(last=False)
        rows = self._groups[group]
        rows.remove(old)
        if not rows:
            del self._groups[group]

    def _new_row(self, request: PlacementRequest, begin: datetime | None) -> _Row:
        size = len(self._workers)
        return _Row(
            request=request,
            start=begin,
            wanted=packed.pack(request.amounts),
            needs=placement.needs_words(request),
            seen=[None] * size,
            suits=_Suits(request, self._facts),
            read=len(self._log),
        )

    def _catch_up(self, row: _Row, now: datetime) -> Iterator[None]:
        """Judge the workers that changed."""
        row.told = None
        row.dirty.update(self._log[row.read :])
        row.read = len(self._log)
        todo = range(len(row.seen)) if row.unread else list(row.dirty)
        unseen, row.unread, row.dirty = len(todo), False, set()
        seen, suits, workers, wanted = row.seen, row.suits, self._workers, row.wanted
        # No worker's `last` is before this, so that each is judged by the window if it is later.
        end = FIRST if row.start is not None else row.request.end or LAST
        new: Order | str | None
        try:
            while unseen > 0:
                for number in todo[max(0, unseen - STEP) : unseen]:
                    worker = workers[number]
                    if worker.last >= end:
                        new = self._by_window(row, worker, now)
                    elif word := suits[worker.kind]:
                        new = word
                    elif (left := worker.whole - wanted) & TOPS == TOPS:
                        new = worker.order
                    elif not left & CPU:
                        new = _SHORT_OF_CPU
                    else:
                        new = self._short(row, worker, ~left & TOPS, now)
                    old = seen[number]
                    if new is not old:
                        seen[number] = new
                        row.move(old, new)
                unseen -= STEP
                row.trim()
                if unseen > 0:
                    yield
        finally:
            row.dirty.update(todo[: max(0, unseen)])

    def _by_window(self, row: _Row, worker: IndexedWorker, now: datetime) -> Order | str | None:
        """Return the worker's order if it fits the row's window, else the first reason why not."""
        if worker is self._gone:
            return None
        end, later = row.request.end, worker.later
        word = row.suits[worker.kind]
        if worker.closes_at is not None and worker.facts.closed is None:
            _note_end(row, worker)
            if end is None or end > worker.closes_at:
                return "ScheduledEvent"
        if word:
            return word
        if end is not None and later and later[-1] >= end:
            _note_end(row, worker)
        left = (worker.room(row.start, end, now) | TOPS) - row.wanted
        return worker.order if left & TOPS == TOPS else self._short(row, worker, ~left & TOPS, now)

    @staticmethod
    def _short(row: _Row, worker: IndexedWorker, short: int, now: datetime) -> str:
        """Return the first word for what a worker is short in."""
        lowest = short & -short
        if lowest == PORTS and short != lowest:
            return placement.judge(row.request, worker.candidate, now)[0][0]
        return _WORDS[lowest]

    def _refill(self, row: _Row) -> Iterator[None]:
        """Find the best that fit again, once too many of those that were kept have gone."""
        kept = KEPT
        best: list[Order] = []
        for begin in range(0, len(row.seen), 5 * STEP):
            limit = best[kept] if len(best) > kept else None
            best += [
                each
                for each in row.seen[begin : begin + 5 * STEP]
                if isinstance(each, tuple) and (limit is None or each < limit)
            ]
            best.sort()
            del best[kept + 1 :]
            if begin + 5 * STEP < len(row.seen):
                yield
        row.beyond = best.pop() if len(best) > kept else None
        row.best = best


def _note_end(row: _Row, worker: IndexedWorker) -> None:
    """Note up to which end the verdict on a worker holds, where that has a bound."""
    row.moving.add(worker.number)
    until = worker.changes_after(row.request.end)
    if until is not None and (row.until is None or until < row.until):
        row.until = until


def _nearest(rows: list[_Row], end: datetime | None) -> _Row | None:
    """Return the row whose windows ended last before this end, or at it."""
    if end is None:
        return rows[0] if rows else None
    before = [(last, each) for each in rows if (last := each.request.end) and last <= end]
    return max(before, key=itemgetter(0))[1] if before else None
