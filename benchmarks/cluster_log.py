"""A month of jobs of a computing centre, as sessions that a pool's workers host.

Jobs submitted in days 14 to 42 with a run time above 0, followed to their ends. A job is cut into
max(CPUs / 64, memory / 512 GB) equal parts, rounded up, so that each part fits one worker.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.pool_days import Job
from labfleet.resources.amounts import Amounts

LOG = "metacentrum_cerit_2013.csv.gz"
DAY = 86_400
CPUS, MEMORY = 64, 512 * 10**9
"""What one worker has: CPUs, and bytes of memory."""
MIB = 1 << 20
WORKER = Amounts(cpu_milli=CPUS * 1000, memory_mib=MEMORY // MIB, labs=10**6)


def jobs(path: Path, first: int = 14, last: int = 42) -> list[Job]:
    """Return the parts of the jobs submitted from the first day on and before the last."""
    found = []
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            submit, seconds = int(row["submit"]), int(row["runtime_s"])
            if first * DAY <= submit < last * DAY and seconds > 0:
                cpus, size = int(row["cpus"]), int(row["req_mem_bytes"]) * int(row["nodes"])
                found += _parts(submit, seconds, cpus, size, int(row["req_time_s"]))
    return found


def _parts(submit: int, seconds: int, cpus: int, size: int, stated: int) -> list[Job]:
    many = max(math.ceil(cpus / CPUS), math.ceil(size / MEMORY), 1)
    amounts = Amounts(
        cpu_milli=math.ceil(1000 * cpus / many),
        memory_mib=min(math.ceil(size / many / MIB), WORKER.memory_mib),
        labs=1,
    )
    shares = (cpus / many / CPUS, size / many / MEMORY)
    return [Job(submit, seconds, stated, amounts, shares) for _ in range(many)]


def bound(parts: Iterable[Job]) -> float:
    """Return the worker-hours of a fleet that always has just the whole workers that all parts need.

    Nobody waits in it, and it knows everything: no policy can do with less.
    """
    return sum(count * seconds for count, seconds in needed(parts)) / 3600


def needed(parts: Iterable[Job]) -> list[tuple[int, int]]:
    """Return how many whole workers are needed for how many seconds, one after the other."""
    changes = []
    for part in parts:
        changes.append((part.submit, *part.shares))
        changes.append((part.submit + part.seconds, -part.shares[0], -part.shares[1]))
    cpu = memory = 0.0
    found = []
    for (at, more, size), (after, *_) in itertools.pairwise(sorted(changes)):
        cpu, memory = cpu + more, memory + size
        # Rounded: what a long sum of shares is off by must not cost a worker.
        found.append((math.ceil(round(max(cpu, memory), 9)), after - at))
    return found


def made(days: int = 1, seed: int = 1) -> Sequence[Job]:
    """Return a few days of made jobs, which mean nothing."""
    rng, found = random.Random(seed), list[Job]()
    for number in range(40 * days):
        cpus = rng.choice((2, 8, 16, 64))
        seconds = rng.randrange(600, 20_000)
        submit = 14 * DAY + number * DAY // 40 + rng.randrange(600)
        found += _parts(submit, seconds, cpus, cpus * 4 * 10**9, 2 * seconds)
    return found
