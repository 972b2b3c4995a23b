"""When will a waiting session start? The scheduler's cycles, played forward on drawn futures.

As `starts` does for runs: nine futures for a coverage of 80 %, each with its own ends of sessions
and boots of workers, all drawn from names. A session that came after the look, a worker that fails
and a person who extends are not drawn; the coverage that is achieved shows what that costs. The
work grows with what waits and with what lives on the workers that are looked at, never with what
has ended.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from operator import sub

from labfleet.decisions import placement, strategies
from labfleet.decisions.queueing.durations import Lasting, draw
from labfleet.decisions.queueing.fleet import (
    NONE,
    Booked,
    Cause,
    Fleet,
    Foreseen,
    Growth,
    Host,
    Row,
    Stay,
    Waiter,
    plus,
    within,
)
from labfleet.decisions.queueing.starts import StartRange, futures
from labfleet.resources.amounts import vector

AHEAD = 50
"""Waiting sessions whose starts are played; those behind are told their place alone."""
HOSTS = 300
"""Workers that are looked at: those that serve or come the soonest; rather late than early beyond."""
STEPS = 1000
"""Instants on which a future is played."""
COVERAGE = 0.8


def foresee(fleet: Fleet, coverage: float = COVERAGE) -> dict[str, Foreseen]:
    """Return when the first AHEAD waiting sessions start, by uid."""
    asked = fleet.waiters[:AHEAD]
    looked = replace(fleet, waiters=asked, hosts=_nearest(fleet))
    suits = _Suits(looked)
    number = futures(coverage)
    played = [_Future(looked, suits, each).play() for each in range(number)]
    found = {}
    for waiter in asked:
        times = [future[waiter.uid] for future in played if waiter.uid in future]
        declared = suits.declared(waiter)
        at = [each[0] for each in times]
        start = StartRange(
            earliest=min(at, default=None),
            latest=max(at) if len(at) == number else None,
            coverage=None if declared or len(at) < number else coverage,
            futures=number,
        )
        causes = Counter(each[1] for each in times)
        found[waiter.uid] = Foreseen(
            start=start,
            cause=causes.most_common(1)[0][0] if causes else None,
            suited=any(suits.any_of(waiter)),
            declared=declared,
        )
    return found


def between(
    name: str, lasting: Lasting, elapsed: float, coverage: float = COVERAGE
) -> tuple[float, float]:
    """Return between how many seconds and how many something lasts that has lasted `elapsed`."""
    drawn = [draw(f"{name} {each}", lasting, elapsed) for each in range(futures(coverage))]
    return min(drawn), max(drawn)


def _nearest(fleet: Fleet) -> tuple[Host, ...]:
    """Return the workers that come or have an end the soonest, in their order."""
    if len(fleet.hosts) <= HOSTS:
        return fleet.hosts
    last = datetime.max.replace(tzinfo=fleet.now.tzinfo)

    def soonest(host: Host) -> tuple[bool, datetime, str]:
        ends = (each.ends or fleet.now for each in host.stays)
        return host.boot is None, min(ends, default=last), host.name

    kept = {each.name for each in heapq.nsmallest(HOSTS, fleet.hosts, key=soonest)}
    return tuple(each for each in fleet.hosts if each.name in kept)


class _Suits:
    """Which workers and pools can take which sessions at all, whatever is booked on them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._known: dict[tuple[object, str], bool] = {}
        self._declared: dict[object, frozenset[str]] = {}

    def host(self, waiter: Waiter, worker: placement.Candidate) -> bool:
        """Tell whether an empty worker could take a session."""
        key = waiter.kind, worker.name
        if key not in self._known:
            real = worker.real
            fits = real is not None and within(waiter.row, vector(real))
            self._known[key] = fits and placement.unsuited(waiter.request, worker) is None
        return self._known[key]

    def growth(self, waiter: Waiter, growth: Growth) -> bool:
        """Tell whether a worker that a pool adds could take a session."""
        ours = waiter.request.track in {None, growth.shape.track}
        return ours and growth.room > 0 and placement.fits_empty(waiter.request, growth.shape)

    def any_of(self, waiter: Waiter) -> Iterable[bool]:
        """Yield for each worker and pool whether it could take a session."""
        yield from (self.host(waiter, each.worker) for each in self._fleet.hosts)
        yield from (self.growth(waiter, each) for each in self._fleet.growths)

    def declared(self, waiter: Waiter) -> tuple[str, ...]:
        """Return what is only declared of all that the start of a session depends on."""
        if waiter.kind not in self._declared:
            self._declared[waiter.kind] = frozenset(self._unlearned(waiter))
        labs = () if waiter.lab.spread else ("labs",)
        return tuple(sorted(self._declared[waiter.kind].union(labs)))

    def _unlearned(self, waiter: Waiter) -> Iterable[str]:
        for host in self._fleet.hosts:
            if not self.host(waiter, host.worker):
                continue
            if host.boot is not None and not host.boot.spread:
                yield "boots"
            if any(each.ends is not None and not each.lasts.spread for each in host.stays):
                yield "sessions"
            if host.stays and not self._fleet.clearing.spread:
                yield "ends"
        for growth in self._fleet.growths:
            if self.growth(waiter, growth) and not growth.boot.spread:
                yield "boots"


