"""Placements per second at 10,000 workers: filter and score all, take the best, book it.

What is measured is `decisions.placement.place` with what the scheduler does around it: a list
of the candidates, and the chosen one made anew with the reservation. One old placement is given
back each time, so that the fleet stays as full as it is.

The limit is a bare scan: the same arithmetic inlined over plain slots, with no reasons, no
decision record and no slot times. The peers are the placement cores of perf-peers (numpy).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import peers
from benchmarks.measure import Plan, Sample, ratio, row, timed
from labfleet.decisions import ledger, placement
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.worker import Health, WorkerPhase

SUMMARY = "placements/s at 10,000 workers and 20 request shapes, beside a bare scan"
WORKERS = 10_000
SHAPES = 20
NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
# facts/performance.md#placements-goal, placements per CPU second at 10,000 workers and 20 shapes,
# one call each.
TARGETS = {"pure_numpy_per_cpu_second": 25_000, "compiled_per_cpu_second": 300_000}


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows for ours and the limit, and how far the targets are."""
    workers = plan.size(WORKERS, 60)
    board, bare = _Board(workers), _Bare(workers)
    found: dict[str, list[Sample]] = {}
    for _ in range(plan.rounds):
        for name, one in (("place", board.place), ("limit: bare scan", bare.place)):
            found.setdefault(f"{name}, {workers} workers", []).append(timed(one, plan.seconds * 2))
    rows = [row(name, each) for name, each in found.items()]
    rows.append(
        row(f"snapshot of {workers} candidates", [timed(lambda: _fleet(workers), 0.0, least=1)])
    )
    others = [] if plan.smoke else peers.placements(plan, f"W={workers} S={SHAPES}")
    rate = rows[0]["per_cpu_second"]
    ratios: dict[str, Any] = {"place_to_bare_scan": ratio(rate, rows[1]["per_cpu_second"])}
    for each in others:
        ratios[f"place_to_{each['name']}"] = ratio(rate, each["per_cpu_second"])
    for name, target in TARGETS.items():
        ratios[f"share_of_target_{name}"] = round(rate / target, 5)
    return {"rows": rows, "peers": others, "ratios": ratios, "targets": TARGETS}


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
    """A snapshot that changes with each placement, as the scheduler's does."""

    def __init__(self, count: int) -> None:
        self._candidates = _fleet(count)
        self._rng = random.Random(5)
        self._requests = [
            placement.PlacementRequest(amounts=each, start=NOW, end=NOW + timedelta(hours=2))
            for each in _amounts(random.Random(2))
        ]
        self._live: list[tuple[str, Reservation]] = []
        self._limit = count // 2 + 10

    def place(self) -> None:
        request = self._rng.choice(self._requests)
        chosen = placement.place(request, list(self._candidates.values()), now=NOW).chosen
        if chosen is not None:
            before = self._candidates[chosen]
            mine = Reservation(
                holder=chosen, amounts=request.amounts, start=request.start, end=request.end
            )
            self._set(before, (*before.reservations, mine))
            self._live.append((chosen, mine))
        if len(self._live) > self._limit or chosen is None:
            self._release()

    def _release(self) -> None:
        if not self._live:
            return
        place = self._rng.randrange(len(self._live))
        self._live[place], self._live[-1] = self._live[-1], self._live[place]
        name, old = self._live.pop()
        before = self._candidates[name]
        self._set(before, tuple(each for each in before.reservations if each is not old))

    def _set(self, before: placement.Candidate, held: tuple[Reservation, ...]) -> None:
        self._candidates[before.name] = replace(before, reservations=held, sessions=len(held))


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
