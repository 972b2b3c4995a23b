"""How many workers real labs need, placed one after the other, beside the least that could do.

Labs are drawn from `cml_labs.csv` of the data folder: 63 labs of Cisco's community repository, with
what their nodes ask for or their definitions need by default. They come in random order and stay;
each goes where the scheduler puts it, to a new worker of 48 CPUs and 192 GB when it fits nowhere.
The bound is the sum of the labs in the dimension that is used most.
"""

from __future__ import annotations

import csv
import math
import random
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Plan
from labfleet.decisions import placement
from labfleet.decisions.placement_index import PlacementIndex
from labfleet.resources import node_definitions
from labfleet.resources.amounts import Amounts, Reservation

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
WORKER = Amounts(cpu_milli=48_000, memory_mib=192 * 1024)
LABS = 3_000
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def measure(plan: Plan) -> dict[str, Any]:
    """Return by how much the workers exceed the bound, as a share; None without the data."""
    path = (plan.data or SHARED) / "cml_labs.csv"
    if not path.is_file():
        plan.skip(f"packing: {path} is not there; give --data DIR")
        return {"over_bound": None}
    labs = _labs(path)
    rng = random.Random(1)
    drawn = [rng.choice(labs) for _ in range(plan.size(LABS, 50))]
    used = _placed(drawn)
    bound = max(
        math.ceil(sum(getattr(lab, name) for lab in drawn) / getattr(WORKER, name))
        for name in ("cpu_milli", "memory_mib")
    )
    return {
        "over_bound": round(used / bound - 1, 4), "workers": used, "bound": bound,
        "labs": len(drawn),
    }  # fmt: skip


def _labs(path: Path) -> list[Amounts]:
    """Return what each lab needs, without those that no worker could hold."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    with path.open() as file:
        for line in csv.DictReader(file):
            known = node_definitions.DEFAULTS.get(line["node_definition"], node_definitions.UNKNOWN)
            cpus, memory = (
                float(line["cpus"] or known.cpus),
                float(line["ram_mib"] or known.ram_mib),
            )
            lab = sums[line["lab"]]
            lab[0] += math.ceil(int(line["count"]) * cpus * 10 * known.cpu_limit)
            lab[1] += math.ceil(int(line["count"]) * memory)
    return [
        Amounts(cpu_milli=cpu, memory_mib=memory)
        for cpu, memory in sums.values()
        if 0 < cpu <= WORKER.cpu_milli and 0 < memory <= WORKER.memory_mib
    ]


def _placed(labs: list[Amounts]) -> int:
    index = PlacementIndex(NOW)
    for lab in labs:
        request = placement.PlacementRequest(amounts=lab, start=NOW)
        chosen = index.place(request, now=NOW).chosen
        if chosen is None:
            chosen = f"worker-{len(index):05}"
            index.put(placement.Candidate(name=chosen, licensed=True, capacity=WORKER))
        index.book(chosen, Reservation(holder=chosen, amounts=lab, start=NOW))
    return len(index)
