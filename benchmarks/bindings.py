"""What it costs to bind 1,000 waiting sessions: two cycles of the real scheduler on SQLite.

Counted from the sessions in the cache to the bindings in the store and in the cache again: CPU of
the whole process, transactions of the store, wall time beside a probe of the disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from benchmarks import samples
from benchmarks.measure import Plan, Sample, fsync_probe, row, run
from labfleet.app.system import SystemClock, SystemIds
from labfleet.controllers.context import Context
from labfleet.controllers.scheduler import KEY, Scheduler
from labfleet.engine.cache import Cache
from labfleet.engine.election import AlwaysLeader
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition, DefinitionSpec, DefinitionStatus, PortRequest
from labfleet.resources.meta import Metadata, Resource
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.worker import (
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
    WorkerStatus,
)
from labfleet.service.kinds import indices
from labfleet.stores import rules

SESSIONS = 1_000
WORKERS = 100
CAPACITY = Amounts(
    cpu_milli=96_000, memory_mib=384 * 1024, storage_mib=1_000_000, nodes=320, labs=20, ports=6000
)
DEMAND = Amounts(cpu_milli=6000, memory_mib=8192, storage_mib=20480, nodes=6, labs=1, ports=8)


def measure(plan: Plan) -> dict[str, Any]:
    """Return a row, and CPU seconds, transactions and wall seconds beside the disk's."""
    taken, transactions = [], []
    for _ in range(plan.rounds):
        with plan.place() as folder, _counted() as batches:
            taken.append(run(_one(plan, f"sqlite:///{folder}/store.db", batches)))
            transactions.append(len(batches))
    probe = fsync_probe(plan.folder, plan.size(200, 5))
    cpu = sorted(each.cpu for each in taken)[len(taken) // 2]
    return {
        "row": row(f"bind {taken[0].operations} sessions", taken),
        "sessions": taken[0].operations,
        "cpu_s": round(cpu, 3),
        "wall_s": round(sorted(each.wall for each in taken)[len(taken) // 2], 3),
        "transactions": max(transactions),
        "fsync_append_per_second": probe["append_per_second"],
    }


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count the batches that a store settles, each of which it saves in one transaction."""
    batches: list[int] = []
    settle = rules.settle

    def counted(state: Any, commits: Any) -> Any:
        batches.append(len(commits))
        return settle(state, commits)

    rules.settle = counted
    try:
        yield batches
    finally:
        rules.settle = settle


async def _one(plan: Plan, url: str, batches: list[int]) -> Sample:
    sessions = plan.size(SESSIONS, 20)
    clock, ids = SystemClock(), SystemIds()
    async with samples.opened(url) as store:
        objects = Objects(store)
        waiting = [_session(number) for number in range(sessions)]
        workers = [_worker(number) for number in range(plan.size(WORKERS, 4))]
        await _saved(objects, [_definition(), *workers, *waiting])
        cache = Cache(store)
        cache.declare(*indices.declared())
        feed = asyncio.create_task(Feed(store, cache, clock).run())
        await cache.ready()
        nothing = cast("Any", SimpleNamespace())
        lease = await store.acquire("scheduler", "bench", seen=None)
        leader = AlwaysLeader(stores.Fence("scheduler", lease.token))
        scheduler = Scheduler(
            Context(
                installation="bench", objects=objects, cache=cache, clock=clock, ids=ids,
                effects=nothing, leadership=leader, compute=nothing, hosts=nothing,
                secrets=nothing, probe=nothing,
            ),
            store,
        )  # fmt: skip
        batches.clear()
        cpu, begun = time.process_time(), time.perf_counter()
        while left := cache.count(indices.SESSIONS_PENDING, True):
            await scheduler.reconcile(KEY)
            if cache.count(indices.SESSIONS_PENDING, True) == left:
                raise RuntimeError(f"{left} sessions are not bound")
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        feed.cancel()
    return Sample(sessions, wall, cpu)


async def _saved(objects: Objects, made: list[Resource]) -> None:
    cause = stores.Cause("bench", samples.START, "", "made")
    for begin in range(0, len(made), 200):
        await objects.save(*made[begin : begin + 200], cause=cause)


def _named(kind: str, number: int) -> Metadata:
    return Metadata(
        name=f"{kind}-{number:05}", uid=f"{kind}-{number}", generation=1,
        creation_timestamp=samples.START + timedelta(seconds=number),
    )  # fmt: skip


def _definition() -> Definition:
    ports = tuple(
        PortRequest(name=f"r{index}", node=f"r{index}", kind="serial", transport="tcp")
        for index in range(DEMAND.ports)
    )
    return Definition(
        metadata=_named("lab", 0),
        spec=DefinitionSpec(topology="nodes: []"),
        status=DefinitionStatus(demand=DEMAND, ports=ports),
    )


def _session(number: int) -> Session:
    return Session(
        metadata=_named("session", number),
        spec=SessionSpec(definition="lab-00000", owner=f"user-{number}"),
        status=SessionStatus(phase=SessionPhase.PENDING, phase_since=samples.START),
    )


def _worker(number: int) -> Worker:
    return Worker(
        metadata=_named("worker", number),
        spec=WorkerSpec(),
        status=WorkerStatus(
            phase=WorkerPhase.READY,
            phase_since=samples.START,
            capacity=CAPACITY,
            licence=LicenceStatus(licensed=True, product="CML_Enterprise"),
        ),
    )
