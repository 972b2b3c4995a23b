"""The web console: first pages, a busy table in a real browser, idle clients, size of the scripts.

Pages are asked of the application in process, without a socket, with 50,000 finished sessions. The
browser (Debian's chromium, headless) shows the live tables with 1,000 sessions of which 100 a second
change; its CPU is that of all its processes. A row's version tells which frame it shows: `dom` counts
from the frame's leaving the server to the row in the page, `commit` from before the commit. Idle
clients are streams of the application without sockets; their memory is what the process grew by.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Plan, quantile, run
from benchmarks.wired import Wired, wired
from labfleet.api.streams.open_stream import OpenStream
from labfleet.app import serving
from labfleet.app.settings import Settings
from labfleet.interfaces import store as stores
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.web import application

SUMMARY = "first pages with 50,000 ended sessions, a busy table in Chromium, idle clients, bundle"
ENDED, LIVE, IDLE = 50_000, 1_000, 1_000
CALM = 12
EACH, BEAT = 10, 0.1
"""Changes of one commit, and seconds between two: 100 a second."""
ROOT = Path(__file__).resolve().parents[1]
WATCH = """(() => {
  window.seen = [];
  const note = (all) => {
    const now = performance.timeOrigin + performance.now();
    for (const { target } of all) seen.push([Number(target.dataset.version), now]);
  };
  new MutationObserver(note).observe(document.querySelector('main'), {
    attributes: true, attributeFilter: ['data-version'], subtree: true });
})()"""


def measure(plan: Plan) -> dict[str, Any]:
    """Return the figures of the issue at the top, and a row for each page and for the browser."""
    with plan.place() as folder:
        clients = run(_idle(folder, plan.size(IDLE, 10)))  # before anything fills the heap
        pages = run(_pages(folder, plan))
        shown: dict[str, Any] = {}
        if plan.smoke or shutil.which("chromium") is None:
            plan.skip("the browser: it is left out of smoke runs, and where there is no chromium")
        else:
            shown = run(_browser(folder, plan))
    first = max(each["median_ms"] for each in pages)
    rows = [*pages, clients, *([shown] if shown else [])]
    return {
        "first_page_ms": first, "bundle_gz_kib": _bundle(".js"), "styles_gz_kib": _bundle(".css"),
        "idle_client_kib": clients["kib_each"],
        **{name: shown.get(name) for name in ("browser_cpu", "p95_dom_ms", "p95_calm_ms", "p95_commit_ms")},
        "rows": rows, "peers": [], "ratios": {},
    }  # fmt: skip


def _bundle(suffix: str) -> float:
    """Return what all files of a sort weigh, each compressed, in KiB."""
    folder = Path(application.__file__).parent / "static"
    sizes = [len(gzip.compress(each.read_bytes(), 9)) for each in folder.glob(f"*{suffix}")]
    return round(sum(sizes) / 1024, 1)


async def _fill(system: Wired, count: int, phase: SessionPhase, prefix: str) -> list[str]:
    now = system.services.clock.now()
    ended = now if phase is SessionPhase.COMPLETED else None
    names = [f"{prefix}{number:05d}" for number in range(count)]
    for start in range(0, count, stores.COMMIT_LIMIT):
        objects = [
            Session(
                metadata=Metadata(name=name, uid=f"uid-{name}", creation_timestamp=now),
                spec=SessionSpec(definition="two", owner="kim"),
                status=SessionStatus(phase=phase, ended_at=ended),
            )
            for name in names[start : start + stores.COMMIT_LIMIT]
        ]
        await system.services.objects.save(*objects, cause=stores.Cause("bench", now))
    await system.services.fresh()
    return names


async def _pages(folder: Path, plan: Plan) -> list[dict[str, Any]]:
    """Return wall and CPU time of first pages, each asked for several times."""
    async with wired(f"sqlite:///{folder / 'pages.db'}", pages=True) as system:
        await _fill(system, plan.size(ENDED, 50), SessionPhase.COMPLETED, "e")
        await _fill(system, plan.size(20, 2), SessionPhase.RUNNING, "r")
        made = []
        for path in ("/", "/live", "/sessions", "/sessions?show=over", "/sessions?q=e0001"):
            walls, cpus = [], []
            for _ in range(plan.size(7, 1)):
                wall, cpu = time.perf_counter(), time.process_time()
                await _get(system, path)
                walls.append((time.perf_counter() - wall) * 1000)
                cpus.append((time.process_time() - cpu) * 1000)
            made.append({
                "name": f"page {path}", "median_ms": round(quantile(sorted(walls), 0.5), 1),
                "most_ms": round(max(walls), 1), "cpu_ms": round(quantile(sorted(cpus), 0.5), 1),
            })  # fmt: skip
        return made


def _scope(system: Wired, path: str) -> dict[str, Any]:
    target, _, query = path.partition("?")
    return {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": target,
        "raw_path": target.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8470"), (b"cookie", f"labfleet-8470={system.token}".encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8470), "state": {},
    }  # fmt: skip


async def _get(system: Wired, path: str) -> None:
    """Ask for a page; raise when it is none."""
    status: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await system.app(_scope(system, path), receive, send)
    if status != [200]:
        raise RuntimeError(f"{path} gave {status}")


async def _idle(folder: Path, count: int) -> dict[str, Any]:
    """Return what so many idle streams take, and how long one change needs to all of them."""
    async with wired(f"sqlite:///{folder / 'idle.db'}", pages=True) as system:
        names = await _fill(system, 1, SessionPhase.RUNNING, "s")
        admin, leaving = await system.tokens.authenticate(system.token), asyncio.Event()
        made = [await system.tokens.create(admin, role="admin", owner=f"o{number}")
                for number in range(-(-count // 50))]  # fmt: skip
        arrived: list[float] = []

        async def receive() -> dict[str, Any]:
            await leaving.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if b"event: MODIFIED" in message.get("body", b""):
                arrived.append(time.perf_counter())

        path = "/api/v1/events?kinds=Session,Settings&snapshot=false&pace=250"
        before, loop = _memory(), asyncio.get_running_loop()
        tasks = []
        for number in range(count):
            scope = _scope(system, path)
            scope["headers"] = [(b"authorization", f"Bearer {made[number // 50].text}".encode())]
            tasks.append(loop.create_task(system.app(scope, receive, send)))
        while system.app.streams.clients < count:
            await asyncio.sleep(0.01)
        grown = _memory() - before
        begun, cpu = time.perf_counter(), time.process_time()
        await _change(system, names)
        while len(arrived) < count:
            await asyncio.sleep(0.001)
        leaving.set()
        await asyncio.gather(*tasks)
        return {"name": "idle clients", "clients": count, "kib_each": round(grown / count, 1),
                "last_ms": round((arrived[-1] - begun) * 1000, 1),
                "cpu_ms": round((time.process_time() - cpu) * 1000, 1)}  # fmt: skip


def _memory() -> float:
    """Return the resident memory of this process in KiB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return float(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]  # always there


