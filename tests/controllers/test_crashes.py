"""A kill, a lost reply, silence or a refusal at every single changing call of a whole life.

Each run strikes at the n-th call, before or after its effect, for n over all of them. After
that: one machine, one lab, no phase skipped, nothing left over at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from virtual_time import play
from world import World, world

MODES = (
    "crash-before", "crash-after", "lost-before", "lost-after", "hang-before", "hang-after",
    "no-before",
)  # fmt: skip
Life = Callable[[World], Awaitable[None]]


async def worker_life(w: World) -> None:
    """Up to READY, stopped, started, ended."""
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))
    await w.desire("w1", "Stopped")
    await w.until(w.in_phase("w1", "STOPPED"))
    await w.desire("w1", "Ready")
    await w.until(w.in_phase("w1", "READY"))
    await w.desire("w1", "Terminated")
    await w.until(w.in_phase("w1", "TERMINATED"))


async def session_life(w: World) -> None:
    """A session from its request to its end on a worker that is there."""
    await w.definition(defaultDurationMinutes=2)
    await w.session()
    await w.until(w.in_phase("s1", "COMPLETED"))
    assert w.get_session().status.ended_at is not None


async def strike_everywhere(life: Life, mode: str, before: Life | None = None) -> int:
    """Play one life per changing call; return how many calls there are."""
    number = 0
    while True:
        number += 1
        async with world() as w:
            await w.start()
            if before is not None:
                await before(w)
            struck = []

            def strike(name: str, count: int, at: int = number) -> str | None:
                if count != at:
                    return None
                struck.append(name)
                return mode if not (name == "commit" and mode.startswith("hang")) else None

            w.strike = strike
            try:
                await life(w)
                w.strike = None
                if before is not None:
                    await w.desire("w1", "Terminated")
                    await w.until(w.in_phase("w1", "TERMINATED"))
                await w.check_empty()
            except AssertionError as problem:
                raise AssertionError(f"{mode} at call {number} ({struck}): {problem}") from problem
        if not struck:
            return number - 1


async def ready_worker(w: World) -> None:
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))


@pytest.mark.parametrize("mode", MODES)
def test_a_workers_life_survives_a_strike_at_any_call(mode: str) -> None:
    """Whatever happens to one call of a worker's life, one machine is made and it is ended."""

    async def story() -> None:
        assert await strike_everywhere(worker_life, mode) > 30

    play(story)


@pytest.mark.parametrize("mode", MODES)
def test_a_sessions_life_survives_a_strike_at_any_call(mode: str) -> None:
    """Whatever happens to one call of a session's life, one lab is made and it is removed."""

    async def story() -> None:
        assert await strike_everywhere(session_life, mode, ready_worker) > 15

    play(story)
