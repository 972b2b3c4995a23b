"""What a controller does with each result and each error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

import pytest
from engine_fakes import HandClock, Reconciled, SeededRng, key, pump
from loop_time import leap

from labfleet.engine.controller import Again, Controller, Done
from labfleet.engine.queue import KeyQueue
from labfleet.kernel import errors
from labfleet.resources.meta import Key


class Stand:
    """A controller with everything around it, running in the background."""

    def __init__(
        self, reconcile: Callable[[Key], Awaitable[Done | Again]], rate: float = 1.0, **options
    ) -> None:
        self.clock = HandClock(rate)
        self.queue = KeyQueue(self.clock, SeededRng("0"))
        self.observer = Reconciled()
        self.controller = Controller(
            "test",
            reconcile,
            queue=self.queue,
            clock=self.clock,
            observer=self.observer,
            **options,
        )

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self.controller.run())
        await pump()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


def raising(*plan: BaseException | Done | Again) -> Callable[[Key], Awaitable[Done | Again]]:
    """A reconcile that plays the plan, then is done."""
    rest = list(plan)

    async def reconcile(_: Key) -> Done | Again:
        step = rest.pop(0) if rest else Done()
        if isinstance(step, BaseException):
            raise step
        return step

    return reconcile


POLICY = [
    (errors.Temporary("x"), "temporary", (0.5, 1.0)),
    (errors.Throttled("x", retry_after=30), "temporary", (30, 30)),
    (errors.Unreachable("x"), "temporary", (0.5, 1.0)),
    (errors.TooOld("x"), "temporary", (0.5, 1.0)),
    (errors.Conflict("x"), "conflict", (0.05, 0.1)),
    (errors.Ambiguous("x"), "ambiguous", (0.5, 1.0)),
    (errors.Permanent("x"), "permanent", None),
    (errors.Denied("x"), "permanent", None),
    (errors.Gone("x"), "gone", None),
    (KeyError("a bug"), "bug", (0.5, 1.0)),
    (TimeoutError("not ours"), "bug", (0.5, 1.0)),
    (ExceptionGroup("one", [errors.Temporary("x")]), "temporary", (0.5, 1.0)),
    (ExceptionGroup("two", [errors.Temporary("x"), ValueError()]), "bug", (0.5, 1.0)),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("error", "outcome", "wait"), POLICY)
async def test_error_type_decides_what_comes_next(
    error: Exception, outcome: str, wait: tuple[float, float] | None
) -> None:
    """Each type of error has its own outcome and its own wait; None waits for an event."""
    async with Stand(raising(error)) as stand:
        stand.queue.add(key("a"))
        await pump()
        assert stand.observer.seen == [("a", outcome)]
        depth = stand.queue.depth()
        if wait is None:
            assert (depth.delayed, depth.ready) == (0, 0)
            return
        assert depth.delayed == 1
        await stand.clock.advance(wait[0] * 0.99)
        assert len(stand.observer.seen) == 1
        await stand.clock.advance(wait[1] - wait[0] * 0.99)
        assert stand.observer.seen[1:] == [("a", "done")]


@pytest.mark.asyncio
async def test_retry_after_is_machine_time() -> None:
    """What the other side asked for in real seconds is kept in a demo that runs faster."""
    async with Stand(raising(errors.Throttled("x", retry_after=2)), rate=100.0) as stand:
        stand.queue.add(key("a"))
        await stand.clock.advance(199)
        assert len(stand.observer.seen) == 1
        await stand.clock.advance(2)
        assert len(stand.observer.seen) == 2


@pytest.mark.asyncio
async def test_again_waits_without_counting_a_failure() -> None:
    """`Again` comes back after its time, and a failure after it backs off as the first."""
    plan = raising(errors.Temporary("x"), Again(10), errors.Temporary("y"))
    async with Stand(plan) as stand:
        stand.queue.add(key("a"))
        await stand.clock.advance(1)
        assert [outcome for _, outcome in stand.observer.seen] == ["temporary", "again"]
        await stand.clock.advance(10)
        assert stand.queue.failures(key("a")) == 1


@pytest.mark.asyncio
async def test_again_at_once_is_no_busy_loop() -> None:
    """`Again(0)`, from a due time just passed, still leaves a moment between two tries."""
    async with Stand(raising(*[Again(0.0)] * 50)) as stand:
        stand.queue.add(key("a"))
        await pump(200)
        assert len(stand.observer.seen) == 1
        await stand.clock.advance(0.1)
        assert 5 <= len(stand.observer.seen) <= 11


@pytest.mark.asyncio
async def test_one_object_never_stops_another() -> None:
    """With one key failing and one hanging, a third is still served."""

    async def reconcile(name: Key) -> Done:
        if name.name == "hangs":
            await asyncio.Event().wait()
        if name.name == "fails":
            raise ZeroDivisionError
        return Done()

    async with Stand(reconcile, concurrency=2) as stand:
        for name in ("hangs", "fails", "fine"):
            stand.queue.add(key(name))
        await pump()
        assert ("fine", "done") in stand.observer.seen


@pytest.mark.asyncio
async def test_deadline_cuts_a_hanging_reconcile_off() -> None:
    """A reconcile past its deadline is cancelled, reported and backs off."""

    async def reconcile(_: Key) -> Done:
        await asyncio.Event().wait()
        return Done()

    async with Stand(reconcile, deadline=60) as stand:
        stand.queue.add(key("a"))
        await pump()
        assert stand.observer.seen == []
        leap(61)
        await pump()
        assert stand.observer.seen == [("a", "deadline")]
        assert stand.queue.depth().delayed == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("wrap", [False, True])
async def test_fenced_stops_the_controller(wrap: bool) -> None:
    """A refused fence ends `run` with Fenced itself, and its key is kept for the next term."""
    fenced: Exception = errors.Fenced("token 1 is old")
    if wrap:
        fenced = ExceptionGroup("inside", [errors.Temporary("x"), fenced])
    stand = Stand(raising(fenced))
    stand.queue.add(key("a"))
    with pytest.raises(errors.Fenced):
        await stand.controller.run()
    assert stand.observer.seen == [("a", "fenced")]
    assert stand.queue.depth().ready == 1
    async with stand:
        assert stand.observer.seen[1:] == [("a", "done")]


@pytest.mark.asyncio
async def test_cancelled_reconcile_is_looked_at_again() -> None:
    """A key whose reconcile was cut by a lost leadership is waiting when `run` starts again."""
    started = asyncio.Event()

    async def reconcile(_: Key) -> Done:
        started.set()
        await asyncio.Event().wait()
        return Done()

    async with Stand(reconcile) as stand:
        stand.queue.add(key("a"))
        await started.wait()
    assert stand.observer.seen == [("a", "cancelled")]
    assert stand.queue.depth() == stand.queue.depth().__class__(1, 0, 0, 0, 0, 0.0)


@pytest.mark.asyncio
async def test_swallowed_cancellation_does_not_keep_a_worker() -> None:
    """A reconcile that turns its cancellation into an error still ends with its controller."""

    async def reconcile(_: Key) -> Done:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise errors.Temporary("closed in the middle") from None
        return Done()

    async with asyncio.timeout(1), Stand(reconcile) as stand:
        stand.queue.add(key("a"))
        await pump()
    assert stand.observer.seen == [("a", "temporary")]
    assert len(stand.queue) == 1


@pytest.mark.asyncio
async def test_resync_brings_every_key_back() -> None:
    """All keys are asked for at the start and then at each interval."""
    stand = Stand(raising())
    stand.controller.resync(60, lambda: [key("a"), key("b")])
    async with stand:
        assert [name for name, _ in stand.observer.seen] == ["a", "b"]
        await stand.clock.advance(61)
        assert len(stand.observer.seen) == 4


@pytest.mark.asyncio
async def test_stop_finishes_what_is_in_hand() -> None:
    """An orderly stop ends idle workers at once, lets busy ones finish and takes no new key."""
    finish = asyncio.Event()

    async def reconcile(_: Key) -> Done:
        await finish.wait()
        return Done()

    stand = Stand(reconcile, concurrency=2)
    stand.controller.resync(60, list)
    async with stand:
        stand.queue.add(key("a"))
        await pump()
        stand.controller.stop()
        stand.queue.add(key("b"))
        await pump()
        assert not stand.running.done()
        finish.set()
        await pump()
        assert stand.running.done()
        assert stand.observer.seen == [("a", "done")]
        assert len(stand.queue) == 1


@pytest.mark.asyncio
async def test_stop_before_run_is_not_forgotten() -> None:
    """A controller stopped before its role came to run it does not start."""
    stand = Stand(raising())
    stand.controller.stop()
    async with asyncio.timeout(1):
        await stand.controller.run()
