"""Saves and restores the whole simulated state by name: world, moto's EC2, random numbers.

In memory only, without the CML simulator's servers. Taking one does not wait for calls under way.
A snapshot may be restored many times.
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
            "dice": world.rng.getstate(),
            "ids": mock_random.getstate(),
            "world": {field: getattr(world, field) for field in WORLD},
            "backends": {place: vars(backend) for place, backend in _backends().items()},
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
        for place, backend in _backends().items():
            state = whole["backends"].get(place)
            if state is None:
                backend.reset()
            else:
                vars(backend).clear()
                vars(backend).update(state)
        world.rng.setstate(whole["dice"])
        mock_random.setstate(whole["ids"])
        world.clock.jump(whole["now"])
        world.disturb()
        return {"name": name, "at": whole["now"]}


def _backends() -> dict[tuple[str, str, str], Any]:
    """Return moto's backends of EC2 and CloudWatch by (service, account, region)."""
    services: dict[str, Any] = {"ec2": ec2_backends, "cloudwatch": cloudwatch_backends}
    return {
        (service, str(account), str(region)): backend
        for service, accounts in services.items()
        for account, regions in list(accounts.items())
        for region, backend in list(regions.items())
    }


def _copied(whole: dict[str, Any]) -> dict[str, Any]:
    """Copy a state deeply; references to a backend keep pointing at the live one."""
    memo = {id(backend): backend for backend in _backends().values()}
    copied: dict[str, Any] = copy.deepcopy(whole, memo)
    return copied
