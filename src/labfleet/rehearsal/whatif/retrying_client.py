"""Sends the requests of a what-if's people until a living process has answered them.

Counts refusals, and keeps which sessions were refused and why. The requests themselves come
from `plans.demand`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from labfleet.kernel import errors
from labfleet.rehearsal.plans.demand import PlannedSession
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.resources.kinds import KINDS
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import objects

T = TypeVar("T")
ADMIN = Caller(Principal("admin", Role.ADMIN, "what-if"))
PATIENCE, TRIES = 60.0, 50


@dataclass(frozen=True, slots=True)
class RefusedSession:
    """A session that was refused when it was asked for."""

    wish: PlannedSession
    reason: str
    message: str


@dataclass(slots=True)
class RetryingClient:
    """Sends people's requests to a living process until they are answered."""

    stage: Stage
    rng: SeededRng
    refused: Counter[str] = field(default_factory=Counter)
    turned_away: list[RefusedSession] = field(default_factory=list)

    async def ask(self, verb: Callable[[ServiceContext], Awaitable[T]]) -> T | errors.LabfleetError:
        """Return the answer, or the error of a final refusal (counted by reason)."""
        for attempt in range(TRIES):
            living = self.stage.living()
            if not living:
                await asyncio.sleep(5.0)
                continue
            replica = living[self.rng.below(len(living))]
            try:
                async with asyncio.timeout(PATIENCE):
                    await replica.cache.ready()
                    return await replica.ask(verb)
            except (TimeoutError, errors.Temporary, errors.Ambiguous):
                pass
            except errors.LabfleetError as problem:
                if isinstance(problem, errors.Conflict) and problem.reason == "Conflict":
                    continue
                return self._no(problem)
            await asyncio.sleep(min(2.0 * (attempt + 1), 30.0))
        return self._no(errors.Temporary(f"no answer in {TRIES} tries", reason="GaveUp"))

    def _no(self, problem: errors.LabfleetError) -> errors.LabfleetError:
        self.refused[problem.reason] += 1
        return problem

    async def make(self, kind: str, name: str, spec: dict[str, Any]) -> errors.LabfleetError | None:
        """Create an object; return why not, when it was refused."""
        body = {"metadata": {"name": name}, "spec": spec}
        made = await self.ask(
            lambda services: objects.create(
                services, ADMIN, KINDS[kind], body, key=f"{kind}/{name}"
            )
        )
        return made if isinstance(made, errors.LabfleetError) else None

    async def wish(self, wish: PlannedSession, spec: dict[str, Any]) -> bool:
        """Ask for a session; False when it was turned away, which is kept."""
        problem = await self.make("Session", wish.name, spec)
        if problem is not None:
            self.turned_away.append(RefusedSession(wish, problem.reason, problem.message))
        return problem is None
