"""The working state of a decision on a worker: the observation, the changes, the action.

The rules in `up`, `hosting` and `down` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions import hosted_labs, port_holders, provider, stray_labs
from labfleet.decisions.lab_orders import LabNode
from labfleet.decisions.lifecycle.draft import StatusDraft
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call, Offer, TagChange
from labfleet.decisions.lifecycle.worker.idle_finding import IdleFinding
from labfleet.decisions.port_holders import SeenPort
from labfleet.decisions.stray_labs import SeenLab
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.fleet_settings import Thresholds
from labfleet.resources.held_ports import PortUse
from labfleet.resources.machine import MachineStatus, TimeLimits
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    CmlStatus,
    Health,
    LicenceStatus,
    LimitStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

P = WorkerPhase
Action = Literal[
    "launch", "start", "stop", "terminate", "register", "deregister", "stop_labs", "renew",
    "telemetry", "claim", "tags", "remove_lab", "operate_lab",
]  # fmt: skip

ABSENCE_COUNTED = 60.0
"""Seconds on this process's own counter for which a machine was not found before it is gone."""
ABSENCE_PATIENCE = timedelta(seconds=70)
"""Between two looks, so that the lists behind them, up to 8 s old, are 60 s apart.

Source: facts/aws.md#absence.
"""
TOLERATED_CHECKS = 3
"""From how many failed looks on a worker is Unreachable, about 100 s: a lost packet, a restart of
CML's web service or one bad call makes one or two. Nobody waits longer beside an empty worker:
what was never imported there leaves (`session.moving`)."""
FAILED_CHECKS = 10
"""So many failed checks in a row are counted: a server that stays dead costs no write at each look."""
STILL_FAILING = timedelta(minutes=5)
"""After so long it is recorded again that checks still fail, for who asks when the last one was."""
FOREIGN_PORTS_KEPT = port_holders.NAMED
"""How many numbers `foreignPorts` names; `heldPorts` bounds itself and leaves none out."""
PROVIDER_BELIEVED = provider.PATIENCE.total_seconds()
HELD_UP = "; held up: "
"""Stands in a message before what holds the worker up."""
SOON, POLL, CHECK = 1.0, 15.0, 30.0
ACTOR = "worker-controller"


class ProviderLook(msgspec.Struct, frozen=True):
    """What the provider was asked said of itself: the trouble (None: it answered), in its words.

    `silent` are the seconds since it last told of this machine, 0 when that is not known.
    `of_call`: it was asked to change something.
    """

    trouble: Trouble | None = None
    text: str = ""
    silent: float = 0.0
    of_call: bool = False


class WorkerObservation(msgspec.Struct, frozen=True):
    """What the controller just observed; None means not read, or unknown.

    `machine` is the instance as described; `absent` means that the provider said NotFound, and has
    said so for `absent_for` seconds of this process; None: not counted, so it is not gone. `stage`
    is how far CML answers; `licence` what it says of its licence. `call` is what is known of the
    open call, `offer` what a launch would ask for now. `sessions` counts live sessions bound here.
    `wanted_nodes` is the node capacity to ask the licence for. `samples` are the newest of this
    worker, oldest first, none when this look brought none; `duplicate_of` is an older worker with
    the same product_uuid. `points` are CloudWatch's newest, oldest first; `thresholds` and `poll`
    (seconds to the next look) are the settings of this moment; `paused`: nothing is done that
    nobody asked for. `console` is a failed boot's console text, when it is due; `tags` are those
    that the machine lists, `tags_refused` a change of them that was refused a short time ago.
    `provider` None: it was not asked anything; `checks_asked` False: people switched its checks
    off. `server_silent` are the seconds since CML last answered, once this look was over. `trouble`
    says why something could not be looked at. `idle` is what a look for the idle rule found.
    `labs` are all on the server that have nodes, `order_nodes` those of the lab that is ordered about,
    `strays` those with our marker that are no session's; `unasked_ports` the numbers that labs
    there name and were not given, `port_use` how the ports are used beside them; `drifted` the
    sessions here whose labs have drifted ports, None: not looked.
    """

    machine: MachineStatus | None = None
    absent: bool = False
    absent_for: float | None = None
    stage: str | None = None
    cml: CmlStatus | None = None
    login_refused: str | None = None
    licence: LicenceStatus | None = None
    call: Call | None = None
    offer: Offer | None = None
    capacity: Amounts | None = None
    unasked_ports: tuple[SeenPort, ...] | None = None
    port_use: PortUse | None = None
    drifted: tuple[str, ...] | None = None
    labs: hosted_labs.SeenLabs | None = None
    order_nodes: tuple[LabNode, ...] | None = None
    strays: tuple[SeenLab, ...] | None = None
    stray_rules: stray_labs.Rules = stray_labs.Rules()
    sessions: int = 0
    has_token: bool = False
    wanted_nodes: int | None = None
    state_reason: str | None = None
    watched_since: datetime | None = None
    booked: Amounts | None = None
    samples: tuple[Sample, ...] = ()
    duplicate_of: str | None = None
    points: tuple[ProviderPoint, ...] = ()
    thresholds: Thresholds = Thresholds()
    poll: float = CHECK
    paused: bool = False
    console: str | None = None
    tags: Mapping[str, str] | None = None
    tags_refused: TagChange | None = None
    provider: ProviderLook | None = None
    checks_asked: bool = True
    server_silent: float = 0.0
    trouble: str = ""
    idle: IdleFinding | None = None


