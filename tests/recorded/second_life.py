"""The rest of a recorded fleet's life with today's code: upgraded, used, emptied, gone.

A rehearsal without faults that begins where a recording ends: its database, its worlds, its
time. Two processes take over from those that were recorded, with every effect open that was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import recorded_worlds
from receiver import Receiver

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultPlan
from labfleet.rehearsal.replicas.fleet_client import DirectClient
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.rules import convergence
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources import kinds
from labfleet.resources.meta import Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.stores.database import Database

T = TypeVar("T")
SEED = 911_000
"""Ids of the second life are drawn from another seed than those of the first."""
LONGEST_HOURS = 16.0
PATIENCE_SECONDS = 1800.0
NEW = "new"
"""Who owns the sessions that are asked for in the second life."""
TROUBLE_SECONDS = 900.0
"""How long what was wrong with the worlds when they were recorded goes on."""


@dataclass
class Life:
    """A recorded fleet that goes on."""

    stage: Stage
    receiver: Receiver
    desk: DirectClient = field(default_factory=DirectClient)

    async def ask(self, ask: Callable[[Replica], Any]) -> Any:
        """Ask a process until it answers; a new leader needs a moment."""
        while True:
            replica = self.stage.living()[0]
            await replica.cache.ready()
            with contextlib.suppress(errors.Temporary, errors.Ambiguous):
                return await ask(replica)
            await asyncio.sleep(5)

    async def verb(self, verb: Callable[[ServiceContext], Any]) -> Any:
        """Run a verb of the service inside a process."""
        return await self.ask(lambda at: at.ask(verb))

    def all(self, kind: type[T]) -> list[T]:
        """Every object of a kind, as a process has it in its cache."""
        found: Any = self.stage.living()[0].cache.all(kind)  # type: ignore[type-var]
        return list(found)

    async def until(self, left: Callable[[], list[str]]) -> None:
        """Wait until nothing is left to be done; too long is a failure that says what is."""
        begun = self.stage.loop.time()
        while left():
            assert self.stage.invariants.found == []
            assert self.stage.loop.time() - begun < LONGEST_HOURS * 3600, left()[:8]
            await asyncio.sleep(60)

    # --- the story ---------------------------------------------------------------------------

    async def resume(self) -> None:
        """Take back every pause that people or pools had made."""
        await self.stage.living()[0].cache.ready()
        pauses = self.stage.living()[0].services.settings.pauses()
        for pause in pauses:
            await self.ask(self.desk.resume(pause.pool))

    async def cancel_long_ones(self) -> None:
        """Have people end, after a quarter of an hour, what would last longer than they watch."""
        await asyncio.sleep(900)
        limit = EPOCH + timedelta(seconds=self.stage.loop.time() + PATIENCE_SECONDS)
        for each in self.all(Session):
            end = each.status.end or each.spec.slot.end
            late = end is None or end > limit
            if each.status.phase not in TERMINAL and late and each.spec.owner != NEW:
                await self.ask(self.desk.cancel(each.name, "no time"))

    def sessions_left(self) -> list[str]:
        """The sessions that have not ended, or hold something still."""
        return [
            f"{each.key} is {each.status.phase}: {each.status.message}"
            for each in self.stage.invariants.sessions.values()
            if each.status.phase not in TERMINAL
            or each.status.reservation is not None
            or each.status.effect is not None
        ]

    async def empty(self) -> None:
        """Have people end the fleet: the pools, then every worker that is left."""
        await self.ask(self.desk.settings({"discovery.enabled": False}))
        for pool in self.all(Pool):
            await self.ask(self.desk.end_pool(pool.name))
            await self.ask(self.desk.delete("Pool", pool.name))
        for worker in self.all(Worker):
            with contextlib.suppress(errors.Gone):
                await self.ask(self.desk.delete("Worker", worker.name))

    def fleet_left(self) -> list[str]:
        """Whatever is still there of the fleet: records, machines, labs, ports, licences."""
        seen = self.stage.invariants
        return [
            *convergence.unsettled(seen, least=0, most=0),
            *(f"{each.key} has an effect open" for each in seen.workers.values()
              if each.status.effect is not None),
            *(f"{each.id} of {each.request.worker} is {each.state}"
              for each in self.stage.cloud.vms.values()
              if each.live and each.id not in seen.strangers - seen.adopted),
            *(f"{each.name} is still approved" for each in self.all(Simulation)
              if each.status.phase is SimulationPhase.APPROVED),
        ]  # fmt: skip


def live(
    recording: dict[str, Any],
    database: Database,
    log: list[stores.Event],
    story: Callable[[Life], Any],
) -> Life:
    """Go on from a recording and play a story to its end; return the life that it had."""
    made: list[Life] = []

    async def main(loop: loops.Loop) -> None:
        receiver = Receiver()
        stage = Stage(loop, SEED, FaultPlan(), database=database, deliveries=receiver)
        await tell(stage, log, recording["worlds"]["at"])
        recorded_worlds.put_back(stage, recording["worlds"])
        life = Life(stage, receiver)
        made.append(life)
        loop.call_later(TROUBLE_SECONDS, recorded_worlds.heal, stage)
        for number in range(2):
            stage.begin(f"today{number + 1}")
        done = asyncio.Event()
        stage.stop_asked = done.set  # the first broken rule ends it
        task = stage.named("the story", story(life))
        task.add_done_callback(lambda _: done.set())
        await done.wait()
        assert stage.invariants.found == []
        await task
        assert (stage.watcher.bugs, stage.loop.troubles) == ([], [])

    loops.run(SEED, main)
    return made[0]


def present(log: list[stores.Event]) -> list[Resource]:
    """Return every object that a log ends with, decoded as strictly as a server does."""
    newest = {each.key: each for each in log}
    return [kinds.decode(key.kind, each.doc, each.revision)
            for key, each in newest.items() if each.type != "DELETED"]  # fmt: skip


async def tell(stage: Stage, log: list[stores.Event], until: float) -> None:
    """Tell those who watch the rules what there is, each at the instant since when it is so.

    They judge a failure by how long something has been as it is; how it came to be so was
    judged when it was recorded. Returns at `until`.
    """
    order = ("Settings", "Region", "Pool", "Worker", "Session")
    told = [each for each in present(log) if each.kind in order]
    for obj in sorted(told, key=lambda each: (_since(each), order.index(each.kind))):
        await asyncio.sleep(max(min(_since(obj), until) - stage.loop.time(), 0.0))
        revision = int(obj.metadata.resource_version)
        write = stores.Put(obj.key, obj.metadata.uid, kinds.encode(obj), {})
        commit = stores.Commit(stores.Cause("recorded", EPOCH), (write,))
        stage.invariants.committed([commit], [stores.Committed((revision,), revision)])
    await asyncio.sleep(until - stage.loop.time())
    stage.invariants.found.clear()


def _since(obj: Resource) -> float:
    since = obj.status.phase_since if isinstance(obj, Worker | Session) else None
    return 0.0 if since is None else (since - EPOCH).total_seconds()
