"""A whole installation in virtual time: real store, engine, controllers; EC2 is the rehearsal's.

`World` holds what outlives a process: the database, the machines, the servers, and a reader of
its own. A `Process` is one life of the program; `kill` ends it as `kill -9` does. Each call of
a process that changes something passes a gate, where a plan may strike: before or after its
effect, by a crash, a refusal, a lost reply, or silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from scripted_ec2 import ScriptedEc2
from scripted_servers import ScriptedCml
from virtual_time import Ids

from labfleet.adapters.aws.paced import PacedEc2
from labfleet.controllers import assembly
from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.engine.cache import Cache
from labfleet.engine.controller import Controller
from labfleet.engine.effects import Effects
from labfleet.engine.election import AlwaysLeader
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterMeter, NoMeter
from labfleet.interfaces.cluster_view import ClusterViewer, NoViewer
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import SECRET, SeededRng, VirtualClock
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, SecretRef
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.worker import Worker
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline

ADMIN = Caller(Principal(id="token-admin", role=Role("admin"), owner="ada"), "req-1")
TOPOLOGY = """
lab: {title: two, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: alpine, x: 0, y: 0, tags: ["serial:1"], interfaces: []}
- {id: n1, label: r2, node_definition: alpine, x: 9, y: 0, tags: ["serial:2"], interfaces: []}
links: []
"""
MACHINE: dict[str, Any] = {
    "provider": {
        "kind": "aws",
        "amiId": "ami-1",
        "instanceTypes": ["m1", "m2"],
        "subnetIds": ["sub-a", "sub-b"],
    },
    "cml": {"adminPassword": {"env": "PASSWORD"}},
    "licence": {"token": {"env": "TOKEN"}},
}
CHANGES = frozenset([
    "commit", "launch", "start", "stop", "terminate", "register", "deregister", "import_lab",
    "wipe", "delete", "extract", "download", "keep_lab", "operate_node",
])  # fmt: skip
HOUR = 3600.0
Strike = Callable[[str, int], str | None]


class FakeSecrets:
    """Two secrets, either of which may be missing."""

    def __init__(self) -> None:
        self.values = {"PASSWORD": SECRET, "TOKEN": "good"}

    def resolve(self, ref: SecretRef) -> str:
        try:
            return self.values[ref.env or ""]
        except KeyError:
            raise errors.Denied(f"environment variable {ref.env} is not set") from None


_CALLS: dict[tuple[type, str], bool] = {}


def _is_call(kind: type, name: str, real: Any) -> bool:
    """Tell whether an attribute is awaited; asked once, because a story makes many calls."""
    known = _CALLS.get((kind, name))
    if known is None:
        known = _CALLS[kind, name] = asyncio.iscoroutinefunction(real)
    return known


class Gate:
    """One process's way to something outside it."""

    def __init__(self, target: Any, process: Process) -> None:
        self._target = target
        self._process = process

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._target, name)
        if not _is_call(type(self._target), name, real):
            return real

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._process.passing(name, lambda: real(*args, **kwargs))

        return call


class HostGate(Gate):
    """The same for the servers that are handed out."""

    def at(self, address: Any) -> Gate:
        return Gate(self._target.at(address), self._process)


class PatientStore(Gate):
    """The feed's way to the store: polls rarely, for the sake of speed; may be deaf."""

    async def changed(self, after: int, *, seconds: float) -> None:
        deaf = self._process.deaf
        await (asyncio.sleep(60) if deaf else self._target.changed(after, seconds=600))

    async def events(self, after: stores.Cursor, *, limit: int = 1000) -> stores.EventPage:
        page = await self._target.events(after, limit=limit)
        return stores.EventPage((), page.cursor) if self._process.deaf else page


def services_over(store: Any, cache: Cache, clock: VirtualClock, ids: Ids) -> ServiceContext:
    """The verbs over one store, which may be a `Gate`."""
    cache.declare(*indices.declared())
    parts = dict.fromkeys(("log", "replies", "series", "history", "kept"), store)
    return ServiceContext(Objects(store), cache, clock, ids, **parts)


