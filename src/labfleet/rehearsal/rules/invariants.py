"""The invariants, checked after every commit and at every effect on EC2 and CML, under all faults.

`Invariants` builds its own copy of the objects from the commits as they happen and reads the state
of the worlds, never the product's caches. For each rule a test breaks the product. Checks look only
at what a commit changed, but for `patrol` every virtual minute and the log's replay at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from labfleet.adapters.aws import launches
from labfleet.decisions import parking
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.interfaces import store
from labfleet.rehearsal.replicas.replica import INSTALLATION
from labfleet.rehearsal.rules import replay
from labfleet.rehearsal.rules.budget import Budget
from labfleet.rehearsal.rules.fault_record import FaultRecord
from labfleet.rehearsal.rules.fences import Fences
from labfleet.rehearsal.rules.finalizers import Finalizers
from labfleet.rehearsal.rules.impairment import Impairment
from labfleet.rehearsal.rules.operations import Operations
from labfleet.rehearsal.rules.outcomes import Outcomes
from labfleet.rehearsal.rules.pauses import Pauses
from labfleet.rehearsal.rules.provider import Provider
from labfleet.rehearsal.rules.replacement import Replacement
from labfleet.rehearsal.rules.silence import Silence
from labfleet.rehearsal.rules.surplus import Surplus
from labfleet.rehearsal.rules.timely import Timely
from labfleet.rehearsal.rules.truth import HOSTED, Truth
from labfleet.rehearsal.rules.unfit import Unfit
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.rehearsal.worlds.ec2 import Cloud, FakeInstance
from labfleet.resources import conditions, kinds, refs
from labfleet.resources.amounts import DIMENSIONS, Amounts, Reservation
from labfleet.resources.meta import Key
from labfleet.resources.session import FINALIZER_LAB, TERMINAL, Session, SessionPhase
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_MACHINE,
    Worker,
    WorkerPhase,
)  # fmt: skip
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.stores import rules

ORPHAN_SECONDS = 3600.0
SILENT_SECONDS = 1200.0
AHEAD_SECONDS = 3600.0
CALL_SECONDS = 60.0
"""How long after its look at the tags a call may arrive."""
STALE_SECONDS = 300.0
"""How old a known capacity may be when a lab starts: a cache lags by 90 s at most (faults.py)."""
KEPT = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that did not hold: which, when (virtual seconds), and what was seen."""

    rule: str
    at: float
    text: str


