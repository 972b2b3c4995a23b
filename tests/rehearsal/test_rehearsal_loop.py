"""The seeded loop: order, time, processes, and what it refuses."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import socket
import subprocess
import warnings
from pathlib import Path

import pytest

from labfleet.rehearsal.time import loop as loops

ROOT = Path(__file__).resolve().parents[2]

BUSY = """
import asyncio
from labfleet.rehearsal.time import loop as loops


async def main(loop):
    heard = []
    bell = asyncio.Event()

    async def worker(number):
        for step in range(5):
            await asyncio.sleep((number * 7 + step) % 3)
            heard.append((number, step))
            if number == 3 and step == 2:
                bell.set()
        async with asyncio.timeout(30):
            await bell.wait()
        try:
            async with asyncio.timeout(0.5):
                await asyncio.sleep(9)
        except TimeoutError:
            heard.append((number, -1))

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(worker(number), name=f"w{number}")
    return heard, f"{loop.digest:016x}", loop.time()


def go(seed):
    return loops.run(seed, main)
"""
scope: dict = {}
exec(compile(BUSY, "busy", "exec"), scope)
go = scope["go"]


def test_a_seed_gives_one_order() -> None:
    """The same seed gives the same order, schedule hash and end; twenty times."""
    assert len({str(go(7)) for _ in range(20)}) == 1


def test_other_seeds_give_other_orders() -> None:
    """Of twenty seeds hardly two share an order."""
    assert len({str(go(seed)[0]) for seed in range(20)}) > 15


def test_time_jumps() -> None:
    """A year of sleep takes no time, and the clock shows it."""

    async def main(loop: loops.Loop) -> float:
        await asyncio.sleep(365 * 86400)
        return loop.time()

    assert loops.run(1, main) == 365 * 86400


def test_a_deadlock_says_who_waits_where() -> None:
    """Nothing ready and no timer ends the run with the places of all who wait."""

    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main(loop: loops.Loop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(forgotten())

    with pytest.raises(loops.Deadlock, match=r"forgotten.*locks\.py"):
        loops.run(1, main)


def test_a_livelock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that spins at one instant ends the run instead of hanging it."""
    monkeypatch.setattr(loops, "SPIN_LIMIT", 1000)

    async def main(loop: loops.Loop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(loops.Livelock, match="main"):
        loops.run(1, main)


def test_threads_are_refused() -> None:
    """Whoever asks for a thread is told so at once."""

    async def main(loop: loops.Loop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(loops.Refused, match="thread"):
        loops.run(1, main)


def test_sockets_are_refused() -> None:
    """Neither a connection nor a server nor a bare socket gets into virtual time."""

    async def main(loop: loops.Loop) -> None:
        with pytest.raises(loops.Refused):
            await asyncio.open_connection("127.0.0.1", 1)
        with pytest.raises(loops.Refused):
            await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        left, right = socket.socketpair()
        with left, right, pytest.raises(loops.Refused):
            await loop.sock_recv(left, 1)

    loops.run(1, main)


def test_what_has_not_begun_at_the_end_complains_of_nothing() -> None:
    """A task that was made in the last step is closed like all others."""

    async def never() -> None:
        await asyncio.sleep(1)

    async def main(loop: loops.Loop) -> None:
        loop.spawn(loops.Process("late"), never())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loops.run(1, main)
        gc.collect()
    assert [str(each.message) for each in told] == []


def test_a_killed_process_runs_no_finally() -> None:
    """Neither finally, __aexit__ nor a callback of a killed process runs, even at the end."""
    written: list[str] = []

    class Room:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None:
            written.append("aexit")

    async def life() -> None:
        asyncio.get_running_loop().call_later(5, written.append, "timer")
        try:
            async with Room():
                await asyncio.sleep(10)
        finally:
            written.append("finally")

    async def main(loop: loops.Loop) -> list[str]:
        victim = loops.Process("victim")
        loop.spawn(victim, life())
        await asyncio.sleep(1)
        loop.kill(victim)
        await asyncio.sleep(100)
        return list(written)

    assert loops.run(1, main) == []


def test_a_paused_process_wakes_to_what_came() -> None:
    """Timers that fell due during a pause run after it, at the later time."""
    seen: list[float] = []

    async def life(loop: loops.Loop) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def main(loop: loops.Loop) -> None:
        process = loops.Process("p")
        loop.spawn(process, life(loop))
        await asyncio.sleep(2.5)
        loop.pause(process)
        await asyncio.sleep(60)
        loop.resume(process)
        await asyncio.sleep(1.5)

    loops.run(1, main)
    assert seen == [1, 2, 62.5, 63.5]


def test_what_began_in_a_pause_dies_with_its_process_in_silence() -> None:
    """A task that never had its first step is no bug of a process that was killed (seed 443)."""
    seen: list[str] = []

    async def life() -> None:
        seen.append("lived")

    async def main(loop: loops.Loop) -> list[str]:
        process = loops.Process("p")
        loop.pause(process)
        loop.spawn(process, life())
        await asyncio.sleep(1)
        loop.kill(process)
        await asyncio.sleep(1)
        return list(loop.troubles)

    assert loops.run(1, main) == []
    assert seen == []


def test_children_belong_to_their_process() -> None:
    """Killing a process ends the tasks that its tasks made."""
    seen: list[float] = []

    async def grandchild(loop: loops.Loop) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def life(loop: loops.Loop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(grandchild(loop))

    async def main(loop: loops.Loop) -> None:
        process = loops.Process("p")
        loop.spawn(process, life(loop))
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(10)

    loops.run(1, main)
    assert seen == [1, 2]


@pytest.mark.real
def test_python_versions_agree() -> None:
    """Python 3.11 and 3.13 give the same order and the same schedule hash."""
    python = shutil.which("python3.13")
    if python is None:
        pytest.skip("no python3.13 here")
    code = BUSY + "\nprint([go(seed) for seed in range(10)])\n"
    told = set()
    for program in ("python3.11", "python3.13"):
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PYENV_VERSION": "3.13.0:3.11.7",
            "PYTHONHASHSEED": "random",
        }
        done = subprocess.run(
            [program, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        told.add(done.stdout)
    assert len(told) == 1
