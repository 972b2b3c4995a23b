"""Eight processes on one store that bind, extend, cancel and lose their leases for 60 s."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from store_places import Place

from labfleet.interfaces import store as s

STORES = Path(__file__).parents[1] / "stores"
WORKERS = {"w0": 8, "w1": 8, "w2": 12}


async def _children(url: str, count: int) -> list[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    program = (sys.executable, str(STORES / "store_process.py"), url)
    children = [
        await asyncio.create_subprocess_exec(
            *program, str(n), stdin=pipe, stdout=pipe, limit=1 << 22
        )
        for n in range(count)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdin is not None
        assert await child.stdout.readline() == b"ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.close()
    return children


async def _told(child: asyncio.subprocess.Process) -> dict[str, Any]:
    assert child.stdout is not None
    line = await child.stdout.readline()
    assert await child.wait() == 0
    return dict(json.loads(line))


def _check_log(events: list[s.Event]) -> dict[str, dict[str, Any]]:
    """Replay the log and check what must hold after each event."""
    sessions: dict[str, dict[str, Any]] = {}
    newest: dict[str, int] = {}
    for event in events:
        doc = json.loads(event.doc)
        if event.type == "DELETED":
            del sessions[event.key.name]
            continue
        sessions[event.key.name] = doc
        if event.reason == "bind":
            lease, token = doc["lease"]
            assert token >= newest.get(lease, 0), f"stale fence at {event.revision}"
            newest[lease] = token
            bound = [other for other in sessions.values() if other["worker"] == doc["worker"]]
            used = sum(other["cpu"] for other in bound)
            assert used <= WORKERS[doc["worker"]], f"overfull at {event.revision}"
            ports = [number for other in bound for number in other["ports"]]
            assert len(ports) == len(set(ports)), f"double port at {event.revision}"
    return sessions


@pytest.mark.asyncio
async def test_eight_processes(shared_place: Place) -> None:
    """They give no double port, no overfull worker, no stale fence and no lost event."""
    async with shared_place.opened() as store:
        cursor = await store.head()
        children = await _children(shared_place.url, 8)
        events: list[s.Event] = []
        running = True

        async def tail() -> None:
            nonlocal cursor
            while True:
                last = not running
                page = await store.events(cursor, limit=50)
                events.extend(page.events)
                cursor = page.cursor
                if not page.events:
                    if last:
                        return
                    await store.changed(cursor.revision, seconds=0.02)

        async with asyncio.TaskGroup() as group:
            group.create_task(tail())
            told = [await _told(child) for child in children]
            running = False
        assert [event.revision for event in events] == list(range(1, len(events) + 1))
        assert cursor == await store.head()
        acked = {int(r): who for each in told for r, who in each["acked"].items()}
        assert acked == {event.revision: event.request_id for event in events}
        sessions = _check_log(events)
        page = await store.list("Session")
        assert {item.key.name: json.loads(item.doc) for item in page.items} == sessions
        held = {(row.worker, row.number, row.owner) for row in await store.ports()}
        assert held == {
            (doc["worker"], number, f"session/{name}")
            for name, doc in sessions.items()
            for number in doc["ports"]
        }
    counts = sum((Counter(each["counts"]) for each in told), Counter[str]())
    assert all(counts[verb] for verb in ("bind", "extend", "cancel", "taken", "fenced", "conflict"))
    print(dict(counts))
