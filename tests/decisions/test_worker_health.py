"""What samples mean: conditions with hysteresis, closed workers, less capacity for orphans.

The numbered cases are rows of facts/cml-issues.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from lifecycle_worlds import START, worker

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call
from labfleet.decisions.lifecycle.worker.draft import ProviderLook
from labfleet.decisions.stray_labs import SeenLab
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Licensing,
    Room,
    Sample,
    SystemHealth,
    SystemStats,
)
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    CmlStatus,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)
from labfleet.resources.worker_conditions import WorkerCondition

P = WorkerPhase
GOOD = ComputeHealth(admission_state="READY", kvm_vmx_enabled=True, lld_connected=True, valid=True)
CORE = ControllerHealth(core_connected=True, valid=True)


def sample(**parts: Any) -> Sample:
    """A sample of a well server, with parts changed."""
    health = SystemHealth(valid=True, computes={"c1": GOOD}, controller=CORE)
    stats = SystemStats(
        cpu_count=48,
        disk=Room(total=100, free=50, used=50),
        running_orphans=0,
        computes={"c1": ComputeStats()},
    )
    given: dict[str, Any] = {
        "worker": "w1",
        "at": START,
        "boot": "i-1",
        "maintenance": False,
        "health": health,
        "stats": stats,
        "licence": Licensing(),
    }
    return Sample(**{**given, **parts})


def health(**flags: Any) -> dict[str, Any]:
    """One compute with these flags."""
    compute = ComputeHealth(**{"admission_state": "READY", "kvm_vmx_enabled": True, **flags})
    return {"health": SystemHealth(computes={"c1": compute}, controller=CORE)}


class Line:
    """One hosting worker that is looked at again and again."""

    def __init__(self, *, finalizers: tuple[str, ...] = (FINALIZER_LICENCE,)) -> None:
        status = WorkerStatus(
            phase=P.READY,
            phase_since=START,
            machine=MachineStatus(id="i-1", state="running"),
        )
        self.worker: Worker = worker(status)
        self.finalizers = finalizers
        self.samples: list[Sample] = []
        self.now = START
        self.action: str | None = None

    def look(self, *samples: Sample, **seen: Any) -> None:
        for each in samples:
            self.samples.append(each)
            self.now += timedelta(seconds=30)
            step = lifecycle.decide(
                self.worker,
                lifecycle.WorkerObservation(
                    **{"stage": "ready", "samples": tuple(self.samples[-20:]), **seen}
                ),
                self.now,
            )
            self.action = step.action
            self.finalizers = step.finalizers
            self.worker = worker(step.status)

    def answered(self, kind: str, answer: Answer) -> None:
        """Record what a call answered, as the step after it does."""
        ends = self.now + timedelta(seconds=20)
        effect = Effect(id="e", kind=kind, begun=self.now, expires=ends)
        status = msgspec.structs.replace(self.worker.status, effect=effect)
        boot = self.worker.status.cml
        seen = lifecycle.WorkerObservation(
            stage="ready", samples=tuple(self.samples), call=Call("answered", answer), cml=boot
        )
        self.worker = worker(lifecycle.decide(worker(status), seen, self.now).status)

    def silent(self) -> None:
        self.now += timedelta(seconds=30)
        seen = lifecycle.WorkerObservation(stage="unreachable", trouble="no answer")
        self.worker = worker(lifecycle.decide(self.worker, seen, self.now).status)

    def fact(self, name: str) -> tuple[str, str]:
        found = conditions.find(self.worker.status.conditions, name)
        return ("", "") if found is None else (found.status, found.reason)

    @property
    def open(self) -> bool:
        return worker_phases.accepting(self.worker)


def test_a_well_server_is_open_and_healthy() -> None:
    """Every fact has its good value after one look, and the worker takes sessions."""
    line = Line()
    line.look(sample())
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.fact("DiskAlmostFull") == ("False", "BelowWatermark")
    assert line.fact("OrphansOnHost") == ("False", "NoOrphans")
    assert line.fact("MaintenanceMode") == ("False", "Off")
    assert line.fact("TelemetryComplete") == ("True", "Complete")
    assert (line.open, line.worker.status.health) == (True, "Healthy")


DOWN = SystemHealth(
    computes={"c1": GOOD}, controller=ControllerHealth(core_connected=False, valid=False)
)


@pytest.mark.parametrize(
    ("parts", "reason", "open_"),
    [
        ({"health": DOWN}, "ControllerDown", False),
        (health(kvm_vmx_enabled=False, valid=False), "KvmMissing", False),
        (health(admission_state="ONLINE"), "NoComputeReady", False),
        (health(cpu_overload=True), "Overloaded", False),
        ({"health": SystemHealth(controller=CORE)}, "NoCompute", False),
        (health(lld_connected=False), "ComputeMissing", True),
        (health(libvirt=False), "CheckFailed", True),
    ],
)
def test_a_sick_server_is_closed_only_after_two_looks(
    parts: dict[str, Any], reason: str, *, open_: bool
) -> None:
    """One bad look changes nothing, the second names the reason; two good ones open again (F33)."""
    line = Line()
    line.look(sample(), sample(**parts))
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.open
    line.look(sample(**parts))
    assert line.fact("CmlHealthy") == ("False", reason)
    assert line.open is open_
    assert line.worker.status.phase is P.READY
    assert line.worker.status.health == "Degraded"
    line.look(sample())
    assert line.fact("CmlHealthy") == ("False", reason)
    line.look(sample())
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.open


def test_a_server_that_answers_and_is_not_ready_is_not_silent() -> None:
    """Its health names the cause, and nothing of before is still shown as true."""
    line = Line()
    line.look(sample())
    core_down = sample(ready=False, health=DOWN, stats=None, licence=None, maintenance=None)
    for _ in range(12):
        line.look(core_down, stage="not_ready", trouble="the API is up")
    assert line.fact("CmlHealthy") == ("False", "ControllerDown")
    assert line.fact("CMLReady") == ("False", "NotReady")
    assert line.fact("HealthCheckPassed") == ("False", "NotReady")
    assert line.fact("TelemetryComplete") == ("False", "Partial")
    assert line.fact("Silent") == ("False", "Answering")
    for name in ("DiskAlmostFull", "OrphansOnHost", "MaintenanceMode"):
        assert line.fact(name) == ("Unknown", "NotRenewed")
    assert line.fact("AcceptingLabs") == ("False", "Closed")
    assert worker_phases.closed_word(line.worker) == "ControllerDown"
    assert line.worker.status.health == "Degraded"
    line.look(sample(), sample())
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.fact("CMLReady") == ("True", "Ready")
    assert (line.open, line.worker.status.health) == (True, "Healthy")


@pytest.mark.parametrize("flags", [None, SystemHealth(computes={"c1": GOOD}, controller=CORE)])
def test_not_ready_without_a_cause_is_still_told(flags: SystemHealth | None) -> None:
    """Health that cannot be read, or that finds nothing wrong, hides nothing."""
    line = Line()
    line.look(sample())
    for _ in range(3):
        line.look(sample(ready=False, health=flags), stage="not_ready", trouble="the API is up")
    assert line.fact("CmlHealthy") == ("False", "NotReady")
    assert not line.open


FULL = SystemStats(
    cpu_percent=20,
    memory=Room(total=100, used=20),
    disk=Room(total=100, free=50, used=50),
    running_orphans=0,
    computes={"c1": ComputeStats()},
)


def test_what_no_look_renews_becomes_unknown() -> None:
    """All facts read from CML, after three looks without an answer; then every one is read anew."""
    line = Line()
    seen: dict[str, Any] = {
        "licence": LicenceStatus(registration="COMPLETED", licensed=True),
        "strays": (SeenLab("l1", "u1"),),
    }
    line.look(sample(stats=FULL, labs_count=1), **seen)
    told = [name for name in worker_health.RENEWED_BY if line.fact(name)[0] not in {"", "Unknown"}]
    assert len(told) >= len(worker_health.RENEWED_BY) - 1
    for number in range(1, lifecycle.TOLERATED_CHECKS + 1):
        line.silent()
        lapsed = number == lifecycle.TOLERATED_CHECKS
        assert all((line.fact(name) == ("Unknown", "NotRenewed")) is lapsed for name in told)
    assert line.fact("AcceptingLabs") == ("False", "Closed")
    assert worker_phases.closed_word(line.worker) == "Unreachable"
    line.look(sample(stats=FULL, labs_count=1), **seen)
    assert all(line.fact(name)[0] in {"True", "False"} for name in told)
    assert line.open


def test_a_part_that_fails_lets_only_its_own_facts_lapse_and_opens_nothing() -> None:
    """Statistics that fail thrice leave health as it is; a mode that closed the worker stays."""
    line = Line()
    line.look(sample(maintenance=True))
    for _ in range(lifecycle.TOLERATED_CHECKS):
        line.look(sample(stats=None, maintenance=None))
    assert line.fact("DiskAlmostFull") == ("Unknown", "NotRenewed")
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.fact("MaintenanceMode") == ("True", "On")
    assert not line.open


LASTING = {
    "Adopted", "DuplicateIdentity", "OverCommitted", "LicenceLeaked", "Drained", "Failed", "Late",
    "LicenceOrdered", "ExternalChange", "TagsApplied", "TelemetrySet", "MachineStarted", "PhaseStuck",
    "MachineLaunched", "IdleWarning", "PortDrift", "PortsLow",
}  # fmt: skip
"""What we did or decided ourselves, such as ports given, or what lasts: no look has to tell it again."""
EVERY_LOOK = {"CMLReady", "HealthCheckPassed", "Silent", "AcceptingLabs"}
"""Written by each look at CML, also by one that fails."""
PROVIDERS = {
    "MachineProvisioned", "InstanceChecksPassed", "ScheduledEvent", "ProviderAnswers",
}  # fmt: skip
"""Read from EC2; a planned event stays planned while EC2 cannot be asked."""


def test_what_the_provider_does_not_renew_becomes_unknown() -> None:
    """Its last word stands for three minutes without an answer, and is Unknown afterwards."""
    line = Line()
    machine = MachineStatus(id="i-1", state="running", host_check="ok", machine_check="ok")
    line.look(sample(), machine=machine)
    assert line.fact("InstanceChecksPassed") == ("True", "Passed")
    line.look(sample(), provider=ProviderLook(Trouble.SILENT, silent=170.0))
    assert line.fact("MachineProvisioned") == ("True", "Running")
    line.look(sample(), provider=ProviderLook(Trouble.SILENT, silent=190.0))
    assert line.fact("MachineProvisioned") == ("Unknown", "NotRenewed")
    assert line.fact("InstanceChecksPassed") == ("Unknown", "NotRenewed")
    assert line.fact("ProviderAnswers") == ("False", "ProviderSilent")
    line.look(sample(), machine=machine, provider=ProviderLook())
    assert line.fact("MachineProvisioned") == ("True", "Running")
    assert line.fact("InstanceChecksPassed") == ("True", "Passed")


def test_every_condition_says_who_renews_it() -> None:
    """A new one has to be put into a look's table, or among those that last."""
    of_cml = {str(name) for name in worker_health.RENEWED_BY}
    assert {str(name) for name in WorkerCondition} == of_cml | LASTING | EVERY_LOOK | PROVIDERS


