"""Placements per second at 1,000, 10,000 and 100,000 workers: the call that the scheduler makes.

What is measured is `PlacementIndex.steps` with its decision record, and the booking of the chosen
worker. One old placement is given back each time, so that the fleet stays as full as it is. Windows
overlap: of 20 shapes each begins now and lasts one, two or four hours, but for `AHEAD` of them,
whose slot begins in half an hour; so a packed worker holds labs that end and labs that begin at
different times.

The limit is a bare scan at 10,000 workers: the same arithmetic inlined over plain slots, with no
reasons, no decision record and no slot times. The peers are the placement cores of perf-peers, run
in turn with ours. Beside the rates: how many decisions are the scan's, the longest stretch of
thread CPU between two pauses (building the index of each shape included), how well real labs are
packed (`benchmarks.packing`), and what writing 1,000 bindings costs (`benchmarks.bindings`).
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import bindings, packing, peers
from benchmarks.measure import Plan, Sample, ratio, row, timed
from labfleet.app.collector import CYCLES
from labfleet.decisions import ledger, placement
from labfleet.decisions.placement_index import PlacementIndex
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import Decision

SUMMARY = "placements/s at 1,000 to 100,000 workers and 20 request shapes, beside index peers"
SIZES = (1_000, 10_000, 100_000)
WORKERS = 10_000
SHAPES = 20
AHEAD = 1
COMPARED = {1_000: 100, 10_000: 20, 100_000: 4}
NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
HEAP, NUMPY = "py lazy heap per shape", "numpy index per shape"


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows for each size, and `workers`, `packing` and `bindings` for readers by name."""
    rows: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    sizes: dict[str, dict[str, Any]] = {}
    for count in (60,) if plan.smoke else SIZES:
        found, beside = _one_size(plan, count)
        rows.append(found.pop("row"))
        others += beside
        sizes[str(count)] = found
    count = plan.size(WORKERS, 60)
    bare = _Bare(count)
    limit = [timed(bare.place, plan.seconds) for _ in range(plan.rounds)]
    rows.append(row(f"limit: bare scan, {count} workers", limit))
    ours = sizes[str(count)]["per_cpu_s"]
    written = bindings.measure(plan)
    rows.append(written.pop("row"))
    return {
        "rows": rows, "peers": others, "workers": sizes, "packing": packing.measure(plan),
        "bindings": written, "ratios": {"place_to_bare_scan": ratio(ours, rows[-2]["per_cpu_second"])},
    }  # fmt: skip


