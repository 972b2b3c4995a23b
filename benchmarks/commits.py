"""Durable commits of one object and its event, beside the bare fsynced log with group commit.

Ours is `Store.commit` as every controller uses it: compare-and-set by revision, event appended
in the same transaction, durable (SQLite FULL, or PostgreSQL) before the caller goes on.
The limit appends the same bytes to a file with one fdatasync per batch, through the very queue
and thread of ours; the peer does it with a queue of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import peers, samples
from benchmarks.measure import Plan, Sample, driven, ratio, row, run
from labfleet.interfaces import store as stores
from labfleet.resources.meta import Key
from labfleet.stores import group_commit, runners

SUMMARY = "durable object+event commits/s at 1, 10, 100 callers beside the fsynced log"
AIM = 0.35
OBJECTS = 5000
# As long as the payload that the peers write to the row and to the event.
SMALL = (b'{"simulation_id": "sim-00000001", "requester": "alice", "cpu": 24, "memory_mb": 24576, '
         b'"decision": "approved", "reason": "fits"}')  # fmt: skip
Operation = Callable[[int], Awaitable[Any]]


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows for each number of callers and the ratios to the log."""
    callers = (1, 10) if plan.smoke else (1, 10, 100)
    with plan.place() as folder:
        before = _peer(plan, folder)
        found = run(_ours(plan, folder, callers))
        rows = [row(name, each) for name, each in found.items()]
        after = _peer(plan, folder, again=True) if before and not plan.smoke else {}
        if plan.postgres:
            rows += run(_postgres(plan, callers))
    peer_rows = [_between(before[name], after.get(name, before[name])) for name in before]
    rates = {each["name"]: each["per_second"] for each in [*rows, *peer_rows]}
    costs = {each["name"]: each["cpu_us_per_operation"] for each in rows}
    ratios: dict[str, Any] = {}
    for count in callers:
        ours = rates[f"store, {count} callers"]
        ratios[f"store_to_log_{count}"] = _paired(
            found[f"store, {count} callers"], found[f"limit: log, {count} callers"]
        )
        peer = f"peer: append-only log + fdatasync, group (thread) {count} callers"
        ratios[f"store_to_peer_log_{count}"] = ratio(ours, rates.get(peer))
        ratios[f"store_cpu_times_log_{count}"] = ratio(
            costs[f"store, {count} callers"], costs[f"limit: log, {count} callers"]
        )
    ratios["aim_at_100"] = AIM
    return {"rows": rows, "peers": peer_rows, "ratios": ratios}


async def _ours(plan: Plan, folder: Path, callers: tuple[int, ...]) -> dict[str, list[Sample]]:
    """Take turns between the store and the log, so that noise meets both."""
    found: dict[str, list[Sample]] = {}
    async with samples.opened(f"sqlite:///{folder}/store.db") as store:
        write = await _filled(store, plan, SMALL)
        large = await _filled(store, plan, samples.session_document(), prefix="large")
        with _Log(folder / "log", SMALL * 2, plan.size(256 << 20, 1 << 20)) as append:
            for _ in range(plan.rounds):
                for count in callers:
                    for name, operation in (("store", write(count)), ("limit: log", append)):
                        sample = await driven(operation, count, plan.seconds, plan.seconds / 4)
                        found.setdefault(f"{name}, {count} callers", []).append(sample)
                full = await driven(large(callers[-1]), callers[-1], plan.seconds, 0.0)
                found.setdefault(f"store, whole session, {callers[-1]} callers", []).append(full)
    return found


async def _postgres(plan: Plan, callers: tuple[int, ...]) -> list[dict[str, Any]]:
    async with samples.opened(plan.postgres or "") as store:
        write = await _filled(store, plan, SMALL, prefix=f"bench-{os.getpid()}")
        return [
            row(
                f"store on PostgreSQL, {count} callers",
                [
                    await driven(write(count), count, plan.seconds, plan.seconds / 4)
                    for _ in range(plan.rounds)
                ],
            )
            for count in callers
        ]


async def _filled(
    store: stores.Store, plan: Plan, doc: bytes, *, prefix: str = "small"
) -> Callable[[int], Operation]:
    """Create the objects; return what makes the operation for a number of callers."""
    count = plan.size(OBJECTS, 50)
    keys = [Key("Session", "default", f"{prefix}-{number:06d}") for number in range(count)]
    # Callers' objects lie scattered, as those of real ones do; the order made is not theirs.
    scattered = random.Random(7).sample(range(count), count)
    revisions = [0] * count
    locks = [0] * 1000

    async def write(number: int) -> None:
        key = keys[number]
        done = await store.commit(
            stores.Commit(
                stores.Cause("bench", datetime.now(UTC), "req-1", "measured"),
                (stores.Put(key, "uid", doc),),
                (stores.AtRevision(key, revisions[number]),),
            )
        )
        revisions[number] = done.revision

    for first in range(0, count, 500):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(first + 500, count)):
                group.create_task(write(number))

    def of(callers: int) -> Operation:
        share = count // callers

        async def operation(caller: int) -> None:
            # Every caller has objects of its own, so that no compare-and-set is lost.
            locks[caller] = (locks[caller] + 1) % share
            await write(scattered[caller * share + locks[caller]])

        return operation

    return of


class _Log:
    """The limit: append and fdatasync in batches, behind our own queue and in our own thread."""

    def __init__(self, path: Path, record: bytes, room: int) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.posix_fallocate(self._handle, 0, room)
        self._record = record
        self._runner = runners.Threads(readers=1)
        self._group = group_commit.GroupCommit(self._start)

    def _start(self, batch: list[Any]) -> asyncio.Future[Any]:
        return self._runner.write(lambda: self._append(len(batch)))

    def _append(self, count: int) -> list[stores.Committed]:
        os.write(self._handle, self._record * count)
        os.fdatasync(self._handle)
        return [_DONE] * count

    async def _operation(self, caller: int) -> None:
        del caller
        await self._group.submit(_NOTHING)

    def __enter__(self) -> Operation:
        return self._operation

    def __exit__(self, *problem: object) -> None:
        self._runner.close()
        os.close(self._handle)


_DONE = stores.Committed((1,), 1)
_NOTHING = stores.Commit(stores.Cause("bench", datetime.now(UTC)), ())


def _peer(plan: Plan, folder: Path, *, again: bool = False) -> dict[str, dict[str, Any]]:
    """Run the peers before ours; the log `again` after, for it is what ours is measured by."""
    seconds = 0.1 if plan.smoke else plan.seconds * 0.6
    found = peers.state(plan, folder, "append", seconds=seconds)
    if found and not (plan.smoke or again):
        found |= peers.state(
            plan, folder, "sqlite3 FULL group commit (thread) 100", seconds=seconds
        )
    return found


def _paired(ours: list[Sample], other: list[Sample]) -> float:
    """Return the median of the ratios of neighbours: noise that lasts meets both."""
    each = [
        (a.operations / a.wall) / (b.operations / b.wall) for a, b in zip(ours, other, strict=True)
    ]
    return round(statistics.median(each), 3)


def _between(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return the middle of the figures before and after ours."""
    made: dict[str, Any] = {"name": first["name"]}
    for key in first:
        if key != "name":
            made[key] = round((first[key] + last[key]) / 2, 3)
    return made