class Guard(msgspec.Struct, frozen=True):
    """What must still hold when a step is recorded, else nothing of it is written.

    `unpaused`: automatic actions were not paused, and the pool was not changed, since the cache's
    state that was decided on. `unreserved_since`: since this revision of the store nothing was
    reserved on the worker and no other worker of its pool was taken out of service.
    """

    unpaused: bool = True
    unreserved_since: int | None = None


class Step(msgspec.Struct, frozen=True):
    """All that one step writes, one action at most, and when to look again (seconds).

    `changed` is the worker with another spec or other marks, when an automatic rule changed them;
    its status is not read. `actor` and `reason` are the event's: the rule, and its words (empty:
    the message). `problem` is an error after which the queue is to back off.
    """

    status: WorkerStatus
    finalizers: tuple[str, ...]
    action: Action | None = None
    again: float = POLL
    changed: Worker | None = None
    guard: Guard | None = None
    actor: str = ACTOR
    reason: str = ""
    problem: errors.LabfleetError | None = None


class Draft(StatusDraft[WorkerStatus, WorkerCondition, WorkerReason]):
    """The worker being decided on."""

    def __init__(self, worker: Worker, seen: WorkerObservation, now: datetime) -> None:
        super().__init__(worker.metadata, worker.status, now)
        self.worker = worker
        self.seen = seen

    @property
    def limits(self) -> TimeLimits:
        """Return the time limits of this worker's template."""
        machine = self.worker.spec.machine
        return TimeLimits() if machine is None else machine.limits

    @property
    def answer(self) -> Answer:
        """Return what the last call said; nothing when there was none."""
        call = None if self.worker.status.effect is None else self.seen.call
        return Answer() if call is None else call.answer

    @property
    def provider_down(self) -> bool:
        """Tell whether the provider has not answered for longer than its last word stands."""
        fact = conditions.find(self.status.conditions, WorkerCondition.PROVIDER_ANSWERS)
        return fact is not None and fact.status == "False"

    @property
    def held_up(self) -> str:
        """Return what is the matter with the provider while the worker waits for it; else ""."""
        fact = conditions.find(self.status.conditions, WorkerCondition.PROVIDER_ANSWERS)
        waits = self.provider_down and phases.awaits_provider(self.status)
        return "" if fact is None or not waits else fact.message

    @property
    def licence_held(self) -> bool:
        return FINALIZER_LICENCE in self.finalizers

    def late(self, limit: int) -> bool:
        """Tell whether the phase lasts too long, counting only time in which a controller ran."""
        return self.overdue(self.status.phase_since or self.now, timedelta(seconds=limit))

    def overdue(self, since: datetime, limit: timedelta) -> bool:
        """Tell whether more than `limit` went by, counting only time in which a controller ran."""
        if self.seen.watched_since is not None:
            since = max(since, self.seen.watched_since)
        return self.now - since > limit

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
            if phase not in phases.edges(self.worker, self.status.phase):
                raise AssertionError(f"no edge {self.status.phase} -> {phase}")
            self._leave(phase)
            self._enter(phase)
            self.set(phase=phase, phase_since=self.now, summary=phases.coarse(phase))
            name = phases.limit_of(self.status)
            self.set(limit=None if name is None else LimitStatus(name=name, since=self.now))
        self._say(message)
        return self.done(again=again, do=do)

    def _say(self, message: str) -> None:
        """Set the message, with what holds the worker up while it does."""
        said = message.partition(HELD_UP)[0]
        if self.held_up:
            said = f"{said}{HELD_UP}{self.held_up}"
        if said != self.status.message:
            self.set(message=said)

    def _leave(self, phase: WorkerPhase) -> None:
        """Remove what was true only in the old phase, and the intent of a launch under way."""
        if self.status.phase is P.PROVISIONING_EC2:
            # `settle` has seen that nothing was launched under the effect.
            self.set(effect=None, provisioning_ended_at=self.now)
        self.forget(
            WorkerCondition.LATE,
            WorkerCondition.PHASE_STUCK,
            WorkerCondition.MACHINE_LAUNCHED,
            WorkerCondition.MACHINE_STARTED,
        )
        if self.status.phase is P.FAILED:
            self.fact(WorkerCondition.FAILED, "False", WorkerReason.LEFT, f"went on to {phase}")

    def _enter(self, phase: WorkerPhase) -> None:
        """Take back what cannot be so in the new phase: nobody looks at it for an hour, or ever."""
        if phase is P.PROVISIONING_EC2:
            self.set(provisioning_started_at=self.now, provisioning_ended_at=None)
        if phase not in phases.WATCHED:
            self.set(health=Health.UNKNOWN)
        ended = self.status.machine.state in {"ending", "gone"}
        if phase is P.TERMINATED or (phase is P.FAILED and ended):
            licence = msgspec.structs.replace(self.status.licence, licensed=None, registered=None)
            self.set(licence=licence)
            before = conditions.find(self.status.conditions, WorkerCondition.LICENSED)
            if before is not None and before.status != "False":
                self.forget(WorkerCondition.LICENSED)  # that it was returned stays true

    def failed_check(self) -> int:
        """Note that a check of CML failed now; return how many did in a row, as far as is counted."""
        failed = min(self.status.failed_checks + 1, FAILED_CHECKS)
        last = self.status.failed_check_at
        counted = failed != self.status.failed_checks
        if counted or last is None or self.now - last >= STILL_FAILING:
            self.set(failed_checks=failed, failed_check_at=self.now)
        return failed

    def stay(self, message: str = "", *, again: float = POLL, do: Action | None = None) -> Step:
        return self.go(self.status.phase, message or self.status.message, again=again, do=do)

    def fail(self, reason: WorkerReason, message: str) -> Step:
        self.fact(WorkerCondition.FAILED, "True", reason, message)
        self.set(errors=self.status.errors + 1)
        return self.go(P.FAILED, message)

    def done(self, *, again: float, do: Action | None) -> Step:
        if self.status.observed_generation != self.worker.metadata.generation:
            self.set(observed_generation=self.worker.metadata.generation)
        shut = phases.closure(msgspec.structs.replace(self.worker, status=self.status), self.now)
        self.fact(
            WorkerCondition.ACCEPTING_LABS,
            "True" if shut is None else "False",
            WorkerReason.OPEN if shut is None else WorkerReason.CLOSED,
            "" if shut is None else shut.text,
        )
        return Step(self.status, self.finalizers, do, again)

    def unchanged(
        self, *, again: float, reason: str = "", problem: errors.LabfleetError | None = None
    ) -> Step:
        """End the decision before the rules of the phase: a new spec stays to be looked at."""
        self._say(self.status.message)
        return Step(self.status, self.finalizers, None, again, reason=reason, problem=problem)


