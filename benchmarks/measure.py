"""Clocks, latencies and the state of the machine: what every benchmark reports in one shape.

Knows nothing of Labfleet. Wall time is `perf_counter`, CPU time is of the whole process.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop


@dataclass(frozen=True)
class Plan:
    """How a run was asked for."""

    smoke: bool = False
    seconds: float = 1.0
    rounds: int = 3
    peers: Path | None = None
    peer_python: str = sys.executable
    postgres: str | None = None
    data: Path | None = None
    trace: Path | None = None
    rules: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    orders: tuple[int, ...] = ()
    folder: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    skipped: list[str] = field(default_factory=list)

    def size(self, normal: int, smoke: int) -> int:
        """Return how many of something this run takes."""
        return smoke if self.smoke else normal

    def skip(self, what: str) -> None:
        """Say loudly, and in the result, what was left out and why."""
        self.skipped.append(what)
        print(f"SKIPPED: {what}", file=sys.stderr, flush=True)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A fresh folder on the file system under test, gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="labfleet-bench-", dir=self.folder) as name:
            yield Path(name)


@dataclass
class Sample:
    """One timed stretch: operations done, wall and CPU seconds, latency of each in seconds."""

    operations: int
    wall: float
    cpu: float
    latencies: list[float] = field(default_factory=list)


def row(name: str, samples: list[Sample], **more: Any) -> dict[str, Any]:
    """Return the median of some samples as one row of a result."""
    latencies = sorted(each for sample in samples for each in sample.latencies)
    made: dict[str, Any] = {
        "name": name,
        "per_second": round(statistics.median(s.operations / s.wall for s in samples), 1),
        "per_cpu_second": round(
            statistics.median(s.operations / max(s.cpu, 1e-9) for s in samples), 1
        ),
        "cpu_us_per_operation": round(
            statistics.median(s.cpu / max(1, s.operations) for s in samples) * 1e6, 2
        ),
        "wall_s": round(sum(s.wall for s in samples), 3),
        "cpu_s": round(sum(s.cpu for s in samples), 3),
        "operations": sum(s.operations for s in samples),
        "rounds": len(samples),
    }
    if latencies:
        made["p50_ms"] = round(quantile(latencies, 0.5) * 1e3, 4)
        made["p99_ms"] = round(quantile(latencies, 0.99) * 1e3, 4)
    return {**made, **more}


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of an ordered list."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ratio(ours: float | None, other: float | None) -> float | None:
    """Return ours over the other to three digits, None when either is missing."""
    return round(ours / other, 3) if ours is not None and other else None


def timed(operation: Callable[[], Any], seconds: float, *, least: int = 3) -> Sample:
    """Repeat a blocking operation for some seconds, at least `least` times."""
    latencies: list[float] = []
    cpu, begun = time.process_time(), time.perf_counter()
    last = begun
    while last - begun < seconds or len(latencies) < least:
        operation()
        now = time.perf_counter()
        latencies.append(now - last)
        last = now
    return Sample(len(latencies), last - begun, time.process_time() - cpu, latencies)


async def driven(
    operation: Callable[[int], Awaitable[Any]], callers: int, seconds: float, warm: float
) -> Sample:
    """Let so many callers repeat an awaited operation; a warm-up before is not counted."""
    latencies: list[float] = []

    async def call(number: int, end: float) -> None:
        last = time.perf_counter()
        while last < end:
            await operation(number)
            now = time.perf_counter()
            latencies.append(now - last)
            last = now

    async def all_of(end: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                group.create_task(call(number, end))

    await all_of(time.perf_counter() + warm)
    latencies.clear()
    cpu, begun = time.process_time(), time.perf_counter()
    await all_of(begun + seconds)
    wall = time.perf_counter() - begun
    return Sample(len(latencies), wall, time.process_time() - cpu, latencies)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in the loop that the server runs in."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def fsync_probe(folder: Path, times: int) -> dict[str, Any]:
    """Append and overwrite 4 KiB with fdatasync: what the disk under the store gives now."""
    found: dict[str, Any] = {"file_system": file_system(folder)}
    buffer = os.urandom(4096)
    with tempfile.TemporaryDirectory(prefix="labfleet-fsync-", dir=folder) as name:
        for way in ("append", "overwrite"):
            handle = os.open(Path(name) / way, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if way == "overwrite":
                    os.pwrite(handle, buffer * 64, 0)
                    os.fsync(handle)
                took = []
                for number in range(times):
                    begun = time.perf_counter()
                    os.pwrite(
                        handle, buffer, 4096 * (number % 64 if way == "overwrite" else number)
                    )
                    os.fdatasync(handle)
                    took.append(time.perf_counter() - begun)
            finally:
                os.close(handle)
            took.sort()
            found[f"{way}_per_second"] = round(times / sum(took))
            found[f"{way}_p50_us"] = round(quantile(took, 0.5) * 1e6, 1)
            found[f"{way}_p99_us"] = round(quantile(took, 0.99) * 1e6, 1)
    return found


def file_system(folder: Path) -> str:
    """Return the type of the file system that a folder lies on; unknown off Linux."""
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return kind
    where = str(folder.resolve())
    for line in mounts:
        _, point, this, *_ = line.split()
        inside = point == "/" or where == point or where.startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, this
    return kind


def machine() -> dict[str, Any]:
    """Return what a reader must know of the machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "loop": f"uvloop {version('uvloop')}",
    }


def quiet(patience: float, *, below: float = 0.15) -> float | None:
    """Wait until others leave the machine idle, at most so long; return how busy it was last."""
    end = time.monotonic() + patience
    while True:
        busy = others_busy(0.7 if patience else 0.05)
        if busy is None or busy <= below or time.monotonic() >= end:
            return busy


def noisy(busy: float | None, *probes: dict[str, Any]) -> bool:
    """Tell whether others disturbed a run: its wall times and their ratios then mean little.

    Another process on our CPU costs a wake-up after an fsync one tick of milliseconds.
    """
    return (busy or 0.0) > 0.3 or any(each["append_p99_us"] > 2000 for each in probes)


def others_busy(seconds: float) -> float | None:
    """Return the share of all CPUs that was busy while we slept; None off Linux."""

    def look() -> tuple[int, int]:
        numbers = [int(each) for each in Path("/proc/stat").open().readline().split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    try:
        before = look()
        time.sleep(seconds)
        after = look()
    except OSError:
        return None
    return round(1 - (after[1] - before[1]) / max(1, after[0] - before[0]), 3)
