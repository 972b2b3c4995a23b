"""Operators drain, stop and start workers, adopt servers, pause, resume and change settings.

They act now and then while people come. One task (`care`) runs until the rehearsal ends: it
resumes pools that paused themselves, and whatever somebody else left paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.rehearsal.replicas.fleet_client import FleetClient, ReplicaCall
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.worker import Worker, WorkerPhase

SHORTEST, LONGEST = 600.0, 2400.0
"""Seconds after which somebody resumes what is paused."""
POOL, BORROWED, OWN = "main", "borrowed", "own"
MOST_TRIES = 200
"""Tries to create a deleted pool again: more than a day, far beyond the longest drain."""
LICENSED_DAYS = 0.25
"""The share of days on which somebody sees to licences by hand."""
_LICENCE_VERBS = ("register", "register", "deregister", "deregister", "renew")
_PRODUCTS = (None, "CML_Enterprise", "CML_Personal40")
_LICENSABLE = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.READY_UNLICENSED})
_AT_WORK = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.STARTING})


@dataclass(slots=True)
class Operators:
    """The people who run the fleet; `send` repeats a request until some living process answers."""

    hours: float
    rng: SeededRng
    client: FleetClient
    send: Callable[[ReplicaCall], Any]
    replicas: Callable[[], list[Replica]]
    adopted: set[str] = field(default_factory=set)
    put_up: Callable[[], str] | None = None
    own_servers: int = 0
    own_site: str = ""
    pool: dict[str, Any] = field(default_factory=dict)
    gone: bool = False

    async def run(self) -> None:
        """Play the day; returns when no operator starts anything more."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._often(self._operation, "operator", 1800, 21600))
            group.create_task(self._often(self._repair, "repairer", 900, 3600))
            group.create_task(self._often(self._meddling, "meddler", 1800, 18000))
            group.create_task(self._take_over())
            group.create_task(self._borrow())
            group.create_task(self._make_anew())
            group.create_task(self._license())
            if self.own_servers:
                group.create_task(self._use_own_servers())
        self.gone = True

    async def _often(
        self, act: Callable[[SeededRng], Any], word: str, low: float, high: float
    ) -> None:
        rng = self.rng.stream(word)
        span = self.hours * 3600
        at = rng.between(1800, 14400)
        while at < span - 3600:
            await asyncio.sleep(max(at - asyncio.get_running_loop().time(), 0))
            await act(rng)
            at += rng.between(low, high)

    def _workers(self) -> list[Worker]:
        living = self.replicas()
        found = living[0].cache.all(Worker) if living else ()
        return [each for each in found if each.namespace == self.client.namespace]

    # --- workers -----------------------------------------------------------------------

    async def _operation(self, rng: SeededRng) -> None:
        """Drain, cordon, stop or end a worker that is at work."""
        workers = [each.name for each in self._workers() if each.status.phase in _AT_WORK]
        if not workers:
            return
        name, intensity = workers[rng.below(len(workers))], rng.random()
        if intensity < 0.3:
            await self._drain(rng, name)
        elif intensity < 0.5:
            await self.send(self.client.cordon(name, closed=True))
            await asyncio.sleep(rng.between(60, 3600))
            await self.send(self.client.cordon(name, closed=False))
        elif intensity < 0.8:
            await self.send(self.client.desire(name, "Stopped"))
            await asyncio.sleep(rng.between(60, 7200))
            await self.send(self.client.desire(name, "Ready"))
        else:
            await self.send(self.client.desire(name, "Terminated"))

    async def _repair(self, rng: SeededRng) -> None:
        """Have a failed worker try again."""
        failed = [each.name for each in self._workers() if each.status.phase is WorkerPhase.FAILED]
        if failed:
            await self.send(self.client.desire(failed[rng.below(len(failed))], "Ready"))

    async def _drain(self, rng: SeededRng, name: str) -> None:
        now = asyncio.get_running_loop().time()
        limit = EPOCH + timedelta(seconds=now + rng.between(900, 3600))
        await self.send(self.client.drain(name, limit, "patch", force=rng.chance(0.5)))
        intensity = rng.random()
        await asyncio.sleep(rng.between(60, 1800))
        if intensity < 0.4:
            longer = limit + timedelta(seconds=rng.between(900, 3600))
            await self.send(self.client.change_drain(name, deadline=longer))
        elif intensity < 0.6:
            await self.send(self.client.change_drain(name, force=True))
        await asyncio.sleep(rng.between(60, 5400))
        await self.send(self.client.cancel_drain(name))

    async def _take_over(self) -> None:
        """Adopt one server of others, and ask that another one is not managed."""
        rng = self.rng.stream("adoption")
        await asyncio.sleep(rng.between(1200, self.hours * 1800 + 1201))
        for act in ("adopt", "leave"):
            found = [
                each
                for each in self._workers()
                if each.spec.origin is not None and not each.spec.origin.managed
            ]
            if not found or rng.chance(0.2):
                return
            chosen = found[rng.below(len(found))]
            if act == "adopt":
                self.adopted.add(chosen.status.machine.id or "")
                await self.send(self.client.adopt(chosen.name))
            else:
                await self.send(self.client.delete("Worker", chosen.name))
            await asyncio.sleep(rng.between(60, 3600))

    async def _borrow(self) -> None:
        """Add a server at an address, to use or only to look at, and perhaps give it back."""
        rng = self.rng.stream("borrowed")
        if self.put_up is None or not rng.chance(0.4):
            return
        await asyncio.sleep(rng.between(600, self.hours * 1200 + 601))
        managed = rng.chance(0.7)
        origin = {"kind": "external", "url": self.put_up(), "managed": managed}
        spec = {"template": "metal", "track": "main", "origin": origin}
        made = await self.send(self.client.create("Worker", BORROWED, spec, "borrowed"))
        if made is None:
            raise AssertionError("a server at an address was refused")
        if rng.chance(0.75):
            await asyncio.sleep(rng.between(1800, max(self.hours * 1800, 3600)))
            await self.send(self.client.delete("Worker", BORROWED))

    async def _use_own_servers(self) -> None:
        """Put people's own servers to use; one worker ends, and another one comes for it."""
        rng = self.rng.stream("own")
        machine = {
            "provider": {"kind": "static", "site": self.own_site},
            "cml": {"adminPassword": {"env": "CML_PASSWORD"}, "tls": {"mode": "off"}},
        }
        made = await self.send(self.client.create("Template", OWN, {"machine": machine}, "own"))
        if made is None:
            raise AssertionError("a template of people's own servers was refused")
        for number in range(self.own_servers):
            await self._own_worker(f"{OWN}-{number}")
        if rng.chance(0.7):
            await asyncio.sleep(rng.between(1800, max(self.hours * 1200, 3600)))
            await self.send(self.client.delete("Worker", f"{OWN}-0"))
            await self._own_worker(f"{OWN}-again")  # there is one server more than workers

    async def _own_worker(self, name: str) -> None:
        spec = {"template": OWN, "track": "main"}
        if await self.send(self.client.create("Worker", name, spec, name)) is None:
            raise AssertionError(f"worker {name} was refused")

    async def _license(self) -> None:
        """Give licences back, take them again, renew them, or register anew or as another product."""
        rng = self.rng.stream("licences")
        if not rng.chance(LICENSED_DAYS):
            return
        await asyncio.sleep(rng.between(1800, self.hours * 1200 + 1801))
        for _ in range(1 + rng.below(4)):
            found = [each.name for each in self._workers() if each.status.phase in _LICENSABLE]
            if found:
                name, verb = found[rng.below(len(found))], _LICENCE_VERBS[rng.below(5)]
                product = _PRODUCTS[rng.below(3)] if verb == "register" else None
                force = rng.chance(0.5)
                await self.send(self.client.license(name, verb, force=force, product=product))
                if verb == "deregister":
                    await asyncio.sleep(rng.between(60, 3600))
                    await self.send(self.client.license(name, "register"))
            await asyncio.sleep(rng.between(300, 5400))

    async def _make_anew(self) -> None:
        """Delete the pool, and make it again once its name is free."""
        rng = self.rng.stream("anew")
        if not rng.chance(0.2):
            return
        await asyncio.sleep(rng.between(3600, self.hours * 1800 + 3601))
        if await self.send(self.client.delete("Pool", POOL)) is None:
            # It has promised places: first it is said whose promises its end endangers.
            await self.send(self.client.end_pool(POOL))
            await self.send(self.client.delete("Pool", POOL))
        for tries in range(1, MOST_TRIES + 1):
            await asyncio.sleep(rng.between(300, 900))
            again = self.client.create("Pool", POOL, self.pool, f"anew-{tries}")
            if await self.send(again) is not None:
                return
        raise AssertionError("a pool that was deleted never gave its name back")

    # --- pauses and settings -----------------------------------------------------------

    async def _meddling(self, rng: SeededRng) -> None:
        """Pause a pool or everything for a while, or change a setting."""
        intensity = rng.random()
        if intensity < 0.6:
            pool = POOL if intensity < 0.35 else None
            await self.send(self.client.pause(pool, "to look at something"))
            await asyncio.sleep(rng.between(60, LONGEST))
            await self.send(self.client.resume(pool))
        else:
            await self.send(self.client.settings(_setting(rng)))

    async def care(self) -> None:
        """Resume, after a while, what paused itself and what nobody else resumes; never returns."""
        rng = self.rng.stream("caretaker")
        while True:
            await asyncio.sleep(60)
            for living in self.replicas()[:1]:
                for pause in living.services.settings.pauses():
                    space = self.client.namespace
                    if pause.pool is not None and pause.namespace != space:
                        continue  # its own people see to it
                    pool = None if pause.pool is None else living.cache.get(Pool, pause.pool, space)
                    if pool is not None and not self.gone and not _tripped(pool):
                        continue
                    if pool is None and not self.gone:
                        continue
                    await asyncio.sleep(rng.between(SHORTEST, LONGEST))
                    await self.send(self.client.resume(pause.pool))


def _tripped(pool: Pool) -> bool:
    return conditions.is_true(pool.status.conditions, PoolCondition.LOSING_MACHINES)


def _setting(rng: SeededRng) -> dict[str, Any]:
    """Return one change that somebody may make on an ordinary day."""
    percent = 60 + rng.below(36)
    changes: tuple[dict[str, Any], ...] = (
        {"idle.timeoutMinutes": 5 + rng.below(30)},
        {"garbage.roundLimit": 1 + rng.below(10)},
        {"thresholds.cpuPercent": percent, "thresholds.cpuEasedPercent": percent - 10},
        {"thresholds.diskPercent": percent, "thresholds.diskEasedPercent": percent - 10},
        {"thresholds.silentSeconds": 120 + rng.below(600)},
    )
    return changes[rng.below(len(changes))]
