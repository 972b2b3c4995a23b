"""Sends a request to some living process until it is answered, as through a load balancer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labfleet.kernel import errors
from labfleet.rehearsal.replicas.fleet_client import ReplicaCall
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.time.virtual_host import SeededRng

PATIENCE = 20.0
TRIES = 30


@dataclass(slots=True)
class Sender:
    """Where requests go; `rng` draws the process, `refused` counts refusals by their reason.

    `on_refusal` takes each refusal as it was told.
    """

    rng: SeededRng
    replicas: Callable[[], list[Replica]]
    on_refusal: Callable[[errors.LabfleetError], object] | None = None
    refused: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    async def send(self, ask: ReplicaCall) -> Any:
        """Send a request until it is answered; None when it was refused for good."""
        self.asked += 1
        for attempt in range(TRIES):
            living = self.replicas()
            if not living:
                await asyncio.sleep(5)
                continue
            replica = living[self.rng.below(len(living))]
            try:
                async with asyncio.timeout(PATIENCE):
                    await replica.cache.ready()
                    return await ask(replica)
            except (TimeoutError, errors.Temporary, errors.Ambiguous):
                pass
            except errors.LabfleetError as problem:
                if isinstance(problem, errors.Conflict) and problem.reason == "Conflict":
                    continue
                self.refused[problem.reason] += 1
                if self.on_refusal is not None:
                    self.on_refusal(problem)
                return None
            await asyncio.sleep(min(2.0 * (attempt + 1), 30.0))
        self.refused["GaveUp"] += 1
        return None
