"""What asks for somebody: load, silence, stuck phases, EC2's checks and plans."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from alert_line import Line, measured
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, worker

from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.resources import alerts, conditions
from labfleet.resources.fleet_settings import Thresholds
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Key
from labfleet.resources.telemetry import (
    ProviderPoint,
)
from labfleet.resources.worker import Drain, Health, WorkerPhase, WorkerStatus

P = WorkerPhase
LOAD = ("CpuHigh", "MemoryHigh")


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
@settings(max_examples=2 * settings.default.max_examples, deadline=None)
def test_flips_are_no_more_than_half_the_samples(values: list[float | None]) -> None:
    """However the input flaps: a flip takes two samples that agree, the first good one excepted."""
    line = Line()
    line.load(*values)
    raised = [word for name, word in line.flips if name == "CpuHigh"]
    assert len(raised) <= 1 + len(values) / 2
    assert all(one != other for one, other in itertools.pairwise(raised))


@given(st.lists(st.floats(80, 89.99), min_size=2, max_size=40), st.booleans())
@settings(max_examples=settings.default.max_examples, deadline=None)
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
            machine=MachineStatus(id="i-1", state="stopped"), health=Health.HEALTHY,
        ),
        desired="Stopped",
    )  # fmt: skip
    line.machine = MachineStatus(id="i-1", state="stopped")
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
    line.look(None, machine=None)
    raised = {
        each.condition
        for each in alerts.raised(Key("Worker", "default", "w1"), line.worker.status.conditions)
    }
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
@settings(max_examples=settings.default.max_examples, deadline=None)
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
    line.machine = MachineStatus(id="i-1", state="stopped")
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
