"""What to do next with a worker: pure, from its record and what was just seen.

`decide` returns the new status, the finalizers to keep and at most one action. The shell
commits first and acts afterwards; every action is safe to repeat, and an open launch is
settled (looked up) before `decide` is asked (engine/effects.py).

Never here: an instance called terminated without the provider saying so; a stop or terminate
while sessions live on the worker; a licence forgotten without a leak on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions.lifecycle import worker_phases as phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import TimeLimits
from labfleet.resources.worker import (
    FINALIZER_INSTANCE,
    FINALIZER_LICENCE,
    CmlStatus,
    Ec2Status,
    Health,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
Action = Literal["launch", "start", "stop", "terminate", "register", "deregister", "stop_labs"]

ABSENCE_PATIENCE = timedelta(seconds=60)
TOLERATED_CHECKS = 3
SOON, POLL, CHECK = 1.0, 15.0, 30.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the shell just saw; None means that it did not look or could not tell.

    `ec2` is the instance as described; `absent` means that the provider said NotFound.
    `stage` is how far CML answers; `licence` what it says of its licence. `refused` carries
    the text of a launch or registration refused for good, `nodes_running` a deregistration
    refused because nodes run, `cloud_told` False one that only happened locally. `sessions`
    counts live sessions bound here. `wanted_nodes` is the node capacity to ask the licence for. `trouble` says why something could not be looked at.
    """

    ec2: Ec2Status | None = None
    absent: bool = False
    stage: str | None = None
    cml: CmlStatus | None = None
    login_refused: str | None = None
    licence: LicenceStatus | None = None
    refused: str | None = None
    nodes_running: bool = False
    cloud_told: bool = True
    capacity: Amounts | None = None
    foreign_ports: tuple[str, ...] | None = None
    sessions: int = 0
    has_token: bool = False
    wanted_nodes: int | None = None
    state_reason: str | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The next state of the record, one action at most, and when to look again (seconds)."""

    status: WorkerStatus
    finalizers: tuple[str, ...]
    action: Action | None = None
    again: float = POLL


@dataclass(slots=True)
class _Draft:
    """The worker being decided on; collects changes so that each rule reads as a sentence."""

    worker: Worker
    seen: Seen
    now: datetime
    status: WorkerStatus = field(init=False)
    finalizers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.status = self.worker.status
        self.finalizers = self.worker.metadata.finalizers

    @property
    def limits(self) -> TimeLimits:
        machine = self.worker.spec.machine
        return TimeLimits() if machine is None else machine.limits

    def set(self, **changes: object) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)

    def fact(self, name: str, status: conditions.Status, reason: str, message: str = "") -> None:
        self.set(
            conditions=conditions.put(
                self.status.conditions,
                name,
                status,
                reason,
                message,
                now=self.now,
                generation=self.worker.metadata.generation,
            )
        )

    def hold(self, name: str) -> None:
        if name not in self.finalizers:
            self.finalizers = (*self.finalizers, name)

    def drop(self, name: str) -> None:
        self.finalizers = tuple(each for each in self.finalizers if each != name)

    @property
    def licence_held(self) -> bool:
        return FINALIZER_LICENCE in self.finalizers

    def late(self, limit: int) -> bool:
        since = self.status.phase_since or self.now
        return self.now - since > timedelta(seconds=limit)

    def go(
        self,
        phase: WorkerPhase,
        message: str = "",
        *,
        again: float = SOON,
        do: Action | None = None,
    ) -> Step:
        """Enter a phase (or stay) and end the decision."""
        if phase is not self.status.phase:
            if phase not in phases.EDGES[self.status.phase]:
                raise AssertionError(f"no edge {self.status.phase} -> {phase}")
            self.set(phase=phase, phase_since=self.now, summary=phases.coarse(phase))
        self.set(message=message)
        return self.done(again=again, do=do)

    def stay(self, message: str = "", *, again: float = POLL, do: Action | None = None) -> Step:
        return self.go(self.status.phase, message or self.status.message, again=again, do=do)

    def fail(self, reason: str, message: str) -> Step:
        self.fact("Failed", "True", reason, message)
        self.set(errors=self.status.errors + 1)
        return self.go(P.FAILED, message)

    def done(self, *, again: float, do: Action | None) -> Step:
        self.set(observed_generation=self.worker.metadata.generation)
        open_for = phases.accepting(msgspec.structs.replace(self.worker, status=self.status))
        self.fact(
            "AcceptingLabs",
            "True" if open_for else "False",
            "Open" if open_for else "Closed",
            "" if open_for else _why_closed(self.worker, self.status),
        )
        return Step(self.status, self.finalizers, do, again)


def decide(worker: Worker, seen: Seen, now: datetime) -> Step:
    """Return the next step of a worker; total over phases, desires and observations."""
    draft = _Draft(worker, seen, now)
    if worker.status.phase_since is None:
        draft.set(phase_since=now)
    _note_machine(draft)
    lost = _lost(draft)
    if lost is not None:
        return lost
    return _HANDLERS[worker.status.phase](draft)


def _why_closed(worker: Worker, status: WorkerStatus) -> str:
    if status.phase not in phases.HOSTING:
        return f"phase is {status.phase}"
    return "cordoned" if worker.spec.cordoned else "draining"


def _note_machine(draft: _Draft) -> None:
    """Take over what the provider said, with patience for a machine that is not listed."""
    seen, ec2 = draft.seen, draft.status.ec2
    if seen.ec2 is not None:
        draft.set(ec2=msgspec.structs.replace(seen.ec2, absent_since=None))
        running = seen.ec2.state == "running"
        reason = "Running" if running else "NotRunning"
        draft.fact("EC2Provisioned", "True" if running else "False", reason, seen.ec2.state or "")
    elif seen.absent and ec2.absent_since is None:
        draft.set(ec2=msgspec.structs.replace(ec2, absent_since=draft.now))


def _gone(draft: _Draft) -> bool:
    """Tell whether the provider surely has no such machine (aws.md 7.4)."""
    ec2 = draft.status.ec2
    if draft.seen.ec2 is not None:
        return draft.seen.ec2.state == "terminated"
    patient = ec2.absent_since is not None and draft.now - ec2.absent_since >= ABSENCE_PATIENCE
    return draft.seen.absent and patient and draft.seen.stage not in {"ready", "not_ready"}


_EXPECT_MACHINE = frozenset(P) - {P.PENDING, P.TERMINATING_EC2, P.TERMINATED, P.FAILED}


def _lost(draft: _Draft) -> Step | None:
    """End in FAILED when the machine ended or stopped behind our back."""
    phase, ec2 = draft.status.phase, draft.status.ec2
    if phase not in _EXPECT_MACHINE or ec2.instance_id is None:
        return None
    if _gone(draft) or (draft.seen.ec2 is not None and ec2.state == "shutting-down"):
        why = draft.seen.state_reason or "not by Labfleet"
        _leak(draft, "the instance ended before the licence was returned")
        return draft.fail("InstanceTerminated", f"instance {ec2.instance_id} ended: {why}")
    halted = ec2.state in {"stopping", "stopped"} and draft.seen.ec2 is not None
    if halted and phase in phases.HOSTING | {P.DRAINING, P.LICENSING, P.UNLICENSING}:
        return draft.fail("StoppedOutside", f"instance {ec2.instance_id} was stopped from outside")
    return None


def _leak(draft: _Draft, why: str) -> None:
    """Record that a licence could not be given back, and stop holding for it."""
    if not draft.licence_held:
        return
    draft.set(licence=msgspec.structs.replace(draft.status.licence, leak=why, registered=None))
    draft.fact("LicenceLeaked", "True", "NotReturned", why)
    draft.drop(FINALIZER_LICENCE)


# --- on the way up -----------------------------------------------------------------------


def _pending(draft: _Draft) -> Step:
    if phases.desire(draft.worker) != "Ready":
        draft.drop(FINALIZER_INSTANCE)
        return draft.go(P.TERMINATED, "ended before anything was launched")
    if draft.worker.spec.machine is None:
        return draft.fail("NoMachine", "spec.machine is empty: name a template that exists")
    draft.hold(FINALIZER_INSTANCE)
    draft.set(attempt=draft.status.attempt + 1)
    return draft.go(P.PROVISIONING_EC2, "launching", do="launch")


def _provisioning(draft: _Draft) -> Step:
    ec2 = draft.status.ec2
    want = phases.desire(draft.worker)
    if ec2.instance_id is None:
        if want != "Ready":
            return draft.go(P.TERMINATING_EC2, "ended while launching")
        if draft.seen.refused:
            return draft.fail("LaunchRefused", f"launch refused: {draft.seen.refused}")
        if draft.late(draft.limits.launch):
            return draft.fail("LaunchTimeout", f"no instance yet: {draft.seen.trouble or 'late'}")
        draft.set(attempt=max(draft.status.attempt, 1))
        return draft.stay("launching", again=SOON, do="launch")
    if want == "Terminated":
        return draft.go(P.TERMINATING_EC2, "ended while the instance came up")
    if want == "Stopped" and ec2.state == "running":
        return draft.go(P.STOPPING, "stopped while the instance came up")
    if draft.seen.ec2 is not None and ec2.state == "running":
        return draft.go(P.EC2_READY, "instance is running")
    if draft.late(draft.limits.launch):
        return draft.fail("LaunchTimeout", f"instance is {ec2.state}, not running, for too long")
    return draft.stay(f"instance is {ec2.state or 'not visible yet'}")


def _ec2_ready(draft: _Draft) -> Step:
    want = phases.desire(draft.worker)
    if want == "Terminated" and not draft.licence_held:
        return draft.go(P.TERMINATING_EC2, "ended before CML was up")
    if want == "Stopped" and not _must_return_licence(draft):
        return draft.go(P.STOPPING, "stopped before CML was up")
    if draft.status.ec2.public_ip is None and draft.status.ec2.private_ip is None:
        if draft.late(draft.limits.boot):
            return draft.fail("NoAddress", "the instance got no address")
        return draft.stay("waiting for an address", again=5.0)
    return draft.go(P.STARTING, "CML is starting")


def _starting(draft: _Draft) -> Step:
    want, ec2, seen = phases.desire(draft.worker), draft.status.ec2, draft.seen
    if want == "Terminated" and not draft.licence_held:
        return draft.go(P.TERMINATING_EC2, "ended while CML was starting")
    if want == "Stopped" and not _must_return_licence(draft) and ec2.state == "running":
        return draft.go(P.STOPPING, "stopped while CML was starting")
    if ec2.state == "stopped":
        return draft.stay("starting the instance", again=5.0, do="start")
    if seen.stage == "ready" and seen.licence is not None:
        return _started(draft)
    detail = seen.login_refused or seen.trouble or (seen.stage or "instance is " + str(ec2.state))
    reason = (
        "LoginRefused" if seen.login_refused else _STAGE_REASONS.get(seen.stage or "", "NotSeen")
    )
    draft.fact("CMLReady", "False", reason, detail)
    if draft.late(draft.limits.boot):
        if want == "Terminated":
            _leak(draft, f"CML did not come up to return the licence: {detail}")
            return draft.go(P.TERMINATING_EC2, "licence could not be returned in time")
        return draft.fail("BootTimeout", f"CML is not ready in time: {detail}")
    return draft.stay(f"waiting for CML: {detail}", again=5.0)


_STAGE_REASONS = {
    "unreachable": "Unreachable",
    "refused": "Refused",
    "bad_gateway": "BadGateway",
    "not_ready": "NotReady",
    "ready": "LicenceUnknown",
}


def _started(draft: _Draft) -> Step:
    """CML answers: take over what it has, then license, host, or return what it holds."""
    _note_server(draft)
    draft.fact("CMLReady", "True", "Ready", f"CML {draft.status.cml.version}")
    licence = draft.status.licence
    if licence.registered:
        draft.hold(FINALIZER_LICENCE)
    elif licence.registered is False:
        draft.drop(FINALIZER_LICENCE)
    want = phases.desire(draft.worker)
    if want != "Ready":
        if _must_return_licence(draft):
            return draft.go(P.UNLICENSING, "returning the licence")
        target = P.STOPPING if want == "Stopped" else P.TERMINATING_EC2
        return draft.go(target, "nothing to return")
    draft.set(ready_since=draft.now, empty_since=draft.now)
    if licence.licensed:
        draft.fact("Licensed", "True", "InCompliance", licence.product or "")
        return draft.go(P.READY, "ready", again=CHECK)
    if _wants_licence(draft):
        draft.hold(FINALIZER_LICENCE)
        return draft.go(P.LICENSING, "licensing", do="register")
    draft.fact("Licensed", "False", "NoLicence", "runs unlicensed")
    return draft.go(P.READY_UNLICENSED, "ready, unlicensed", again=CHECK)


def _licensing(draft: _Draft) -> Step:
    _note_server(draft)
    licence = draft.status.licence
    if phases.desire(draft.worker) != "Ready":
        return draft.go(P.UNLICENSING, "ended while licensing")
    if licence.licensed and draft.seen.licence is not None:
        if _short_of_nodes(draft) and not draft.late(draft.limits.licence):
            have, want = licence.node_capacity, draft.seen.wanted_nodes
            return draft.stay(f"licence has {have} of {want} nodes", again=5.0, do="register")
        draft.fact("Licensed", "True", "InCompliance", licence.product or "")
        draft.set(ready_since=draft.now, empty_since=draft.now)
        return draft.go(P.READY, "ready", again=CHECK)
    told = f"registration {licence.registration}, authorization {licence.authorization}"
    if draft.seen.refused:
        draft.fact("Licensed", "False", "Refused", draft.seen.refused)
        return draft.fail("LicenceRefused", f"licence refused: {draft.seen.refused}")
    if draft.late(draft.limits.licence):
        draft.fact("Licensed", "False", "TimedOut", told)
        return draft.fail("LicenceTimeout", f"not licensed in time: {told}")
    draft.fact("Licensed", "False", "InProgress", told)
    begin = draft.seen.licence is not None and not licence.registered
    in_progress = licence.registration == "IN_PROGRESS"
    return draft.stay(told, again=5.0, do="register" if begin and not in_progress else None)


def _short_of_nodes(draft: _Draft) -> bool:
    """Tell whether the expansion nodes were not granted yet; they can be asked for only now."""
    wanted, have = draft.seen.wanted_nodes, draft.status.licence.node_capacity
    return wanted is not None and have is not None and have < wanted and not draft.seen.refused


# --- while it hosts ----------------------------------------------------------------------


def _note_server(draft: _Draft) -> None:
    """Take over what CML said; keep the last word where it said nothing."""
    seen = draft.seen
    if seen.cml is not None:
        draft.set(cml=seen.cml)
    if seen.licence is not None:
        leak = draft.status.licence.leak
        draft.set(licence=msgspec.structs.replace(seen.licence, leak=leak))
    if seen.capacity is not None:
        draft.set(capacity=seen.capacity)
    if seen.foreign_ports is not None:
        draft.set(foreign_ports=seen.foreign_ports)


def _check_health(draft: _Draft) -> None:
    """Judge health with patience; a failed check never changes the phase."""
    if draft.seen.stage == "ready" and not draft.seen.trouble:
        draft.set(health=Health.HEALTHY, failed_checks=0)
        draft.fact("HealthCheckPassed", "True", "Answering")
        return
    failed = min(draft.status.failed_checks + 1, 1000)
    draft.set(failed_checks=failed)
    why = draft.seen.trouble or f"CML is {draft.seen.stage}"
    if failed >= TOLERATED_CHECKS:
        draft.set(health=Health.UNREACHABLE)
        draft.fact("HealthCheckPassed", "False", "Unreachable", why)
    else:
        draft.set(health=Health.DEGRADED)
        draft.fact("HealthCheckPassed", "Unknown", "CheckFailed", why)


def _hosting(draft: _Draft) -> Step:
    _note_server(draft)
    _check_health(draft)
    seen, status = draft.seen, draft.status
    if seen.licence is not None:
        licensed = bool(seen.licence.licensed)
        told = f"registration {seen.licence.registration}"
        reason = "InCompliance" if licensed else "NotInCompliance"
        draft.fact("Licensed", "True" if licensed else "False", reason, told)
    if seen.sessions == 0 and status.empty_since is None:
        draft.set(empty_since=draft.now)
    if seen.sessions > 0 and status.empty_since is not None:
        draft.set(empty_since=None)
    if phases.drain_wanted(draft.worker):
        return draft.go(P.DRAINING, "draining")
    if seen.sessions > 0:
        return draft.go(P.ACTIVE, f"hosts {seen.sessions} sessions", again=CHECK)
    return draft.go(_resting(draft), "ready", again=CHECK)


def _resting(draft: _Draft) -> WorkerPhase:
    """Return the phase of a hosting worker without sessions."""
    if draft.status.phase in {P.READY, P.READY_UNLICENSED}:
        return draft.status.phase
    return P.READY if draft.licence_held else P.READY_UNLICENSED


def _unlicensed(draft: _Draft) -> Step:
    step = _hosting(draft)
    idle = step.status.phase is P.READY_UNLICENSED and draft.seen.sessions == 0
    if _wants_licence(draft) and idle and draft.seen.stage == "ready":
        draft.hold(FINALIZER_LICENCE)
        return draft.go(P.LICENSING, "licensing", do="register")
    return step


def _wants_licence(draft: _Draft) -> bool:
    machine = draft.worker.spec.machine
    return machine is not None and machine.auto_license and draft.seen.has_token


def _must_return_licence(draft: _Draft) -> bool:
    machine = draft.worker.spec.machine
    on_stop = machine is not None and machine.licence.on_stop == "return"
    terminal = phases.desire(draft.worker) == "Terminated"
    return draft.licence_held and (terminal or on_stop)


# --- on the way down ---------------------------------------------------------------------


def _draining(draft: _Draft) -> Step:
    _note_server(draft)
    _check_health(draft)
    seen, drain = draft.seen, draft.worker.spec.drain
    if not phases.drain_wanted(draft.worker):
        draft.set(conditions=conditions.drop(draft.status.conditions, "Drained"))
        return draft.go(P.ACTIVE if seen.sessions else _resting(draft), "drain cancelled")
    if seen.sessions:
        limit = timedelta(seconds=draft.limits.drain)
        deadline = drain.deadline if drain else (draft.status.phase_since or draft.now) + limit
        reason = "Late" if draft.now > deadline else "SessionsRunning"
        message = f"{seen.sessions} sessions still here, deadline {deadline:%Y-%m-%d %H:%M}Z"
        draft.fact("Drained", "False", reason, message)
        return draft.stay(message, again=10.0)
    draft.fact("Drained", "True", "Empty")
    if phases.desire(draft.worker) == "Ready":
        return draft.stay("drained", again=CHECK)
    if _must_return_licence(draft):
        return draft.go(P.UNLICENSING, "returning the licence")
    return draft.go(P.STOPPING, "stopping")


def _unlicensing(draft: _Draft) -> Step:
    _note_server(draft)
    licence, seen = draft.status.licence, draft.seen
    if seen.licence is not None and licence.registered is False:
        if not seen.cloud_told:
            _leak(draft, "CML answered 202: the licence cloud was not told")
        draft.drop(FINALIZER_LICENCE)
        draft.fact("Licensed", "False", "Returned", "licence returned")
        if phases.desire(draft.worker) == "Ready":
            return draft.go(P.READY_UNLICENSED, "licence returned")
        return draft.go(P.STOPPING, "licence returned")
    if draft.late(draft.limits.unlicense):
        _leak(draft, f"licence not returned in time: {seen.trouble or licence.registration}")
        return draft.go(P.STOPPING, "licence leak recorded")
    if seen.nodes_running:
        return draft.stay("nodes still run: stopping them first", again=5.0, do="stop_labs")
    ready = seen.stage == "ready"
    return draft.stay("returning the licence", again=5.0, do="deregister" if ready else None)


def _stopping(draft: _Draft) -> Step:
    ec2 = draft.status.ec2
    if draft.seen.sessions:
        return draft.stay(f"{draft.seen.sessions} sessions are still being ended", again=5.0)
    if phases.desire(draft.worker) == "Terminated":
        return draft.go(P.TERMINATING_EC2, "terminating")
    if draft.seen.ec2 is None:
        return draft.stay(f"instance state unknown: {draft.seen.trouble}", again=10.0)
    if ec2.state == "stopped":
        draft.fact("CMLReady", "False", "Stopped")
        draft.set(health=Health.UNKNOWN, empty_since=None, ready_since=None)
        return draft.go(P.STOPPED, "stopped", again=CHECK)
    if draft.late(draft.limits.stop):
        draft.fact("Late", "True", "StopLate", f"instance is still {ec2.state}")
    return draft.stay("stopping", again=10.0, do="stop" if ec2.state == "running" else None)


def _stopped(draft: _Draft) -> Step:
    want = phases.desire(draft.worker)
    if want == "Ready" or (want == "Terminated" and draft.licence_held):
        message = "starting" if want == "Ready" else "starting to return the licence"
        return draft.go(P.STARTING, message, do="start")
    if want == "Terminated":
        return draft.go(P.TERMINATING_EC2, "terminating")
    return draft.stay("stopped", again=CHECK * 2)


def _terminating(draft: _Draft) -> Step:
    ec2 = draft.status.ec2
    if ec2.instance_id is None or _gone(draft):
        _leak(draft, "the instance ended before the licence was returned")
        draft.drop(FINALIZER_INSTANCE)
        draft.fact("EC2Provisioned", "False", "Terminated")
        draft.set(empty_since=None)
        return draft.go(P.TERMINATED, "terminated", again=CHECK)
    if draft.seen.sessions:
        return draft.stay(f"{draft.seen.sessions} sessions are still being ended", again=5.0)
    if draft.late(draft.limits.terminate):
        draft.fact("Late", "True", "TerminateLate", f"instance is still {ec2.state}")
    busy = ec2.state == "shutting-down" and draft.seen.ec2 is not None
    ask = draft.seen.ec2 is not None and not busy
    return draft.stay("terminating", again=10.0, do="terminate" if ask else None)


def _failed(draft: _Draft) -> Step:
    want, ec2 = phases.desire(draft.worker), draft.status.ec2
    if want == "Terminated":
        if draft.seen.sessions:
            return draft.stay(again=5.0)
        alive = ec2.instance_id is not None and not _gone(draft)
        if draft.licence_held and alive and not _gave_up(draft):
            return draft.go(P.STARTING, "starting to return the licence")
        _leak(draft, "the worker failed before its licence was returned")
        return draft.go(P.TERMINATING_EC2, "terminating a failed worker")
    if want == "Stopped" and ec2.instance_id is not None and not _gone(draft):
        return draft.go(P.STOPPING, "stopping a failed worker")
    reason = conditions.find(draft.status.conditions, "Failed")
    retried = draft.worker.metadata.generation > draft.worker.status.observed_generation
    if reason is not None and reason.reason == "StoppedOutside" and want == "Ready":
        if ec2.state == "stopped" and draft.seen.ec2 is not None:
            return draft.go(P.STARTING, "starting again after an outside stop", do="start")
        return draft.stay(again=10.0)
    if retried and want == "Ready":
        if ec2.instance_id is None or _gone(draft):
            draft.set(ec2=Ec2Status())
            return draft.go(P.PENDING, "trying again")
        return draft.go(P.STARTING, "trying again")
    return draft.stay(again=CHECK * 2)


def _gave_up(draft: _Draft) -> bool:
    """Tell whether CML already failed to come up once, so that waiting again is pointless."""
    reason = conditions.find(draft.status.conditions, "Failed")
    return reason is not None and reason.reason == "BootTimeout"


def _terminated(draft: _Draft) -> Step:
    draft.drop(FINALIZER_INSTANCE)
    draft.drop(FINALIZER_LICENCE)
    return draft.stay(again=3600.0)


_HANDLERS: dict[WorkerPhase, Callable[[_Draft], Step]] = {
    P.PENDING: _pending,
    P.PROVISIONING_EC2: _provisioning,
    P.EC2_READY: _ec2_ready,
    P.STARTING: _starting,
    P.READY_UNLICENSED: _unlicensed,
    P.LICENSING: _licensing,
    P.READY: _hosting,
    P.ACTIVE: _hosting,
    P.DRAINING: _draining,
    P.UNLICENSING: _unlicensing,
    P.STOPPING: _stopping,
    P.STOPPED: _stopped,
    P.TERMINATING_EC2: _terminating,
    P.TERMINATED: _terminated,
    P.FAILED: _failed,
}
