"""Large work runs in one thread, one piece at a time, while the loop goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from labfleet.engine.aside import LARGE, WAITING, OneThread
from labfleet.kernel import errors


class Held:
    """A piece of work that says when it begins and ends when it is let go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun, self._loop, self._go = asyncio.Event(), loop, threading.Event()

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        self._go.wait()
        return threading.current_thread().name

    def let_go(self) -> None:
        self._go.set()


@pytest.mark.asyncio
async def test_small_work_is_done_here_and_large_work_in_the_thread() -> None:
    """A thread costs more than what a small text does; its errors come back either way."""
    aside = OneThread()
    here = threading.current_thread().name
    assert await aside.run(LARGE, lambda: threading.current_thread().name) == here
    assert (await aside.run(LARGE + 1, lambda: threading.current_thread().name)).startswith("aside")

    def wrong() -> None:
        raise errors.Invalid("wrong")

    for size in (1, LARGE + 1):
        with pytest.raises(errors.Invalid):
            await aside.run(size, wrong)


@pytest.mark.asyncio
async def test_one_at_a_time_and_the_loop_goes_on() -> None:
    """The second begins when the first has ended, also when its caller went away; then it is done."""
    aside, loop = OneThread(), asyncio.get_running_loop()
    first, second = Held(loop), Held(loop)
    async with asyncio.TaskGroup() as group:
        one = group.create_task(aside.run(LARGE + 1, first))
        await first.begun.wait()
        two = group.create_task(aside.run(LARGE + 1, second))
        for _ in range(10):
            assert await aside.run(1, lambda: "small") == "small"
        one.cancel()
        await asyncio.wait([one])
        assert not second.begun.is_set()
        first.let_go()
        await second.begun.wait()
        second.let_go()
        assert (await two).startswith("aside")


@pytest.mark.asyncio
async def test_only_a_few_may_wait() -> None:
    """Each holds its text in memory: the next one is told to come again, and may once one is done."""
    aside, loop = OneThread(), asyncio.get_running_loop()
    held = Held(loop)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(aside.run(LARGE + 1, held)) for _ in range(WAITING)]
        await held.begun.wait()
        with pytest.raises(errors.Temporary) as caught:
            await aside.run(LARGE + 1, lambda: None)
        assert (caught.value.reason, caught.value.retry_after) == ("Busy", 2)
        held.let_go()
        await asyncio.wait(tasks)
        assert await aside.run(LARGE + 1, lambda: "again") == "again"