@dataclass(slots=True)
class _Room:
    """A worker in one future."""

    worker: placement.Candidate
    most: Row
    up: bool
    cause: Cause
    held: Row
    rows: dict[str, tuple[Row, datetime | None]]
    booked: list[Booked] = field(default_factory=list)
    hoped: Row = NONE
    """What will be placed on it once it is up, so that no further worker is added for that."""

    def takes(self, waiter: Waiter, at: datetime) -> bool:
        """Tell whether it has room for a session as long as that may last."""
        ends = _end(waiter, at)
        limit = self.worker.closes_at
        if limit is not None and (ends is None or ends > limit):
            return False
        if not within(plus(self.held, waiter.row), self.most):
            return False
        later = [
            each for each in self.booked
            if each.uid != waiter.uid and each.end > at and (ends is None or each.start < ends)
        ]  # fmt: skip
        if not later:
            return True
        return all(
            within(plus(self._at(max(each.start, at), later), waiter.row), self.most)
            for each in later
        )

    def _at(self, instant: datetime, later: Sequence[Booked]) -> Row:
        """Return what is held at an instant ahead by slots that begin and by stays that go on."""
        rows = [each.row for each in later if each.start <= instant < each.end]
        rows += [row for row, until in self.rows.values() if until is None or until > instant]
        return tuple(map(sum, zip(*rows, strict=True)))

    def add(self, uid: str, row: Row, until: datetime | None) -> None:
        """Take in what a session holds, and until when at the latest."""
        self.rows[uid] = row, until
        self.held = plus(self.held, row)

    def remove(self, uid: str) -> None:
        """Give back what a session holds, if it does."""
        row, _ = self.rows.pop(uid, (None, None))
        if row is not None:
            self.held = tuple(map(sub, self.held, row))

    @property
    def fill(self) -> float:
        """Return the mean share of CPU and memory that is held."""
        real = self.worker.real
        return 0.0 if real is None else strategies.fill_of(self.held[0], self.held[1], real)


def _end(waiter: Waiter, at: datetime) -> datetime | None:
    asked = waiter.request
    return None if asked.end is None else max(at, asked.start) + (asked.end - asked.start)


