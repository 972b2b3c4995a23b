"""Steps and readings that the tests of the idle rule share."""

from __future__ import annotations

from typing import Any

import msgspec
from world import ADMIN, MACHINE, Process, World

from cml_simulator.core.model import Lab
from labfleet.resources.meta import Key
from labfleet.resources.worker import Worker
from labfleet.service.verbs import settings_verbs

SEEN: dict[str, Any] = {**MACHINE, "cml": {**MACHINE["cml"], "enableTelemetry": True}}


async def rule_on(w: World, **over: Any) -> None:
    """Switch the rule on: 20 minutes without use, no snooze, 2 minutes of warning."""
    wanted = {
        "enabled": True, "timeoutMinutes": 20, "snoozeMinutes": 0, "warnMinutes": 2, **over,
    }  # fmt: skip
    values = {f"idle.{key}": value for key, value in wanted.items()}
    await settings_verbs.change(w.services, ADMIN, values)


async def ready(w: World, **over: Any) -> Process:
    """One worker without a pool that is up, the rule on."""
    process = await w.start()
    await rule_on(w, **over)
    await w.worker(machine=SEEN)
    await w.definition()
    await w.until(w.in_phase("w1", "READY"))
    return process


def kept_by(w: World, name: str = "w1") -> tuple[str, ...]:
    return w.get_worker(name).status.idle.signals


def foreign_lab(w: World, worker: str = "w1", nodes: int = 1) -> Lab:
    """Start a lab that is not ours, as somebody does in CML's own pages."""
    return w.hosts.run(worker, nodes=nodes)


def has_labs(w: World, worker: str = "w1") -> bool:
    return bool(w.hosts.of(worker).labs)


def all_(w: World) -> list[Worker]:
    return list(w.cache.all(Worker))


async def respec(w: World, obj: Any, **changes: Any) -> None:
    """Change what is wanted of an object, as a person's patch does."""
    from labfleet.interfaces import store as stores

    fresh = await w.services.objects.get(type(obj), obj.name, "default")
    metadata = msgspec.structs.replace(fresh.metadata, generation=fresh.metadata.generation + 1)
    spec = msgspec.structs.replace(fresh.spec, **changes)
    new = msgspec.structs.replace(fresh, metadata=metadata, spec=spec)
    await w.services.objects.save(new, cause=stores.Cause("tester", w.clock.now()))
    key = Key(obj.kind, "default", obj.name)
    await w.until(lambda: (found := w.cache.at(key)) is not None and found.spec == spec)
