"""Kueue's scheduler performance test on the pure queueing decision, in virtual time.

The generator is Kueue's (5 cohorts of 6 queues, nominal 20, borrowing limit 100; 350 small, 100
medium and 50 large workloads a queue). Nothing but the decision is run: no HTTP, no store. So
`virtual_s` says how well it packs (the bound is demand by quota), and the CPU how much it costs.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import mean
from typing import Any

from benchmarks.measure import Plan, ratio
from labfleet.decisions.queueing.line import Line
from labfleet.decisions.queueing.requests import Request, Terms
from labfleet.decisions.queueing.room import SumRoom
from labfleet.resources.amounts import Amounts, vector

SUMMARY = "Kueue's performance test on the pure queueing decision, in virtual time"
NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
COHORTS, QUEUES, NOMINAL, BORROWING = 5, 6, 20, 100
# name: how many, units, seconds, priority, one every so many seconds
CLASSES = {
    "small": (350, 1, 0.2, 50, 0.1),
    "medium": (100, 5, 0.5, 100, 0.5),
    "large": (50, 20, 1.0, 200, 1.2),
}
CAPACITY = Amounts(cpu_milli=COHORTS * QUEUES * NOMINAL)
# Kueue's published mean of five runs, and the simulation with no overhead at all.
TARGETS = {
    "kueue": {"wall_s": 351.0, "use_pct": 55.9, "large": 16.5, "medium": 76.8, "small": 215.5},
    "no_overhead": {"wall_s": 66.1, "use_pct": 99.8, "large": 0.21, "medium": 11.4, "small": 44.7},
}


@dataclass(slots=True)
class Played:
    """What came of a game: virtual seconds, use of the quotas, waits by class, and the work."""

    seconds: float = 0.0
    use_pct: float = 0.0
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    decisions: int = 0
    looked: int = 0
    most_waiting: int = 0
    most_looked: int = 0


def measure(plan: Plan) -> dict[str, Any]:
    """Return what the decision makes of Kueue's test, what it costs, and what the least costs."""
    part = plan.size(1, 10)
    rows: list[dict[str, Any]] = []
    rates: list[float] = []
    for name, one in (("decide", play), ("limit: three lists a cohort", bare)):
        cpu = time.process_time()
        played = one(part)
        cpu = time.process_time() - cpu
        total = sum(map(len, played.waits.values()))
        rates.append(total / cpu)
        rows.append(
            {
                "name": f"{name}, {total} workloads",
                "per_second": round(total / cpu),
                "cpu_us_per_operation": round(cpu / total * 1e6, 1),
                "cpu_s": round(cpu, 3),
                "virtual_s": round(played.seconds, 2),
                "use_pct": round(played.use_pct, 1),
                **{f"{each}_s": round(mean(waits), 2) for each, waits in played.waits.items()},
                "decisions": played.decisions,
                "looked_per_decision": round(played.looked / played.decisions, 1),
                "most_looked": played.most_looked,
                "most_waiting": played.most_waiting,
            }
        )
    bound = work_bound(part)
    ratios = {
        "virtual_to_work_bound": round(rows[0]["virtual_s"] / bound, 3),
        "decide_to_three_lists": ratio(*rates),
    }
    return {"rows": rows, "peers": [], "ratios": ratios, "work_bound_s": bound, "targets": TARGETS}


