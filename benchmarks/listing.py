"""Lists of 1,000 sessions: through the API application in process, and from the store.

No sockets: the application is called as a server would call it, with token, filters, cursor and
JSON. The first limit encodes the same typed objects and does nothing else; the second reads the
same documents from a plain table with one SELECT and joins them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import samples
from benchmarks.measure import Plan, Sample, driven, ratio, row, run, timed
from benchmarks.wired import Wired, wired
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.session import Session

SUMMARY = "lists of 1,000 objects through the API in process, and through the store"
OBJECTS = 1000
NARROW = "limit=100&sort=-status.end&labelSelector=course%3Dccna-1"


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows in lists per second; one list is `objects` objects unless its name says else."""
    count = plan.size(OBJECTS, 20)
    with plan.place() as folder:
        found = run(_all(plan, folder / "store.db", count))
    rows = [row(name, each) for name, each in found.items()]
    rates = {each["name"]: each["per_second"] for each in rows}
    whole = rates["API, all"]
    ratios = {
        "api_to_encode_limit": ratio(whole, rates["limit: encode all"]),
        "api_to_select_limit": ratio(whole, rates["limit: SELECT and join all"]),
        "store_to_select_limit": ratio(rates["store, all"], rates["limit: SELECT and join all"]),
    }
    return {"objects": count, "rows": rows, "peers": [], "ratios": ratios}


async def _all(plan: Plan, path: Path, count: int) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    async with wired(f"sqlite:///{path}") as system:
        store = system.services.objects.store
        for first in range(0, count, 200):
            numbers = range(first, min(first + 200, count))
            await system.services.objects.save(
                *(samples.session(number) for number in numbers),
                cause=stores.Cause("bench", samples.START),
            )
        await system.services.fresh()
        objects = system.services.cache.all(Session)
        assert len(objects) == count
        bare = _bare(path.with_name("bare.db"), objects)
        length = plan.seconds / 2
        try:
            for _ in range(plan.rounds):
                for name, query in (
                    ("API, all", f"limit={count}"),
                    ("API, first 100", "limit=100"),
                    ("API, 100 of one label, latest end first", NARROW),
                ):
                    one = await _get(system, query)
                    found.setdefault(name, []).append(await driven(one, 1, length, length / 4))
                page = await driven(lambda _: store.list("Session", limit=count), 1, length, 0.02)
                found.setdefault("store, all", []).append(page)
                for name, work in (
                    ("limit: encode all", lambda: msgspec.json.encode(objects)),
                    ("limit: SELECT and join all", lambda: _select(bare)),
                ):
                    found.setdefault(name, []).append(timed(work, length))
        finally:
            bare.close()
    return found


def _bare(path: Path, objects: list[Session]) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bare (name TEXT PRIMARY KEY, doc BLOB)")
    rows = [(each.name, kinds.encode(each)) for each in objects]
    connection.executemany("INSERT INTO bare VALUES (?, ?)", rows)
    connection.commit()
    return connection


def _select(connection: sqlite3.Connection) -> bytes:
    query = "SELECT doc FROM bare ORDER BY name"
    return b"[" + b",".join(doc for (doc,) in connection.execute(query)) + b"]"


async def _get(system: Wired, query: str) -> Any:
    """Return the operation of one GET; it fails when the answer is not 200."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": "/api/v1/sessions", "raw_path": b"/api/v1/sessions",
        "root_path": "", "query_string": query.encode(), "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8470),
        "headers": [(b"host", b"bench"), (b"authorization", b"Bearer " + system.token.encode())],
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def one(caller: int) -> int:
        size = 0

        async def send(message: Any) -> None:
            nonlocal size
            if message["type"] == "http.response.start" and message["status"] != 200:
                raise RuntimeError(f"GET answered {message['status']}")
            size += len(message.get("body", b""))

        await system.app({**scope, "headers": list(scope["headers"])}, receive, send)
        return size

    return one