class _Future:
    """One future: its events by time, what stands on each worker, and who still waits."""

    def __init__(self, fleet: Fleet, suits: _Suits, number: int) -> None:
        self._fleet = fleet
        self._suits = suits
        self._number = number
        self._order = count()
        self._events: list[tuple[datetime, int, str, str]] = []
        self._left = list(fleet.waiters)
        self._growths = {each.pool: each for each in fleet.growths}
        self._room = {each.pool: each.room for each in fleet.growths}
        self._after = {each.pool: each.after for each in fleet.growths}
        self._rooms = {each.name: self._begun(each) for each in fleet.hosts}
        self._asked: set[tuple[datetime, str]] = set()
        self.found: dict[str, tuple[datetime, Cause]] = {}

    def play(self) -> dict[str, tuple[datetime, Cause]]:
        """Return when each session starts, and by what; those that do not are left out."""
        at = self._fleet.now
        changed = [each for each in self._rooms.values() if each.up]
        for _ in range(STEPS):
            self._place(changed, at)
            self._grow(at)
            if not self._left or not self._events:
                break
            at = self._events[0][0]
            names = set()
            while self._events and self._events[0][0] <= at:
                _, _, name, uid = heapq.heappop(self._events)
                names.add(name)
                self._happens(name, uid)
            changed = [self._rooms[each] for each in sorted(names) if each in self._rooms]
            changed = [each for each in changed if each.up]
        return self.found

    def _begun(self, host: Host) -> _Room:
        now, capacity = self._fleet.now, host.worker.real
        cause = Cause(what="free" if host.boot is None else "boots", name=host.name)
        room = _Room(
            worker=host.worker,
            most=NONE if capacity is None else vector(capacity),
            up=host.boot is None,
            cause=cause,
            held=NONE,
            rows={},
            booked=list(host.booked),
        )
        if host.boot is not None:
            began = host.since or now
            seconds = self._draw(host.name, host.boot, (now - began).total_seconds())
            self._push(began + timedelta(seconds=seconds), host.name)
        for each in host.stays:
            room.add(each.uid, each.row, each.until)
            self._push(self._leaves(each), host.name, each.uid)
        for booked in host.booked:
            self._push(booked.end, host.name, booked.uid)
        return room

    def _leaves(self, stay: Stay) -> datetime:
        """Return when a stay has cleared its room: at its slot's end unless such ones end earlier."""
        now, fleet = self._fleet.now, self._fleet
        if stay.ends is None:
            seconds = self._draw(stay.uid, stay.lasts, (now - stay.began).total_seconds())
            return max(now, stay.began + timedelta(seconds=seconds))
        ends = max(now, stay.ends)
        if stay.lasts.spread:
            seconds = self._draw(stay.uid, stay.lasts, max(0.0, (now - stay.began).total_seconds()))
            ends = min(ends, max(now, stay.began + timedelta(seconds=seconds)))
        return ends + timedelta(seconds=self._draw(f"{stay.uid} cleared", fleet.clearing, 0.0))

    def _draw(self, name: str, lasting: Lasting, elapsed: float) -> float:
        return draw(f"{name} {self._number}", lasting, max(0.0, elapsed))

    def _push(self, at: datetime, name: str, uid: str = "") -> None:
        heapq.heappush(self._events, (max(at, self._fleet.now), next(self._order), name, uid))

    def _happens(self, name: str, uid: str) -> None:
        room = self._rooms.get(name)
        if room is None:
            return
        if uid:
            room.remove(uid)
            room.cause = Cause(what="ends", name=name, uid=uid)
        else:
            room.up = True

    def _place(self, rooms: Sequence[_Room], at: datetime) -> None:
        """Place those that wait on workers on which something changed, the most urgent first."""
        failed: set[object] = set()
        for waiter in list(self._left) if rooms else ():
            same = waiter.kind, _end(waiter, at)
            if same in failed:
                continue
            taken = [
                each for each in rooms
                if self._suits.host(waiter, each.worker) and each.takes(waiter, at)
            ]  # fmt: skip
            if not taken:
                if not any(each.uid == waiter.uid for room in rooms for each in room.booked):
                    failed.add(same)
                continue
            self._start(waiter, min(taken, key=lambda each: (-each.fill, each.worker.name)), at)

    def _start(self, waiter: Waiter, room: _Room, at: datetime) -> None:
        self._left.remove(waiter)
        begins = at + timedelta(seconds=self._draw(f"{waiter.uid} lab", waiter.lab, 0.0))
        if waiter.begins is not None:
            begins = max(begins, waiter.begins)
        self.found[waiter.uid] = begins, room.cause
        room.booked = [each for each in room.booked if each.uid != waiter.uid]
        room.add(waiter.uid, waiter.row, _end(waiter, at))
        asked = waiter.request
        longest = None if asked.end is None else (asked.end - asked.start).total_seconds()
        if longest is None and not waiter.lasts.spread:
            return  # it holds its room for as long as anybody knows
        seconds = waiter.lasts.most if longest is None else longest
        if waiter.lasts.spread:
            seconds = min(seconds, self._draw(waiter.uid, waiter.lasts, 0.0))
        self._push(begins + timedelta(seconds=seconds), room.worker.name, waiter.uid)

    def _grow(self, at: datetime) -> None:
        """Let pools add workers for those whom no coming worker will take."""
        coming = [each for each in self._rooms.values() if not each.up]
        for room in coming:
            room.hoped = room.held
        for waiter in self._left:
            if self._hopes(waiter, coming):
                continue
            for name, growth in self._growths.items():
                if self._room[name] <= 0 or not self._suits.growth(waiter, growth):
                    continue
                after = self._after[name]
                if after is not None and after > at:
                    self._ask_again(after, name)
                else:
                    coming.append(self._added(growth, waiter, at))
                break

    def _ask_again(self, after: datetime, pool: str) -> None:
        if (after, pool) not in self._asked:
            self._asked.add((after, pool))
            self._push(after, f"pool {pool}")

    def _hopes(self, waiter: Waiter, coming: Sequence[_Room]) -> bool:
        for room in coming:
            full = plus(room.hoped, waiter.row)
            if self._suits.host(waiter, room.worker) and within(full, room.most):
                room.hoped = full
                return True
        return False

    def _added(self, growth: Growth, waiter: Waiter, at: datetime) -> _Room:
        number = growth.room - self._room[growth.pool]
        self._room[growth.pool] -= 1
        self._after[growth.pool] = at + timedelta(seconds=growth.pause)
        shape = growth.shape
        worker = placement.Candidate(
            name=f"{growth.pool} + {number + 1}",
            track=shape.track,
            pool=growth.pool,
            licensed=shape.product is not None,
            unlicensed_nodes=shape.capacity.nodes,
            product=shape.product,
            capacity=shape.capacity,
            has=shape.has,
        )
        made = _Room(
            worker=worker, most=vector(shape.capacity), up=False,
            cause=Cause(what="grows", name=growth.pool), held=NONE, rows={}, hoped=waiter.row,
        )  # fmt: skip
        self._rooms[worker.name] = made
        self._push(at + timedelta(seconds=self._draw(worker.name, growth.boot, 0.0)), worker.name)
        return made