async def _change(system: Wired, names: list[str]) -> list[int]:
    """Write the statuses of some sessions in one commit; return the revisions."""
    objects = []
    for name in names:
        old = system.services.cache.get(Session, name, "default")
        assert old is not None
        status = msgspec.structs.replace(old.status, message=f"step {random.random():.6f}")
        objects.append(msgspec.structs.replace(old, status=status))
    cause = stores.Cause("bench", system.services.clock.now())
    _, stored = await system.services.objects.save(*objects, cause=cause)
    return [each.revision for each in stored]


async def _browser(folder: Path, plan: Plan) -> dict[str, Any]:
    """Return what the browser takes and how late it shows, over a stretch of at least 10 s."""
    sys.path.insert(0, str(ROOT / "tests" / "web"))
    from chromium import chromium  # noqa: PLC0415 - the tests' own client, where it is asked for

    left: dict[int, float] = {}
    raw = OpenStream._raw

    async def noted(self: OpenStream, body: bytes) -> None:
        now = time.time() * 1000
        for found in re.findall(rb"^id: \S+\.(\d+)$", body, re.MULTILINE):
            left.setdefault(int(found), now)
        await raw(self, body)

    OpenStream._raw = noted  # type: ignore[method-assign]
    try:
        async with wired(f"sqlite:///{folder / 'busy.db'}", pages=True) as system:
            names = await _fill(system, LIVE, SessionPhase.RUNNING, "s")
            async with _listening(system) as url, chromium(folder / "profile") as browser:
                tab = await browser.open()
                await tab.go(f"{url}/login")
                await tab.run(
                    f"document.getElementById('token').value = '{system.token}';"
                    "document.querySelector('form.card button').click()"
                )
                await tab.until("document.getElementById('mark')?.dataset.state === 'live'")
                await tab.go(f"{url}/live")
                await tab.until("document.getElementById('mark')?.dataset.state === 'live'")
                await tab.run(WATCH)
                figures = await _busy(system, names, max(10.0, plan.seconds), tab.run)
    finally:
        OpenStream._raw = raw  # type: ignore[method-assign]
    return _told(figures, left)


