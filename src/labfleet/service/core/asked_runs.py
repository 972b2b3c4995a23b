"""Requests of this process that wait for whoever decides on simulations, in order of arrival.

The callers of a process whose decider is elsewhere find the line closed: they store their request
and wait for its decision in the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.kernel import errors
from labfleet.resources.decision import Decision
from labfleet.resources.simulation import Simulation, SimulationSpec

LIMIT = 5_000
"""The most requests that wait here; the next one is asked to come again."""


def _now() -> float:
    return asyncio.get_running_loop().time()


def _future() -> asyncio.Future[Simulation]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class Asked:
    """One request, who asked it, its idempotency key if it has one, since when, and its answer."""

    spec: SimulationSpec
    namespace: str
    actor: str
    request_id: str = ""
    key: str | None = None
    digest: str = ""
    since: float = field(default_factory=_now)
    tries: int = 1
    answer: asyncio.Future[Simulation] = field(default_factory=_future)


class AskedRuns:
    """The line; `serve` opens it for as long as somebody here decides."""

    def __init__(self) -> None:
        self._line: deque[Asked] = deque()
        self._keys: dict[str, Asked] = {}
        self._wake: Callable[[], object] | None = None
        self._leads: Callable[[], bool] = bool
        self.observer: Callable[[Decision, float], None] | None = None
        """Is told of each durable decision and of the machine seconds that it took."""

    @property
    def served(self) -> bool:
        """Tell whether somebody in this process decides what waits here."""
        return self._wake is not None and self._leads()

    def __len__(self) -> int:
        return len(self._line)

    def serve(self, wake: Callable[[], object], leads: Callable[[], bool]) -> None:
        """Open the line for as long as `leads` is true: `wake` is called after each request."""
        self._wake, self._leads = wake, leads

    def under(self, key: str) -> Asked | None:
        """Return the request that waits here under this idempotency key."""
        return self._keys.get(key)

    def submit(self, asked: Asked) -> asyncio.Future[Simulation]:
        """Join the line; the future is the decision. Throttled when the line is full."""
        assert self._wake is not None  # noqa: S101 - callers look at `served` first
        if len(self._line) >= LIMIT:
            message = f"{len(self._line)} requests wait for a decision already; ask again"
            raise errors.Throttled(message, retry_after=1.0)
        if asked.key is not None:
            self._keys[asked.key] = asked
        self._line.append(asked)
        self._wake()
        return asked.answer

    def take(self, most: int) -> list[Asked]:
        """Return the next requests of the line, those whose callers have left without an answer too.

        A caller that was cut off may ask again under its key and finds the one decision.
        """
        return [self._line.popleft() for _ in range(min(most, len(self._line)))]

    def leave(self, asked: Asked) -> bool:
        """Take a request out of the line; False when it is being decided already, or is decided."""
        if not self.waits(asked):
            return False
        self._line.remove(asked)
        self._leave(asked)
        return True

    def again(self, asked: Asked) -> None:
        """Put a request back at the head of the line."""
        asked.tries += 1
        self._line.appendleft(asked)

    def waits(self, asked: Asked) -> bool:
        """Tell whether a request is in the line."""
        return any(each is asked for each in self._line)

    def answer(self, asked: Asked, decided: Simulation) -> None:
        """Give a request its answer."""
        self._leave(asked)
        if self.observer is not None and decided.status.decision is not None:
            took = asyncio.get_running_loop().time() - asked.since
            self.observer(decided.status.decision, took)
        if not asked.answer.done():
            asked.answer.set_result(decided)

    def refuse(self, asked: Asked, problem: BaseException) -> None:
        """Tell a request's callers that it was not decided, and why."""
        self._leave(asked)
        if not asked.answer.done():
            asked.answer.set_exception(problem)
            asked.answer.exception()  # a caller that was cut off no longer reads it

    def _leave(self, asked: Asked) -> None:
        if asked.key is not None and self._keys.get(asked.key) is asked:
            del self._keys[asked.key]