@dataclass(slots=True)
class Invariants:
    """Watches one run. `found` holds what was broken; `on_first` is called once."""

    shared: SharedDatabase
    cloud: Cloud
    cml_servers: CmlServers
    on_first: Callable[[], None]
    found: list[Violation] = field(default_factory=list)
    leaks: set[str] = field(default_factory=set)
    at_cordon: list[Callable[[str], None]] = field(default_factory=list)
    theirs: set[tuple[str, str]] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    adopted: set[str] = field(default_factory=set)
    untagged: dict[str, float] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    sessions: dict[Key, Session] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    held: dict[str, dict[Key, Session]] = field(default_factory=dict)
    pauses: Pauses = field(init=False)
    truth: Truth = field(init=False)
    fences: Fences = field(init=False)
    operations: Operations = field(init=False)
    outcomes: Outcomes = field(init=False)
    budget: Budget = field(init=False)
    surplus: Surplus = field(init=False)
    fault_record: FaultRecord = field(init=False)
    impairment: Impairment = field(init=False)
    finalizers: Finalizers = field(init=False)
    timely: Timely = field(init=False)
    unfit: Unfit = field(init=False)
    provider: Provider = field(init=False)
    replacement: Replacement = field(init=False)
    silence: Silence = field(init=False)
    _capacities: dict[str, list[tuple[int, float, Amounts | None]]] = field(default_factory=dict)
    _orphans: dict[str, float] = field(default_factory=dict)
    _silent: dict[Key, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pauses = Pauses(self.broken)
        self.truth = Truth(self.cloud, self.cml_servers, self.broken, self.leaks)
        self.fences = Fences(self.broken, self.shared)
        self.operations = Operations(self.broken, self.shared, self.cloud.loop.time, self.workers)
        self.outcomes = Outcomes(self.broken, self.cloud.loop, self.cml_servers)
        self.budget = Budget(self.broken)
        self.surplus = Surplus(self.broken)
        self.fault_record = FaultRecord(self.cloud.loop.time)
        self.impairment = Impairment(self.broken, self.cloud.loop.time)
        self.finalizers = Finalizers(self.broken, self.cml_servers)
        self.timely = Timely(self.broken, self.cloud.loop.time)
        self.unfit = Unfit(self.broken, self.cloud.loop.time)
        self.provider = Provider(self.broken, self.cloud)
        self.silence = Silence(self.broken, self.cloud, self.unfit)
        self.replacement = Replacement(self.broken, self.unfit, self.pauses.pools)
        self.shared.heard.append(self.committed)
        self.cloud.listeners.append(self.acted)

    def broken(self, rule: str, text: str) -> None:
        """Note a violation."""
        if len(self.found) < KEPT:
            self.found.append(Violation(rule, self.cloud.loop.time(), text))
        if len(self.found) == 1:
            self.on_first()

    # --- commits -----------------------------------------------------------------------

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            self.fences.commit(commit)
            self.timely.commit(commit)
            for write, revision in written(commit, outcome):
                if isinstance(write, store.Put):
                    self._put(write, revision, commit)
                else:
                    self._gone(write.key)

    def _put(self, write: store.Put, revision: int, commit: store.Commit) -> None:
        actor = commit.cause.actor
        if write.key.kind == "Session":
            new = kinds.decode("Session", write.doc, revision)
            self.operations.take(new, commit.fence)
            self.outcomes.session(self.sessions.get(write.key), new)
            self.timely.session(self.sessions.get(write.key), new)
            self.silence.session(new, self.workers)
            self._session(write.key, self.sessions.get(write.key), new)
        elif write.key.kind == "Worker":
            fresh = kinds.decode("Worker", write.doc, revision)
            self.operations.take(fresh, commit.fence)
            self.pauses.worker(actor, self.workers.get(write.key.label), fresh)
            self.outcomes.worker(fresh, write.key.label)
            self.unfit.worker(fresh)
            old = self.workers.get(write.key.label)
            self.replacement.worker(actor, old, fresh, self.workers.values())
            self._worker(self.workers.get(write.key.label), fresh, revision)
        elif write.key.kind == "Pool":
            pool = kinds.decode("Pool", write.doc, revision)
            self.pauses.pool(actor, pool)
            self.finalizers.pool(pool, self.workers.values())
        elif write.key.kind == "Settings":
            self.pauses.settings(kinds.decode("Settings", write.doc, revision))
        elif write.key.kind == "Region":
            self.pauses.region(actor, kinds.decode("Region", write.doc, revision))

    def _gone(self, key: Key) -> None:
        if key.kind == "Session":
            old = self.sessions.pop(key, None)
            if old is not None:
                self._unhold(old)
                self.truth.lab_gone(old)
                self.truth.forget(old)
                self.timely.gone(old)
        elif key.kind == "Worker":
            worker = self.workers.pop(key.label, None)
            self.outcomes.worker(None, key.label)
            if worker is not None:
                self.truth.machine_gone(worker, "its record is gone")
                self.finalizers.worker_gone(worker)
        elif key.kind == "Pool":
            self.pauses.pools.pop(key.label, None)
            self.finalizers.pool_gone(key.label, self.workers.values())

    # --- sessions ----------------------------------------------------------------------

    def _session(self, key: Key, old: Session | None, new: Session) -> None:
        self.sessions[key] = new
        self.truth.session(new)
        was = SessionPhase.PENDING if old is None else old.status.phase
        now = new.status.phase
        if was != now and now not in session_phases.EDGES[was]:
            self.broken("edge", f"{key}: {was} -> {now}")
        if old is not None and old.status.reservation is not None:
            self._unhold(old)
        if new.status.reservation is None and now in session_phases.BOUND:
            self.broken("capacity", f"{key} is {now} and holds no reservation")
        worker = _host(new)
        if new.status.reservation is not None and worker is not None:
            self.held.setdefault(worker, {})[key] = new
            if old is None or old.status.reservation != new.status.reservation:
                self._promised(worker, old, new)
                self._ports(worker, new)
                self.truth.ports_given(self.workers.get(worker), new)
                if old is None or old.status.reservation is None or _host(old) != worker:
                    self.unfit.placed(new, self.workers.get(worker))
            if was is SessionPhase.SCHEDULED and now is SessionPhase.INSTANTIATING:
                self._entered(worker, new)
                self.unfit.placed(new, self.workers.get(worker), "begins")
            if now is not was and now in HOSTED:
                self._look(worker)
        ended = now in TERMINAL and was not in TERMINAL
        held = old is not None and FINALIZER_LAB in old.metadata.finalizers
        if ended or (held and FINALIZER_LAB not in new.metadata.finalizers):
            self.truth.lab_gone(new)

    def _look(self, name: str) -> None:
        """Judge the labs on a worker's server at the moment in which one more lab is up."""
        worker = self.workers.get(name)
        known = None if worker is None else worker.status.machine.id
        if known in self.cloud.vms:
            self.truth.look(self.cloud.vms[known])

    def _unhold(self, old: Session) -> None:
        worker = _host(old)
        if worker is not None:
            self.held.get(worker, {}).pop(old.key, None)

    def _promised(self, worker: str, old: Session | None, new: Session) -> None:
        """No dimension of the worker is promised twice at any instant that a commit adds.

        A longer slot adds the time after its old end; what is past cannot be promised anew.
        """
        mine = new.status.reservation
        if mine is None:
            return
        begin = mine.start
        before = None if old is None or _host(old) != worker else old.status.reservation
        if before is not None and (before.start, before.amounts) == (begin, mine.amounts):
            if before.end is None or (mine.end is not None and mine.end <= before.end):
                return
            begin = max(begin, before.end)
        choices = self._known_capacities(worker, new)
        if not choices:
            return
        others = self._others(worker, new)
        now = EPOCH + timedelta(seconds=self.cloud.loop.time())
        for at in (begin, *(each.start for each in others)):
            if at < begin or (mine.end is not None and at >= mine.end):
                continue
            # What is past its end still stands there until its lab was seen gone.
            there = [
                each.amounts
                for each in others
                if each.start <= at and (each.end is None or max(each.end, now) > at)
            ]
            self._within(f"{worker} at {at}", mine.amounts, there, choices)

    def _entered(self, worker: str, new: Session) -> None:
        """Judge that a lab starts only where there is room for it beside all labs there now."""
        mine = new.status.reservation
        if mine is not None:
            there = [each.amounts for each in self._others(worker, new, session_phases.STARTED)]
            self._within(f"{worker} as {new.name} came", mine.amounts, there, self._newest(worker))

    def _others(
        self, worker: str, new: Session, phases: frozenset[SessionPhase] = session_phases.BOUND
    ) -> list[Reservation]:
        return [
            each.status.reservation
            for each in self.held[worker].values()
            if each.key != new.key
            and each.status.reservation is not None
            and each.status.phase in phases
        ]

    def _within(
        self, where: str, mine: Amounts, there: list[Amounts], choices: list[Amounts]
    ) -> None:
        for name in DIMENSIONS:
            asked = getattr(mine, name)
            used = asked + sum(getattr(each, name) for each in there)
            most = max((getattr(each, name) for each in choices), default=math.inf)
            if asked and used > most:
                self.broken("capacity", f"{where}: {used} of {most} {name}")
                return

    def _known_capacities(self, worker: str, new: Session) -> list[Amounts]:
        """Return the capacities that held since the snapshot on which a placement was decided."""
        revision = new.status.decision.revision if new.status.decision else 0
        rows = self._capacities.get(worker, [])
        found = [size for at, _, size in rows if at > revision and size is not None]
        before = [size for at, _, size in rows if at <= revision]
        if before and before[-1] is not None:
            found.append(before[-1])
        if not found:
            self.broken("capacity", f"{new.key} was placed on {worker}, whose size is unknown")
        return found

    def _newest(self, worker: str) -> list[Amounts]:
        """Return the capacities that a process may believe to be the newest."""
        rows = self._capacities.get(worker, [])
        old = self.cloud.loop.time() - STALE_SECONDS
        first = max((n for n, (_, since, _) in enumerate(rows) if since <= old), default=0)
        return [size for _, _, size in rows[first:] if size is not None]

    def _ports(self, worker: str, new: Session) -> None:
        """No port of the worker is given to two sessions."""
        mine = {(port.transport, port.number) for port in new.status.ports}
        for other in self.held[worker].values():
            if other.key == new.key:
                continue
            both = mine & {(port.transport, port.number) for port in other.status.ports}
            if both:
                told = ", ".join(f"{kind}/{number}" for kind, number in sorted(both))
                self.broken("port", f"{worker}: {told} given to {other.key} and {new.key}")

    # --- workers -----------------------------------------------------------------------

    def _worker(self, old: Worker | None, new: Worker, revision: int) -> None:
        self.workers[new.key.label] = new
        self.truth.worker(new)
        was = WorkerPhase.PENDING if old is None else old.status.phase
        now = new.status.phase
        if was != now and now not in worker_phases.edges(new, was):
            self.broken("edge", f"{new.key}: {was} -> {now}")
        if old is None or old.status.capacity != new.status.capacity:
            since = self.cloud.loop.time()
            rows = self._capacities.setdefault(new.key.label, [])
            rows.append((revision, since, new.status.capacity))
        before = () if old is None else old.metadata.finalizers
        after = new.metadata.finalizers
        if now is WorkerPhase.TERMINATED and was is not WorkerPhase.TERMINATED:
            self.truth.machine_gone(new, "it is TERMINATED")
        elif FINALIZER_MACHINE in before and FINALIZER_MACHINE not in after:
            self.truth.machine_gone(new, "its instance finalizer is gone")
        if FINALIZER_LICENCE in before and FINALIZER_LICENCE not in after:
            self.truth.licence_gone(new)
        self._idle_stop(old, new)
        self._note_leak(new)
        self.impairment.worker(old, new)
        self.provider.worker(old, new)
        self.finalizers.worker(old, new)
        if old is not None and new.status.licence.leak and not old.status.licence.leak:
            self._leaked(old, new.status.licence.leak)

    def _leaked(self, worker: Worker, why: str) -> None:
        """Judge a leak: it needs a fault of this machine that can prevent the licence's return."""
        since, begun = worker.status.phase_since, self.cloud.loop.time()
        if since is not None and worker.status.phase not in worker_phases.HOSTING:
            begun = (since - EPOCH).total_seconds()
        vm = self.cloud.vms.get(worker.status.machine.id or "")
        if self.fault_record.of(vm, begun) is None:
            self.broken("leak", f"{worker.key} in {worker.status.phase}: {why}")

    def _idle_stop(self, old: Worker | None, new: Worker) -> None:
        """No idle stop of a worker with a session bound or a lab that ran before the last look.

        `theirs` are labs that somebody started in the instant of the cordon, before that look.
        """
        if parking.cordoned(new) and not (old is not None and parking.cordoned(old)):
            for tell in list(self.at_cordon):
                tell(new.key.label)
        asked = old is not None and old.spec.desired == "Ready" and parking.auto_stopped(new)
        if not asked:
            return
        for session in self.held.get(new.key.label, {}).values():
            self.broken("idle", f"{new.key} is stopped as idle under {session.key}")
        vm = self.cloud.vms.get(new.status.machine.id or "")
        server = None if vm is None else self.cml_servers.fleet.servers[vm.server_id]
        for name, lab_id in sorted(self.theirs):
            lab = server.labs.get(lab_id) if server is not None and name == new.key.label else None
            if lab is not None and lab.state() == "STARTED":
                self.broken("idle", f"{new.key} is stopped as idle under lab {lab_id}")

    def _note_leak(self, worker: Worker) -> None:
        """Remember which licence a leak record names; the record itself may be removed later."""
        told = conditions.find(worker.status.conditions, WorkerCondition.LICENCE_LEAKED)
        vm = self.cloud.vms.get(worker.status.machine.id or "")
        if vm is not None and (worker.status.licence.leak or told is not None):
            server = self.cml_servers.fleet.servers[vm.server_id]
            self.leaks.add(server.config.identity.product_uuid)

    # --- acts on the outside -------------------------------------------------------------

    def acted(self, what: str, vm: FakeInstance, who: str) -> None:
        """Judge a launch, stop or end of an instance as it takes effect; adoption tags it again."""
        gone = self.cloud.loop.time() - self.untagged.get(vm.id, math.inf)
        if gone > CALL_SECONDS and who == "us" and launches.OWNER not in vm.tags:
            self.broken("stranger", f"{what} {vm.id}, which has no owner tag")
        if vm.id in self.strangers and who == "us" and vm.id not in self.adopted:
            self.broken("stranger", f"{what} {vm.id}, which nobody adopted")
        owner = self.workers.get(vm.request.worker)
        if owner is None or owner.metadata.uid != vm.request.worker_uid:
            owner = self.owner(vm)
        if what in {"launched", "claimed"}:
            self.truth.alone(vm, owner)
        elif who == "us":
            self.truth.hosting(what, vm, owner, self.cml_servers.now())
            self.impairment.acted(what, vm, owner)

    # --- now and then ------------------------------------------------------------------

    def patrol(self) -> None:
        """Check the rules that depend on time rather than on a commit; every virtual minute."""
        now = self.cloud.loop.time()
        self.budget.look(now, self.cloud.calls, self.cloud.overdrawn)
        self.surplus.look(
            now,
            self.pauses.pools.values(),
            self.workers.values(),
            self._used,
            hungry=any(
                each.status.phase is SessionPhase.PENDING and _due(each, now + AHEAD_SECONDS)
                for each in self.sessions.values()
            ),
            held=self.pauses.held,
        )
        self.truth.patrol()
        self.unfit.patrol(self.workers.values())
        self.provider.patrol(self.workers.values())
        self.silence.patrol(self.workers)
        self.replacement.patrol(now, self.workers.values(), self._used, self.pauses.held)
        self.timely.patrol()
        for vm in self.cloud.vms.values():
            # Must not be ended while all is paused or its tag is gone; its hour begins after that.
            held = self.pauses.fleet or vm.id in self.untagged
            if not vm.live or held or self._owned(vm):
                self._orphans.pop(vm.id, None)
            elif now - self._orphans.setdefault(vm.id, now) > ORPHAN_SECONDS:
                self.broken("orphan", f"{vm.id} of {vm.request.worker} belongs to nobody")
        for name in sorted(self.spared - {each.id for each in self.cloud.waste}):
            self.spared.discard(name)
            self.broken("stranger", f"{name} was removed: it is of others, or kept by its tag")
        for key, session in self.sessions.items():
            if session.status.phase in TERMINAL or _reason(session) or not _due(session, now):
                self._silent.pop(key, None)
            elif now - self._silent.setdefault(key, now) > SILENT_SECONDS:
                self.broken("reason", f"{key} is {session.status.phase} and says no reason")

    def _used(self, worker: Worker) -> bool:
        """Tell whether anything is booked on a worker, or any lab runs there."""
        vm = self.cloud.vms.get(worker.status.machine.id or "")
        server = None if vm is None else self.cml_servers.fleet.servers[vm.server_id]
        return bool(self.held.get(worker.key.label)) or (server is not None and bool(server.active))

    def _owned(self, vm: FakeInstance) -> bool:
        if vm.id in self.strangers:
            held = vm.tags.get(launches.OWNER) == INSTALLATION
            return not held or self.owner(vm) is not None
        worker = self.workers.get(vm.request.worker)
        if worker is None or worker.metadata.uid != vm.request.worker_uid:
            return False
        if worker.status.machine.id == vm.id:
            return True
        effect = worker.status.effect
        return effect is not None and effect.kind == "launch"

    def owner(self, vm: FakeInstance) -> Worker | None:
        """Return the worker that has a machine that others launched."""
        return next(
            (each for each in self.workers.values() if each.status.machine.id == vm.id),
            None,
        )

    def replay(self) -> None:
        """Replay the log; it must give exactly the stored objects."""
        replay.look(self.shared, self.broken)


def _host(session: Session) -> str | None:
    """Return the rules' name of a session's worker, as LaunchRequest.worker spells it."""
    worker = refs.worker_of(session)
    return None if worker is None else worker.key.label


def _reason(session: Session) -> bool:
    """Tell whether it states what it waits for now; one older than its phase does not count."""
    status = session.status
    if status.message:
        return True
    decided, since = status.decision, status.phase_since
    waits = status.phase is SessionPhase.PENDING and decided is not None
    return waits and (since is None or decided is None or decided.at >= since)


def _due(session: Session, now: float) -> bool:
    start = session.spec.slot.start
    return start is None or (start - EPOCH).total_seconds() <= now