def gone(draft: Draft) -> bool:
    """Tell whether the provider certainly has no such machine (facts/aws.md#absence)."""
    machine = draft.status.machine
    if draft.seen.machine is not None:
        return draft.seen.machine.state == "gone"
    seen, since = draft.seen, machine.absent_since
    patient = since is not None and draft.now - since >= ABSENCE_PATIENCE
    # `since` is of the clock of whoever leads; one that runs slow, and another leader after it, make
    # no minute of a few seconds.
    counted = seen.absent_for is not None and seen.absent_for >= ABSENCE_COUNTED
    return seen.absent and patient and counted and seen.stage not in {"ready", "not_ready"}


def leak(draft: Draft, why: str) -> None:
    """Record that a licence could not be returned, and stop waiting for it."""
    if not draft.licence_held:
        return
    draft.set(licence=msgspec.structs.replace(draft.status.licence, leak=why, registered=None))
    draft.fact(WorkerCondition.LICENCE_LEAKED, "True", WorkerReason.NOT_RETURNED, why)
    draft.drop(FINALIZER_LICENCE)


def note_server(draft: Draft) -> None:
    """Record what CML said; where it said nothing, keep the last known value."""
    seen = draft.seen
    if seen.cml is not None:
        # What was set on this boot is our own knowledge; no look tells it.
        last = draft.status.cml
        telemetry = last.telemetry if last.boot == seen.cml.boot else None
        draft.set(cml=msgspec.structs.replace(seen.cml, telemetry=telemetry))
    if seen.licence is not None:
        known = draft.status.licence
        draft.set(
            licence=msgspec.structs.replace(
                seen.licence, leak=known.leak, renewed_at=known.renewed_at, order=known.order
            )
        )
    _note_capacity(draft)
    if seen.labs is not None:
        before = draft.status.hosted_labs
        draft.set(hosted_labs=hosted_labs.noted(before, seen.labs, draft.now))
    if seen.unasked_ports is not None:
        _note_ports(draft, seen.unasked_ports)


