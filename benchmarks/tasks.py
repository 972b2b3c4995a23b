"""Executed tasks of public traces, as the benchmarks of prediction and admission read them.

A data folder is given by `--data`; nothing of it lies in the checkout. Without one, made tasks
stand in (`--smoke`), which show that a benchmark runs and nothing else.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
MOST_OF_A_FAMILY = 900
TRACE = "wfinstances_tasks.csv.gz"


@dataclass(frozen=True)
class Task:
    """One task that ran: what was known before, and what it took.

    family: Workflow and task.
    parameters: Numbers known before it ran.
    seconds: How long it ran.
    memory_mib: Its peak.
    """

    family: str
    parameters: dict[str, float]
    seconds: float
    memory_mib: float


def wfinstances(folder: Path) -> list[Task]:
    """Return the tasks of the trace that ran for some time, in its order.

    helloworld states another unit and is left out (README of the data).
    """
    with gzip.open(folder / TRACE, "rt", encoding="utf-8", newline="") as lines:
        return [
            Task(
                family=f"{each['workflow']}/{each['task']}",
                parameters={
                    name: float(each[name])
                    for name in ("n_inputs", "input_bytes", "cores")
                    if each[name]
                },
                seconds=float(each["runtime_s"]),
                memory_mib=float(each["peak_mem_bytes"]) / MIB,
            )
            for each in csv.DictReader(lines)
            if each["system"] != "helloworld" and float(each["runtime_s"] or 0) > 0
        ]


def made(count: int) -> list[Task]:
    """Return tasks of six families whose heavy runs last longer; the same ones each time."""
    rng = random.Random(7)
    found = []
    for _ in range(count):
        family = rng.randrange(6)
        size = rng.lognormvariate(0, 1)
        heavy = rng.lognormvariate(0, 0.4)
        found.append(
            Task(
                family=f"made/{family}",
                parameters={"input_bytes": round(size * 1e6), "n_inputs": 1.0 + family},
                seconds=20.0 * (1 + family) * heavy * rng.lognormvariate(0, 0.2),
                memory_mib=100.0 * (1 + family) * size**0.3 * heavy,
            )
        )
    return found


def in_order(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Return the tasks shuffled by a seed, at most MOST_OF_A_FAMILY of each family."""
    shuffled = list(tasks)
    random.Random(seed).shuffle(shuffled)
    count: Counter[str] = Counter()
    found = []
    for each in shuffled:
        count[each.family] += 1
        if count[each.family] <= MOST_OF_A_FAMILY:
            found.append(each)
    return found
