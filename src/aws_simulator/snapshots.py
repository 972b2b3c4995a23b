"""Keeps the whole simulated state under a name and puts it back: world, moto's EC2, the dice.

In memory only. The CML simulator's servers are no part of it, and a call that is under way is not
waited for. A snapshot may be restored many times.
"""

import copy
import dataclasses
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.ec2.models import ec2_backends
from moto.moto_api._internal import mock_random

from aws_simulator.world import World

LIMIT = 16
WORLD = (
    "rules",
    "rule_number",
    "journal",
    "buckets",
    "machines",
    "instances",
    "tokens",
    "doubles",
    "agenda",
    "numbers",
    "notices",
    "config",
)


@dataclasses.dataclass
class Snapshots:
    """The kept states of one world, by name; the oldest goes when there are too many."""

    kept: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def take(self, world: World, name: str) -> dict[str, Any]:
        """Keep the state as it is now."""
        now = world.clock.now()
        whole = {
            "now": now,
            "dice": world.dice.getstate(),
            "ids": mock_random.getstate(),
            "world": {field: getattr(world, field) for field in WORLD},
            "backends": [vars(backend) for backend in _backends()],
        }
        self.kept.pop(name, None)
        self.kept[name] = _copied(whole)
        for oldest in list(self.kept)[:-LIMIT]:
            del self.kept[oldest]
        return {"name": name, "at": now}

    def restore(self, world: World, name: str) -> dict[str, Any]:
        """Put a kept state back; LookupError for a name that was never taken."""
        kept = self.kept.get(name)
        if kept is None:
            raise LookupError(f"no snapshot {name!r}; there are: {', '.join(self.kept) or 'none'}")
        whole = _copied(kept)
        for field, value in whole["world"].items():
            setattr(world, field, value)
        for machine in world.machines.values():
            machine.busy, machine.retry_at = False, 0.0
        backends = _backends()
        for backend in backends[len(whole["backends"]) :]:
            backend.reset()
        for backend, state in zip(backends, whole["backends"], strict=False):
            vars(backend).clear()
            vars(backend).update(state)
        world.dice.setstate(whole["dice"])
        mock_random.setstate(whole["ids"])
        world.clock.jump(whole["now"])
        world.disturb()
        return {"name": name, "at": whole["now"]}


def _backends() -> list[Any]:
    """Return moto's backends of EC2 and CloudWatch in the order in which they came to be."""
    found: list[Any] = []
    services: tuple[Any, ...] = (ec2_backends, cloudwatch_backends)
    for service in services:
        for account in list(service.values()):
            found += list(account.values())
    return found


def _copied(whole: dict[str, Any]) -> dict[str, Any]:
    """Copy a state deeply; what points at a backend goes on pointing at the live one."""
    memo = {id(backend): backend for backend in _backends()}
    copied: dict[str, Any] = copy.deepcopy(whole, memo)
    return copied
