"""What a lab uses: a reading of its nodes judged, and all readings of its life in bounded memory.

A sum without a node that runs would be too small, so a figure of the lab is left out of a reading in
which any node's own cannot be believed; the other figures and nodes count. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from labfleet.decisions import run_use
from labfleet.decisions.run_use import RunUse
from labfleet.resources.history import Use
from labfleet.resources.lab_use import NodeFigures, NodeSize

CpuUsage = Literal["core", "share"]
"""Whether 100 is one busy core, or all of a node's; CML does not say (facts/cml.md#open-questions)."""
FIGURES = ("cpu_milli", "memory_mib", "storage_mib")
BEYOND = 1.05
"""A node that is said to use so much more than it has is not believed."""
PEAK_AFTER, MOVED_AFTER = 3, 10
"""Readings, which are minutes, between two records."""
GAPS = 20
NODES = 320
"""Nodes of a lab of which each one's own use is kept; more than a worker may run."""


class Reading(msgspec.Struct, frozen=True):
    """One reading of a lab: its figures, those of its nodes by label, and what was not believed."""

    lab: dict[str, float]
    nodes: dict[str, dict[str, float]]
    gaps: tuple[str, ...] = ()


def judged(
    told: Mapping[str, NodeFigures], sizes: Mapping[str, NodeSize], cpu_usage: CpuUsage = "core"
) -> Reading:
    """Return what a server tells of a lab's nodes, by node id, without what cannot be true.

    A node that the lab does not have is left out (facts/cml-issues.md#f5): it is none of its use.
    """
    nodes: dict[str, dict[str, float]] = {}
    gaps: list[str] = []
    missing: set[str] = set()
    for identifier, figures in told.items():
        size = sizes.get(identifier)
        if size is None:
            gaps.append(f"node {identifier}: not a node of this lab")
            continue
        found = _of_node(figures, size, cpu_usage, gaps)
        missing.update(name for name in FIGURES if name not in found)
        nodes[size.label] = found
    lab = {
        name: sum(each[name] for each in nodes.values())
        for name in FIGURES
        if nodes and name not in missing
    }
    return Reading(lab, nodes, tuple(gaps[:GAPS]))


def _of_node(
    figures: NodeFigures, size: NodeSize, cpu_usage: CpuUsage, gaps: list[str]
) -> dict[str, float]:
    found = {}
    cpu = figures.cpu_percent
    if cpu is not None and cpu_usage == "share":
        cpu = None if size.cpus is None else cpu * size.cpus
    for name, value, most, unit in (
        ("cpu_milli", None if cpu is None else cpu * 10, _times(size.cpus, 1000), "millicores"),
        ("memory_mib", figures.memory_mib, size.ram_mib, "MiB"),
        ("storage_mib", figures.storage_mib, None, "MiB"),
    ):
        what = f"{size.label}: {name.split('_', maxsplit=1)[0]}"
        if value is None:
            gaps.append(f"{what} not told")
        elif not math.isfinite(value) or value < 0:
            gaps.append(f"{what} of {value:g} {unit} is no amount")
        elif most is not None and value > most * BEYOND:
            gaps.append(f"{what} of {value:g} {unit} is more than its {most} {unit}")
        else:
            found[name] = value
    return found


def _times(count: int | None, each: int) -> int | None:
    return None if count is None else count * each


def worth_recording(
    before: Mapping[str, Use], measured: int, now: Mapping[str, Use], readings: int
) -> bool:
    """Tell whether a session should be written anew for what its lab has used.

    When a peak has grown by a twentieth and some minutes have passed, and when another figure has
    moved by that much and a quarter more readings were taken than at the last record: the minutes
    themselves are in the series, so a record is for people who look, and for days.
    """
    since = readings - measured
    if since >= PEAK_AFTER and run_use.grown(before, now):
        return True
    return since >= max(MOVED_AFTER, measured * (run_use.LONGER - 1)) and run_use.moved(before, now)


class LabUse:
    """What one lab has used since its first reading, and its nodes."""

    def __init__(self, so_far: RunUse | None = None) -> None:
        self._lab = RunUse() if so_far is None else so_far
        self._nodes: dict[str, RunUse] = {}
        self.readings = self._lab.samples
        self.gaps: tuple[str, ...] = ()

    def add(self, reading: Reading) -> None:
        """Count a reading."""
        self.readings += 1
        self.gaps = reading.gaps
        self._lab.add(reading.lab)
        for label, figures in reading.nodes.items():
            if label in self._nodes or len(self._nodes) < NODES:
                self._nodes.setdefault(label, RunUse()).add(figures)

    def used(self) -> dict[str, Use]:
        """Return what the lab has used, without the figures that nobody measured."""
        return self._lab.used()

    def used_by(self, label: str) -> dict[str, Use]:
        """Return what one node has used."""
        found = self._nodes.get(label)
        return {} if found is None else found.used()
