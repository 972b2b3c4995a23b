"""The world that moto's patched classes serve, and the patched methods' originals.

Moto keeps its state per process, so there is one active world per process: the newest one.
"""

from typing import Any

from aws_simulator.machine import Machine
from aws_simulator.world import World

ORIGINALS: dict[str, Any] = {}
_active: list[World] = []


def activate(new: World) -> None:
    """Make a world the one that moto's classes serve."""
    _active[:] = [new]


def world() -> World:
    """Return the world that moto's classes serve now."""
    return _active[-1]


def machine_of(instance: Any) -> Machine | None:
    """Return the machine of an instance; None while moto is still building it."""
    return world().machines.get(instance.id)
