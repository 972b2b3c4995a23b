"""Observe a worker: its machine, its CML server, its sessions; only what its phase needs.

A failed read is recorded as `trouble`, never as "nothing there": an error, an empty answer and
a missing object are kept apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.controllers.worker import console, measure
from labfleet.controllers.worker.address import address_of, pinned
from labfleet.controllers.worker.described import checked, machine_status
from labfleet.controllers.worker.inventory import Inventory
from labfleet.controllers.worker.lab_owners import LabOwners
from labfleet.controllers.worker.launch import Launcher
from labfleet.controllers.worker.stray_labs import StrayLabs
from labfleet.controllers.worker.tagger import Tagger
from labfleet.decisions import hosted_labs, ledger, port_drift, port_holders, stray_labs
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import chores
from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker.calls import Call
from labfleet.decisions.lifecycle.worker.decide import WorkerObservation
from labfleet.decisions.lifecycle.worker.draft import ProviderLook
from labfleet.decisions.lifecycle.worker.phases import WATCHED
from labfleet.decisions.lifecycle.worker.settle import UNTRIED
from labfleet.interfaces.lab_host import LabHost, NodeState
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock, format_instant
from labfleet.resources import conditions, providers, refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import Machine, MachineStatus
from labfleet.resources.meta import Key
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.session import Session
from labfleet.resources.telemetry import Licensing, SystemStats
from labfleet.resources.worker import CmlStatus, LicenceStatus, Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.kinds import indices

P = WorkerPhase
SERVED = frozenset(
    {P.STARTING, P.READY_UNLICENSED, P.LICENSING, P.READY, P.ACTIVE, P.DRAINING, P.UNLICENSING}
)
_NO_MACHINE = frozenset({P.PENDING, P.TERMINATED})
MEMORY_RESERVE_MIB = 4096
SAMPLES_READ = 20
OF_PROVIDER = frozenset({"launch", "start", "stop", "terminate"})
LEAST_PATIENCE = 2.0
"""Machine seconds of a look, however fast fleet time goes: a busy host needs some to answer."""
EXPANDABLE = frozenset({"CML_Enterprise", "CML_Education"})


@dataclass(frozen=True, slots=True)
class WorkerObserver:
    """Observes workers; built once per process."""

    context: Context
    inventory: Inventory
    launcher: Launcher
    tagger: Tagger
    strays: StrayLabs
    owners: LabOwners = field(default_factory=LabOwners)

    def forget(self, key: Key) -> None:
        """Forget a worker that is gone."""
        self.strays.forget(key)
        self.owners.forget(key)

    async def at(self, worker: Worker, call: Call | None = None) -> WorkerObservation:
        """Return what can be seen of a worker now; never raises for errors of EC2 or CML.

        `call` is what is known of its open call. While that runs, and when its answer alone
        decides the next step, nothing else is asked.
        """
        settings, key = self.context.settings.now(), worker.key
        poll = float(settings.monitoring.poll_interval_seconds)
        if call is not None and _enough(worker, call):
            return WorkerObservation(call=call, poll=poll, provider=self._called(worker, call))
        here = self.context.cache.by(indices.SESSIONS_HERE, key.path)
        seen = WorkerObservation(
            call=call,
            points=tuple(self.context.samples.points(key)),
            thresholds=settings.thresholds,
            poll=poll,
            paused=self.context.settings.paused(refs.pool_of(worker)) is not None,
            sessions=live_sessions(here),
            has_token=_has_token(worker),
            wanted_nodes=_wanted_nodes(worker),
            watched_since=self.context.since,
            booked=_booked(here, self.context.clock),
            port_use=port_holders.use(here, worker.status.held_ports),
            drifted=port_drift.drifted(here),
        )
        machine = worker.spec.machine
        if machine is None:
            return seen
        seen = await self._machine(worker, machine, seen)
        shown = _reached(worker, seen)
        if worker.status.phase not in SERVED or shown is None:
            return seen
        # An error of the provider says nothing of the server, which is asked separately.
        seen = replace(seen, trouble="")
        clock = self.context.clock
        begun = clock.now()
        since = self._silent_since(worker, seen, begun)
        try:
            async with asyncio.timeout(_patience(worker, seen, begun - since, clock.rate)):
                seen = await self._server(worker, machine, shown, seen)
        except TimeoutError:
            cml = msgspec.structs.replace(worker.status.cml, ready=False, stage="unreachable")
            told = "CML gave no answer in time"
            seen = replace(seen, stage="unreachable", cml=cml, trouble=told)
        if seen.stage == "not_ready" or (seen.stage == "ready" and not seen.trouble):
            return seen
        return replace(seen, server_silent=(clock.now() - since).total_seconds())

    def _silent_since(self, worker: Worker, seen: WorkerObservation, begun: datetime) -> datetime:
        """Return from when on the server is silent if the look that has begun fails too.

        From its last answer; the pause before the first look that failed counts one interval at
        most, because in a longer one nobody asked.
        """
        check = conditions.find(worker.status.conditions, WorkerCondition.HEALTH_CHECK_PASSED)
        failing = begun
        if check is not None and check.status != "True":
            failing = check.last_transition_time
        newest = self.context.samples.newest(worker.key)
        if newest is None:
            return failing
        return max(min(newest.at, failing), failing - timedelta(seconds=seen.poll))

    async def _machine(
        self, worker: Worker, machine: Machine, seen: WorkerObservation
    ) -> WorkerObservation:
        instance_id = worker.status.machine.id
        if instance_id is None and worker.status.phase is P.PROVISIONING_EC2:
            seen = replace(seen, offer=await self.launcher.offer(worker, machine, seen.call))
            offer, asked = seen.offer, worker.status.effect is None
            look = self._of_problem(machine, None if offer is None else offer.problem)
            if look is None and offer is not None and offer.parameters is not None and asked:
                look = ProviderLook()  # it was asked for the image, and told it
            seen = replace(seen, provider=look)
            found = conditions.find(worker.status.conditions, WorkerCondition.MACHINE_PROVISIONED)
            return seen if found is None else replace(seen, trouble=found.message)
        if worker.status.phase in _NO_MACHINE or instance_id is None:
            return seen
        asked = self.context.settings.now().monitoring.instance_checks
        seen = replace(seen, checks_asked=asked)
        asked_at = self.context.clock.monotonic()
        try:
            described = await self.inventory.find(machine.provider.region, instance_id)
        except errors.LabfleetError as problem:
            look = self._of_problem(machine, problem)
            if look is not None and look.trouble is not None:
                silent = self.inventory.silent_for(machine.provider.region, instance_id)
                look = replace(look, silent=silent, of_call=False)
            return replace(seen, trouble=f"provider: {problem.message}", provider=look)
        seen = replace(seen, provider=self._called(worker, seen.call) or ProviderLook())
        if described is None:
            missing = self.inventory.missing_since(machine.provider.region, instance_id)
            return replace(seen, absent=True, absent_for=max(0.0, asked_at - missing))
        checks = None
        if described.state == "running" and asked:
            checks = await self.inventory.checks(machine.provider.region)
        tagged = providers.of(machine.provider).tagged
        shown = checked(machine_status(described, tagged=tagged), checks)
        if checks is None and asked:  # no answer: keep the scheduled events known so far
            shown = msgspec.structs.replace(shown, events=worker.status.machine.events)
        return replace(
            seen,
            machine=shown,
            state_reason=described.state_reason,
            tags=described.tags,
            tags_refused=self.tagger.refused_lately(instance_id),
            console=await self._console(worker, machine),
        )

    def _called(self, worker: Worker, call: Call | None) -> ProviderLook | None:
        """Return what an answered call says of the provider; None when it asked nothing there."""
        effect, machine = worker.status.effect, worker.spec.machine
        answered = call is not None and (
            call.state == "answered" or call.answer.problem is not None
        )
        if machine is None or effect is None or call is None or not answered:
            return None
        if effect.kind not in OF_PROVIDER:
            return None
        problem = call.answer.problem
        look = ProviderLook(of_call=True) if problem is None else self._of_problem(machine, problem)
        launch = effect.kind == "launch"
        if look is None or launch or look.trouble in {None, Trouble.FORBIDDEN}:
            return look
        return None  # a stop that waits for CML is no word of the provider; the look gives one

    def _of_problem(
        self, machine: Machine, problem: errors.LabfleetError | None
    ) -> ProviderLook | None:
        """Return what an error of a call says of the provider; None when nothing was asked."""
        if problem is None or problem.reason in UNTRIED:
            return None
        trouble = self.context.compute.trouble(machine.provider.region, problem)
        return ProviderLook(trouble, problem.message, of_call=True)

    async def _console(self, worker: Worker, machine: Machine) -> str | None:
        """Return the console text of a boot that failed, when it is due and can be read."""
        if not chores.console_due(worker):
            return None
        region, name = machine.provider.region, worker.status.machine.id or ""
        try:
            text = await self.context.compute.console_output(region, name)
        except (errors.Gone, errors.Invalid, errors.Denied) as problem:
            text = f"(not readable: {problem.message[:200]})"
        except errors.LabfleetError:
            return None
        return console.readable(text, self._secrets(worker, machine))

    def _secrets(self, worker: Worker, machine: Machine) -> list[str]:
        found = []
        order = worker.spec.licence
        replaced = None if order is None else order.token
        for reference in (machine.cml.admin_password, machine.licence.token, replaced):
            try:
                if reference is not None:
                    found.append(self.context.secrets.resolve(reference))
            except errors.LabfleetError:
                continue
        return found

    async def _server(
        self, worker: Worker, machine: Machine, shown: MachineStatus, seen: WorkerObservation
    ) -> WorkerObservation:
        try:
            where = address_of(self.context, worker, machine, shown)
        except errors.Denied as problem:
            return replace(seen, login_refused=problem.message, trouble=problem.message)
        if where is None:
            return seen
        host = self.context.hosts.at(where)
        readiness = await host.readiness()
        known = worker.status.cml
        cml = CmlStatus(
            url=where.base_url,
            boot=where.boot,
            version=readiness.version or worker.status.cml.version,
            ready=readiness.stage == "ready",
            stage=readiness.stage,
            # A look without an answer must not forget what this boot is pinned to.
            tls_fingerprint=readiness.tls_fingerprint or pinned(worker, where.boot),
            product_uuid=known.product_uuid,
            hostname=known.hostname,
            labs=known.labs,
            running_nodes=known.running_nodes,
        )
        seen = replace(seen, stage=readiness.stage, cml=cml)
        if readiness.stage != "ready":
            seen = replace(seen, trouble=readiness.detail)
            return await self._unready(worker, host, seen) if seen.stage == "not_ready" else seen
        try:
            await host.authenticate()
            return await self._inside(worker, machine, host, seen)
        except errors.Denied as problem:
            return replace(seen, login_refused=problem.message, trouble=problem.message)
        except errors.LabfleetError as problem:
            return replace(seen, trouble=f"CML: {problem.message}")

    async def _unready(
        self, worker: Worker, host: LabHost, seen: WorkerObservation
    ) -> WorkerObservation:
        """Ask a server that answers, and is not ready, only for its health: that names the cause.

        Its other numbers would be those of a part of it: without its core it may list no node,
        which must not look like an unused worker. A server that boots is kept out of the series.
        """
        survey = await measure.health_only(host, licence=worker.status.phase is P.UNLICENSING)
        if survey.licence is not None:
            seen = replace(seen, licence=licence_status(survey.licence))
        sample = survey.sample(worker, seen.cml or worker.status.cml, self.context.clock.now())
        if worker.status.phase is P.STARTING:
            return replace(seen, samples=(sample,))
        percent = self.context.settings.now().monitoring.metrics_change_percent
        self.context.samples.put(sample, change_percent=percent)
        recent = self.context.samples.recent(worker.key, SAMPLES_READ)
        return replace(seen, samples=tuple(recent))

    async def _inside(
        self, worker: Worker, machine: Machine, host: LabHost, seen: WorkerObservation
    ) -> WorkerObservation:
        """Measure, keep what worked, and read what it means; raises only when nothing worked."""
        hosting = worker.status.phase in {P.READY, P.ACTIVE, P.READY_UNLICENSED, P.DRAINING}
        cml = seen.cml or worker.status.cml
        # Before a worker takes sessions it is known which ports labs on it name already.
        coming = worker.status.phase in {P.STARTING, P.LICENSING}
        survey = await measure.survey(host, nodes=hosting or coming)
        sample = survey.sample(worker, cml, self.context.clock.now())
        percent = self.context.settings.now().monitoring.metrics_change_percent
        self.context.samples.put(sample, change_percent=percent)
        stats, licence, nodes = survey.stats, survey.licence, survey.nodes
        here = self.context.cache.by(indices.SESSIONS_HERE, worker.key.path)
        if licence is not None:
            cml = msgspec.structs.replace(
                cml, product_uuid=licence.product_uuid, hostname=licence.hostname
            )
        if stats is not None:
            cml = msgspec.structs.replace(cml, running_nodes=stats.running_nodes)
        if nodes is not None:
            cml = msgspec.structs.replace(cml, labs=sample.labs_count)
            unasked = port_holders.unasked(nodes, here)
            named = await self.owners.named(worker, host, unasked, here)
            seen = replace(seen, unasked_ports=named)
            if hosting:
                strays = await self.strays.seen(worker, host, nodes)
                seen = replace(seen, strays=strays, stray_rules=self.strays.rules(worker))
            found = hosted_labs.seen(nodes, self.strays.names(worker.key), lab_ids(here))
            seen = replace(seen, labs=found, order_nodes=_of_order(worker, nodes))
        known = stray_labs.real(worker.status.capacity, worker.status.stray_labs)
        return replace(
            seen,
            cml=cml,
            licence=None if licence is None else licence_status(licence),
            capacity=capacity_of(machine, stats, licence, known),
            samples=tuple(self.context.samples.recent(worker.key, SAMPLES_READ)),
            duplicate_of=_older_twin(self.context, worker, cml.product_uuid),
        )


def _of_order(worker: Worker, nodes: Sequence[NodeState]) -> tuple[NodeState, ...] | None:
    """Return the nodes of the lab that somebody ordered something of; None when nobody did."""
    order = worker.spec.lab_order
    return None if order is None else tuple(each for each in nodes if each.lab_id == order.lab)


def _enough(worker: Worker, call: Call) -> bool:
    """Tell whether a call decides the next step without a look at anything else."""
    effect, problem = worker.status.effect, call.answer.problem
    if call.state == "running" or call.answer.machine is not None:
        return True
    launch = effect is not None and effect.kind == "launch"
    return problem is not None and (launch or not isinstance(problem, errors.Gone))


def _reached(worker: Worker, seen: WorkerObservation) -> MachineStatus | None:
    """Return the machine whose server can be asked, None when there is none.

    A machine that EC2 does not list is asked at its last address: while its CML answers,
    it does not count as absent (facts/aws.md#absence). An external server has no machine.
    """
    origin, last = worker.spec.origin, worker.status.machine
    if origin is not None and origin.kind == "external":
        return MachineStatus()
    if seen.machine is None and last.state == "running":
        # If the provider cannot be asked, its servers do not count as silent.
        return last
    return seen.machine if seen.machine is not None and seen.machine.state == "running" else None


def _patience(
    worker: Worker, seen: WorkerObservation, silent: timedelta, rate: float
) -> float | None:
    """Return how many machine seconds a look may take; None: as long as its calls may.

    A look that fails ends when the server has been silent for as long as it may be, so that its
    worker is Unreachable by then; afterwards there is nothing to be in time for.
    """
    left = seen.thresholds.silent_seconds - silent.total_seconds()
    if worker.status.phase not in WATCHED or left <= 0:
        return None
    return max(left / rate, LEAST_PATIENCE)


def _has_token(worker: Worker) -> bool:
    licence = worker.spec.licensing
    return licence is not None and licence.token is not None


def _wanted_nodes(worker: Worker) -> int | None:
    """Return the wanted node capacity of the licence; None when it is the product's own."""
    machine, licence = worker.spec.machine, worker.spec.licensing
    if machine is None or licence is None or licence.product not in EXPANDABLE:
        return None
    return machine.cml.max_nodes_licensed


def _booked(here: Sequence[Session], clock: Clock) -> Amounts:
    """Return the most that these sessions reserve at any instant from now on."""
    held = [each.status.reservation for each in here if each.status.reservation is not None]
    if not held:
        return ledger.NOTHING
    now = clock.now()
    return ledger.peak(ledger.settled(held, now), now, None)


def live_sessions(here: Sequence[Session]) -> int:
    """Count the sessions of a worker that hold something on it."""
    return sum(each.status.phase in session_phases.BOUND for each in here)


def lab_ids(here: Sequence[Session]) -> list[str]:
    """Return CML's names for the labs that these sessions recorded."""
    labs = (each.status.lab for each in here)
    return [lab.id for lab in labs if lab is not None and lab.id is not None]


def licence_status(found: Licensing) -> LicenceStatus:
    """Return the status record of what CML says of its licence."""
    return LicenceStatus(
        registration=found.registration,
        authorization=found.authorization,
        product=found.product,
        node_capacity=found.node_capacity,
        registered=found.registered,
        licensed=found.licensed,
        expires=found.expires,
    )


def _older_twin(context: Context, worker: Worker, product_uuid: str | None) -> str | None:
    """Return an older worker with this identity whose server may still exist."""
    if product_uuid is None:
        return None
    for other in context.cache.by(indices.WORKERS_OF_PRODUCT, product_uuid):
        gone = other.status.phase is P.TERMINATED or other.status.machine.state == "gone"
        if other.metadata.uid == worker.metadata.uid or gone:
            continue
        if _age(other) < _age(worker):
            return other.key.label
    return None


def _age(worker: Worker) -> tuple[str, str]:
    made = worker.metadata.creation_timestamp
    return ("" if made is None else format_instant(made, "microseconds"), worker.key.label)


def capacity_of(
    machine: Machine,
    stats: SystemStats | None,
    licensing: Licensing | None,
    before: Amounts | None,
) -> Amounts | None:
    """Return the real capacity: CML's numbers, rounded down, and at most the declared lab slots.

    The nominal size of an instance type is more than CML can give (facts/aws-bugs.md#case-43);
    storage is what was free when first seen, since later use is ours. A value that CML did not
    give now keeps its earlier size; the result is None when nothing was ever seen.
    """
    declared = machine.capacity
    if stats is None and licensing is None:
        return before
    last = before or declared
    memory, cpu = last.memory_mib, last.cpu_milli
    if stats is not None:
        told = stats.memory.total
        memory = declared.memory_mib
        if told is not None:
            memory = max(told // 2**20 - MEMORY_RESERVE_MIB, 0)
        cpu = declared.cpu_milli if stats.cpu_count is None else stats.cpu_count * 1000
    storage = last.storage_mib
    if before is None and stats is not None:
        free = _free_bytes(stats)
        storage = storage if free is None else max(free // 2**20, 0)
    nodes = machine.cml.max_nodes_unlicensed if before is None else before.nodes
    if licensing is not None:
        known = licensing.node_capacity
        nodes = machine.cml.max_nodes_unlicensed if known is None else known
    found = Amounts(
        cpu_milli=cpu,
        memory_mib=memory,
        storage_mib=storage,
        nodes=nodes,
        labs=declared.labs,
        ports=declared.ports,
    )
    return worker_health.less_orphans(found, stats)


def _free_bytes(stats: SystemStats) -> int | None:
    """Return what is free on the controller's disk, which holds images and node disks.

    Source: facts/cml-issues.md#f45.
    """
    for room in (stats.controller_disk, stats.disk):
        if room.total is not None and room.used is not None:
            return room.total - room.used
    return None
