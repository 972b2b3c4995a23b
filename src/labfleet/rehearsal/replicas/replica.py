"""One process of the product, wired as `app.wiring` wires it, inside virtual time.

The same engine, controllers, service and stores; only what is passed in differs: clock, random
numbers, ids, a session of the shared database, and the worlds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from labfleet.adapters.aws.paced import Ec2Calls, PacedEc2
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.adapters.providers import Providers
from labfleet.adapters.static.compute import StaticCompute
from labfleet.controllers import assembly
from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine import cache as caches
from labfleet.engine.clock_check import ClockCheck
from labfleet.engine.controller import Controller, ReconcileObserver
from labfleet.engine.effects import Effects
from labfleet.engine.election import Election, Watch
from labfleet.engine.feed import RELIST_SECONDS, Feed
from labfleet.engine.objects import Objects
from labfleet.engine.supervisor import Role, Supervisor, SupervisorObserver
from labfleet.interfaces.cluster_meter import ClusterMeter, NoMeter
from labfleet.interfaces.cluster_view import NoViewer
from labfleet.interfaces.lab_host import LabHosts
from labfleet.interfaces.outside import Deliveries, PortProbe
from labfleet.interfaces.store import Store
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.replicas.leases import CutLeases
from labfleet.rehearsal.time.judged_clock import JudgedClock
from labfleet.rehearsal.time.loop import Loop, Process
from labfleet.rehearsal.time.virtual_host import FixedSecrets, SeededIds, SeededRng
from labfleet.resources.meta import Resource
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices

T = TypeVar("T")
INSTALLATION = "rehearsal"


class LossyCache(caches.Cache):
    """A cache whose listeners miss events and hear some twice; its content stays true."""

    def __init__(self, store: caches.ObjectsAndLog, injector: FaultInjector) -> None:
        super().__init__(store)
        self._injector = injector

    def on_change(self, kind: type[Resource], handler: caches.Handler) -> None:
        injector = self._injector

        def sometimes(old: Resource | None, new: Resource | None) -> None:
            if injector.strikes("event_lost"):
                injector.missed[kind.__name__] += 1
                return
            handler(old, new)
            if injector.strikes("event_twice"):
                handler(old, new)

        super().on_change(kind, sometimes)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process gets from outside. `checks_clock`: it compares its clock with the log."""

    loop: Loop
    process: Process
    store: Store
    clock: JudgedClock
    rng: SeededRng
    ids: SeededIds
    compute: Ec2Calls
    static: StaticCompute
    hosts: LabHosts
    probe: PortProbe
    injector: FaultInjector
    watch_lease: Watch
    observer: ReconcileObserver
    roles_observer: SupervisorObserver
    lease_seconds: float = 15.0
    pace: float | None = None
    deliveries: Deliveries | None = None
    checks_clock: bool = False
    meter: ClusterMeter = field(default_factory=NoMeter)
    viewer: KubernetesViewer | None = None


@dataclass(slots=True)
class Replica:
    """A process that runs, and a way to ask it for something as a client would."""

    name: str
    around: Surroundings
    cache: caches.Cache = field(init=False)
    services: ServiceContext = field(init=False)
    controllers: list[Controller] = field(default_factory=list)
    supervisors: list[Supervisor] = field(default_factory=list)
    elections: list[Election] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        around = self.around
        self.cache = LossyCache(around.store, around.injector)
        self.cache.declare(*indices.declared())
        self.services = ServiceContext(
            Objects(around.store),
            self.cache,
            around.clock,
            around.ids,
            log=around.store,
            replies=around.store,
            series=around.store,
            history=around.store,
            kept=around.store,
            clock_check=self._clock_check(),
        )
        feed = Feed(around.store, self.cache, around.clock, relist=RELIST_SECONDS)
        ground = [
            Role("feed", feed.run, ready=lambda: self.cache.cursor is not None),
            *(self._lead(role) for role in assembly.ROLES),
        ]
        if self.services.clock_check is not None:
            ground.append(Role("clock", self.services.clock_check.run))
        self.supervisors.insert(0, self._supervised(ground, None))

    def _clock_check(self) -> ClockCheck | None:
        if not self.around.checks_clock:
            return None
        confirmed = SettingsReader(self.cache).clock_confirmed
        return ClockCheck(self.around.clock, self.around.store, confirmed, pause=_seldom)

    def _lead(self, role: str) -> Role:
        around = self.around
        leases = CutLeases(around.store, around.injector, around.process)
        loop = around.loop
        election = Election(
            leases,
            role,
            f"{self.name}/{role}",
            seconds=around.lease_seconds,
            machine=loop.time,
            pause=loop.sleep,
            watch=around.watch_lease,
        )
        self.elections.append(election)
        context = Context(
            installation=INSTALLATION,
            objects=self.services.objects,
            cache=self.cache,
            clock=around.clock,
            ids=around.ids,
            effects=Effects(around.clock, around.ids, election.leadership),
            leadership=election.leadership,
            compute=Providers(aws=PacedEc2(around.compute, around.clock), static=around.static),
            hosts=around.hosts,
            secrets=FixedSecrets(),
            probe=around.probe,
            deliveries=around.deliveries,
        )
        maker = assembly.Assembly(
            around.rng.stream(role),
            self.services,
            around.store,
            around.observer,
            around.pace,
            around.meter,
            around.viewer or NoViewer(),
        )
        if role == "scheduler":
            made = maker.scheduler(context)
        elif role == "worker-controller":
            made = maker.workers(context, Inventory(context.compute, around.clock))
        else:
            made = maker.labs(context)
        self.controllers += made
        roles = [
            Role(each.name, _after_cache(self.cache, each), leads=True, stop=each.stop)
            for each in made
        ]
        if role == "scheduler" and around.viewer is not None:
            roles.append(Role("kubernetes", around.viewer.run, leads=True))
        self.supervisors.append(self._supervised(roles, election))
        return Role(f"election/{role}", election.run)

    def _supervised(self, roles: list[Role], election: Election | None) -> Supervisor:
        return Supervisor(
            roles,
            rng=self.around.rng,
            leadership=None if election is None else election.leadership,
            observer=self.around.roles_observer,
        )

    @property
    def leads(self) -> bool:
        """Tell whether this process is leader of any role."""
        return any(each.leadership.held for each in self.elections)

    def start(self) -> None:
        """Begin to run in its own process."""
        self.task = self.around.loop.spawn(self.around.process, self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self.supervisors:
                group.create_task(each.run())

    async def ask(self, verb: Callable[[ServiceContext], Awaitable[T]]) -> T:
        """Run a verb inside this process; never returns when the process dies first."""
        answer: asyncio.Future[T] = self.around.loop.create_future()

        async def serve() -> T:
            return await verb(self.services)

        def reply(done: asyncio.Task[T]) -> None:
            error = None if done.cancelled() else done.exception()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            elif not done.cancelled():
                answer.set_result(done.result())

        self.around.loop.spawn(self.around.process, serve()).add_done_callback(reply)
        return await answer


async def _seldom(seconds: float) -> None:
    """Pause between two looks at the log's end: thirty times as long, since each costs two reads."""
    await asyncio.sleep(30 * seconds)


def _after_cache(cache: caches.Cache, controller: Controller) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await cache.ready()
        await controller.run()

    return run