def test_a_server_that_was_never_well_is_closed_at_once() -> None:
    """There is nothing to weigh the first look against."""
    line = Line()
    line.look(sample(health=DOWN))
    assert not line.open


def test_null_flags_and_failed_calls_change_no_fact() -> None:
    """Unknown is not false: a sick server stays sick, a well one well."""
    line = Line()
    nulls = SystemHealth(computes={"c1": ComputeHealth()})
    line.look(sample(), sample(health=nulls), sample(health=None), sample(health=None))
    assert line.fact("CmlHealthy") == ("True", "Healthy")
    assert line.fact("TelemetryComplete") == ("False", "Partial")
    fresh = Line()
    fresh.look(sample(health=nulls))
    assert fresh.fact("CmlHealthy") == ("Unknown", "NotTold")


def test_another_boots_samples_do_not_count() -> None:
    """A look before a restart confirms nothing after it."""
    line = Line()
    line.look(sample(), sample(health=DOWN), sample(health=DOWN, boot="i-1/2"))
    assert line.fact("CmlHealthy") == ("True", "Healthy")


def test_the_disk_watermark_has_two_levels() -> None:
    """90 % closes, 87 % keeps it closed, 80 % opens; the fullest disk counts (F45)."""

    def used(share: int) -> Sample:
        disk = Room(total=100, free=100 - share, used=share)
        return sample(stats=SystemStats(controller_disk=disk, disk=Room(total=100, free=90)))

    line = Line()
    line.look(used(50), used(91), used(91))
    assert line.fact("DiskAlmostFull") == ("True", "Watermark")
    assert not line.open
    line.look(used(87), used(87), used(87))
    assert not line.open
    line.look(used(80), used(80))
    assert line.open


