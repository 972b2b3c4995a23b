"""Several processes of one installation over one store: leases, and one that stands still.

A replica that is frozen sends nothing and hears nothing. What it was about to send goes out
when it wakes, also when nobody waits for the answer any more: as packets of a process that was
suspended, or of a host whose network was cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bug_world import BugWorld
from world import CHANGES, Gate, HostGate, PatientStore, Process, services_over

from labfleet.adapters.aws.paced import PacedEc2
from labfleet.controllers import assembly
from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine.cache import Cache
from labfleet.engine.effects import Effects
from labfleet.engine.election import Election
from labfleet.engine.feed import Feed
from labfleet.engine.supervisor import Role, Supervisor

LEASE = 30.0


@dataclass
class Replica(Process):
    """A process that competes for the lead of each role and works while it has it."""

    name: str = ""
    elections: dict[str, Election] = field(default_factory=dict)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    freeze_at: int | None = None
    frozen_for: float = LEASE + 60.0
    changes: int = 0

    @property
    def leads(self) -> bool:
        """Tell whether it leads every role."""
        return all(each.leadership.held for each in self.elections.values())

    async def begin(self, *, run: Iterable[str] | None = None) -> None:
        """Watch the store, compete, and run each role's controllers while it leads."""
        del run
        world = self.world
        self.awake.set()
        store: Any = Gate(world.store, self)
        self.cache = Cache(store)
        self.services = services_over(store, self.cache, world.clock, world.ids)
        watched: Any = PatientStore(world.store, self)
        self._spawn(Feed(watched, self.cache, world.clock, relist=self.relist).run())
        await self.cache.ready()
        maker = assembly.Assembly(world.rng, self.services, store, self)
        for role in assembly.ROLES:
            election = Election(store, role, f"{self.name}/{role}", seconds=LEASE)
            self.elections[role] = election
            context = self._leading(election)
            if role == "scheduler":
                made = maker.scheduler(context)
            elif role == "worker-controller":
                made = maker.workers(context, Inventory(context.compute, world.clock))
            else:
                made = maker.labs(context)
            for each in made:
                # private _concurrency: fewer workers a controller cost fewer turns of the loop
                each._concurrency = min(each._concurrency, 4)  # for the sake of speed
            self.controllers |= {each.name: each for each in made}
            roles = [Role(each.name, each.run, leads=True, stop=each.stop) for each in made]
            kept = Supervisor(roles, rng=world.rng, leadership=election.leadership)
            self._spawn(election.run())
            self._spawn(kept.run())

    def _leading(self, election: Election) -> Context:
        world = self.world
        compute: Any = Gate(world.compute, self)
        hosts: Any = HostGate(world.hosts, self)
        return Context(
            installation=world.installation,
            objects=self.services.objects,
            cache=self.cache,
            clock=world.clock,
            ids=world.ids,
            effects=Effects(world.clock, world.ids, election.leadership),
            leadership=election.leadership,
            compute=PacedEc2(compute, world.clock),
            hosts=hosts,
            secrets=world.secrets,
            probe=world.hosts.probe,
            since=world.clock.now(),
        )

    def believe(self) -> None:
        """Believe in the lead for ever, as with a clock that stands still."""
        for each in self.elections.values():
            term = each.leadership
            # private _until: a leader whose clock stands still believes in its term for ever
            term._until = float("inf")
            term.end = lambda: None  # type: ignore[method-assign]
            term.extend = lambda _: None  # type: ignore[method-assign]

    def freeze(self) -> None:
        """Stand still for a while."""
        self.awake.clear()
        self._spawn(self._wake())

    async def _wake(self) -> None:
        await self.world.clock.sleep(self.frozen_for)
        self.awake.set()

    async def passing(self, name: str, real: Callable[[], Any]) -> Any:
        """Let a call through; one of a frozen replica goes out when it wakes."""
        if self.dead:
            await asyncio.Event().wait()
        if name in CHANGES and self.freeze_at is not None:
            self.changes += 1
            if self.changes == self.freeze_at:
                self.freeze()
        if self.awake.is_set():
            answer = await real()
            await self.awake.wait()
            return answer
        late = asyncio.get_running_loop().create_task(self._late(real))
        late.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.tasks.append(late)
        return await asyncio.shield(late)

    async def _late(self, real: Callable[[], Awaitable[Any]]) -> Any:
        await self.awake.wait()
        return await real()


@asynccontextmanager
async def two(w: BugWorld) -> AsyncIterator[tuple[Replica, Replica]]:
    """Start two replicas; the first leads."""
    first, second = Replica(w, name="a"), Replica(w, name="b")
    try:
        await first.begin()
        await w.until(lambda: first.leads)
        await second.begin()
        yield first, second
    finally:
        for each in (first, second):
            each.kill()
        tasks = [*first.tasks, *second.tasks]
        await asyncio.gather(*tasks, return_exceptions=True)
