"""A kill, a lost reply, silence or a refusal at every single changing call of a whole life.

Each life is struck at its n-th call, before or after its effect, for n over all of them. After
that: one machine, one lab, no phase skipped, nothing left over at the end.
"""

from __future__ import annotations

import itertools

import pytest
from virtual_time import play
from world import Strike, World, world

MODES = (
    "crash-before", "crash-after", "lost-before", "lost-after", "hang-before", "hang-after",
    "no-before",
)  # fmt: skip
# A boot is looked at every few seconds and changes nothing, so these lives have short ones.
BOOT_SECONDS = 40.0
# A lab that stops is asked to stop every second: twice is as good as the fifteen times of a default.
STOP_SECONDS = 3.0


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


def striker(mode: str, number: int, struck: list[str]) -> Strike:
    """Return what strikes at one changing call and notes which it was."""

    def strike(name: str, count: int) -> str | None:
        if count != number:
            return None
        struck.append(name)
        return mode if not (name == "commit" and mode.startswith("hang")) else None

    return strike


async def workers(mode: str) -> int:
    """Play a worker's life per changing call, each in a world of its own; return how many."""
    for number in itertools.count(1):
        struck: list[str] = []
        async with world() as w:
            w.hosts.boot(BOOT_SECONDS)
            await w.start()
            w.strike = striker(mode, number, struck)
            try:
                await worker_life(w)
                w.strike = None
                await w.check_empty()
            except AssertionError as problem:
                raise AssertionError(f"{mode} at call {number} ({struck}): {problem}") from problem
        if not struck:
            return number - 1
    raise AssertionError


async def sessions(mode: str) -> int:
    """Play a session per changing call, all on one worker; return how many calls there are.

    After each nothing of it may be left, neither its lab nor its ports, and at the end nothing
    at all.
    """
    async with world() as w:
        w.hosts.boot(BOOT_SECONDS)
        w.hosts.set(stop_seconds=STOP_SECONDS)
        await w.start()
        await w.worker()
        await w.until(w.in_phase("w1", "READY"))
        await w.definition(defaultDurationMinutes=2)
        for number in itertools.count(1):
            struck: list[str] = []
            w.strikes, w.strike = 0, striker(mode, number, struck)
            try:
                await session_life(w, f"s{number}")
                w.strike = None
                w.check()
                assert w.hosts.labs_left() == []
                assert await w.store.ports() == ()
            except AssertionError as problem:
                raise AssertionError(f"{mode} at call {number} ({struck}): {problem}") from problem
            if not struck:
                break
        await w.desire("w1", "Terminated")
        await w.until(w.in_phase("w1", "TERMINATED"))
        await w.check_empty()
    return number - 1


async def session_life(w: World, name: str) -> None:
    """A session from its request to its end on a worker that is there."""
    await w.session(name)
    await w.until(w.in_phase(name, "COMPLETED"))
    assert w.get_session(name).status.ended_at is not None


@pytest.mark.parametrize("mode", MODES)
def test_a_workers_life_survives_a_strike_at_any_call(mode: str) -> None:
    """Whatever happens to one call of a worker's life, one machine is made and it is ended."""

    async def story() -> None:
        assert await workers(mode) > 30

    play(story)


@pytest.mark.parametrize("mode", MODES)
def test_a_sessions_life_survives_a_strike_at_any_call(mode: str) -> None:
    """Whatever happens to one call of a session's life, one lab is made and it is removed."""

    async def story() -> None:
        assert await sessions(mode) > 15

    play(story)
