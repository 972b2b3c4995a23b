"""One of many processes on one store: binds under a lease, extends, cancels, loses its lease.

Run as `python store_process.py URL NUMBER`. Time is an injected clock that this process moves
by itself, so eight of them judge each other's leases by eight different clocks; nothing sleeps.
Prints one JSON object: what it was told of its commits.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from datetime import timedelta

from store_places import START, CountedIds, HandClock, set_clock

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads

LEASES = ("bind-0", "bind-1", "bind-2")
WORKERS = {"w0": 8, "w1": 8, "w2": 12}
PORTS = range(2000, 2040)
LENGTH = 5.0
RUN = timedelta(seconds=60)


class Process:
    """One process: its clock, its dice, the lease it believes to hold."""

    def __init__(self, store: s.Store, clock: HandClock, number: int) -> None:
        self.store, self.clock = store, clock
        self.me = f"p{number}"
        self.rng = random.Random(number)
        self.wanted = LEASES[number % len(LEASES)]
        self.lease: s.Lease | None = None
        self.seen: tuple[int, float] | None = None
        self.counts: Counter[str] = Counter()
        self.acked: dict[int, str] = {}
        self.serial = 0

    async def run(self) -> None:
        while self.clock.instant < START + RUN:
            self.clock.instant += timedelta(seconds=self.rng.uniform(0.05, 0.3))
            verb = self.rng.choice(
                [
                    self.lead,
                    self.lead,
                    self.bind,
                    self.bind,
                    self.bind,
                    self.create,
                    self.extend,
                    self.cancel,
                ]
            )
            try:
                await verb()
            except errors.Fenced:
                self.lease = None
                self.counts["fenced"] += 1
            except errors.Conflict:
                self.counts["conflict"] += 1

    async def write(self, verb: str, commit: tuple[s.Write, ...], **more: object) -> None:
        self.serial += 1
        request = f"{self.me}-{self.serial}"
        cause = s.Cause(self.me, self.clock.instant, request, verb)
        done = await self.store.commit(s.Commit(cause, commit, **more))  # type: ignore[arg-type]
        self.counts[verb] += 1
        self.acked.update(dict.fromkeys(done.revisions, request))

    async def lead(self) -> None:
        """Renew, or watch the lease and take it when it stood still for its length by our clock.

        A holder forgets to renew now and then, and goes on believing.
        """
        if self.lease is not None:
            if self.rng.random() < 0.5:
                self.lease = await self.store.renew(self.lease)
            elif self.rng.random() < 0.1:
                await self.store.release(self.lease)
            return
        row = await self.store.lease(self.wanted)
        now = self.clock.monotonic()
        if row is None:
            self.lease = await self.store.acquire(self.wanted, self.me, seen=None)
        elif self.seen is None or self.seen[0] != row.version:
            self.seen = (row.version, now)
        elif now - self.seen[1] >= LENGTH or not row.holder:
            self.lease = await self.store.acquire(self.wanted, self.me, seen=row.version)
            self.counts["taken"] += 1

    async def sessions(self) -> tuple[s.Page, list[tuple[s.Stored, dict[str, object]]]]:
        page = await self.store.list("Session")
        assert page.after is None
        return page, [(item, json.loads(item.doc)) for item in page.items]

    async def create(self) -> None:
        name = f"s-{self.me}-{self.serial}"
        doc = {"cpu": self.rng.randint(1, 4), "worker": None, "ports": [], "end": 60}
        key = Key("Session", "default", name)
        put = s.Put(key, name, json.dumps(doc).encode())
        await self.write("create", (put,), preconditions=(s.AtRevision(key, 0),))

    async def bind(self) -> None:
        if self.lease is None:
            return
        page, sessions = await self.sessions()
        waiting = [(item, doc) for item, doc in sessions if doc["worker"] is None]
        if not waiting:
            return
        item, doc = self.rng.choice(waiting)
        for worker, capacity in WORKERS.items():
            bound = [other for _, other in sessions if other["worker"] == worker]
            taken = {number for other in bound for number in other["ports"]}  # type: ignore[attr-defined]
            free = [number for number in PORTS if number not in taken]
            used = sum(int(other["cpu"]) for other in bound)  # type: ignore[call-overload]
            if used + doc["cpu"] <= capacity and len(free) >= 3:  # type: ignore[operator]
                break
        else:
            self.counts["no room"] += 1
            return
        ports = self.rng.sample(free, 3)
        doc |= {"worker": worker, "ports": ports, "lease": [self.lease.name, self.lease.token]}
        owner = f"session/{item.key.name}"
        for _ in range(self.rng.randint(0, 12)):
            await self.store.head()  # thinking, so that others decide on the same snapshot
        await self.write(
            "bind",
            (
                s.Put(item.key, item.uid, json.dumps(doc).encode(), {"worker": worker}),
                s.TouchLedger(worker),
                s.TakePorts(worker, owner, tuple(("tcp", number) for number in ports)),
            ),
            preconditions=(
                s.AtRevision(item.key, item.revision),
                s.LedgerUntouched(worker, page.cursor.revision),
            ),
            fence=s.Fence(self.lease.name, self.lease.token),
        )

    async def extend(self) -> None:
        _, sessions = await self.sessions()
        if not sessions:
            return
        item, doc = self.rng.choice(sessions)
        doc["end"] = int(doc["end"]) + 10  # type: ignore[call-overload]
        labels = {"worker": str(doc["worker"])} if doc["worker"] else {}
        put = s.Put(item.key, item.uid, json.dumps(doc).encode(), labels)
        await self.write("extend", (put,), preconditions=(s.AtRevision(item.key, item.revision),))

    async def cancel(self) -> None:
        _, sessions = await self.sessions()
        if len(sessions) < 12:
            return
        item, doc = self.rng.choice(sessions)
        writes: tuple[s.Write, ...] = (s.Delete(item.key),)
        if worker := doc["worker"]:
            writes += (
                s.TouchLedger(str(worker)),
                s.FreePorts(str(worker), f"session/{item.key.name}"),
            )
        await self.write("cancel", writes, preconditions=(s.AtRevision(item.key, item.revision),))


async def main() -> None:
    url, number = sys.argv[1], int(sys.argv[2])
    clock = set_clock()
    store = await open_store(url, runner=Threads(readers=1), ids=CountedIds(), clock=clock)
    process = Process(store, clock, number)
    print("ready", flush=True)
    sys.stdin.readline()
    await process.run()
    await store.close()
    print(json.dumps({"counts": process.counts, "acked": process.acked}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
