"""A seeded event loop in virtual time: time jumps to the next timer, the order is drawn.

The callbacks that are ready in one turn run in an order drawn from (seed, name of the task, its
step), not from the place in a queue, so that an unrelated change elsewhere does not reshuffle
everything. Threads and sockets are refused. When nothing is ready and no timer is set, Deadlock is
raised and names who waits for what. The loop hosts several *processes*: one that is killed never
runs another line, not even a `finally`; one that is paused receives on waking all that came
meanwhile.

The loop knows nothing of the product.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import heapq
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
# Steps at one instant of virtual time after which the loop raises Livelock.
SPIN_LIMIT = 500_000
SHOWN = 30
# Number of cancelled handles from which on cancelled timers are removed.
FORGOTTEN = 256


class Deadlock(Exception):
    """Nothing is ready and no timer is set: the message says who waits for what."""


class Livelock(Exception):
    """Very many steps at one instant: the message names those that took them."""


class Refused(RuntimeError):
    """Something that has no place in virtual time: a thread or a socket."""


class Process:
    """One process of the rehearsal: its tasks are killed together and paused together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[Any] = []
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.base: _Actor | None = None


class _Actor:
    """What runs a callback: a task, or a process outside of its tasks. Has draws of its own."""

    __slots__ = ("children", "drawn", "key", "name", "process", "step", "turn")

    def __init__(self, seed: int, name: str, process: Process | None) -> None:
        digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
        self.name = name
        self.process = process
        self.key = int.from_bytes(digest, "big")
        self.step = 0
        self.turn = -1
        self.drawn = 0
        self.children: dict[str, int] = {}

    def draw(self, turn: int) -> int:
        """Return the place in this turn; the same for all its handles of one turn."""
        if self.turn != turn:
            self.turn = turn
            self.step += 1
            mixed = (self.key + self.step * _GOLDEN) & _MASK
            mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            self.drawn = mixed ^ (mixed >> 27)
        return self.drawn

    def child(self, word: str) -> str:
        """Return the name of the next child of this word.

        It is not the asyncio task's name: Python versions set that at different moments.
        """
        count = self.children.get(word, 0) + 1
        self.children[word] = count
        return f"{self.name}/{word}" if count == 1 else f"{self.name}/{word}~{count}"


