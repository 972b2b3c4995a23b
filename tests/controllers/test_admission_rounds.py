"""Who decides on simulations counts what is held anew, so that no missed change counts for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from virtual_time import play
from world import Process, World, world

from labfleet.controllers.admission import COUNT_SECONDS
from labfleet.controllers.admission import KEY as ADMISSION
from labfleet.resources.simulation import Simulation
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller
from labfleet.service.verbs import admission

RUNNER = Caller(Principal("token-1", Role.ADMIN, "ada"))


async def ask(process: Process) -> Simulation:
    """Ask for three of four CPUs, and let the leader decide."""
    body: dict[str, Any] = {"cost": {"cpu": 3, "memory": "1Gi"}, "durationSeconds": 36000}
    asked = asyncio.create_task(
        admission.request_run(process.services, RUNNER, body, namespace="default")
    )
    await asyncio.sleep(0.1)
    await process.reconcile("admission", ADMISSION)
    return await asked


async def one_that_ended_unheard(w: World) -> Process:
    """Return a leader that has not heard of the end of the one run that it let in."""
    process = await w.start(run=())
    await w.make("Cluster", "default", {"capacity": {"cpu": 5, "memory": "100Gi"}})
    await process.services.fresh()
    await process.reconcile("admission", ADMISSION)
    first = await ask(process)
    assert first.status.phase == "APPROVED"
    # private _handlers: the cache is right, only its listeners miss the next change
    handlers = process.cache._handlers
    kept, handlers["Simulation"] = handlers["Simulation"], []
    await admission.simulation_complete(process.services, RUNNER, first.name, "default")
    await process.services.fresh()
    handlers["Simulation"] = kept
    return process


def test_a_missed_end_is_found_when_it_counts_anew() -> None:
    """A run whose end nobody heard of counts for minutes, not until another process leads."""

    async def story() -> None:
        async with world() as w:
            process = await one_that_ended_unheard(w)
            assert (await ask(process)).status.phase == "DENIED"
            await asyncio.sleep(COUNT_SECONDS)
            assert (await ask(process)).status.phase == "APPROVED"

    play(story)