def _listening(system: Wired) -> Any:
    """Return a context in which the application has a port; it gives the address."""
    from contextlib import asynccontextmanager  # noqa: PLC0415

    @asynccontextmanager
    async def opened() -> Any:
        settings = Settings(port=0)
        bound = serving.listen(settings)
        server = serving.server(system.app, settings)
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            system.app.shutdown()
            server.should_exit = True
            await task
            bound.close()

    return opened()


async def _busy(
    system: Wired, names: list[str], seconds: float, ask: Callable[[str], Awaitable[Any]]
) -> dict[str, Any]:
    """Change sessions for a while; return CPU seconds, commits by revision, and what was seen."""
    committed: dict[int, float] = {}
    choose = random.Random(1)
    end = time.perf_counter() + 2  # what begins is not counted
    while time.perf_counter() < end:
        await _change(system, choose.sample(names, EACH))
        await asyncio.sleep(BEAT)
    await ask("seen.length = 0")
    cpu, own, begun = _cpu(), time.process_time(), time.perf_counter()
    beat = begun
    while beat < begun + seconds:
        now = time.time() * 1000
        committed |= dict.fromkeys(await _change(system, choose.sample(names, EACH)), now)
        beat += BEAT
        await asyncio.sleep(max(0.0, beat - time.perf_counter()))
    wall = time.perf_counter() - begun
    busy = (_cpu() - cpu) / wall, (time.process_time() - own) / wall
    seen, calm = await ask("seen"), list[int]()
    await asyncio.sleep(1)
    for _ in range(CALM):  # of one row that is shown, with a rest between
        calm += await _change(system, names[:1])
        await asyncio.sleep(4 * BEAT)
    return {
        "browser": busy[0], "server": busy[1], "committed": committed, "seen": seen, "wall": wall,
        "calm": frozenset(calm), "seen_calm": await ask("seen"),
    }  # fmt: skip


def _cpu() -> float:
    """Return the CPU seconds of all processes below this one: the browser's."""
    mine: dict[int, list[str]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            mine[int(each.parent.name)] = each.read_text("latin-1").rpartition(") ")[2].split()
        except OSError:
            continue  # ended meanwhile
    known = {os.getpid()}
    while more := {pid for pid, row in mine.items() if int(row[1]) in known} - known:
        known |= more
    rows = [mine[pid] for pid in known - {os.getpid()} if pid in mine]
    ticks = sum(int(row[11]) + int(row[12]) for row in rows)
    return ticks / os.sysconf("SC_CLK_TCK")


def _told(figures: dict[str, Any], left: dict[int, float]) -> dict[str, Any]:
    committed, shown = figures["committed"], dict[int, float]()
    for revision, at in figures["seen"]:
        shown.setdefault(revision, at)
    dom = sorted(
        at - left[each] for each, at in shown.items() if each in left and each in committed
    )
    calm = sorted(
        at - left[each] for each, at in figures["seen_calm"] if each in figures["calm"]
    )  # fmt: skip
    whole = sorted(at - committed[each] for each, at in shown.items() if each in committed)
    if not dom or not whole or not calm:
        raise RuntimeError("the browser showed none of the changes")
    return {
        "name": "browser", "seconds": round(figures["wall"], 1), "changes": len(committed),
        "rows_seen": len(shown), "browser_cpu": round(figures["browser"], 3),
        "server_cpu": round(figures["server"], 3),
        "p50_dom_ms": round(quantile(dom, 0.5), 1), "p95_dom_ms": round(quantile(dom, 0.95), 1),
        "p95_calm_ms": round(quantile(calm, 0.95), 1), "calm_seen": len(calm),
        "p95_commit_ms": round(quantile(whole, 0.95), 1),
    }  # fmt: skip
