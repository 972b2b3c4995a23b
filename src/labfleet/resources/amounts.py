"""Amounts of what a lab needs and a worker has, and who holds how much from when to when.

Integers in base units, named by unit, so that no number can be misread. Friendly spellings
(`cpu: 2`, `memory: 4Gi`, `storage: 20Gi`, `network: 100` in Mbit/s) are turned into these at
the edge by `expand`: demand up, supply down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import add, attrgetter
from typing import Any

from labfleet.kernel import quantity
from labfleet.resources.meta import Record

DIMENSIONS = (
    "cpu_milli", "memory_mib", "storage_mib", "nodes", "labs", "ports", "network_kbps",
)  # fmt: skip
LABELS = {
    "cpu_milli": "mCPU", "memory_mib": "MiB memory", "storage_mib": "MiB storage",
    "nodes": "licensed nodes", "labs": "lab slots", "ports": "ports", "network_kbps": "kbit/s",
}  # fmt: skip


MOST = 2**40
"""The largest amount that a body may name, in base units: a billion CPUs, an EiB of memory.

Far below 2**53, from where JavaScript rounds: thousands of the largest can still be summed.
"""
_vector = attrgetter(*DIMENSIONS)


def vector(amounts: Amounts) -> tuple[int, ...]:
    """Return the amounts in the order of DIMENSIONS, for comparing many quickly."""
    found: tuple[int, ...] = _vector(amounts)
    return found


class Amounts(Record, frozen=True, kw_only=True):
    """How much of each dimension; 0 means none is needed or none is there.

    cpu_milli: Thousandths of a CPU.
    memory_mib: Memory in MiB.
    storage_mib: Disk in MiB.
    nodes: Nodes of labs.
    labs: Labs at the same time.
    ports: Ports for people on one server.
    network_kbps: Network in kbit/s.
    """

    cpu_milli: int = 0
    memory_mib: int = 0
    storage_mib: int = 0
    nodes: int = 0
    labs: int = 0
    ports: int = 0
    network_kbps: int = 0

    def __post_init__(self) -> None:
        if min(vector(self)) < 0:
            name = next(name for name in DIMENSIONS if getattr(self, name) < 0)
            message = f"{name}: an amount is zero or more"
            raise ValueError(message)

    def __add__(self, other: Amounts) -> Amounts:
        return of_vector(map(add, vector(self), vector(other)))


def of_vector(numbers: Iterable[int]) -> Amounts:
    """Return the amounts of numbers in the order of DIMENSIONS."""
    cpu, memory, storage, nodes, labs, ports, network = numbers
    return Amounts(
        cpu_milli=cpu,
        memory_mib=memory,
        storage_mib=storage,
        nodes=nodes,
        labs=labs,
        ports=ports,
        network_kbps=network,
    )


class Shortage(Record, frozen=True, kw_only=True):
    """What one candidate lacks in one dimension: wanted and free, in the base unit.

    dimension: What is short, as a field of amounts.
    wanted: How much is needed, in the base unit.
    free: How much is free, in the base unit.
    """

    dimension: str
    wanted: int
    free: int


class Reservation(Record, frozen=True, kw_only=True):
    """Capacity held on one worker or cluster, from when to when.

    Bound in the same transaction that places the request.

    holder: Name of the worker or cluster on which it is held.
    amounts: How much is held.
    start: From when it is held.
    end: Until when; null means until the owner's end was seen.
    """

    holder: str
    amounts: Amounts
    start: datetime
    end: datetime | None = None


class Claim(Record, frozen=True, kw_only=True):
    """What a pool has promised to one session: so much on one of its workers, from when to when.

    It is held from the commit that accepts the session until the session has ended, whichever
    worker that will be.

    pool: Name of the pool.
    place: Which of the workers that the pool may have, counted from 0; claims of one place are for
    one worker.
    amounts: How much is promised.
    start: From when.
    end: Until when.
    """

    pool: str
    place: int
    amounts: Amounts
    start: datetime
    end: datetime


def expand(raw: dict[str, Any], *, supply: bool) -> dict[str, Any]:
    """Return the raw mapping with friendly keys turned into base units.

    Accepts cpu, memory, storage (quantity text) and network (Mbit/s) beside the unit-named
    keys in camelCase; naming one dimension both ways is a ValueError.
    """
    turned = dict(raw)
    for friendly, exact, parse in (
        ("cpu", "cpuMilli", quantity.parse_cpu),
        ("memory", "memoryMib", quantity.parse_memory),
        ("storage", "storageMib", quantity.parse_memory),
    ):
        if friendly not in turned:
            continue
        if exact in turned:
            message = f"{friendly} and {exact} say the same thing; keep one"
            raise ValueError(message)
        turned[exact] = parse(turned.pop(friendly), supply=supply)
    if "network" in turned:
        turned["networkKbps"] = quantity.parse_cpu(turned.pop("network"), supply=supply)
    for name, value in turned.items():
        # A boolean or a text is judged by the type; only numbers can be too large.
        if isinstance(value, int | float) and value > MOST:
            message = f"{name}: an amount is at most {MOST}"
            raise ValueError(message)
    return turned


def blocks(raw: Any, path: str) -> list[tuple[str, ...]]:
    """Return where in a raw object the blocks of amounts are that a dotted path means.

    A step `*` stands for each key of a mapping. What is no mapping has no block.
    """
    found: list[tuple[tuple[str, ...], Any]] = [((), raw)]
    for step in path.split("."):
        found = [
            ((*steps, key), inner[key])
            for steps, inner in found
            if isinstance(inner, Mapping)
            for key in (inner if step == "*" else (step,))
            if key in inner
        ]
    return [steps for steps, block in found if isinstance(block, Mapping)]
