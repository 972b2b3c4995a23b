"""The child of the stream benchmark: the API on a free port, driven line by line from stdin.

`python -m benchmarks.stream_server FILE CPU CLIENTS` prints port and tokens for so many clients,
then for each line N commits N changes at once and prints when that began, when the ring had the
first of them, and the CPU time used before it; 0 only prints the CPU time. Ends when stdin does.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from typing import Any

from benchmarks import measure
from benchmarks.wired import Wired, wired
from labfleet.api.streams.open_stream import PER_TOKEN
from labfleet.app import serving
from labfleet.app.settings import Settings
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.meta import Key, Metadata


async def _serve(path: str, clients: int) -> None:
    settings = Settings(port=0)
    bound = serving.listen(settings)
    async with wired(f"sqlite:///{path}") as system:
        server = serving.server(system.app, settings)
        marks: list[float] = []
        caught_up = system.ring.caught_up

        def marked(cursor: stores.Cursor) -> None:
            if cursor != system.ring.head:
                marks.append(time.monotonic())
            caught_up(cursor)

        system.ring.caught_up = marked  # type: ignore[method-assign]
        names = [f"c{number:02d}" for number in range(64)]
        await _commit(system, names)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(server.serve(sockets=[bound]))
            while not server.started:
                await asyncio.sleep(0.001)
            _say(port=bound.getsockname()[1], tokens=await _tokens(system, clients))
            while line := await asyncio.to_thread(sys.stdin.readline):
                count = int(line)
                if count == 0:
                    _say(cpu=time.process_time())
                    continue
                marks.clear()
                cpu, begun = time.process_time(), time.monotonic()
                await _commit(system, names[:count])
                while not marks:
                    await asyncio.sleep(0)
                _say(begun=begun, in_ring=marks[0], cpu=cpu)
            system.app.events.shutdown()
            server.should_exit = True
            await task


async def _tokens(system: Wired, clients: int) -> list[str]:
    """Return a token for each so many clients as one may have, in turn."""
    admin = await system.tokens.authenticate(system.token)
    count = -(-clients // PER_TOKEN)
    more = [
        await system.tokens.create(admin, role="admin", owner=f"bench-{number}")
        for number in range(1, count)
    ]
    return [system.token, *(each.text for each in more)]


async def _commit(system: Wired, names: list[str]) -> None:
    """Write small objects, each in a commit of its own."""
    store = system.services.objects.store

    async def one(name: str) -> None:
        obj = Cluster(
            metadata=Metadata(name=name, uid=f"uid-{name}", generation=1),
            spec=ClusterSpec(capacity=Amounts(cpu_milli=1000)),
        )
        await store.commit(
            stores.Commit(
                stores.Cause("bench", system.services.clock.now()),
                (stores.Put(Key("Cluster", "default", name), obj.metadata.uid, kinds.encode(obj)),),
            )
        )

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    if int(sys.argv[2]) >= 0:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    measure.run(_serve(sys.argv[1], int(sys.argv[3])))
