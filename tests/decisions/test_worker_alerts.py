"""What asks for somebody: load, silence, stuck phases, EC2's checks and plans."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, worker

from labfleet.decisions import placement, vitals
from labfleet.decisions.lifecycle.worker import alerts as worker_alerts
from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.resources import alerts, conditions
from labfleet.resources.fleet_settings import Thresholds
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
from labfleet.resources.worker import (
    Drain,
    Ec2Status,
    Health,
    ScheduledEvent,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
LOAD = ("CpuHigh", "MemoryHigh")


def measured(at: float = 0, *, cpu: float | None = 10, memory: float | None = 10) -> Sample:
    """A look at a server that tells these numbers."""
    used = None if memory is None else int(memory * 100)
    return Sample(
        worker="w1",
        at=START + timedelta(seconds=at),
        boot="i-1",
        stats=SystemStats(cpu_percent=cpu, memory=Room(total=10_000, used=used)),
    )


class Line:
    """One worker that is looked at every 30 seconds."""

    def __init__(self, phase: WorkerPhase = P.READY, **spec: Any) -> None:
        self.ec2 = Ec2Status(
            instance_id="i-1", state="running", system_check="ok", instance_check="ok"
        )
        status = WorkerStatus(phase=phase, phase_since=START, ec2=self.ec2)
        self.worker: Worker = worker(status, **spec)
        self.spec = spec
        self.samples: list[Sample] = []
        self.now = START
        self.limits = Thresholds()
        self.flips: list[tuple[str, str]] = []

    def look(self, sample: Sample | None = None, *, seconds: float = 30, **seen: Any) -> Worker:
        """Look once; a look without a sample got no answer."""
        self.now += timedelta(seconds=seconds)
        told: dict[str, Any] = {"stage": "unreachable", "trouble": "no answer"}
        if sample is not None:
            self.samples.append(sample)
            told = {"stage": "ready", "samples": tuple(self.samples[-20:])}
        given_ = {"ec2": self.ec2, "thresholds": self.limits, **told, **seen}
        step = lifecycle.decide(self.worker, lifecycle.Seen(**given_), self.now)
        for name in LOAD:
            before, after = self._status(self.worker.status, name), self._status(step.status, name)
            if before != after:
                self.flips.append((name, after))
        self.worker = worker(step.status, **self.spec)
        return self.worker

    def load(self, *values: float | None) -> None:
        for each in values:
            self.look(measured(cpu=each))

    @staticmethod
    def _status(status: WorkerStatus, name: str) -> str:
        found = conditions.find(status.conditions, name)
        return "" if found is None else found.status

    def fact(self, name: str) -> tuple[str, str]:
        found = conditions.find(self.worker.status.conditions, name)
        return ("", "") if found is None else (found.status, found.reason)

    def text(self, name: str) -> str:
        found = conditions.find(self.worker.status.conditions, name)
        return "" if found is None else found.message


# --- load --------------------------------------------------------------------------------------


def test_load_is_raised_by_two_samples_and_eased_by_two_below() -> None:
    """90 % twice raises; 85 % keeps it raised; below 80 % twice takes it back."""
    line = Line()
    line.load(95)
    assert line.fact("CpuHigh") == ("", "")
    line.load(95)
    assert line.fact("CpuHigh") == ("True", "OverThreshold")
    line.load(85, 85, 79)
    assert line.fact("CpuHigh")[0] == "True"
    line.load(79)
    assert line.fact("CpuHigh") == ("False", "BelowThreshold")


def test_a_changed_threshold_acts_at_the_next_sample() -> None:
    """Settings are read at every look: no restart, no second wait."""
    line = Line()
    line.load(70, 70)
    assert line.fact("CpuHigh")[0] == "False"
    line.limits = Thresholds(cpu_percent=60, cpu_eased_percent=50)
    line.load(70)
    assert line.fact("CpuHigh")[0] == "True"
    line.limits = Thresholds(cpu_percent=95, cpu_eased_percent=90)
    line.load(70)
    assert line.fact("CpuHigh")[0] == "False"


def test_a_look_that_brought_nothing_changes_no_load_alert() -> None:
    """Unknown is neither high nor eased."""
    line = Line()
    line.load(95, None, 95)
    assert line.fact("CpuHigh") == ("", "")
    line.load(95)
    line.load(None, None)
    assert line.fact("CpuHigh")[0] == "True"
    line.look(None)
    assert line.fact("CpuHigh")[0] == "True"


def test_memory_is_judged_by_what_is_used() -> None:
    """Used of total, with its own threshold."""
    line = Line()
    line.look(measured(memory=91))
    line.look(measured(memory=91))
    assert line.fact("MemoryHigh") == ("True", "OverThreshold")
    assert line.fact("CpuHigh")[0] == "False"


def test_the_text_of_an_alert_does_not_move_with_the_value() -> None:
    """Or each look at a busy server would be an event."""
    line = Line()
    line.load(95, 96)
    before = line.worker.status.conditions
    line.load(97, 99)
    assert line.worker.status.conditions == before


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_flips_are_no_more_than_half_the_samples(values: list[float | None]) -> None:
    """However the input flaps: a flip takes two samples that agree, the first good one excepted."""
    line = Line()
    line.load(*values)
    raised = [word for name, word in line.flips if name == "CpuHigh"]
    assert len(raised) <= 1 + len(values) / 2
    assert all(one != other for one, other in itertools.pairwise(raised))


@given(st.lists(st.floats(80, 89.99), min_size=2, max_size=40), st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_lies_between_the_thresholds_never_flips(values: list[float], high: bool) -> None:
    """Between eased and raised the alert stays what it was."""
    line = Line()
    line.load(*([95, 95] if high else [10, 10]))
    before = line.fact("CpuHigh")
    line.load(*values)
    assert line.fact("CpuHigh") == before


def test_input_that_alternates_never_raises() -> None:
    """One hot sample after one cool one, for an hour."""
    line = Line()
    line.load(*([100, 0] * 60))
    assert [each for each in line.flips if each[1] == "True"] == []


def test_cloudwatch_raises_for_a_server_that_does_not_answer() -> None:
    """CPU of a dead CML comes from CloudWatch while its points are fresh, and is named so."""
    line = Line()

    def points(*values: float) -> tuple[ProviderPoint, ...]:
        return tuple(
            ProviderPoint(at=line.now - timedelta(seconds=600 - 300 * n), seconds=300,
                          cpu_percent=value)
            for n, value in enumerate(values)
        )  # fmt: skip

    line.look(None, points=points(99, 99))
    assert line.fact("CpuHigh")[0] == "True"
    assert "CloudWatch" in line.text("CpuHigh")
    line.look(None, seconds=7200, points=points(1, 1)[:0])
    assert line.fact("CpuHigh")[0] == "True"
    assert line.fact("MemoryHigh") == ("", "")


def test_load_alerts_end_with_the_machine() -> None:
    """A stopped worker has no load."""
    line = Line()
    line.load(95, 95)
    line.worker = worker(
        WorkerStatus(
            phase=P.STOPPED, phase_since=START, conditions=line.worker.status.conditions,
            ec2=Ec2Status(instance_id="i-1", state="stopped"), health=Health.HEALTHY,
        ),
        desired="Stopped",
    )  # fmt: skip
    line.ec2 = Ec2Status(instance_id="i-1", state="stopped")
    line.spec = {"desired": "Stopped"}
    line.look(None)
    assert line.fact("CpuHigh") == line.fact("InstanceChecksPassed") == ("", "")
    assert line.worker.status.health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("phase", "left"), [(P.STOPPED, {"DiskAlmostFull"}), (P.TERMINATED, set())]
)
def test_what_ended_asks_for_nobody(phase: WorkerPhase, left: set[str]) -> None:
    """CML's facts end with the boot, the disk's with the machine; a leaked licence outlives both."""
    facts: tuple[conditions.Condition, ...] = ()
    for name in ("MaintenanceMode", "OrphansOnHost", "DiskAlmostFull", "LicenceLeaked"):
        facts = conditions.put(facts, name, "True", "R", now=START)
    facts = conditions.put(facts, "CmlHealthy", "False", "ControllerDown", now=START)
    line = Line(phase, desired="Stopped")
    line.worker = worker(
        WorkerStatus(phase=phase, phase_since=START, conditions=facts), desired="Stopped"
    )
    line.look(None, ec2=None)
    raised = {each.condition for each in alerts.raised("w1", line.worker.status.conditions)}
    assert raised == left | {"LicenceLeaked"}


# --- silence -----------------------------------------------------------------------------------


def test_a_silent_worker_is_raised_after_its_time_and_keeps_its_phase() -> None:
    """Unknown from the first missed look, raised after silentSeconds, taken back by an answer."""
    line = Line()
    line.look(measured())
    assert line.fact("Silent") == ("False", "Answering")
    line.look(None)
    assert line.fact("Silent") == ("Unknown", "NotAnswering")
    for _ in range(9):
        line.look(None)
    assert line.fact("Silent") == ("Unknown", "NotAnswering")
    line.look(None)
    line.look(None)
    assert line.fact("Silent") == ("True", "NoAnswer")
    assert line.worker.status.health is Health.UNREACHABLE
    assert line.worker.status.phase is P.READY
    told = line.text("Silent")
    line.look(None)
    assert line.text("Silent") == told
    line.look(measured())
    assert line.fact("Silent") == ("False", "Answering")


def test_time_that_nobody_watched_is_no_silence() -> None:
    """A controller that was away for an hour gives the server its whole patience again."""
    line = Line()
    line.look(measured())
    line.look(None)
    line.look(None, seconds=3600, watched_since=line.now + timedelta(seconds=3590))
    assert line.fact("Silent")[0] == "Unknown"


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_failed_checks_never_end_a_worker_with_sessions(answers: list[bool], sessions: int) -> None:
    """Whatever is or is not answered, the phase stays one that hosts and nothing is stopped."""
    line = Line(P.ACTIVE)
    for answers_ in answers:
        line.look(measured() if answers_ else None, sessions=sessions)
        assert line.worker.status.phase in worker_phases.HOSTING


# --- stuck phases ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "limit"), [(P.STARTING, 1500), (P.STOPPING, 1800), (P.UNLICENSING, 600)]
)
def test_a_stuck_phase_names_itself_and_its_limit(phase: WorkerPhase, limit: int) -> None:
    """Phase, since when, limit and what to do; with a factor below 1 it warns before the end."""
    line = Line(phase, desired="Stopped" if phase is not P.STARTING else "Ready")
    line.limits = Thresholds(stuck_factor=0.5)
    line.look(None, seconds=0, sessions=1)  # its machine runs since then
    line.look(None, seconds=limit * 0.4, sessions=1)
    assert line.fact("PhaseStuck") == ("", "")
    line.look(None, seconds=limit * 0.2, sessions=1)
    assert line.fact("PhaseStuck") == ("True", "OverLimit")
    for word in (phase, "09:00:00Z", f"{limit} s", "labfleet explain worker w1"):
        assert str(word) in line.text("PhaseStuck")


def test_a_phase_that_ends_is_stuck_no_more() -> None:
    """The fact belongs to the phase."""
    line = Line(P.STOPPING, desired="Stopped")
    line.look(None, seconds=1900, sessions=1)
    assert line.fact("PhaseStuck")[0] == "True"
    line.ec2 = Ec2Status(instance_id="i-1", state="stopped")
    line.look(None)
    assert line.worker.status.phase is P.STOPPED
    assert line.fact("PhaseStuck") == ("", "")


def test_a_drain_is_bounded_by_its_own_deadline() -> None:
    """And one that is empty rests, it is not stuck."""
    drain = Drain(deadline=START + timedelta(seconds=1000))
    line = Line(P.DRAINING, drain=drain)
    line.look(measured(), sessions=1, seconds=990)
    assert line.fact("PhaseStuck") == ("", "")
    line.look(measured(), sessions=1, seconds=20)
    assert line.fact("PhaseStuck")[0] == "True"
    line.look(measured(), sessions=0)
    line.look(measured(), sessions=0)
    assert line.fact("PhaseStuck") == ("", "")


def test_a_drain_that_ends_now_has_the_time_that_a_teardown_takes() -> None:
    """`drain --now` raises nothing in its first five minutes."""
    line = Line(P.DRAINING, drain=Drain(deadline=START, force=True))
    line.look(measured(), sessions=1, seconds=290)
    assert line.fact("PhaseStuck") == ("", "")
    line.look(measured(), sessions=1, seconds=20)
    assert line.fact("PhaseStuck")[0] == "True"


# --- the provider's checks ---------------------------------------------------------------------


def impaired(line: Line, **checks: str) -> None:
    line.ec2 = Ec2Status(
        instance_id="i-1",
        state="running",
        **{"system_check": "ok", "instance_check": "ok", **checks},  # type: ignore[arg-type]
    )


def test_an_impaired_check_degrades_after_two_minutes_with_its_name() -> None:
    """Not before: AWS's checks flicker; and never more than Degraded."""
    line = Line()
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("True", "Passed")
    impaired(line, system_check="impaired")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")
    assert line.worker.status.health is Health.HEALTHY
    for _ in range(5):
        line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("False", "Impaired")
    assert "system check" in line.text("InstanceChecksPassed")
    assert (line.worker.status.health, line.worker.status.phase) == (Health.DEGRADED, P.READY)
    impaired(line)
    line.look(measured())
    assert line.worker.status.health is Health.HEALTHY