def test_a_full_disk_says_its_share_to_a_tenth_and_the_limit() -> None:
    """Both stand beside the fact, as they were when it was noted."""
    line = Line()
    full = Room(total=10_000, used=9_126)
    line.look(*[sample(stats=SystemStats(controller_disk=full))] * 2)
    told = conditions.find(line.worker.status.conditions, WorkerCondition.DISK_ALMOST_FULL)
    assert told is not None
    number = told.measured
    assert (number.value, number.unit, number.limit) == (91.3, "percent", 90)


def test_maintenance_closes_at_once() -> None:
    """A person switched it, so nothing is to be confirmed (F42)."""
    line = Line()
    line.look(sample(), sample(maintenance=True))
    assert not line.open
    line.look(sample(maintenance=None))
    assert not line.open
    line.look(sample())
    assert line.open


def test_orphans_take_capacity() -> None:
    """Each is taken for an average running node, and for one vCPU and 2 GiB at least."""
    whole = Amounts(cpu_milli=48000, memory_mib=100_000, nodes=5, labs=3)
    few = SystemStats(running_orphans=2)
    assert worker_health.less_orphans(whole, few) == Amounts(
        cpu_milli=46000, memory_mib=100_000 - 4096, nodes=5, labs=3
    )
    big = SystemStats(
        running_orphans=1, running_nodes=2, allocated_cpus=8, allocated_memory_mib=16384
    )
    assert worker_health.less_orphans(whole, big).memory_mib == 100_000 - 8192
    for none in (None, SystemStats(), SystemStats(running_orphans=0)):
        assert worker_health.less_orphans(whole, none) == whole
    line = Line()
    orphans = sample(stats=SystemStats(running_orphans=3))
    line.look(orphans)
    assert line.fact("OrphansOnHost") == ("True", "Orphans")
    assert line.open


