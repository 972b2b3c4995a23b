"""Keys per second through the engine's controller and queue: with nothing to do, and with one
commit each.

The limit of the first is a bare `asyncio.Queue` with as many workers awaiting the same
function; the limit of the second is the same store with as many callers and no engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks import samples
from benchmarks.measure import Plan, Sample, ratio, row, run
from labfleet.app.system import SystemClock, SystemRng
from labfleet.engine.controller import Controller, Done
from labfleet.engine.queue import KeyQueue
from labfleet.interfaces import store as stores
from labfleet.resources.meta import Key

SUMMARY = "reconciles/s over 10,000 keys, trivial and with one commit each"
KEYS = 10_000
Work = Callable[[Key], Awaitable[Any]]


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows for both kinds of reconcile and for their limits."""
    with plan.place() as folder:
        found = run(_all(plan, f"sqlite:///{folder}/store.db"))
    rows = [row(name, each) for name, each in found.items()]
    rates = {each["name"]: each["per_second"] for each in rows}
    ratios = {}
    for name in list(rates):
        if f"limit: {name}" in rates:
            ratios[f"engine_to_limit, {name}"] = ratio(rates[name], rates[f"limit: {name}"])
    return {"rows": rows, "peers": [], "ratios": ratios}


async def _all(plan: Plan, url: str) -> dict[str, list[Sample]]:
    keys = [Key("Session", "default", f"s-{n:06d}") for n in range(plan.size(KEYS, 100))]
    found: dict[str, list[Sample]] = {}
    async with samples.opened(url) as store:
        commit = _committing(store)
        await _bare(keys, commit, 100)
        for _ in range(plan.rounds):
            for name, work, workers in (
                ("trivial, 8 workers", _nothing, 8),
                ("one commit each, 8 workers", commit, 8),
                ("one commit each, 100 workers", commit, 100),
            ):
                found.setdefault(name, []).append(await _engine(keys, work, workers))
                found.setdefault(f"limit: {name}", []).append(await _bare(keys, work, workers))
    return found


async def _nothing(key: Key) -> Done:
    del key
    return Done()


def _committing(store: stores.Store) -> Work:
    """Return a reconcile that reads nothing and replaces its object, as a status write does."""
    revisions: dict[Key, int] = {}
    doc = samples.session_document()

    async def reconcile(key: Key) -> Done:
        done = await store.commit(
            stores.Commit(
                stores.Cause("bench", datetime.now(UTC), "", "measured"),
                (stores.Put(key, "uid", doc),),
                (stores.AtRevision(key, revisions.get(key, 0)),),
            )
        )
        revisions[key] = done.revision
        return Done()

    return reconcile


async def _engine(keys: list[Key], work: Work, workers: int) -> Sample:
    """Add all keys to a controller's queue and run it until each was reconciled once."""
    clock = SystemClock()
    queue = KeyQueue(clock, SystemRng("bench"))
    cpu, begun = time.process_time(), time.perf_counter()
    for key in keys:
        queue.add(key)
    counted = _Counted(len(keys))
    controller = Controller(
        "bench", work, queue=queue, clock=clock, concurrency=workers, observer=counted
    )
    counted.stop = controller.stop
    await controller.run()
    wall = time.perf_counter() - begun
    return Sample(len(keys), wall, time.process_time() - cpu)


class _Counted:
    """Stops the controller after the last key."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.stop: Callable[[], None] = lambda: None

    def reconciled(
        self, controller: str, key: Key, outcome: str, seconds: float, error: object
    ) -> None:
        if outcome != "done":
            raise RuntimeError(f"{controller} {key}: {outcome} {error!r}")
        self._left -= 1
        if not self._left:
            self.stop()


async def _bare(keys: list[Key], work: Work, workers: int) -> Sample:
    """Take the keys from a plain queue and await the same work."""
    cpu, begun = time.process_time(), time.perf_counter()
    queue: asyncio.Queue[Key | None] = asyncio.Queue()
    for key in keys:
        queue.put_nowait(key)
    for _ in range(workers):
        queue.put_nowait(None)

    async def serve() -> None:
        while (key := await queue.get()) is not None:
            await work(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(serve())
    wall = time.perf_counter() - begun
    return Sample(len(keys), wall, time.process_time() - cpu)
