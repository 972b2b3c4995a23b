"""Time limits: each counts from what it limits, stands still while it is held up, outlives a kill."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, worker

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import limits, phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call, Offer
from labfleet.decisions.lifecycle.worker.draft import ProviderLook
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus, TimeLimits
from labfleet.resources.meta import Effect
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    Drain,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
NONE = Offer(held=errors.OutOfCapacity("no capacity: m5 anywhere", retry_after=90.0))
LIMITS = TimeLimits()


def at(state: str | None, *, id_: str | None = "i-1") -> MachineStatus:
    address = "127.0.0.2" if state == "running" else None
    return MachineStatus(id=id_, state=state, public_address=address)  # type: ignore[arg-type]


class Timed:
    """One worker in one phase, and a clock that a test moves; what is decided is recorded."""

    def __init__(self, phase: WorkerPhase, machine: MachineStatus, **spec: Any) -> None:
        self.now = START
        licence = LicenceStatus(registered=phase is P.UNLICENSING)
        status = WorkerStatus(phase=phase, phase_since=START, machine=machine, licence=licence)
        self.worker: Worker = worker(status, **spec)
        held = (FINALIZER_LICENCE,) if phase is P.UNLICENSING else ()
        meta = msgspec.structs.replace(self.worker.metadata, finalizers=held)
        self.worker = msgspec.structs.replace(self.worker, metadata=meta)

    def look(self, minutes: float = 0, **seen: Any) -> WorkerStatus:
        """Let time pass, look once, and record what is decided."""
        self.now += timedelta(minutes=minutes)
        given_ = {"machine": self.worker.status.machine, **seen}
        if self.worker.status.machine.id is None:
            given_["machine"] = None
        step = lifecycle.decide(self.worker, lifecycle.WorkerObservation(**given_), self.now)
        meta = msgspec.structs.replace(self.worker.metadata, finalizers=step.finalizers)
        self.worker = msgspec.structs.replace(self.worker, status=step.status, metadata=meta)
        return step.status

    def called(
        self,
        kind: str,
        answer: Answer | None = None,
        provider: ProviderLook | None = None,
        **parameters: str,
    ) -> WorkerStatus:
        """Record an open call, and then its answer."""
        effect = Effect(
            id="e", kind=kind, begun=self.now, expires=self.now + timedelta(seconds=20),
            parameters=parameters,
        )  # fmt: skip
        status = msgspec.structs.replace(self.worker.status, effect=effect)
        self.worker = msgspec.structs.replace(self.worker, status=status)
        return self.look(call=Call("answered", answer or Answer()), provider=provider)

    def fact(self, name: str) -> tuple[str, str]:
        found = conditions.find(self.worker.status.conditions, name)  # type: ignore[arg-type]
        return ("", "") if found is None else (found.status, found.reason)


def launched(line: Timed) -> None:
    line.called("launch", Answer(machine=at("booting")), attempt="1", token="t")


ROWS: dict[str, tuple[str, Any, dict[str, Any], Any, tuple[Any, ...]]] = {
    # limit and case: (limit, worker, what a look shows before, how it begins, what its end is)
    "launch: a machine": (
        "launch",
        lambda: Timed(P.PROVISIONING_EC2, at(None, id_=None)),
        {"offer": NONE},
        launched,
        (P.FAILED, "Failed", "LaunchTimeout"),
    ),
    "launch: a start": (
        "launch",
        lambda: Timed(P.STARTING, at("stopped")),
        {},
        lambda line: line.called("start"),
        (P.FAILED, "Failed", "BootTimeout"),
    ),
    "boot": (
        "boot",
        lambda: Timed(P.STARTING, at("booting")),
        {},
        lambda line: line.look(machine=at("running")),
        (P.FAILED, "Failed", "BootTimeout"),
    ),
    "licence": (
        "licence",
        lambda: Timed(P.LICENSING, at("running")),
        {"stage": "unreachable"},
        lambda line: line.called("register"),
        (P.FAILED, "Failed", "LicenceTimeout"),
    ),
    "unlicense": (
        "unlicense",
        lambda: Timed(P.UNLICENSING, at("running"), desired="Terminated"),
        {"stage": "ready"},
        lambda line: line.called("deregister"),
        (P.STOPPING, "LicenceLeaked", "NotReturned"),
    ),
    "stop": (
        "stop",
        lambda: Timed(P.STOPPING, at("running"), desired="Stopped"),
        {},
        lambda line: line.called("stop"),
        (P.STOPPING, "Late", "StopLate"),
    ),
    "terminate": (
        "terminate",
        lambda: Timed(P.TERMINATING_EC2, at("running"), desired="Terminated"),
        {},
        lambda line: line.called("terminate"),
        (P.TERMINATING_EC2, "Late", "TerminateLate"),
    ),
}  # fmt: skip
"""All limits whose phase can begin before what they limit."""


def test_every_limit_has_its_row() -> None:
    """A drain and an address begin with their phase; every other limit of a template is a row."""
    assert {row[0] for row in ROWS.values()} | {"drain"} == set(TimeLimits.__struct_fields__)
    assert set(phases.LIMITS.values()) == set(TimeLimits.__struct_fields__)


@pytest.mark.parametrize("name", ROWS)
def test_a_limit_counts_from_the_beginning_of_what_it_limits(name: str) -> None:
    """Nine tenths of it waited for the beginning leave the whole of it, also after a kill."""
    limit, make, before, begin, end = ROWS[name]
    whole = getattr(LIMITS, limit) / 60
    line = make()
    line.look(**before)
    line.look(whole * 0.9, **before)
    phase = line.worker.status.phase
    begin(line)
    known = line.worker.status.limit
    assert known is not None
    assert (known.name, known.since, known.begun) == (limit, line.now, True)
    if limit == "boot":
        line.look(machine=at("running"))
    came = line.now + timedelta(minutes=whole - 5)
    line.look(whole - 1, watched_since=came)
    assert line.worker.status.phase is phase
    assert line.fact("Late") == line.fact("LicenceLeaked") == ("", "")
    line.look(2, watched_since=came)
    assert (line.worker.status.phase, *line.fact(end[1])[1:]) == (end[0], end[2])


@pytest.mark.parametrize("name", [each for each in ROWS if ROWS[each][0] not in {"launch", "boot"}])
def test_a_wait_for_the_beginning_is_stuck_in_its_time(name: str) -> None:
    """What nobody begins is no late machine, but people hear of the phase."""
    limit, make, before, _, _ = ROWS[name]
    line = make()
    line.look(**before)
    line.look(getattr(LIMITS, limit) / 60 * 1.1, **before)
    if line.worker.status.phase in {P.STOPPING, P.TERMINATING_EC2} and limit != "unlicense":
        assert line.fact("Late") == ("", "")
        assert line.fact("PhaseStuck") == ("True", "OverLimit")


def test_23_minutes_of_no_capacity_leave_a_boot_its_time() -> None:
    """It was ended after 7:41 of 8 minutes of a normal boot; its limit was 30 minutes."""
    line = Timed(P.PROVISIONING_EC2, at(None, id_=None))
    for _ in range(23):
        line.look(1, offer=NONE)
    assert line.worker.status.phase is P.PROVISIONING_EC2
    launched(line)
    assert line.fact("MachineLaunched") == ("", "")
    for _ in range(8):
        line.look(1)
    assert line.worker.status.phase is P.PROVISIONING_EC2
    line.look(machine=at("running"))
    assert line.worker.status.phase is P.EC2_READY


@pytest.mark.parametrize("kind", [errors.OutOfCapacity, errors.QuotaExceeded])
def test_no_room_anywhere_is_said_after_its_setting_and_ends_nothing(kind: Any) -> None:
    """Since when, measured against the setting; a day of it fails no worker and stops no clock."""
    offer = Offer(held=kind("none", retry_after=90.0))
    line = Timed(P.PROVISIONING_EC2, at(None, id_=None))
    line.look(offer=offer)
    line.look(9, offer=offer)
    assert line.fact("MachineLaunched")[0] == "Unknown"
    line.look(2, offer=offer)
    reason = "OutOfCapacity" if kind is errors.OutOfCapacity else "QuotaExceeded"
    assert line.fact("MachineLaunched") == ("False", reason)
    found = conditions.find(line.worker.status.conditions, "MachineLaunched")  # type: ignore[arg-type]
    assert found is not None
    assert "since 2026-11-27 09:00:00Z" in found.message
    assert found.measured.limit == 600  # type: ignore[union-attr]
    status = line.worker.status
    for _ in range(24):
        line.look(60, offer=offer)
    assert line.worker.status == status
    assert line.fact("PhaseStuck") == ("", "")


def test_what_stands_still_goes_on_where_it_was() -> None:
    """Ten minutes waited, an hour held up, then the rest of the half hour."""
    line = Timed(P.PROVISIONING_EC2, at(None, id_=None))
    odd = Offer(problem=errors.Temporary("trouble", reason="ServerTrouble"))
    line.look(offer=odd)
    line.look(10, offer=odd)
    line.look(offer=NONE)
    line.look(60, offer=NONE)
    line.look(offer=odd)
    line.look(19, offer=odd)
    assert line.worker.status.phase is P.PROVISIONING_EC2
    line.look(2, offer=odd)
    assert line.fact("Failed") == ("True", "LaunchTimeout")


def test_a_look_that_shows_no_machine_proves_no_lateness() -> None:
    """While the provider does not tell, a machine that may run is not given up."""
    line = Timed(P.PROVISIONING_EC2, at("booting"))
    line.look()
    line.look(40, machine=None, trouble="provider: no answer")
    assert line.worker.status.phase is P.PROVISIONING_EC2
    line.look()
    assert line.fact("Failed") == ("True", "LaunchTimeout")


def test_an_instance_that_gets_no_address_fails_in_its_time_once_it_is_seen() -> None:
    """Not before its limit, nor while the provider does not show it; an address in time goes on."""
    whole = LIMITS.boot / 60
    for address in (None, "127.0.0.2"):
        bare = MachineStatus(id="i-1", state="running")
        line = Timed(P.EC2_READY, bare)
        line.look()
        line.look(whole - 1)
        assert line.worker.status.phase is P.EC2_READY
        line.look(2, machine=None, trouble="provider: no answer")
        assert line.worker.status.phase is P.EC2_READY
        line.look(machine=msgspec.structs.replace(bare, private_address=address))
        if address is None:
            assert line.fact("Failed") == ("True", "NoAddress")
        else:
            assert line.worker.status.phase is P.STARTING


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=12))
def test_time_held_up_never_counts(spans: list[tuple[int, bool]]) -> None:
    """However often it is held up, a limit passes after its own time of not being so."""
    line = Timed(P.STARTING, at("stopped"))
    refused = Answer(problem=errors.OutOfCapacity("none", retry_after=60.0))
    line.look()
    counted = 0.0
    for minutes, held in spans:
        if held:
            line.called("start", refused)
            line.look()
            line.look(minutes)
            assert line.worker.status.phase is P.STARTING
            held_fact = conditions.drop(line.worker.status.conditions, "MachineStarted")  # type: ignore[arg-type]
            status = msgspec.structs.replace(line.worker.status, conditions=held_fact)
            line.worker = msgspec.structs.replace(line.worker, status=status)
            line.look()
        else:
            line.look(minutes)
            counted += minutes
        over = counted > LIMITS.launch / 60
        assert (line.worker.status.phase is P.FAILED) is over
        if over:
            break


def test_a_drain_counts_from_its_own_beginning() -> None:
    """A forced one has at least its five minutes before it counts as stuck."""
    drain = Drain(deadline=START - timedelta(hours=1), force=True)
    line = Timed(P.DRAINING, at("running"), drain=drain)
    line.look(sessions=1)
    line.look(4, sessions=1)
    assert line.fact("PhaseStuck") == ("", "")
    line.look(2, sessions=1)
    assert line.fact("PhaseStuck") == ("True", "OverLimit")
    assert limits.DRAIN_LEAST == 300.0


def test_a_record_of_an_earlier_revision_keeps_its_time() -> None:
    """It says only when its phase began; from there its limit counts as it did."""
    line = Timed(P.STOPPING, at("stopping"), desired="Stopped")
    line.look(29)
    assert line.fact("Late") == ("", "")
    line.look(2)
    assert line.fact("Late") == ("True", "StopLate")


def test_an_idle_stop_waits_for_a_silent_server_from_its_last_answer() -> None:
    """Nine minutes in which nodes ran are no silence; the record keeps when it began."""
    line = Timed(P.STOPPING, at("running"), desired="Stopped")
    busy = Answer(problem=errors.Temporary("2 nodes run again", reason="NodesRunning"))
    mute = Answer(problem=errors.Temporary("no answer", reason="NotLooked"))
    line.called("stop", busy)
    line.look(9)
    line.called("stop", mute)
    began = line.now
    line.look(5)
    line.called("stop", mute)
    found = conditions.find(line.worker.status.conditions, "HealthCheckPassed")  # type: ignore[arg-type]
    assert found is not None
    assert (found.status, found.last_transition_time) == ("Unknown", began)
