"""Recorded runs from files of public measurements, as the product's own runs.

The information rule of every benchmark on them: rows without a run time are dropped, at most ROWS
of a type are taken, and `declared` is twice the type's largest peak.
"""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from labfleet.resources.history import KeptRun, Parameter, Run, RunKind, Use

ROWS = 900
"""Rows taken of one type."""
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
MIB = 1 << 20
MEGABYTE = 1e6 / MIB
"""One million bytes in MiB: what some of the sources round memory to."""
WFINSTANCES = "wfinstances_tasks.csv.gz"
LOBSTER = "ndcms_lobsterCMSsimulation.csv.gz"
BIOBLAST = "ndcms_bioblast.csv.gz"


@dataclass(slots=True)
class Row:
    """One recorded run.

    family: Its type.
    parameters: What was known before it ran.
    used: Its peaks by resource, in the product's units.
    unit: What the source rounded a peak to, by resource; absent is nothing worth counting.
    seconds: How long it ran.
    """

    family: str
    parameters: dict[str, Parameter]
    used: dict[str, float]
    unit: dict[str, float]
    seconds: float


@dataclass(slots=True)
class Trace:
    """The rows of one source in the order of its file, and what is declared of each type."""

    name: str
    rows: list[Row]
    declared: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Declare twice the largest peak of each type, in whole units as people do."""
        for row in self.rows:
            most = self.declared.setdefault(row.family, {})
            for resource, peak in row.used.items():
                most[resource] = max(most.get(resource, 0.0), float(math.ceil(2 * peak)))

    def ordered(self, order: int) -> list[Row]:
        """Return the rows in the file's order (0) or in the shuffle of this seed."""
        rows = list(self.rows)
        if order:
            random.Random(order).shuffle(rows)
        return rows

    def run(self, row: Row, place: int) -> KeptRun:
        """Return a row as the run at a place of the history."""
        given = self.declared[row.family]
        return KeptRun(
            place=place,
            run=Run(
                kind=RunKind.SIMULATION,
                uid=str(place),
                family=row.family,
                parameters=row.parameters,
                allocation={
                    name: int(most) for name, most in given.items() if name != "duration_seconds"
                },
                use={
                    "network_in_kbps" if name == "network_kbps" else name: Use(peak=peak)
                    for name, peak in row.used.items()
                    if name != "duration_seconds"
                },
                duration_seconds=row.seconds,
                ended_at=BEGUN + timedelta(seconds=place),
            ),
        )


def read(path: Path) -> Trace:
    """Return a file's trace; its columns tell which of the two forms it has."""
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        reader = csv.DictReader(lines)
        form = _tasks if "peak_mem_bytes" in (reader.fieldnames or ()) else _jobs
        rows = list(_few_of_each(form(reader)))
    return Trace(path.name.split(".")[0].removeprefix("ndcms_"), rows)


def _few_of_each(rows: Iterator[Row]) -> Iterator[Row]:
    seen: Counter[str] = Counter()
    for row in rows:
        if row.seconds > 0 and seen[row.family] < ROWS:
            seen[row.family] += 1
            yield row


def _tasks(reader: csv.DictReader[str]) -> Iterator[Row]:
    """Tasks of workflows, as in wfinstances_tasks.csv.gz; `helloworld` states memory in KB."""
    for line in reader:
        if line["system"] == "helloworld":
            continue
        peak = float(line["peak_mem_bytes"])
        seconds = float(line["runtime_s"] or 0)
        used = {
            "cpu_milli": 10 * float(line["avg_cpu_pct"]),
            "memory_mib": peak / MIB,
            "duration_seconds": seconds,
        }
        if line["written_bytes"]:
            used["storage_mib"] = float(line["written_bytes"]) / MIB
        yield Row(
            family="/".join(line[name] for name in ("system", "workflow", "task")),
            parameters={
                name: float(line[name])
                for name in ("n_inputs", "input_bytes", "cores")
                if line[name]
            },
            used=used,
            unit={"memory_mib": MEGABYTE if peak % 1e6 == 0 else 0.0},
            seconds=seconds,
        )


def _jobs(reader: csv.DictReader[str]) -> Iterator[Row]:
    """Jobs as in ndcms_*.csv.gz: whole MB of memory and of disk."""
    for line in reader:
        seconds = float(line["wall_time"])
        used = {
            "memory_mib": float(line["memory"]) * MEGABYTE,
            "storage_mib": float(line["disk"]) * MEGABYTE,
            "duration_seconds": seconds,
        }
        if seconds > 0:
            used["cpu_milli"] = 1000 * float(line["cpu_time"]) / seconds
        yield Row(
            family=line["category"],
            parameters={"cores": float(line["cores"])},
            used=used,
            unit={"memory_mib": MEGABYTE, "storage_mib": MEGABYTE},
            seconds=seconds,
        )
