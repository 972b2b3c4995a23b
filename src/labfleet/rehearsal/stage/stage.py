"""The stage of one run: worlds, database, replicas and the invariants that watch them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from cml_simulator.core import fleet
from cml_simulator.core.profile import Machine as Hardware
from labfleet.adapters.aws import launches
from labfleet.adapters.aws.paced import Ec2Calls
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.adapters.metrics.meter import SourcesMeter
from labfleet.adapters.static.compute import StaticCompute
from labfleet.engine.controller import Outcome
from labfleet.engine.supervisor import State
from labfleet.interfaces.cluster_meter import ClusterMeter, FigureReader, NoMeter
from labfleet.interfaces.lab_host import LabHosts
from labfleet.interfaces.outside import Deliveries
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.replicas.replica import INSTALLATION, Replica, Surroundings
from labfleet.rehearsal.rules.invariants import Invariants
from labfleet.rehearsal.rules.promises import Promises
from labfleet.rehearsal.rules.simulations import Simulations
from labfleet.rehearsal.rules.start_ranges import StartRanges
from labfleet.rehearsal.time.judged_clock import JudgedClock
from labfleet.rehearsal.time.loop import Loop, Process
from labfleet.rehearsal.time.virtual_host import SeededIds, SeededRng
from labfleet.rehearsal.worlds import cml, cml_wire, ec2, ec2_client, ec2_wire
from labfleet.rehearsal.worlds.cluster_looks import NotedMeter, NotedViewer
from labfleet.rehearsal.worlds.cluster_meter import WorldReader
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.database import (
    SLOWEST_SECONDS,
    DatabaseSession,
    PatientStore,
    SerialRunner,
    SharedDatabase,
)
from labfleet.rehearsal.worlds.kube_api import ApiServers, ClusterSecrets
from labfleet.rehearsal.worlds.port_probe import PortProbe
from labfleet.rehearsal.worlds.static_servers import StaticServers
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.cluster_access import MetricsKind
from labfleet.resources.meta import Key
from labfleet.stores.database import Database


class Watcher:
    """Observes every reconcile and role: counts them, and reports unexpected errors as bugs."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.bugs: list[str] = []

    def reconciled(
        self,
        controller: str,
        key: Key,
        outcome: Outcome,
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Count one reconcile."""
        del seconds
        self.outcomes[f"{controller}/{outcome.value}"] += 1
        if outcome is Outcome.BUG:
            self._bug(f"{controller} {key}", error)

    def role_changed(
        self, role: str, state: State, error: BaseException | None, wait: float
    ) -> None:
        """Note a role that crashed with an exception that is not one of the product's errors."""
        del state, wait
        if error is not None and not isinstance(error, errors.LabfleetError):
            self._bug(f"role {role}", error)

    def _bug(self, where: str, error: BaseException | None) -> None:
        if len(self.bugs) < 20:
            self.bugs.append(f"{where}: {told(error)}")


def told(error: BaseException | None) -> str:
    """Return an error in one line, with the last place in our code; for a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    place = ""
    trace = None if error is None else error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "labfleet" in code.co_filename:
            place = f" at {code.co_filename.rsplit('labfleet/', 1)[-1]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"


@dataclass(slots=True)
class Stage:
    """Everything of one run.

    A what-if says how far apart idle looks come (`pace`, controllers.pacing) and how many
    fleet seconds pass in a second of the processes' own machine (`rate`, as in a demo).
    With `wire` the processes talk through the real adapters instead of straight to the worlds.
    `database` is one that others have filled; `deliveries` is where webhooks go, if anywhere.
    """

    loop: Loop
    seed: int
    plan: FaultPlan
    lease_seconds: float = 15.0
    pace: float | None = None
    rate: float = 1.0
    slowest_write: float = SLOWEST_SECONDS
    wire: bool = False
    database: Database | None = None
    deliveries: Deliveries | None = None
    static: int = 0
    injector: FaultInjector = field(init=False)
    rng: SeededRng = field(init=False)
    shared: SharedDatabase = field(init=False)
    cml_servers: cml.CmlServers = field(init=False)
    cloud: ec2.Cloud = field(init=False)
    invariants: Invariants = field(init=False)
    clusters: Clusters = field(init=False)
    simulations: Simulations = field(init=False)
    promises: Promises = field(init=False)
    start_ranges: StartRanges = field(init=False)
    watcher: Watcher = field(default_factory=Watcher)
    replicas: dict[str, Replica] = field(default_factory=dict)
    wires: dict[str, Wire] = field(default_factory=dict)
    door: cml_wire.CmlNetwork = field(init=False)
    face: ec2_wire.XmlEndpoint = field(init=False)
    far: ec2_wire.Wires | None = None
    own_servers: StaticServers = field(init=False)
    stop_asked: Any = None
    awaited: dict[Process, asyncio.Event] = field(default_factory=dict)
    """Processes to be killed when a change that they asked for is answered."""
    deciding: dict[Process, asyncio.Event] = field(default_factory=dict)
    """Processes to be killed when a decision of theirs is durable."""
    _lives: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = SeededRng(str(self.seed))
        self.injector = FaultInjector(self.plan, self.rng.stream("luck"))
        epoch = SeededIds(f"{self.seed}/epoch").uid().replace("-", "")[:12]
        rng, inner = self.rng.stream("database"), self.database
        self.shared = SharedDatabase(self.loop, self.injector, rng, epoch=epoch, inner=inner)
        self.cml_servers = cml.CmlServers(self.loop, self.rng.stream("racks"), self.injector)
        self.cloud = ec2.Cloud(self.loop, self.rng.stream("cloud"), self.injector, self.cml_servers)
        self.invariants = Invariants(self.shared, self.cloud, self.cml_servers, self._first)
        self.clusters = Clusters(self.loop, self.rng.stream("kubernetes"), self.named)
        self.simulations = Simulations(self.shared, self.clusters, self.invariants.broken)
        struck = self.injector.counts
        self.promises = Promises(self.shared, self.invariants.broken, lambda: bool(struck))
        self.start_ranges = StartRanges(
            self.shared, self.loop.time, self.rate, self.invariants.broken, lambda: bool(struck)
        )
        self.shared.on_decided = self._decided
        for call_profile in (ec2.CALL_PROFILE, cml.CALL_PROFILE):
            rng = self.rng.stream(call_profile.name)
            self.wires[call_profile.name] = Wire(
                self.loop, rng, self.injector, call_profile, self.rate
            )
            self.wires[call_profile.name].on_answer = self._answered
        rng = self.rng.stream("CML wire")
        self.door = cml_wire.CmlNetwork(
            self.loop, rng, self.injector, self.cml_servers, rate=self.rate
        )
        rng, more = self.rng.stream("own servers"), 1 if self.static else 0
        self.own_servers = StaticServers(self.cml_servers, rng, self.static + more)
        self.face = ec2_wire.XmlEndpoint(self.cloud)
        if self.wire:
            rng = self.rng.stream("EC2 wire")
            self.far = ec2_wire.Wires(self.loop, rng, self.injector, self.face, rate=self.rate)

    def settle_strangers(self) -> None:
        """Create machines that are not ours: two without owner, one of another installation."""
        for number, owner in enumerate((None, None, "somebody-else")):
            tags = {"Name": f"lab-{number}"} | ({} if owner is None else {launches.OWNER: owner})
            vm = self.cloud.foreign(tags=tags)
            self.invariants.strangers.add(vm.id)

    def server_at_an_address(self) -> str:
        """Put up a CML server that is on no machine of the account; return its URL."""
        built = Hardware(boot_seconds=self.cml_servers.boot_seconds())
        server = fleet.create(self.cml_servers.fleet, machine=built)
        return f"https://{self.cml_servers.boot(server.id, hangs=False)}"

    def named(self, name: str, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task of the run; if it crashes, that is reported as a bug under its name."""
        task = self.loop.create_task(coro)

        def ended(done: asyncio.Task[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self.invariants.broken("bug", f"{name} died: {told(error)}")

        task.add_done_callback(ended)
        return task

    def calls(self) -> Counter[str]:
        """Return how many calls went out, by far side."""
        counted = Counter({name: wire.calls for name, wire in self.wires.items()})
        if self.wire:
            counted["CML over HTTP"] = self.door.calls
            counted["EC2 over HTTP"] = self.face.calls
        return counted

    def _looks(
        self, clock: JudgedClock, rng: SeededRng
    ) -> tuple[KubernetesViewer | None, ClusterMeter]:
        """Return by what a process sees and measures clusters; what-ifs look at none."""
        if self.pace is not None:
            return None, NoMeter()
        servers = ApiServers(self.clusters, self.injector)
        viewer = NotedViewer(ClusterSecrets(), clock, rng, connect=servers.connect)
        viewer.world = self.clusters
        reader = WorldReader(self.clusters, self.injector)
        readers: dict[MetricsKind, FigureReader] = {
            MetricsKind.PROMQL: reader,
            MetricsKind.KUBERNETES: viewer,
        }
        return viewer, NotedMeter(
            SourcesMeter(readers, clock), self.clusters, self.simulations.approvals.holding
        )

    def _compute(self) -> Ec2Calls:
        if self.far is not None:
            return self.far.compute(INSTALLATION)
        return ec2_client.Ec2(self.cloud, self.wires["EC2"], INSTALLATION)

    def _hosts(self) -> LabHosts:
        if self.wire:
            return CmlHosts(self.door.connect)
        return cml.DirectHosts(self.cml_servers, self.wires["CML"])

    def _first(self) -> None:
        if self.stop_asked is not None:
            self.stop_asked()

    def begin(self, name: str) -> Replica:
        """Start a process, or start it again after its death."""
        self._lives[name] += 1
        life = f"{name}.{self._lives[name]}"
        process = Process(life)
        rng = self.rng.stream(life)
        skew = 0.0 if not self.plan.scheduled else rng.between(-2.0, 2.0)
        clock, ids = JudgedClock(skew, self.rate, self.loop.time), SeededIds(f"{self.seed}/{life}")
        lane = SerialRunner(self.loop, rng.stream("lane"), process, self.rate)
        lane.slowest = self.slowest_write
        session = DatabaseSession(self.shared, process)
        store = PatientStore(session, lane, clock, head=self.shared.head())
        own, (viewer, meter) = self.own_servers, self._looks(clock, rng)
        replica = Replica(
            life,
            Surroundings(
                loop=self.loop,
                process=process,
                store=store,
                clock=clock,
                rng=rng,
                ids=ids,
                compute=self._compute(),
                static=StaticCompute(own.sites, own, INSTALLATION, clock),
                hosts=self._hosts(),
                probe=PortProbe(self.cml_servers, self.wires["CML"]),
                injector=self.injector,
                watch_lease=self.shared.lease_news.watch,
                observer=self.watcher,
                roles_observer=self.watcher,
                lease_seconds=self.lease_seconds,
                pace=self.pace,
                deliveries=self.deliveries,
                checks_clock=bool(self.plan.scheduled),
                meter=meter,
                viewer=viewer,
            ),
        )
        self.replicas[life] = replica
        replica.start()
        return replica

    def kill(self, replica: Replica) -> None:
        """Kill a process."""
        self.loop.kill(replica.around.process)
        self.replicas.pop(replica.name, None)

    def _answered(self, process: Process) -> None:
        """Kill a process of which that is awaited: no line of it sees the answer."""
        self._struck(process, self.awaited.pop(process, None))

    def _decided(self, process: Process) -> None:
        self._struck(process, self.deciding.pop(process, None))

    def _struck(self, process: Process, event: asyncio.Event | None) -> None:
        if event is None or not process.alive:
            return
        for replica in self.living():
            if replica.around.process is process:
                self.kill(replica)
                event.set()

    def living(self) -> list[Replica]:
        """Return the processes that live, in the order of their names."""
        return [each for _, each in sorted(self.replicas.items())]
