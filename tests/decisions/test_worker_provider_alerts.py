"""What EC2's checks and plans ask for, the table of alerts, and the numbers they show."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from alert_line import Line, measured
from lifecycle_worlds import START, worker

from labfleet.decisions import placement, vitals
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.lifecycle.worker.draft import ProviderLook
from labfleet.resources import alerts, conditions
from labfleet.resources.machine import MachineStatus, ScheduledEvent
from labfleet.resources.meta import Key
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    ProviderPoint,
    Room,
    Sample,
    SystemHealth,
    SystemStats,
)
from labfleet.resources.worker import Health, WorkerPhase

P = WorkerPhase
LATE = vitals.fresh_for(30, 1.0)
LOAD = ("CpuHigh", "MemoryHigh")


# --- the provider's checks ---------------------------------------------------------------------


def impaired(line: Line, **checks: str) -> None:
    line.machine = MachineStatus(
        id="i-1",
        state="running",
        **{"host_check": "ok", "machine_check": "ok", **checks},  # type: ignore[arg-type]
    )


def test_an_impaired_check_degrades_after_two_minutes_with_its_name() -> None:
    """Not before: AWS's checks flicker; and never more than Degraded."""
    line = Line()
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("True", "Passed")
    impaired(line, host_check="impaired")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")
    assert line.worker.status.health is Health.HEALTHY
    for _ in range(5):
        line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("False", "Impaired")
    assert "system check" in line.text("InstanceChecksPassed")
    assert (line.worker.status.health, line.worker.status.phase) == (Health.DEGRADED, P.READY)
    assert worker_phases.closed_word(line.worker) == "Impaired"
    assert line.fact("AcceptingLabs") == ("False", "Closed")
    assert "system check" in worker_phases.unfit(line.worker)
    impaired(line)
    line.look(measured())
    assert worker_phases.accepting(line.worker)
    assert worker_phases.unfit(line.worker) == ""
    assert line.worker.status.health is Health.HEALTHY


@pytest.mark.parametrize("how", ["silent", "no word"])
def test_an_impaired_worker_stays_closed_while_the_provider_does_not_tell(how: str) -> None:
    """Its silence mends no host; only its word, or checks that people switched off, open it."""
    line = Line()
    impaired(line, host_check="impaired")
    for _ in range(6):
        line.look(measured())
    untold = None if how == "silent" else MachineStatus(id="i-1", state="running")
    line.machine = untold
    silent = ProviderLook(Trouble.SILENT, silent=600.0)
    line.look(measured(), provider=silent if how == "silent" else ProviderLook())
    assert line.fact("InstanceChecksPassed") == ("False", "Impaired")
    assert worker_phases.closed_word(line.worker) == "Impaired"
    line.look(measured(), provider=silent, checks_asked=False)
    assert line.fact("InstanceChecksPassed") == ("Unknown", "NotRenewed")
    assert worker_phases.accepting(line.worker)


def test_checks_that_begin_or_are_not_told_prove_nothing() -> None:
    """Initializing is Unknown; None changes nothing."""
    line = Line()
    impaired(line, host_check="initializing", machine_check="initializing")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Initializing")
    impaired(line, machine_check="impaired")
    line.look(measured(), seconds=500)
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")
    line.machine = MachineStatus(id="i-1", state="running")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")


# --- what the provider plans -------------------------------------------------------------------


def planned(line: Line, *events: ScheduledEvent) -> None:
    line.machine = MachineStatus(
        id="i-1", state="running", host_check="ok", machine_check="ok", events=events
    )


def test_a_scheduled_event_is_named_with_its_time_and_advice() -> None:
    """And it closes the worker only from that time on: the worker itself stays open."""
    line = Line()
    line.look(measured())
    at = START + timedelta(hours=5)
    planned(
        line,
        ScheduledEvent(code="system-maintenance", not_before=START),
        ScheduledEvent(code="instance-retirement", not_before=at),
    )
    line.look(measured())
    assert line.fact("ScheduledEvent") == ("True", "InstanceRetirement")
    assert "2026-11-27 14:00Z" in line.text("ScheduledEvent")
    assert worker_phases.closes_at(line.worker) == at
    assert worker_phases.accepting(line.worker)
    planned(line)
    line.look(measured())
    assert line.fact("ScheduledEvent") == ("", "")
    assert worker_phases.closes_at(line.worker) is None


