"""What a run script asks and is told, however it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunWish:
    """One request of a run script; `cost` has the keys of a Simulation's spec, None is unknown."""

    cluster: str
    owner: str
    params: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, int] | None = None
    queue: bool = False
    priority: int = 0
    duration_seconds: int | None = None
    ttl_seconds: int | None = None

    def spec(self) -> dict[str, Any]:
        """Return the fields of a Simulation's spec, as the service's verb takes them."""
        given = {
            "cluster": self.cluster,
            "owner": self.owner,
            "params": dict(self.params),
            "cost": None if self.cost is None else dict(self.cost),
            "queue": "default" if self.queue else None,
            "priority": self.priority,
            "durationSeconds": self.duration_seconds,
            "ttlSeconds": self.ttl_seconds,
        }
        return {name: value for name, value in given.items() if value is not None}

    def sent(self) -> dict[str, Any]:
        """Return the body of POST /request_run: parameters stand beside the reserved words."""
        given = {
            "cluster": self.cluster,
            "owner": self.owner,
            "cost": None if self.cost is None else dict(self.cost),
            "queue": self.queue,
            "priority": self.priority,
            "duration_seconds": self.duration_seconds,
            "ttl_seconds": self.ttl_seconds,
        }
        known = {name: value for name, value in given.items() if value is not None}
        return {**self.params, **known}


@dataclass(frozen=True, slots=True)
class Told:
    """An answer: approved, denied or queued, and the name of the record that keeps it."""

    decision: str
    name: str


def told(outcome: str, name: str) -> Told:
    """Return the answer to a decision's outcome."""
    return Told("queued" if outcome == "waiting" else outcome, name)