@dataclass
class Process:
    """One life of the program, all roles in it."""

    world: World
    dead: bool = False
    deaf: bool = False
    relist: float | None = None
    controllers: dict[str, Controller] = field(default_factory=dict)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    cache: Any = None
    services: Any = None
    contexts: dict[str, Context] = field(default_factory=dict)
    leaders: dict[str, AlwaysLeader] = field(default_factory=dict)
    outcomes: list[tuple[str, Key, str, str]] = field(default_factory=list)

    async def begin(self, *, run: Iterable[str] | None = None) -> None:
        """Take the leases, list everything, start the controllers (all, or the named)."""
        world = self.world
        store = Gate(world.store, self)
        self.cache = Cache(store)
        self.services = services_over(store, self.cache, world.clock, world.ids)
        feed = Feed(PatientStore(world.store, self), self.cache, world.clock, relist=self.relist)  # type: ignore[arg-type]
        self._spawn(feed.run())
        await self.cache.ready()
        maker = assembly.Assembly(
            world.rng, self.services, store, self, meter=world.meter, viewer=world.viewer
        )
        for role in assembly.ROLES:
            context = self.contexts[role] = await self._context(role, store)
            if role == "scheduler":
                made = maker.scheduler(context)
            elif role == "worker-controller":
                made = maker.workers(context, Inventory(context.compute, world.clock))
            else:
                made = maker.labs(context)
            self.controllers |= {each.name: each for each in made}
        for name, controller in self.controllers.items():
            # private _concurrency: fewer workers a controller cost fewer turns of the loop
            controller._concurrency = min(controller._concurrency, 4)  # for the sake of speed
            if run is None or name in run:
                self._spawn(controller.run())

    async def _context(self, role: str, store: Any) -> Context:
        world = self.world
        row = await world.store.lease(role)
        lease = await world.store.acquire(role, f"p{id(self)}", seen=row and row.version)
        leader = self.leaders[role] = AlwaysLeader(stores.Fence(role, lease.token))
        return Context(
            installation=world.installation,
            objects=self.services.objects,
            cache=self.cache,
            clock=world.clock,
            ids=world.ids,
            effects=Effects(world.clock, world.ids, leader),
            leadership=leader,
            compute=PacedEc2(Gate(world.compute, self), world.clock),  # type: ignore[arg-type]
            hosts=HostGate(world.hosts, self),  # type: ignore[arg-type]
            secrets=world.secrets,
            probe=world.hosts.probe,
            since=world.clock.now(),
        )

    async def reconcile(self, name: str, key: Key) -> Any:
        """Run one reconcile by hand, beside the controller's queue."""
        return await self.controllers[name].reconcile(key)

    def _spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def passing(self, name: str, real: Callable[[], Any]) -> Any:
        """Let a call through, or strike."""
        if self.dead:
            await asyncio.Event().wait()
        mode = self.world.struck(name) if name in CHANGES else None
        while self.world.between:
            await self.world.store.commit(self.world.between.pop())
        await self._fate(mode, "before")
        answer = await real()
        if self.dead:
            await asyncio.Event().wait()
        await self._fate(mode, "after")
        return answer

    async def _fate(self, mode: str | None, when: str) -> None:
        what, _, at = (mode or "").partition("-")
        if at != when:
            return
        if what == "crash":
            self.dead = True
            self.world.crashed.set()
        if what in {"crash", "hang"}:
            await asyncio.Event().wait()
        if what == "lost":
            raise errors.Ambiguous("the reply was lost")
        raise errors.Temporary("server trouble")

    def kill(self) -> None:
        """End as kill -9 does: nothing is said, nothing is put in order."""
        self.dead = True
        for task in self.tasks:
            task.cancel()

    def reconciled(
        self, controller: str, key: Key, outcome: str, seconds: float, error: BaseException | None
    ) -> None:
        self.outcomes.append((controller, key, str(outcome), str(error or "")))
        if outcome == "bug" and not self.dead:
            self.world.wrong.append(f"{controller} {key}: {error!r}")


