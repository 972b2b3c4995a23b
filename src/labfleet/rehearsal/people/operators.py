"""Operators: who drains, stops and starts workers, adopts servers, pauses, resumes and sets.

They act now and then while people come. The caretaker is there to the very end: a pool that
paused itself waits for somebody who resumes it, and so does what somebody else left paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.rehearsal.replicas.desk import Ask, Desk
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.time.dice import EPOCH, Dice
from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker, WorkerPhase

SHORTEST, LONGEST = 600.0, 2400.0
"""Seconds after which somebody resumes what is paused."""
POOL, BORROWED = "main", "borrowed"
MOST_TRIES = 200
"""Tries to make a deleted pool anew: more than a day, far beyond the longest drain."""
_AT_WORK = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.STARTING})


@dataclass(slots=True)
class Operators:
    """The people who run the fleet; `send` asks some living process until it answers."""

    hours: float
    dice: Dice
    desk: Desk
    send: Callable[[Ask], Any]
    replicas: Callable[[], list[Replica]]
    adopted: set[str] = field(default_factory=set)
    put_up: Callable[[], str] | None = None
    pool: dict[str, Any] = field(default_factory=dict)
    gone: bool = False

    async def run(self) -> None:
        """Play the day; returns when nobody does anything more of their own accord."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._often(self._operation, "operator", 1800, 21600))
            group.create_task(self._often(self._repair, "repairer", 900, 3600))
            group.create_task(self._often(self._meddling, "meddler", 1800, 18000))
            group.create_task(self._take_over())
            group.create_task(self._borrow())
            group.create_task(self._make_anew())
        self.gone = True

    async def _often(self, act: Callable[[Dice], Any], word: str, low: float, high: float) -> None:
        dice = self.dice.stream(word)
        span = self.hours * 3600
        at = dice.between(1800, 14400)
        while at < span - 3600:
            await asyncio.sleep(max(at - asyncio.get_running_loop().time(), 0))
            await act(dice)
            at += dice.between(low, high)

    def _workers(self) -> list[Worker]:
        living = self.replicas()
        return list(living[0].cache.all(Worker)) if living else []

    # --- workers -----------------------------------------------------------------------

    async def _operation(self, dice: Dice) -> None:
        """Drain, cordon, stop or end a worker that is at work."""
        workers = [each.name for each in self._workers() if each.status.phase in _AT_WORK]
        if not workers:
            return
        name, mood = workers[dice.below(len(workers))], dice.random()
        if mood < 0.3:
            await self._drain(dice, name)
        elif mood < 0.5:
            await self.send(self.desk.cordon(name, closed=True))
            await asyncio.sleep(dice.between(60, 3600))
            await self.send(self.desk.cordon(name, closed=False))
        elif mood < 0.8:
            await self.send(self.desk.desire(name, "Stopped"))
            await asyncio.sleep(dice.between(60, 7200))
            await self.send(self.desk.desire(name, "Ready"))
        else:
            await self.send(self.desk.desire(name, "Terminated"))

    async def _repair(self, dice: Dice) -> None:
        """Have a failed worker try again."""
        failed = [each.name for each in self._workers() if each.status.phase is WorkerPhase.FAILED]
        if failed:
            await self.send(self.desk.desire(failed[dice.below(len(failed))], "Ready"))

    async def _drain(self, dice: Dice, name: str) -> None:
        now = asyncio.get_running_loop().time()
        limit = EPOCH + timedelta(seconds=now + dice.between(900, 3600))
        await self.send(self.desk.drain(name, limit, "patch", force=dice.chance(0.5)))
        mood = dice.random()
        await asyncio.sleep(dice.between(60, 1800))
        if mood < 0.4:
            longer = limit + timedelta(seconds=dice.between(900, 3600))
            await self.send(self.desk.change_drain(name, deadline=longer))
        elif mood < 0.6:
            await self.send(self.desk.change_drain(name, force=True))
        await asyncio.sleep(dice.between(60, 5400))
        await self.send(self.desk.cancel_drain(name))

    async def _take_over(self) -> None:
        """Adopt one server of others, and want another one left out."""
        dice = self.dice.stream("adoption")
        await asyncio.sleep(dice.between(1200, self.hours * 1800 + 1201))
        for act in ("adopt", "leave"):
            found = [
                each
                for each in self._workers()
                if each.spec.origin is not None and not each.spec.origin.managed
            ]
            if not found or dice.chance(0.2):
                return
            chosen = found[dice.below(len(found))]
            if act == "adopt":
                self.adopted.add(chosen.status.ec2.instance_id or "")
                await self.send(self.desk.adopt(chosen.name))
            else:
                await self.send(self.desk.delete("Worker", chosen.name))
            await asyncio.sleep(dice.between(60, 3600))

    async def _borrow(self) -> None:
        """Add a server at an address, to use or only to look at, and perhaps give it back."""
        dice = self.dice.stream("borrowed")
        if self.put_up is None or not dice.chance(0.4):
            return
        await asyncio.sleep(dice.between(600, self.hours * 1200 + 601))
        managed = dice.chance(0.7)
        origin = {"kind": "external", "url": self.put_up(), "managed": managed}
        spec = {"template": "metal", "track": "main", "origin": origin}
        made = await self.send(self.desk.create("Worker", BORROWED, spec, "borrowed"))
        if made is None:
            raise AssertionError("a server at an address was refused")
        if dice.chance(0.75):
            await asyncio.sleep(dice.between(1800, max(self.hours * 1800, 3600)))
            await self.send(self.desk.delete("Worker", BORROWED))

    async def _make_anew(self) -> None:
        """Delete the pool, and make it again once its name is free."""
        dice = self.dice.stream("anew")
        if not dice.chance(0.2):
            return
        await asyncio.sleep(dice.between(3600, self.hours * 1800 + 3601))
        await self.send(self.desk.delete("Pool", POOL))
        for tries in range(1, MOST_TRIES + 1):
            await asyncio.sleep(dice.between(300, 900))
            again = self.desk.create("Pool", POOL, self.pool, f"anew-{tries}")
            if await self.send(again) is not None:
                return
        raise AssertionError("a pool that was deleted never gave its name back")

    # --- pauses and settings -----------------------------------------------------------

    async def _meddling(self, dice: Dice) -> None:
        """Pause a pool or everything for a while, or change a setting."""
        mood = dice.random()
        if mood < 0.6:
            pool = POOL if mood < 0.35 else None
            await self.send(self.desk.pause(pool, "to look at something"))
            await asyncio.sleep(dice.between(60, LONGEST))
            await self.send(self.desk.resume(pool))
        else:
            await self.send(self.desk.settings(_setting(dice)))

    async def care(self) -> None:
        """Resume, after a while, what paused itself and what nobody else will; for ever."""
        dice = self.dice.stream("caretaker")
        while True:
            await asyncio.sleep(60)
            for living in self.replicas()[:1]:
                for pause in living.parts.settings.pauses():
                    pool = None if pause.pool is None else living.cache.get(Pool, pause.pool)
                    if pool is not None and not self.gone and not _tripped(pool):
                        continue
                    if pool is None and not self.gone:
                        continue
                    await asyncio.sleep(dice.between(SHORTEST, LONGEST))
                    await self.send(self.desk.resume(pause.pool))


def _tripped(pool: Pool) -> bool:
    return conditions.is_true(pool.status.conditions, "LosingMachines")


def _setting(dice: Dice) -> dict[str, Any]:
    """Return one change that somebody may make on an ordinary day."""
    percent = 60 + dice.below(36)
    changes: tuple[dict[str, Any], ...] = (
        {"idle.timeoutMinutes": 5 + dice.below(30)},
        {"garbage.roundLimit": 1 + dice.below(10)},
        {"thresholds.cpuPercent": percent, "thresholds.cpuEasedPercent": percent - 10},
        {"thresholds.diskPercent": percent, "thresholds.diskEasedPercent": percent - 10},
        {"thresholds.silentSeconds": 120 + dice.below(600)},
    )
    return changes[dice.below(len(changes))]