def licensed(**dates: str | None) -> Sample:
    return sample(licence=Licensing(registered=True, licensed=True, **dates))


@pytest.mark.parametrize(
    ("days", "fact"),
    [(60, ("False", "Valid")), (13, ("True", "Soon")), (-1, ("True", "Expired"))],
)
def test_a_licence_that_ends_is_told(days: int, fact: tuple[str, str]) -> None:
    """The nearer date counts; it has no zone and is taken as UTC, and the raw text is shown."""
    ends = (START + timedelta(days=days, hours=1)).strftime("%Y-%m-%d %H:%M:%S")
    line = Line()
    line.look(licensed(authorization_expires=ends, registration_expires="2029-01-01 00:00:00"))
    assert line.fact("LicenceExpiring") == fact
    told = conditions.find(line.worker.status.conditions, "LicenceExpiring")
    assert told is not None
    assert ends in told.message
    assert "UTC" in told.message


def test_a_licence_without_a_date_is_unknown_and_an_unregistered_one_nothing() -> None:
    """No date is no expiry and no safety."""
    line = Line()
    line.look(licensed(authorization_expires="soon"))
    assert line.fact("LicenceExpiring") == ("Unknown", "NoDate")
    line.look(sample())
    assert line.fact("LicenceExpiring") == ("", "")


def test_an_expiring_licence_is_renewed_once_a_day() -> None:
    """After a renewal was asked for, the next one waits a day; none while actions are paused."""
    line = Line()
    line.worker = worker(line.worker.status)
    ends = licensed(authorization_expires="2026-12-01 00:00:00")
    licence = LicenceStatus(registered=True, licensed=True)

    def look(*, paused: bool = False) -> str | None:
        given = worker(line.worker.status)
        held = type(given)(
            metadata=type(given.metadata)(
                name="w1", uid="u-1", generation=1, finalizers=(FINALIZER_LICENCE,)
            ),
            spec=given.spec,
            status=given.status,
        )
        line.samples.append(ends)
        seen = lifecycle.WorkerObservation(
            stage="ready", samples=tuple(line.samples), licence=licence, paused=paused
        )
        step = lifecycle.decide(held, seen, line.now)
        line.worker = worker(step.status)
        return step.action

    assert look(paused=True) is None
    assert look() == "renew"
    asked = msgspec.structs.replace(line.worker.status.licence, renewed_at=line.now)
    line.worker = worker(msgspec.structs.replace(line.worker.status, licence=asked))
    line.now += timedelta(hours=1)
    assert look() is None
    line.now += timedelta(hours=24)
    assert look() == "renew"


def test_telemetry_is_set_once_for_each_boot() -> None:
    """What was set belongs to a boot; what is set already is left alone."""
    line = Line()
    line.look(sample(), cml=CmlStatus(boot="i-1"))
    assert line.action == "telemetry"
    line.answered("telemetry", Answer(telemetry=False))
    line.look(sample(), cml=CmlStatus(boot="i-1"))
    assert line.action is None
    line.look(sample(), cml=CmlStatus(boot="i-1/2"))
    assert line.action == "telemetry"


def test_the_younger_of_two_with_one_identity_hosts_nothing_and_returns_nothing() -> None:
    """Its licence is the older one's: it is let go of, not given back."""
    line = Line()
    line.look(sample(), duplicate_of="w0")
    assert line.fact("DuplicateIdentity") == ("True", "SameProductUuid")
    assert not line.open
    assert FINALIZER_LICENCE not in line.finalizers
    line.look(sample(), licence=LicenceStatus(registered=True, licensed=True))
    assert line.fact("DuplicateIdentity") == ("False", "Unique")
    assert FINALIZER_LICENCE in line.finalizers
    assert line.open