class World:
    """What outlives a process, and short ways to make, watch and judge things."""

    installation = "inst"

    def __init__(self, clock: VirtualClock, store: stores.Store, ids: Ids) -> None:
        self.clock = clock
        self.store = store
        self.ids = ids
        self.rng = SeededRng("world")
        self.compute = ScriptedEc2(clock, self.installation, self.expect)
        self.cloud = self.compute.cloud
        self.hosts = ScriptedCml(self.cloud.cml_servers, self.compute, self.expect, self.expect_lab)
        self.secrets = FakeSecrets()
        self.meter: ClusterMeter = NoMeter()
        self.viewer: ClusterViewer = NoViewer()
        self.cache = Cache(store)
        self.services = services_over(store, self.cache, clock, ids)
        self.crashed = asyncio.Event()
        self.strike: Strike | None = None
        self.strikes = 0
        self.between: list[stores.Commit] = []
        self.reborn_after = 3.0
        self.wrong: list[str] = []
        self.phases: dict[str, list[str]] = {}
        self.process: Process | None = None
        self.cache.on_change(Worker, self._moved)
        self.cache.on_change(Session, self._moved)

    # --- making things -------------------------------------------------------------------

    async def make(self, kind: str, name: str, spec: dict[str, Any], **meta: Any) -> Any:
        body = {"metadata": {"name": name, **meta}, "spec": spec}
        return await objects.create(self.services, ADMIN, KINDS[kind], body)

    async def worker(self, name: str = "w1", **spec: Any) -> Any:
        return await self.make("Worker", name, {"machine": MACHINE, **spec})

    async def definition(self, name: str = "two", **spec: Any) -> Any:
        given = {"topology": TOPOLOGY, "defaultDurationMinutes": 10, **spec}
        return await self.make("Definition", name, given)

    async def session(self, name: str = "s1", **spec: Any) -> Any:
        return await self.make("Session", name, {"definition": "two", **spec})

    async def pool(self, name: str = "p1", *, template: str = "metal", **spec: Any) -> Any:
        if await self.services.objects.get(KINDS["Template"].type, template, "default") is None:
            await self.make("Template", template, {"machine": MACHINE})
        return await self.make("Pool", name, {"template": template, **spec})

    async def desire(self, name: str, desired: str) -> None:
        await verbs.desire(self.services, ADMIN, name, "default", desired=desired)  # type: ignore[arg-type]

    async def delete(self, kind: str, name: str) -> None:
        await objects.delete(self.services, ADMIN, KINDS[kind], name, "default")

    async def status(self, obj: Any, **changes: Any) -> Any:
        """Write status fields by hand, as somebody else would."""
        fresh = await self.services.objects.get(type(obj), obj.name, "default")
        new = msgspec.structs.replace(
            fresh, status=msgspec.structs.replace(fresh.status, **changes)
        )
        cause = stores.Cause("tester", self.clock.now())
        return (await self.services.objects.save(new, cause=cause))[1][0]

    def store_now(self, commit: stores.Commit) -> None:
        """Commit as somebody else, between two steps of a call that is under way."""
        self.between.append(commit)

    # --- processes and time --------------------------------------------------------------

    async def start(self, *, run: Iterable[str] | None = None, **how: Any) -> Process:
        """Begin a new life; a former one is killed."""
        if self.process is not None:
            self.process.kill()
        self.process = Process(self, **how)
        await self.process.begin(run=run)
        return self.process

    async def until(self, holds: Callable[[], bool], *, hours: float = 3.0) -> None:
        """Let time run until the claim holds; a killed process is born again."""
        end = self.clock.monotonic() + hours * HOUR
        while not holds():
            if self.clock.monotonic() > end:
                raise AssertionError(f"not within {hours} h: {self.story()}")
            await self._on()

    async def let_pass(self, seconds: float) -> None:
        """Let this many fleet seconds pass."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self._on()

    async def _on(self) -> None:
        await self.clock.sleep(2.0)
        if self.crashed.is_set():
            self.crashed.clear()
            if self.process is not None:
                self.process.kill()
            await self.clock.sleep(self.reborn_after)
            await self.start()

    def struck(self, name: str) -> str | None:
        """Count one changing call and return what shall happen to it."""
        if self.strike is None:
            return None
        self.strikes += 1
        return self.strike(name, self.strikes)

    # --- looking -------------------------------------------------------------------------

    def phase(self, name: str) -> str | None:
        """Return the phase of a worker or session; None when there is none."""
        found = self.cache.get(Worker, name, "default") or self.cache.get(Session, name, "default")
        return None if found is None else str(found.status.phase)

    def in_phase(self, name: str, *phases: str) -> Callable[[], bool]:
        """Return a question for `until`: is it in one of these phases?"""
        return lambda: self.phase(name) in phases

    def told(self, name: str, text: str) -> Callable[[], bool]:
        """Tell whether the status of a worker or session says this."""

        def holds() -> bool:
            found = self.cache.get(Worker, name, "default") or self.cache.get(
                Session, name, "default"
            )
            return found is not None and text in str(found.status)

        return holds

    def ended(self) -> bool:
        """Tell whether every session has ended."""
        all_ = self.cache.all(Session)
        return bool(all_) and all(each.status.phase in TERMINAL for each in all_)

    def get_worker(self, name: str = "w1") -> Worker:
        """Return a worker that is there."""
        found = self.cache.get(Worker, name, "default")
        assert found is not None
        return found

    def get_session(self, name: str = "s1") -> Session:
        """Return a session that is there."""
        found = self.cache.get(Session, name, "default")
        assert found is not None
        return found

    def story(self) -> str:
        rows = [
            (each.name, each.status.phase, each.status.message) for each in self.cache.all(Worker)
        ]
        rows += [
            (each.name, each.status.phase, each.status.message) for each in self.cache.all(Session)
        ]
        last = [] if self.process is None else self.process.outcomes[-6:]
        return f"{rows} {self.phases} {last} {self.wrong[:5]}"

    async def events(self, kind: str, name: str) -> int:
        """Return how many events an object has."""
        return len(await self.store.events_of(Key(kind, "default", name)))

    def check(self) -> None:
        """Hold everything seen against the rules that always hold."""
        assert self.wrong + self.hosts.wrong == [], self.wrong + self.hosts.wrong
        assert self.compute.twins == [], "two machines for one worker"

    async def check_empty(self) -> None:
        """Nothing is left over anywhere."""
        self.check()
        assert self.compute.alive() == []
        assert self.hosts.licences_left() == []
        assert self.hosts.labs_left() == []
        assert await self.store.ports() == ()

    # --- what always holds ---------------------------------------------------------------

    async def expect(self, worker: str, kind: str) -> None:
        """Note a change at a worker that no open effect in the store stands for."""
        stored = await self.services.objects.get(Worker, worker, "default")
        effect = None if stored is None else stored.status.effect
        if effect is None or effect.kind != kind:
            self.wrong.append(f"{kind} of {worker} without an open effect: {effect}")

    async def expect_lab(self, marker: str, kind: str, lab_id: str) -> None:
        page = await self.store.list("Session")
        for item in page.items:
            if item.uid == marker:
                stored = await self.services.objects.get(Session, item.key.name, "default")
                held = None if stored is None else stored.status.effect
                if held is not None and held.kind == kind:
                    return
        for item in (await self.store.list("Worker")).items:
            stored = await self.services.objects.get(Worker, item.key.name, "default")
            held = None if stored is None else stored.status.effect
            named = {} if held is None else {held.kind: held.parameters}
            if kind == "stop" and "stop_labs" in named:
                return
            told = named.get("operate_lab", {})
            ordered = (told.get("call"), told.get("lab")) == (kind.removesuffix("_node"), lab_id)
            if ordered or named.get("remove_lab") == {"lab": lab_id, "uid": marker}:
                return
        self.wrong.append(f"{kind} of lab {lab_id} without an open effect")

    def _moved(self, old: Any, new: Any) -> None:
        if new is None:
            return
        seen = self.phases.setdefault(new.name, [])
        if old is None or old.status.phase != new.status.phase:
            if old is not None and new.status.phase not in _edges(old):
                self.wrong.append(f"{new.name}: {old.status.phase} -> {new.status.phase}")
            seen.append(str(new.status.phase))


def _edges(old: Any) -> frozenset[Any]:
    """Return which phases may follow."""
    if isinstance(old, Worker):
        return worker_phases.edges(old, old.status.phase)
    return session_phases.EDGES[old.status.phase]


@asynccontextmanager
async def world(rate: float = 1.0) -> AsyncIterator[World]:
    """Open an installation with nothing in it and nobody running it."""
    clock, ids = VirtualClock(rate=rate), Ids()
    store = await open_store("sqlite://:memory:", runner=Inline(), ids=ids, clock=clock)
    made = World(clock, store, ids)
    reader = Process(made)
    feed = Feed(PatientStore(store, reader), made.cache, clock)  # type: ignore[arg-type]
    task = asyncio.get_running_loop().create_task(feed.run())
    await made.cache.ready()
    try:
        yield made
    finally:
        running = [task, *(made.process.tasks if made.process else [])]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await store.close()


def later(world: World, minutes: float) -> Any:
    """Return the instant so many minutes from now, as a manifest has it."""
    return (world.clock.now() + timedelta(minutes=minutes)).isoformat()
