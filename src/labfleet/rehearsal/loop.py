"""A seeded event loop in virtual time: time jumps to the next timer, the order is drawn.

What is ready in one turn runs in an order drawn from (seed, name of the task, its step), never
from the place in a queue, so that an unrelated change elsewhere does not reshuffle everything.
Threads and sockets are refused. Nothing ready and no timer is a deadlock, and is told with who
waits for what. The loop hosts several *processes*: one that is killed never runs another line,
not even a `finally`; one that is paused finds everything that came meanwhile when it wakes.

It knows nothing of the product.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
# Steps at one instant of virtual time before the loop believes that something spins.
SPIN_LIMIT = 500_000
SHOWN = 30


class Deadlock(Exception):
    """Nothing is ready and no timer is set: the message says who waits for what."""


class Livelock(Exception):
    """Very many steps at one instant: the message names those that took them."""


class Refused(RuntimeError):
    """Something that has no place in virtual time: a thread or a socket."""


class Process:
    """One process of the rehearsal: what dies together and is paused together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[Any] = []
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.base: _Actor | None = None


class _Actor:
    """Who runs: a task, or a process outside of its tasks. Its draws depend on it alone."""

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

        It is not the task's own name: Python versions set that at different moments.
        """
        count = self.children.get(word, 0) + 1
        self.children[word] = count
        return f"{self.name}/{word}" if count == 1 else f"{self.name}/{word}~{count}"


class _Task(asyncio.Task[Any]):
    """A task that knows its actor before its first step is queued."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, actor: _Actor, **kwargs: Any) -> None:
        self.actor = actor
        super().__init__(coro, **kwargs)


class _Handle(asyncio.Handle):
    """A callback with its actor, made without asyncio's questions about debugging."""

    __slots__ = ("actor",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: Loop,
        context: contextvars.Context | None,
        actor: _Actor,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self.actor = actor


class _Timer(asyncio.TimerHandle):
    """The same with a time; a cancelled one stays where it is until its time comes."""

    __slots__ = ("actor",)

    def __init__(  # noqa: PLR0917 - a handle's, and a time
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: Loop,
        context: contextvars.Context | None,
        actor: _Actor,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._scheduled = False
        self._when = when
        self.actor = actor

    def cancel(self) -> None:
        """Let go of the callback."""
        self._cancelled = True
        self._callback = _nothing
        self._args = ()


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
        self._pending: list[_Handle | _Timer] = []
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timer_count = 0
        self._same_instant = 0
        self._world = _Actor(seed, "world", None)
        self._running: _Actor = self._world
        self._all: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._graves: list[asyncio.Task[Any]] = []
        self._over = False
        self.troubles: list[str] = []
        self.set_exception_handler(_note_trouble)

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
        handle = _Handle(callback, args, self, context, self._actor_of(callback, context))
        if not self._over:
            self._pending.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after so many virtual seconds."""
        when = self._now + delay
        timer = _Timer(when, callback, args, self, context, self._actor_of(callback, context))
        if not self._over:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a virtual time."""
        actor = self._actor_of(callback, context)
        timer = _Timer(when, callback, args, self, context, actor)
        if not self._over:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in the next turn: there is only this thread."""
        return self.call_soon(callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def _actor_of(
        self, callback: Callable[..., object], context: contextvars.Context | None
    ) -> _Actor:
        owner = getattr(callback, "__self__", None)
        if type(owner) is _Task:
            return owner.actor
        running = self._running
        if context is None:
            return running
        process = context.get(_process)
        if process is running.process:
            return running
        return self._base(process)

    def _base(self, process: Process | None) -> _Actor:
        if process is None:
            return self._world
        if process.base is None:
            process.base = _Actor(self.seed, process.name, process)
        return process.base

    def _run_once(self) -> None:
        """Run one turn: everything that is ready now, in a drawn order."""
        if not self._pending:
            self._jump()
        timers, now = self._timers, self._now
        pending = self._pending
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:  # noqa: SLF001 - as asyncio does
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
            if not handle._cancelled:  # noqa: SLF001 - as asyncio does
                self._step(handle)
        self._running = self._world

    def _step(self, handle: _Handle | _Timer) -> None:
        actor = handle.actor
        process = actor.process
        if process is not None:
            if not process.alive:
                return
            if process.paused:
                process.held.append(handle)
                return
        self._running = actor
        self.steps += 1
        self.digest = (self.digest * 0x100000001B3 ^ actor.key ^ actor.step) & _MASK
        handle._run()  # noqa: SLF001 - as asyncio does

    def _jump(self) -> None:
        timers = self._timers
        while timers and (timers[0][2]._cancelled or self._dead(timers[0][2])):  # noqa: SLF001
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(self._waiting())
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._same_instant = 0

    def _dead(self, timer: _Timer) -> bool:
        process = timer.actor.process
        return process is not None and not process.alive

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
        process.held.clear()
        self._graves += [task for task in process.tasks if not task.done()]

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
        self._pending.clear()
        self._timers.clear()
        for task in [*self._all, *self._graves]:
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
# Set here and not in the class: what always raises has no honest signature to override with.
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
    """Keep what asyncio would only log: an exception that nobody took is a bug."""
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


def _spinning(pending: list[_Handle | _Timer], now: float) -> str:
    counts: dict[str, int] = {}
    for handle in pending:
        counts[handle.actor.name] = counts.get(handle.actor.name, 0) + 1
    names = ", ".join(sorted(counts)[:SHOWN])
    return f"more than {SPIN_LIMIT} steps at {now:g} s; the last were of {names}"