def _one_size(plan: Plan, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the figures of one size with its row, and the peers' rows."""
    board = _Board(count)
    taken: list[Sample] = []
    rates: dict[str, list[float]] = {HEAP: [], NUMPY: []}
    beside = []
    with _as_in_the_server():
        board.fill()
        for _ in range(plan.rounds):
            taken.append(timed(board.place, plan.seconds, least=50))
            tag = f"per shape W={count} S={SHAPES}"
            for each in [] if plan.smoke else peers.placements(plan, tag):
                beside.append(each)
                rates[each["name"].partition(" W=")[0]].append(each["per_cpu_second"])
        same = board.same_as_scan(COMPARED.get(count, 10))
    mine = row(f"place, {count} workers", taken)
    rate = mine["per_cpu_second"]
    found = {
        "row": mine,
        "per_cpu_s": rate,
        "of_numpy_index": _of(rate, rates[NUMPY]),
        "of_lazy_heap": _of(rate, rates[HEAP]),
        "same_as_scan": same,
        "longest_block_ms": round(board.longest * 1e3, 2),
        "longest_with_collector_ms": round(board.longest_with_collector * 1e3, 2),
    }
    return found, beside


def _of(rate: float, others: list[float]) -> float | None:
    return ratio(rate, statistics.median(others)) if others else None


class _Collector:
    """Adds up the thread CPU of the garbage collector."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._begun


_collector = _Collector()


@contextmanager
def _as_in_the_server() -> Iterator[None]:
    """Look for garbage as rarely as a server does, and not among what it holds for long."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*CYCLES)
    gc.callbacks.append(_collector)
    try:
        yield
    finally:
        gc.callbacks.remove(_collector)
        gc.set_threshold(*before)
        gc.unfreeze()


def _amounts(rng: random.Random) -> list[Amounts]:
    return [
        Amounts(
            cpu_milli=rng.choice((2000, 4000, 8000, 12000)),
            memory_mib=rng.choice((4096, 8192, 16384, 32768)),
            storage_mib=rng.choice((5, 10, 20)) * 1024,
            nodes=rng.randint(2, 20),
            labs=1,
            ports=rng.randint(2, 30),
        )
        for _ in range(SHAPES)
    ]


def _fleet(count: int) -> dict[str, placement.Candidate]:
    """Return workers of four sizes, 30 to 80 % booked; a tenth is not open."""
    rng = random.Random(1)
    made = {}
    for number in range(count):
        cores = rng.choice((48, 64, 96, 128))
        share = rng.uniform(0.3, 0.8)
        capacity = Amounts(
            cpu_milli=cores * 1000, memory_mib=cores * 4096, storage_mib=1_000_000,
            nodes=320, labs=20, ports=6000,
        )  # fmt: skip
        each = Amounts(
            cpu_milli=int(cores * 250 * share), memory_mib=int(cores * 1024 * share),
            storage_mib=50_000, nodes=rng.randint(2, 40), labs=1, ports=rng.randint(2, 60),
        )  # fmt: skip
        held = tuple(
            Reservation(holder="w", amounts=each, start=NOW, end=NOW + timedelta(hours=4))
            for _ in range(4)
        )
        closed = None if rng.random() < 0.9 else "phase is STOPPING"
        name = f"worker-{number:06d}"
        made[name] = placement.Candidate(
            name=name, closed=closed, licensed=True, product="CML_Enterprise",
            capacity=capacity, reservations=held, free_ports=5500, sessions=len(held),
        )  # fmt: skip
    return made


class _Board:
    """The scheduler's index, used as in its cycles.

    `longest` is in seconds of thread CPU between two pauses, without Python's garbage collector,
    whose passes over all that a process holds fall where they may.
    """

    def __init__(self, count: int) -> None:
        self._index = PlacementIndex(NOW)
        self._names = list(_fleet(count))
        for each in _fleet(count).values():
            self._index.put(each)
        self._rng = random.Random(5)
        self._requests = []
        for number, amounts in enumerate(_amounts(random.Random(2))):
            start = NOW + timedelta(minutes=30 if number >= SHAPES - AHEAD else 0)
            end = start + timedelta(hours=(1, 2, 4)[number % 3])
            self._requests.append(placement.PlacementRequest(amounts=amounts, start=start, end=end))
        self._live: list[tuple[str, Reservation]] = []
        self._limit = count // 2 + 10
        self.longest = self.longest_with_collector = 0.0

    def fill(self) -> None:
        """Ask for each shape once, then place until the fleet is as full as it stays."""
        for request in self._requests:
            self._decide(request)
        while len(self._live) < self._limit:
            if not self.place():
                break

    def place(self) -> bool:
        """Place one, and give one back once there are many; tell whether it was placed."""
        request = self._rng.choice(self._requests)
        chosen = self._decide(request).chosen
        if chosen is not None:
            mine = Reservation(
                holder=chosen, amounts=request.amounts, start=request.start, end=request.end
            )
            self._index.book(chosen, mine)
            self._live.append((chosen, mine))
        if self._live and (len(self._live) > self._limit or chosen is None):
            place = self._rng.randrange(len(self._live))
            self._live[place], self._live[-1] = self._live[-1], self._live[place]
            self._index.release(*self._live.pop())
        return chosen is not None

    def _decide(self, request: placement.PlacementRequest) -> Decision:
        """Return the decision as the scheduler takes it, noting the longest stretch."""
        steps = self._index.steps(request, now=NOW)
        while True:
            begun, before = time.thread_time(), _collector.seconds
            try:
                next(steps)
            except StopIteration as done:
                decision: Decision = done.value
                return decision
            finally:
                took = time.thread_time() - begun
                self.longest_with_collector = max(self.longest_with_collector, took)
                self.longest = max(self.longest, took - (_collector.seconds - before))

    def same_as_scan(self, times: int) -> float:
        """Return the share of decisions, record and all, that are those of the scan."""
        same = 0
        for _ in range(times):
            request = self._rng.choice(self._requests)
            workers = [each for name in self._names if (each := self._index.get(name))]
            whole = placement.place(request, workers, now=NOW)
            same += self._index.place(request, now=NOW) == whole
            self.place()
        return same / times


@dataclass(slots=True)
class _Slots:
    open: bool
    cpu: int
    memory: int
    room: list[int]
    booked_cpu: int
    booked_memory: int
    sessions: int


class _Bare:
    """The least that a full scan in plain Python has to do for the same choice."""

    def __init__(self, count: int) -> None:
        self._rows = [
            _Slots(
                each.closed is None, each.real.cpu_milli, each.real.memory_mib,
                list(each.room), each.booked.cpu_milli, each.booked.memory_mib, each.sessions,
            )
            for each in _fleet(count).values() if each.real is not None
        ]  # fmt: skip
        self._rng = random.Random(5)
        self._wanted = [ledger.vector(each) for each in _amounts(random.Random(2))]
        self._live: list[tuple[int, tuple[int, ...]]] = []
        self._limit = count // 2 + 10

    def place(self) -> None:
        wanted = self._rng.choice(self._wanted)
        cpu, memory, storage, nodes, labs, ports, network = wanted
        best, chosen = -1.0, -1
        for number, each in enumerate(self._rows):
            if not each.open:
                continue
            room = each.room
            if (
                cpu > room[0] or memory > room[1] or storage > room[2] or nodes > room[3]
                or labs > room[4] or ports > room[5] or network > room[6]
            ):  # fmt: skip
                continue
            fill = (each.booked_cpu / each.cpu + each.booked_memory / each.memory) / 2
            score = fill + min(0.05, 0.01 * each.sessions)
            if score > best:
                best, chosen = score, number
        if chosen >= 0:
            self._book(chosen, wanted, 1)
            self._live.append((chosen, wanted))
        if self._live and (len(self._live) > self._limit or chosen < 0):
            place = self._rng.randrange(len(self._live))
            self._live[place], self._live[-1] = self._live[-1], self._live[place]
            self._book(*self._live.pop(), -1)

    def _book(self, number: int, wanted: tuple[int, ...], sign: int) -> None:
        each = self._rows[number]
        each.room = [have - sign * want for have, want in zip(each.room, wanted, strict=True)]
        each.booked_cpu += sign * wanted[0]
        each.booked_memory += sign * wanted[1]
        each.sessions += sign
