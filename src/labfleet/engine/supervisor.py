"""Runs the roles of one process: starts, watches, restarts and stops them in order.

A role with `leads` runs only while this process is leader: it is cancelled when leadership is
lost and started again when it is regained. A role that crashes is reported and restarted after
a back-off in machine seconds. Unix signals are not handled here: the composition root calls
`stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from labfleet.engine.controller import single
from labfleet.engine.election import AlwaysLeader, Leadership
from labfleet.engine.wakeup import Pause
from labfleet.kernel import backoff, errors
from labfleet.kernel.rng import Rng

# A role that ran this many machine seconds starts its failure count afresh.
SETTLED_SECONDS = 60.0
CANCEL_SECONDS = 5.0


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Role:
    """One part of the process: a coroutine that runs until cancelled.

    `leads`: run only while this process leads. `stop` asks it to finish its present work and
    return; a role without it is cancelled. `ready` says whether the running role is ready.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    leads: bool = False
    stop: Callable[[], None] | None = None
    ready: Callable[[], bool] = _always


class State(StrEnum):
    """Where a role stands."""

    WAITING = "waiting"
    STANDBY = "standby"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    STOPPED = "stopped"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Readiness:
    """One role's answer to `/readyz`; a standby counts as ready: it is in its proper state."""

    state: State
    ready: bool
    message: str = ""


class SupervisorObserver(Protocol):
    """Is told of every change of a role; the composition root implements it."""

    def role_changed(
        self, role: str, state: State, error: BaseException | None, wait: float
    ) -> None:
        """Record one change; `wait` is machine seconds until a restart. Must not raise."""
        ...


class _Kept:
    """What is known of one role."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.state = State.WAITING
        self.message = ""
        self.failures = 0
        self.cancelled = False
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Supervisor:
    """Runs roles in one TaskGroup until stopped.

    Stopping: first all roles with `leads` at once, then the others one by one in reverse order.
    So list the feed and the election first: they then stop last.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        *,
        rng: Rng,
        leadership: Leadership | None = None,
        observer: SupervisorObserver | None = None,
        deadline: float = 20.0,
        machine: Callable[[], float] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._kept = {role.name: _Kept(role) for role in roles}
        self._rng = rng.stream("supervisor")
        self._leadership = leadership or AlwaysLeader()
        self._observer = observer
        self._deadline = deadline
        self._machine = machine or _loop_time
        self._pause = pause
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Make `run` stop every role within the deadline and return; safe to call twice."""
        self._stopping.set()

    def readiness(self) -> dict[str, Readiness]:
        """Return each role's state and whether it is as it should be."""
        answer = {}
        for name, kept in self._kept.items():
            ready = kept.state is State.STANDBY or (
                kept.state is State.RUNNING and kept.role.ready()
            )
            answer[name] = Readiness(kept.state, ready, kept.message)
        return answer

    async def run(self) -> None:
        """Run every role; return once `stop` was called and all have stopped."""
        async with asyncio.TaskGroup() as group:
            for name, kept in self._kept.items():
                kept.task = group.create_task(self._keep(kept), name=name)
                kept.task.add_done_callback(lambda _, kept=kept: self._over(kept))  # type: ignore[misc]
            try:
                await self._stopping.wait()
            except asyncio.CancelledError:
                # A role may turn its one cancellation into some error (a TaskGroup does): it
                # still must not be run again, and the group would wait for it for ever.
                self._stopping.set()
                raise
            await self._wind_down()

    async def _keep(self, kept: _Kept) -> None:
        while not self._stopping.is_set():
            if kept.role.leads and not self._leadership.held:
                self._change(kept, State.STANDBY)
                await self._leadership.wait_held()
            error = await self._once(kept)
            if error is not None and not self._stopping.is_set():
                await self._back_off(kept, error)

    def _over(self, kept: _Kept) -> None:
        # A callback of the task, because a task that is cancelled before its first step
        # runs no `finally`.
        self._change(kept, State.STOPPED)
        kept.ended.set()

    async def _once(self, kept: _Kept) -> BaseException | None:
        """Run the role once; return the error that ended it, None when its leadership ended."""
        begun = self._machine()
        self._change(kept, State.RUNNING)
        try:
            if not kept.role.leads:
                await kept.role.run()
            elif await self._while_leading(kept.role):
                return None
        except Exception as problem:  # noqa: BLE001 - the supervisor: one role never ends another
            error = single(problem)
        else:
            error = RuntimeError(f"role {kept.role.name} ended without being asked to")
        if self._machine() - begun >= SETTLED_SECONDS:
            kept.failures = 0
        return error

    async def _while_leading(self, role: Role) -> bool:
        """Run the role for one term of leadership; return whether leadership was lost."""
        lost = False

        async def guard(work: asyncio.Task[None]) -> None:
            nonlocal lost
            await self._leadership.wait_lost()
            lost = True
            work.cancel()

        async with asyncio.TaskGroup() as term:
            work = term.create_task(_awaited(role.run()), name=role.name)
            watch = term.create_task(guard(work), name=f"{role.name}/term")
            work.add_done_callback(lambda _: watch.cancel())
        return lost

    async def _back_off(self, kept: _Kept, error: BaseException) -> None:
        fenced = isinstance(error, errors.Fenced)
        kept.failures = 1 if fenced else kept.failures + 1
        wait = backoff.delay(kept.failures, self._rng.random())
        if fenced:
            # No error: the lead is lost, and a write knew it before this role was told. The
            # election tells of it, and notices at its next renewal where the store knew first.
            self._change(kept, State.STANDBY)
        else:
            kept.message = f"{type(error).__name__}: {error}"
            self._change(kept, State.BACKING_OFF, error, wait)
        await self._pause(wait)

    async def _wind_down(self) -> None:
        limit = self._machine() + self._deadline
        leading = [kept for kept in self._kept.values() if kept.role.leads]
        others = [kept for kept in self._kept.values() if not kept.role.leads]
        for batch in (leading, *([kept] for kept in reversed(others))):
            asked = [kept for kept in batch if _ask(kept)]
            for kept in batch:
                left = limit - self._machine() if kept in asked else 0.0
                await self._ended(kept, max(left, 0.0))

    async def _ended(self, kept: _Kept, left: float) -> None:
        """Wait for a role's end, cancel it when the time is over, and report one that hangs."""
        if await _within(kept.ended, left):
            return
        _cancel(kept)
        if not await _within(kept.ended, CANCEL_SECONDS):
            self._change(kept, State.STUCK)

    def _change(
        self, kept: _Kept, state: State, error: BaseException | None = None, wait: float = 0.0
    ) -> None:
        kept.state = state
        if state is not State.BACKING_OFF:
            kept.message = ""
        if self._observer is not None:
            self._observer.role_changed(kept.role.name, state, error, wait)


def _ask(kept: _Kept) -> bool:
    """Ask a running role to finish; cancel one that cannot be asked and return False."""
    if kept.role.stop is not None and kept.state is State.RUNNING:
        kept.role.stop()
        return True
    _cancel(kept)
    return False


def _cancel(kept: _Kept) -> None:
    # Only once: a second cancellation would interrupt the `finally` blocks that the first one
    # runs, such as releasing the lease. (`Task.cancelling` cannot be used to tell: a TaskGroup
    # of Python 3.11 leaves it above 0 after a child failed.)
    if kept.task is not None and not kept.cancelled:
        kept.cancelled = True
        kept.task.cancel()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