def _note_ports(draft: Draft, seen: tuple[SeenPort, ...]) -> None:
    """Record the numbers that labs on the server name unasked, so that nobody is given one."""
    held = port_holders.noted(draft.status.held_ports, seen, draft.now)
    draft.set(held_ports=held, foreign_ports=port_holders.named(held, FOREIGN_PORTS_KEPT))


def _note_capacity(draft: Draft) -> None:
    """Record the capacity without what stray labs hold, so that it is offered to nobody."""
    seen, before = draft.seen, draft.status.stray_labs
    real = seen.capacity or stray_labs.real(draft.status.capacity, before)
    found, ignored = before, {each.id for each in draft.worker.spec.ignored_labs}
    if seen.strays is not None:
        found = stray_labs.note(before, seen.strays, draft.now, ignored)
    offered, noted = stray_labs.offered(real, found)
    draft.set(capacity=offered, stray_labs=noted)


STAGE_REASONS = {
    "unreachable": WorkerReason.UNREACHABLE,
    "untrusted": WorkerReason.UNTRUSTED,
    "refused": WorkerReason.REFUSED,
    "bad_gateway": WorkerReason.BAD_GATEWAY,
    "not_ready": WorkerReason.NOT_READY,
    "ready": WorkerReason.LICENCE_UNKNOWN,
}


def stage_reason(seen: WorkerObservation) -> WorkerReason:
    """Return why CML is not ready, by how far it answers."""
    if seen.login_refused:
        return WorkerReason.LOGIN_REFUSED
    return STAGE_REASONS.get(seen.stage or "", WorkerReason.NOT_SEEN)


def takes_licence(draft: Draft) -> bool:
    """Tell whether the server can be asked to give its licence back: without its core, too."""
    return draft.seen.stage in {"ready", "not_ready"}


def surely_unregistered(draft: Draft) -> bool:
    """Tell whether this look shows that nothing is held: a registration under way may succeed.

    What was seen before is no proof, since a registration may have been asked for after it.
    """
    licence = draft.status.licence
    seen = draft.seen.licence is not None
    return seen and licence.registered is False and licence.registration != "IN_PROGRESS"


def seen_twice(draft: Draft) -> bool:
    """Tell whether an older worker has the same identity, and so the licence."""
    known = conditions.is_true(draft.status.conditions, WorkerCondition.DUPLICATE_IDENTITY)
    return known or draft.seen.duplicate_of is not None


def wants_licence(draft: Draft) -> bool:
    """Tell whether a licence is to be taken, and can be.

    An order that is open is carried out beside the sessions, and after one that was refused people
    are asked first: a registration that fails here ends the worker.
    """
    machine, order = draft.worker.spec.machine, draft.worker.spec.licence
    wanted = machine is not None and machine.auto_license
    if order is not None and order.licensed is not None:
        known = draft.status.licence.order
        wanted = (
            order.licensed and known is not None and (known.id, known.state) == (order.id, "done")
        )
    return wanted and draft.seen.has_token and not seen_twice(draft)


def must_return_licence(draft: Draft) -> bool:
    """Tell whether the licence is to go back before the machine stops."""
    machine = draft.worker.spec.machine
    on_stop = machine is not None and machine.licence.on_stop == "return"
    terminal = phases.desire(draft.worker) == "Terminated"
    return draft.licence_held and (terminal or on_stop)