def test_checks_that_begin_or_are_not_told_prove_nothing() -> None:
    """Initializing is Unknown; None changes nothing."""
    line = Line()
    impaired(line, system_check="initializing", instance_check="initializing")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Initializing")
    impaired(line, instance_check="impaired")
    line.look(measured(), seconds=500)
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")
    line.ec2 = Ec2Status(instance_id="i-1", state="running")
    line.look(measured())
    assert line.fact("InstanceChecksPassed") == ("Unknown", "Suspected")


# --- what the provider plans -------------------------------------------------------------------


def planned(line: Line, *events: ScheduledEvent) -> None:
    line.ec2 = Ec2Status(
        instance_id="i-1", state="running", system_check="ok", instance_check="ok", events=events
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
    """In the very look that sees it, with its reason; nothing new comes (aws.md 5, case 36)."""
    line = Line(P.ACTIVE)
    line.look(measured(), sessions=2)
    if how == "event":
        planned(line, ScheduledEvent(code="spot-interruption"))
    reason = "Server.SpotInstanceTermination" if how == "reason" else None
    line.look(measured(), sessions=2, state_reason=reason)
    assert line.worker.status.phase is P.DRAINING
    assert "EC2 takes the machine back" in line.worker.status.message
    assert line.fact("ScheduledEvent") == ("True", "SpotInterruption")
    assert not worker_phases.accepting(line.worker)
    line.look(measured(), sessions=2, state_reason=reason)
    assert line.worker.status.phase is P.DRAINING


# --- the table ---------------------------------------------------------------------------------


def test_raised_alerts_come_with_cause_command_and_fix() -> None:
    """The gravest first; what is not raised is not listed."""
    line = Line()
    line.load(95, 95)
    for _ in range(12):
        line.look(None)
    found = alerts.raised("w1", line.worker.status.conditions)
    assert [each.condition for each in found] == ["Silent", "CpuHigh", "TelemetryComplete"]
    assert all(each.cause and each.fix for each in found)
    assert "labfleet top worker w1" in found[1].command


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
    both = vitals.numbers(measured(cpu=50), [point], now, poll=30, missing="")
    assert (both["cpu"].value, both["cpu"].source, both["cpu"].fresh) == (50, "cml", True)
    assert both["cpu"].age_seconds == 60
    assert (both["ec2Cpu"].value, both["ec2Cpu"].source) == (7.5, "cloudwatch")
    dead = vitals.numbers(None, [point], now, poll=30, missing="no sample")
    assert (dead["cpu"].value, dead["cpu"].source) == (7.5, "cloudwatch")
    assert (dead["memory"].value, dead["memory"].reason) == (None, "no sample")
    stale = vitals.numbers(measured(cpu=50), [point], now + timedelta(minutes=5), poll=30,
                           missing="")  # fmt: skip
    assert stale["cpu"].source == "cloudwatch"
    assert (stale["memory"].fresh, stale["memory"].value) == (False, 10)
    assert "last measured" in stale["memory"].reason


def test_the_first_compute_stands_in_for_the_whole() -> None:
    """Upstream's order: all, then a compute, then CloudWatch (upstream.md 2.3)."""
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
    assert all(hasattr(limits.limits, name) for name in worker_alerts.LIMITS.values())


def test_every_word_that_closes_a_worker_has_its_sentence() -> None:
    """A word without one would end the whole round of placements."""
    words = {*worker_phases.QUARANTINE, "DuplicateIdentity", "MaintenanceMode", "DiskAlmostFull"}
    facts = conditions.put((), "Adopted", "False", "NotAdopted", now=START)
    words |= {worker_phases.closed_word(facts), "ScheduledEvent"}
    # private _SAYS, _STAGE: tables that must name every word, also one no test meets
    assert words <= placement._SAYS.keys()
    assert words <= placement._STAGE.keys()


def test_an_alert_names_the_worker_in_its_commands() -> None:
    """What stands in `labfleet alerts` can be pasted as it is."""
    failed = conditions.put((), "Failed", "True", "BootTimeout", "too slow", now=START)
    [told] = alerts.raised("w-7", failed)
    assert "labfleet start w-7" in told.fix
    assert "NAME" not in told.command + told.fix