def test_maintenance_without_a_restart_closes_nothing() -> None:
    """A short loss of network is told, not avoided."""
    line = Line()
    planned(line, ScheduledEvent(code="system-maintenance", not_before=START))
    line.look(measured())
    assert line.fact("ScheduledEvent") == ("True", "SystemMaintenance")
    assert worker_phases.closes_at(line.worker) is None


@pytest.mark.parametrize("how", ["reason", "event"])
def test_a_spot_interruption_drains_at_once(how: str) -> None:
    """At once, with its reason, and nothing new comes (facts/aws-bugs.md#case-36)."""
    line = Line(P.ACTIVE)
    line.look(measured(), sessions=2)
    if how == "event":
        planned(line, ScheduledEvent(code="spot-interruption"))
    reason = "Server.SpotInstanceTermination" if how == "reason" else None
    line.look(measured(), sessions=2, state_reason=reason)
    assert line.worker.status.phase is P.DRAINING
    assert "the provider takes the machine back" in line.worker.status.message
    assert line.fact("ScheduledEvent") == ("True", "SpotInterruption")
    assert not worker_phases.accepting(line.worker)
    line.look(measured(), sessions=2, state_reason=reason)
    assert line.worker.status.phase is P.DRAINING


# --- the table ---------------------------------------------------------------------------------


def test_raised_alerts_come_with_cause_command_and_fix() -> None:
    """The gravest first; what is not raised is not listed."""
    line = Line()
    line.load(95, 95)
    found = _raised(line)
    assert [each.condition for each in found] == ["CpuHigh", "TelemetryComplete"]
    assert all(each.cause and each.fix for each in found)
    assert "labfleet top worker w1" in found[0].command
    for _ in range(12):
        line.look(None)
    assert [each.condition for each in _raised(line)] == ["Silent"]


def _raised(line: Line) -> tuple[alerts.Raised, ...]:
    return alerts.raised(Key("Worker", "default", "w1"), line.worker.status.conditions)


@pytest.mark.parametrize(
    ("seen", "reason", "remedy"),
    [
        ({"stage": "unreachable"}, "NoAnswer", "Compare the instance's checks"),
        ({"stage": "untrusted"}, "Untrusted", "tls.fingerprint"),
        ({"stage": "bad_gateway"}, "BadGateway", "Restart the services of CML"),
        ({"stage": "ready", "login_refused": "no"}, "LoginRefused", "adminPassword"),
    ],
)
def test_each_kind_of_silence_has_its_own_reason_and_remedy(
    seen: dict[str, Any], reason: str, remedy: str
) -> None:
    """What answers 502, or refuses the login, is not told as a server that hangs."""
    line = Line()
    line.look(measured())
    for _ in range(13):
        line.look(None, **seen)
    told = next(each for each in _raised(line) if each.condition == "Silent")
    assert told.reason == reason
    assert remedy in told.fix


def test_changes_of_alerts_are_told_by_name() -> None:
    """What a write raised, and what it took back or dropped."""
    line = Line()
    line.load(10)
    before = line.worker.status.conditions
    line.load(95, 95)
    after = line.worker.status.conditions
    assert alerts.changes(before, after) == (("CpuHigh",), ())
    assert "CpuHigh" in alerts.changes(after, ())[1]


def test_valid_false_without_any_false_flag_is_said() -> None:
    """CML's own word counts, and that no flag explains it is told."""
    line = Line()
    good = ComputeHealth(kvm_vmx_enabled=True, admission_state="READY", lld_connected=True)
    health = SystemHealth(
        valid=False, computes={"c1": good}, controller=ControllerHealth(core_connected=True)
    )
    stats = SystemStats(computes={"c1": ComputeStats()})
    line.look(Sample(worker="w1", at=START, boot="i-1", health=health, stats=stats))
    assert line.fact("CmlHealthy") == ("False", "CheckFailed")
    assert "no flag" in line.text("CmlHealthy")