class _Task(asyncio.Task[Any]):
    """A task that knows its actor before its first step is queued."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, actor: _Actor, **kwargs: Any) -> None:
        self.actor = actor
        super().__init__(coro, **kwargs)


class _Handle:
    """A callback with its actor: the part of asyncio's handles that is used.

    Made without an `__init__`, which would cost one more call for each step. A cancelled one stays
    in its list.
    """

    __slots__ = ("actor", "args", "callback", "cancelled", "context", "loop", "timed")
    actor: _Actor
    args: tuple[Any, ...]
    callback: Callable[..., object]
    cancelled: bool
    context: contextvars.Context | None
    loop: Loop
    timed: bool
    """It waits among the timers. Nobody reads `context` where it is None."""

    def cancel(self) -> None:
        """Let go of the callback."""
        if not self.cancelled:
            self.cancelled = True
            self.callback = _nothing
            self.args = ()
            if self.timed:
                self.loop.forget()


_made = object.__new__


def _wake(future: asyncio.Future[None]) -> None:
    """End a sleep, unless it was cut short."""
    if not future.done():
        future.set_result(None)


def _nothing() -> None:
    """Stand where a cancelled callback was."""


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Loop(asyncio.BaseEventLoop):
    """The loop of one rehearsal. `digest` sums up the schedule so far."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.digest = 0
        self.steps = 0
        self._now = 0.0
        self._turn = 0
        self._pending: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._timer_count = 0
        self._same_instant = 0
        self._forgotten = 0
        self._world = _Actor(seed, "world", None)
        self._running: _Actor = self._world
        self._all: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._graves: list[asyncio.Task[Any]] = []
        self._over = False
        self.troubles: list[str] = []
        self.set_exception_handler(_note_trouble)
        # Asked for every future, and answered without a frame of Python.
        self.get_debug = bool  # type: ignore[method-assign]
        self.create_future = functools.partial(  # type: ignore[method-assign]
            asyncio.Future, loop=self
        )

    # --- time and order ----------------------------------------------------------------

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._now

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in the next turn."""
        owner = getattr(callback, "__self__", None)
        actor = owner.actor if type(owner) is _Task else self._actor_in(context)
        if context is None:
            context = contextvars.copy_context()
        handle = _made(_Handle)
        handle.callback = callback
        handle.args = args
        handle.context = context
        handle.actor = actor
        handle.cancelled = False
        handle.timed = False
        if not self._over:
            self._pending.append(handle)
        return handle  # type: ignore[return-value]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after so many virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a virtual time."""
        owner = getattr(callback, "__self__", None)
        actor = owner.actor if type(owner) is _Task else self._actor_in(context)
        if context is None:
            context = contextvars.copy_context()
        return self._set(when, callback, args, context, actor)

    def _set(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        actor: _Actor,
    ) -> asyncio.TimerHandle:
        handle = _made(_Handle)
        handle.callback = callback
        handle.args = args
        handle.context = context
        handle.actor = actor
        handle.cancelled = False
        handle.timed = True
        handle.loop = self
        if not self._over:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle  # type: ignore[return-value]

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is only this thread

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds: `asyncio.sleep` for who knows the loop, which that looks up."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        timer = self._set(self._now + seconds, _wake, (future,), None, self._running)
        try:
            await future
        finally:
            timer.cancel()

    def _actor_in(self, context: contextvars.Context | None) -> _Actor:
        """Return the actor of a callback that belongs to no task."""
        running = self._running
        if context is None:
            return running
        process = context.get(_process)
        return running if process is running.process else self._base(process)

    def _base(self, process: Process | None) -> _Actor:
        if process is None:
            return self._world
        if process.base is None:
            process.base = _Actor(self.seed, process.name, process)
        return process.base

    def _run_once(self) -> None:  # noqa: C901, PLR0912 - one loop, for speed
        """Run turns until the loop is to stop: all that is ready now, in a drawn order.

        Half of a rehearsal's steps are alone in their turn, and a step is little work. So this
        loop avoids function calls.
        """
        timers, heappop = self._timers, heapq.heappop
        while not self._stopping:  # type: ignore[attr-defined]
            pending = self._pending
            if not pending:
                self._jump()
            now = self._now
            while timers and timers[0][0] <= now:
                timer = heappop(timers)[2]
                if not timer.cancelled:
                    timer.timed = False
                    pending.append(timer)
            self._pending = []
            self._turn += 1
            if len(pending) > 1:
                turn = self._turn
                pending.sort(key=lambda handle: handle.actor.draw(turn))
            self._same_instant += len(pending)
            if self._same_instant > SPIN_LIMIT:
                raise Livelock(_spinning(pending, now))
            for handle in pending:
                if handle.cancelled:
                    continue
                actor = handle.actor
                process = actor.process
                if process is not None and not (process.alive and not process.paused):
                    if process.alive:
                        process.held.append(handle)
                    continue
                self._running = actor
                self.steps += 1
                self.digest = (self.digest * 0x100000001B3 ^ actor.key ^ actor.step) & _MASK
                context = handle.context
                try:
                    if context is None:
                        handle.callback(*handle.args)
                    else:
                        context.run(handle.callback, *handle.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as problem:  # noqa: BLE001 - as asyncio does
                    told = {"message": f"Exception in {handle.callback}", "exception": problem}
                    self.call_exception_handler(told)
            self._running = self._world

    def _jump(self) -> None:
        """Go to the next instant at which a living process has a timer."""
        timers = self._timers
        while timers:
            when, _, handle = timers[0]
            process = handle.actor.process
            if not handle.cancelled and (process is None or process.alive):
                if when > self._now:
                    self._now = when
                    self._same_instant = 0
                return
            heapq.heappop(timers)
        raise Deadlock(self._waiting())

    def forget(self) -> None:
        """Count a cancelled handle; let go of the timers among them when they are many."""
        self._forgotten += 1
        timers = self._timers
        if self._forgotten > FORGOTTEN and self._forgotten * 2 > len(timers):
            self._forgotten = 0
            # In place: the running turn holds the list. Order is by (time, number) as before.
            timers[:] = [each for each in timers if not each[2].cancelled]
            heapq.heapify(timers)

    def _waiting(self) -> str:
        lines = [
            f"{task.actor.name} waits in {_place(task)}"
            for task in self._all
            if not task.done() and isinstance(task, _Task) and _lives(task.actor)
        ]
        more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        title = f"nothing is ready and no timer is set at {self._now:g} s:"
        return "\n".join([title, *sorted(lines)[:SHOWN], *more])

    # --- tasks and processes -----------------------------------------------------------

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        """Make a task of the process that the context belongs to."""
        process = _process.get() if context is None else context.get(_process)
        parent = self._running if self._running.process is process else self._base(process)
        word = getattr(coro, "__qualname__", type(coro).__name__)
        actor = _Actor(self.seed, parent.child(word), process)
        task = _Task(coro, actor=actor, loop=self, name=name or actor.name, context=context)
        self._all.add(task)
        if process is not None:
            process.tasks.add(task)
        return task

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine inside a process."""
        context = contextvars.Context()
        context.run(_process.set, process)
        return self.create_task(coro, context=context)

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does: no line of it runs again.

        Its coroutines are kept, not closed: closing would run their `finally` blocks.
        """
        process.alive = False
        # Keep these coroutines first: one begun while it was paused is referenced only by `held`.
        self._graves += [task for task in process.tasks if not task.done()]
        process.held.clear()

    def pause(self, process: Process) -> None:
        """Stop a process as SIGSTOP does."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """Let a paused process go on with everything that came meanwhile."""
        process.paused = False
        held, process.held = process.held, []
        if process.alive:
            self._pending += held

    # --- the end -----------------------------------------------------------------------

    def bury(self) -> None:
        """Close everything that still waits, without letting any of it act any more."""
        self._over = True
        # First, since one that has not begun is referenced only by its place in `_pending`.
        tasks = [*self._all, *self._graves]
        self._pending.clear()
        self._timers.clear()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            if not task.done():
                with suppress(BaseException):
                    task.get_coro().close()
        self._graves.clear()

    # --- nothing comes from outside ----------------------------------------------------

    def _process_events(self, event_list: Any) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody else could wake it."""


def _no_thread(*given: object, **_: object) -> NoReturn:
    raise Refused(f"a thread was asked for ({given[2:3]}); pass a runner")


def _no_socket(*_: object, **__: object) -> NoReturn:
    raise Refused("sockets, files and signals of the machine have no virtual time")


_SOCKETS = (
    "create_connection", "create_server", "create_datagram_endpoint", "create_unix_connection",
    "create_unix_server", "connect_accepted_socket", "connect_read_pipe", "connect_write_pipe",
    "subprocess_exec", "subprocess_shell", "sock_connect", "sock_accept", "sock_recv",
    "sock_recv_into", "sock_sendall", "sock_sendfile", "add_reader", "add_writer",
    "remove_reader", "remove_writer", "getaddrinfo", "getnameinfo", "start_tls", "sendfile",
    "add_signal_handler",
)  # fmt: skip
for _name in _SOCKETS:
    setattr(Loop, _name, _no_socket)
# Set here and not in the class: a method that always raises cannot match the base's signature.
Loop.run_in_executor = _no_thread  # type: ignore[method-assign]


def current() -> Process | None:
    """Return the process that runs now; None for the world."""
    return _process.get()


def run(seed: int, main: Callable[[Loop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function to its end in a loop of its own and return its answer."""
    loop = Loop(seed)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.bury()
        loop.close()


def _note_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Keep what asyncio would only log: an exception that was never retrieved is a bug."""
    if isinstance(loop, Loop) and not loop._over:  # noqa: SLF001 - its own handler
        error = context.get("exception")
        loop.troubles.append(f"{context.get('message')}: {type(error).__name__}: {error}"[:500])


def _lives(actor: _Actor) -> bool:
    return actor.process is None or actor.process.alive


def _place(task: asyncio.Task[Any]) -> str:
    """Return where the innermost coroutine of a task waits."""
    where: Any = task.get_coro()
    place = "an unknown place"
    while where is not None:
        frame = getattr(where, "cr_frame", None)
        if frame is not None:
            code = frame.f_code
            place = f"{code.co_qualname} ({code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno})"
        where = getattr(where, "cr_await", None)
    return place


def _spinning(pending: list[_Handle], now: float) -> str:
    counts: dict[str, int] = {}
    for handle in pending:
        counts[handle.actor.name] = counts.get(handle.actor.name, 0) + 1
    names = ", ".join(sorted(counts)[:SHOWN])
    return f"more than {SPIN_LIMIT} steps at {now:g} s; the last were of {names}"
