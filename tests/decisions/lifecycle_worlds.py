"""Small fair worlds to drive the pure lifecycles in: one EC2 instance with its CML, one lab.

They answer what they are asked and move on with time; nothing in them is random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from labfleet.decisions.lifecycle.session import decide as sessions
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import decide as workers
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call, Offer
from labfleet.resources.definition import Definition, DefinitionSpec, DefinitionStatus
from labfleet.resources.machine import CmlSettings, LicenceSettings, Machine, MachineStatus
from labfleet.resources.meta import Effect, Metadata, SecretRef
from labfleet.resources.session import TERMINAL, LabStatus, Session, SessionPhase, SessionSpec
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_MACHINE,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
    WorkerStatus,
)

P, S = WorkerPhase, SessionPhase
START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
PASSWORD = SecretRef(env="CML_PASSWORD")
TOKEN = SecretRef(env="CML_TOKEN")
BOOT_SECONDS = 300


def machine(*, licensed: bool = True, on_stop: str = "keep") -> Machine:
    licence = LicenceSettings(token=TOKEN if licensed else None, on_stop=on_stop)
    return Machine(cml=CmlSettings(admin_password=PASSWORD), licence=licence)


def worker(status: WorkerStatus | None = None, **spec: Any) -> Worker:
    return Worker(
        metadata=Metadata(name="w1", uid="u-1", generation=1),
        spec=WorkerSpec(**{"machine": machine(), **spec}),
        status=status or WorkerStatus(),
    )


def check_worker(
    before: Worker, seen: workers.WorkerObservation, step: workers.Step, now: datetime
) -> None:
    """What no step may ever do."""
    old, new = before.status, step.status
    assert new.phase is old.phase or new.phase in phases.edges(before, old.phase)
    waited = now - (old.phase_since or now)
    if step.action in {"stop", "terminate"} and seen.sessions:
        limits = before.spec.machine.limits
        limit = limits.stop if step.action == "stop" else limits.terminate
        assert waited > timedelta(seconds=limit)
    if new.phase is P.TERMINATED and old.phase not in {P.TERMINATED, P.PENDING}:
        assert new.machine.id is None or surely_gone(seen, new, now)
    dropped = set(before.metadata.finalizers) - set(step.finalizers)
    if FINALIZER_MACHINE in dropped:
        assert new.phase is P.TERMINATED
    if FINALIZER_LICENCE in dropped and old.phase is not P.TERMINATED:
        returned = seen.licence is not None and seen.licence.registered is False
        assert new.licence.leak or returned
        assert new.licence.leak or seen.licence.registration != "IN_PROGRESS"


def surely_gone(seen: workers.WorkerObservation, status: WorkerStatus, now: datetime) -> bool:
    if seen.machine is not None:
        return seen.machine.state == "gone"
    since = status.machine.absent_since
    counted = seen.absent_for is not None and seen.absent_for >= 60
    return seen.absent and counted and since is not None and now - since >= workers.ABSENCE_PATIENCE


@dataclass
class Cloud:
    """One worker, its instance, its CML server and its sessions, in its own time."""

    worker: Worker
    now: datetime = START
    state: str | None = None
    since: datetime = START
    registration: str = "NOT_REGISTERED"
    nodes_run: bool = False
    broken: bool = False
    cloud_told: bool = True
    sessions: int = 0
    call: Call | None = None
    trail: list[WorkerPhase] = field(default_factory=list)
    launches: int = 0

    @property
    def up(self) -> bool:
        booted = self.now - self.since >= timedelta(seconds=BOOT_SECONDS)
        return self.state == "running" and booted and not self.broken

    def see(self) -> workers.WorkerObservation:
        machine = None
        if self.state is not None and self.worker.status.machine.id is not None:
            known = self.state in {"running", "stopping"}
            machine = MachineStatus(
                id="i-1", state=self.state, public_address="127.0.0.2" if known else None
            )
        stage = None
        if self.state == "running":
            stage = "ready" if self.up else "unreachable"
        licence = None
        if self.up:
            done = self.registration == "COMPLETED"
            licence = LicenceStatus(registration=self.registration, registered=done, licensed=done)
        token = self.worker.spec.machine is not None and self.worker.spec.machine.licence.token
        return workers.WorkerObservation(
            machine=machine,
            stage=stage,
            licence=licence,
            sessions=self.sessions,
            has_token=bool(token),
            call=self.call,
            offer=Offer(parameters={"attempt": str(self.launches + 1), "token": "t"}),
        )

    def step(self) -> workers.Step:
        """Decide once, check, record with the intent, act, and let time pass.

        What a call answered is seen by the next step, which follows at once.
        """
        seen, before = self.see(), self.worker.status.phase
        self.call = None
        step = workers.decide(self.worker, seen, self.now)
        check_worker(self.worker, seen, step, self.now)
        self.trail.append(step.status.phase)
        meta = msgspec.structs.replace(self.worker.metadata, finalizers=step.finalizers)
        status = msgspec.structs.replace(step.status, effect=self.intent(step, seen))
        self.worker = msgspec.structs.replace(self.worker, metadata=meta, status=status)
        assert step.again <= 3600
        assert step.again > 0 or step.status.phase is not before
        if step.action is None:
            self.pass_time(step.again)
        else:
            answer = getattr(self, f"do_{step.action}")()
            self.call = Call("answered", answer or Answer())
        return step

    def intent(self, step: workers.Step, seen: workers.WorkerObservation) -> Effect | None:
        if step.action is None:
            return step.status.effect
        asked = seen.offer.parameters if step.action == "launch" and seen.offer else {}
        ends = self.now + timedelta(seconds=20)
        return Effect(
            id="e", kind=step.action, begun=self.now, expires=ends, parameters=dict(asked or {})
        )

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        moved = self.now - self.since >= timedelta(seconds=30)
        after = {"booting": "running", "stopping": "stopped", "ending": "gone"}
        if moved and self.state in after:
            self.become(after[self.state])
        if self.registration == "IN_PROGRESS" and self.up:
            self.registration = "COMPLETED"
        phase = self.worker.status.phase
        reachable = phase in phases.HOSTING | {P.DRAINING, P.UNLICENSING} and self.up
        leaving = phases.drain_wanted(self.worker)
        if self.sessions and (self.state == "gone" or (leaving and reachable)):
            self.sessions -= 1

    def become(self, state: str) -> None:
        self.state, self.since = state, self.now

    def do_launch(self) -> Answer:
        self.launches += 1
        self.become("booting")
        return Answer(machine=MachineStatus(id="i-1", state="booting"))

    def do_start(self) -> None:
        if self.state == "stopped":
            self.become("booting")

    def do_stop(self) -> None:
        if self.state == "running":
            self.become("stopping")

    def do_terminate(self) -> None:
        if self.state not in {"gone", "ending"}:
            self.become("ending")

    def do_register(self) -> None:
        if self.up and self.registration == "NOT_REGISTERED":
            self.registration = "IN_PROGRESS"

    def do_deregister(self) -> Answer:
        if self.nodes_run:
            return Answer(nodes_running=True)
        if self.up:
            self.registration = "NOT_REGISTERED"
            return Answer(cloud_told=self.cloud_told)
        return Answer()

    def do_stop_labs(self) -> None:
        self.nodes_run = False

    def want(self, **spec: Any) -> None:
        meta = msgspec.structs.replace(
            self.worker.metadata, generation=self.worker.metadata.generation + 1
        )
        wanted = msgspec.structs.replace(self.worker.spec, **spec)
        self.worker = msgspec.structs.replace(self.worker, spec=wanted, metadata=meta)

    def until(self, *ends: WorkerPhase, steps: int = 3000) -> WorkerPhase:
        for _ in range(steps):
            if self.worker.status.phase in ends:
                return self.worker.status.phase
            self.step()
        raise AssertionError(f"{ends} not reached: {self.trail[-5:]} {self.worker.status.message}")


def session(phase: SessionPhase = S.PENDING, **changes: Any) -> Session:
    spec = {"definition": "d1", "owner": "ann", **changes.pop("spec", {})}
    status = msgspec.structs.replace(
        Session(metadata=Metadata(name="x"), spec=SessionSpec(**spec)).status,
        phase=phase,
        phase_since=START,
        **changes,
    )
    return Session(
        metadata=Metadata(name="s1", uid="u-1", generation=1, creation_timestamp=START),
        spec=SessionSpec(**spec),
        status=status,
    )


def definition(*, replaces: bool) -> Definition:
    """A definition whose labs have ten minutes to boot, and may move to another worker or not."""
    spec = DefinitionSpec(topology="", on_worker_loss="replace" if replaces else "fail")
    status = DefinitionStatus(boot_seconds=300)
    return Definition(metadata=Metadata(name="d1"), spec=spec, status=status)


def check_session(before: Session, seen: sessions.SessionObservation, step: sessions.Step) -> None:
    """What no step may ever do."""
    old, new = before.status, step.status
    assert new.phase is old.phase or new.phase in session_phases.EDGES[old.phase]
    gone = seen.looked and seen.lab is None
    if step.release:
        assert seen.host_dead or gone or old.phase is S.SCHEDULED or old.lab is None
    if new.phase in TERMINAL - {old.phase}:
        assert step.release or old.phase is S.PENDING
        assert new.ended_at is not None
    if step.action == "wipe":
        assert seen.lab.state == "STOPPED"
        assert seen.active == 0
    if step.action == "delete":
        assert seen.lab.state not in {"STARTED", "STOPPED"}
        assert not seen.active


@dataclass
class Server:
    """One session and its lab on a server that answers, or hangs, or is dead."""

    session: Session
    now: datetime = START
    state: str | None = None
    since: datetime = START
    hangs: bool = False
    dead: bool = False
    collects: bool = True
    refuses: bool = False
    actions: list[str] = field(default_factory=list)
    trail: list[SessionPhase] = field(default_factory=list)
    releases: int = 0

    def see(self) -> sessions.SessionObservation:
        if self.dead:
            return sessions.SessionObservation(
                host_lost=True, host_dead=True, host_detail="w1 ended"
            )
        if self.hangs:
            return sessions.SessionObservation(trouble="w1 does not answer")
        settled = self.now - self.since >= timedelta(seconds=20)
        lab = None
        if self.state is not None:
            booted = 2 if self.state == "STARTED" and settled else 0
            lab = LabStatus(
                title="t", marker="u-1", id="l-1", state=self.state, nodes=2, booted=booted
            )
        return sessions.SessionObservation(
            looked=True,
            lab=lab,
            active=2 if self.state == "STARTED" else 0,
            converged=settled,
            ports_open=True,
            refused="no such image" if self.refuses and self.state is None else None,
        )

    def step(self) -> sessions.Step:
        """Decide once, check, record, act, and let time pass."""
        seen = self.see()
        step = sessions.decide(self.session, seen, self.now)
        check_session(self.session, seen, step)
        status = step.status
        self.trail.append(status.phase)
        if step.action == "observe" and self.collects and not self.hangs:
            status = observed(self.session, status, self.now)
        self.releases += step.release
        meta = msgspec.structs.replace(self.session.metadata, finalizers=step.finalizers)
        self.session = msgspec.structs.replace(self.session, metadata=meta, status=status)
        if step.action is not None:
            self.actions.append(step.action)
            self.act(step.action)
        # What waits for a place has nothing to look at before its own deadline.
        waits = self.session.status.phase is SessionPhase.PENDING
        assert 0 < step.again <= (24 * 3600 if waits else 3600)
        self.now += timedelta(seconds=step.again)
        return step

    def act(self, action: str) -> None:
        after = {"import": "DEFINED_ON_CORE", "start": "STARTED", "stop": "STOPPED"}
        after |= {"wipe": "DEFINED_ON_CORE", "delete": None}
        if action in after:
            self.state, self.since = after[action], self.now

    def bind(self) -> None:
        """What the scheduler does: take capacity and say where."""
        status = msgspec.structs.replace(
            self.session.status,
            phase=S.SCHEDULED,
            phase_since=self.now,
            worker="w1",
            placements=self.session.status.placements + 1,
        )
        self.session = msgspec.structs.replace(self.session, status=status)

    def want(self, **spec: Any) -> None:
        wanted = msgspec.structs.replace(self.session.spec, **spec)
        self.session = msgspec.structs.replace(self.session, spec=wanted)

    def until(self, *ends: SessionPhase, steps: int = 2000) -> SessionPhase:
        for _ in range(steps):
            if self.session.status.phase in ends:
                return self.session.status.phase
            self.step()
        raise AssertionError(f"{ends} not reached: {self.trail[-5:]}")


def observed(session: Session, status: Any, now: datetime) -> Any:
    """What the shell records after an observation."""
    changes: dict[str, Any] = {"observed_at": now, "observe_handled": now}
    if session.status.phase is S.COLLECTING:
        changes["conditions"] = sessions.conditions.put(
            status.conditions, "Collected", "True", "Observed", now=now
        )
    return msgspec.structs.replace(status, **changes)