# --- numbers -----------------------------------------------------------------------------------


def test_cml_is_preferred_and_cloudwatch_stands_in() -> None:
    """The source is named with the number, and so are its age and freshness."""
    now = START + timedelta(seconds=60)
    point = ProviderPoint(at=START - timedelta(seconds=300), seconds=300, cpu_percent=7.5)
    both = vitals.numbers(measured(cpu=50), [point], now, late=LATE, missing="")
    assert (both["cpu"].value, both["cpu"].source, both["cpu"].fresh) == (50, "cml", True)
    assert both["cpu"].age_seconds == 60
    assert (both["ec2Cpu"].value, both["ec2Cpu"].source) == (7.5, "cloudwatch")
    dead = vitals.numbers(None, [point], now, late=LATE, missing="no sample")
    assert (dead["cpu"].value, dead["cpu"].source) == (7.5, "cloudwatch")
    assert (dead["memory"].value, dead["memory"].reason) == (None, "no sample")
    stale = vitals.numbers(measured(cpu=50), [point], now + timedelta(minutes=5), late=LATE,
                           missing="")  # fmt: skip
    assert stale["cpu"].source == "cloudwatch"
    assert (stale["memory"].fresh, stale["memory"].value) == (False, None)
    assert "last measured" in stale["memory"].reason


def test_the_first_compute_stands_in_for_the_whole() -> None:
    """Upstream's order: all, then a compute, then CloudWatch (facts/upstream.md#worker-reports)."""
    stats = SystemStats(
        computes={"c1": ComputeStats(cpu_percent=30, memory=Room(total=100, free=60))}
    )
    sample = Sample(worker="w1", at=START, boot="i-1", stats=stats)
    assert vitals.cml_cpu(sample) == (30, "cml-compute")
    assert vitals.cml_memory(sample) == (40, "cml-compute")


@pytest.mark.parametrize(
    ("name", "before", "after", "moves"),
    [
        ("cpu", 10, 14.9, False), ("cpu", 10, 15, True), ("labs", 1, 2, True),
        ("networkIn", 1000, 1049, False), ("networkIn", 1000, 1051, True),
        ("networkIn", 0, 0, False), ("networkIn", 0, 1, True), ("memory", None, 5, True),
        ("memory", None, None, False), ("nodes", 3, None, True),
    ],
)  # fmt: skip
def test_a_number_moves_by_points_counts_or_shares(
    name: str,
    before: float | None,
    after: float | None,
    moves: bool,
) -> None:
    """Percentages by points, counts by one, rates relative; unknown is a state of its own."""
    assert vitals.moved({name: before}, {name: after}, 5.0) == ((name,) if moves else ())


def test_every_limit_is_one_of_the_machines() -> None:
    """The table of phases names limits that exist."""
    limits = worker().spec.machine
    assert limits is not None
    assert all(hasattr(limits.limits, name) for name in worker_phases.LIMITS.values())


def test_every_word_that_closes_a_worker_has_its_sentence() -> None:
    """A word without one would end the whole round of placements."""
    words = {word for _, word in worker_phases.CLOSING.values() if word}
    words |= {str(each) for each in worker_phases.QUARANTINE}
    words |= {"NotReady", "Draining", "Cordoned", "Unreachable", "ScheduledEvent"}
    # private _SAYS, _STAGE: tables that must name every word, also one no test meets
    assert words <= placement._SAYS.keys()
    assert words <= placement._STAGE.keys()


def test_an_alert_names_the_worker_in_its_commands() -> None:
    """What stands in `labfleet alerts` can be pasted as it is."""
    failed = conditions.put((), "Failed", "True", "BootTimeout", "too slow", now=START)
    [told] = alerts.raised(Key("Worker", "default", "w-7"), failed)
    assert "labfleet start w-7" in told.fix
    assert "NAME" not in told.command + told.fix