def work_bound(part: int = 1) -> float:
    """Return the seconds that the work takes at least: demand by quota."""
    work = sum(count // part * units * last for count, units, last, _, _ in CLASSES.values())
    return round(work / NOMINAL, 2)


def terms() -> list[Terms]:
    """Return the queues of all cohorts."""
    return [
        Terms(
            name=f"{cohort}-{queue}",
            cohort=str(cohort),
            quota=vector(Amounts(cpu_milli=NOMINAL)),
            borrowing=vector(Amounts(cpu_milli=BORROWING)),
        )
        for cohort in range(COHORTS)
        for queue in range(QUEUES)
    ]


def arrivals(part: int = 1) -> list[tuple[float, str, Request]]:
    """Return (second, class, request) in the order in which they come; `part` of the full number."""
    found = []
    for queue in terms():
        for name, (count, units, last, priority, every) in CLASSES.items():
            for number in range(count // part):
                at = number * every
                request = Request(
                    uid=f"{queue.name}-{name}-{number:03d}",
                    queue=queue.name,
                    amounts=Amounts(cpu_milli=units),
                    seconds=last,
                    priority=priority,
                    since=NOW + timedelta(seconds=at),
                )
                found.append((at, name, request))
    return sorted(found, key=lambda each: (each[0], each[2].uid))


def play(part: int = 1) -> Played:
    """Play the whole test: each instant's ends and arrivals are followed by one decision."""
    return _game(_Decided(), part)


def bare(part: int = 1) -> Played:
    """Play it with the least that keeps the cohorts' quotas: by priority, without queues."""
    return _game(_Listed(), part)


class _Decided:
    """The product's decision."""

    def __init__(self) -> None:
        self.line = Line(terms(), CAPACITY)
        self._room = SumRoom(vector(CAPACITY))
        self.looked = 0

    def wait(self, name: str, request: Request) -> None:
        del name
        self.line.wait(request)

    def end(self, request: Request) -> None:
        self.line.end(request.uid)
        self._room.remove(request.uid)

    def decide(self, now: datetime) -> Iterable[Request]:
        made = self.line.decide(self._room, now)
        self.looked = made.looked
        for each in made.started:
            self.line.start(each, now)
            self._room.add(each)
        return made.started


class _Listed:
    """Three lists a cohort, and what the cohort has left."""

    def __init__(self) -> None:
        self._lists = [
            {name: deque[Request]() for name in reversed(CLASSES)} for _ in range(COHORTS)
        ]
        self._free = [QUEUES * NOMINAL] * COHORTS
        self.looked = 0

    def wait(self, name: str, request: Request) -> None:
        self._lists[int(request.queue[0])][name].append(request)

    def end(self, request: Request) -> None:
        self._free[int(request.queue[0])] += request.amounts.cpu_milli

    def decide(self, now: datetime) -> Iterable[Request]:
        del now
        for number, lists in enumerate(self._lists):
            for rows in lists.values():
                while rows and rows[0].amounts.cpu_milli <= self._free[number]:
                    self._free[number] -= rows[0].amounts.cpu_milli
                    yield rows.popleft()


def _game(line: _Decided | _Listed, part: int) -> Played:
    coming, names = arrivals(part), {}
    ends: list[tuple[float, str, Request]] = []
    played, at, held, area, place = Played(), 0.0, 0, 0.0, 0
    while place < len(coming) or ends:
        then = min([*(row[0] for row in coming[place : place + 1]), *(row[0] for row in ends[:1])])
        area, at = area + held * (then - at), then
        while ends and ends[0][0] <= at:
            _, _, ended = heapq.heappop(ends)
            held -= ended.amounts.cpu_milli
            line.end(ended)
        while place < len(coming) and coming[place][0] <= at:
            _, name, request = coming[place]
            names[request.uid] = name
            line.wait(name, request)
            place += 1
        now = NOW + timedelta(seconds=at)
        for each in line.decide(now):
            held += each.amounts.cpu_milli
            played.waits[names.pop(each.uid)].append((now - each.since).total_seconds())
            heapq.heappush(ends, (round(at + (each.seconds or 0.0), 6), each.uid, each))
        played.decisions += 1
        played.looked += line.looked
        played.most_looked = max(played.most_looked, line.looked)
        played.most_waiting = max(played.most_waiting, len(names))
    played.seconds, played.use_pct = at, 100 * area / (at * CAPACITY.cpu_milli)
    return played
