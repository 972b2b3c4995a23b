"""Steps that the tests of a worker in trouble and of its end share."""

from __future__ import annotations

from typing import Any

from world import World


async def up(w: World, **spec: Any) -> None:
    await w.start()
    await w.worker(**spec)
    await w.until(w.in_phase("w1", "READY"))


async def ended(w: World) -> None:
    await w.desire("w1", "Terminated")
    await w.until(w.in_phase("w1", "TERMINATED"))
