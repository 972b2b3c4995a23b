"""When an imported lab may start: lost tags first, then its turn, and waiting is no fault."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import machine, worker

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import start as session_start
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.meta import Effect, Metadata
from labfleet.resources.session import (
    LabStatus,
    PortAllocation,
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
)
from labfleet.resources.worker import LicenceStatus, WorkerStatus

S = SessionPhase
START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
PORT = PortAllocation(name="PC_serial", node="PC", kind="serial", number=5041)


@dataclass(frozen=True)
class Node:
    label: str
    tags: tuple[str, ...]


def session(name: str, state: str = "DEFINED_ON_CORE", *, age: int = 0, **status: Any) -> Session:
    lab = LabStatus(title=name, marker=name, id=f"lab-{name}", state=state, progress_at=START)
    fields = {
        "phase": S.INSTANTIATING,
        "phase_since": START - timedelta(seconds=age),
        "lab": lab,
        "worker": "w1",
        "ports": (PORT,),
        **status,
    }
    return Session(
        metadata=Metadata(name=name, uid=name, creation_timestamp=START),
        spec=SessionSpec(definition="d"),
        status=SessionStatus(**fields),
    )


@given(st.lists(st.sampled_from(["DEFINED_ON_CORE", "STARTED"]), max_size=30), st.integers(1, 9))
def test_no_more_labs_boot_at_once_than_may(states: list[str], at_once: int) -> None:
    """Whatever boots now, those whose turn it is fit beside it, and somebody's turn comes."""
    all_ = [session(f"s{n:02}", state, age=n) for n, state in enumerate(states)]
    booting = sum(state == "STARTED" for state in states)
    waiting = [each for each in all_ if each.status.lab.state != "STARTED"]
    locks = [each for each in waiting if not session_start.labs_before(each, all_, at_once)]
    assert len(locks) <= max(0, at_once - booting)
    assert len(locks) == min(len(waiting), max(0, at_once - booting))


def test_a_start_under_way_counts_as_booting() -> None:
    """Its lab is still shown as defined, and yet it has taken its place."""
    effect = Effect(id="e1", kind="start", begun=START, expires=START)
    older, mine = session("a", age=0, effect=effect), session("b", age=9)
    assert session_start.labs_before(mine, [older, mine], 1) == 1
    assert session_start.labs_before(mine, [session("a"), mine], 1) == 0


def decide(before: Session, seen: lifecycle.SessionObservation, now: datetime) -> lifecycle.Step:
    return lifecycle.decide(before, seen, now)


def seen(line: Session, **parts: Any) -> lifecycle.SessionObservation:
    return lifecycle.SessionObservation(looked=True, lab=line.status.lab, **parts)


def test_a_lab_waits_for_its_turn_as_long_as_it_takes() -> None:
    """Ten hours of waiting end in a start, not in a boot timeout, with few writes."""
    line, now, writes = session("s"), START, 0
    for _ in range(1200):
        now += timedelta(seconds=30)
        step = decide(line, seen(line, before=3), now)
        assert (step.status.phase, step.action) == (S.INSTANTIATING, None)
        writes += step.status != line.status
        line = msgspec.structs.replace(line, status=step.status)
    assert "3 labs of its worker boot first" in line.status.message
    assert writes <= 150
    step = decide(line, seen(line), now + timedelta(seconds=200))
    assert step.action == "start"
    assert conditions.is_true(step.status.conditions, "StartTurn")
    late = msgspec.structs.replace(line, status=step.status)
    stuck = decide(late, seen(late), now + timedelta(seconds=900))
    assert stuck.status.phase is S.STOPPING


@pytest.mark.parametrize("state", ["DEFINED_ON_CORE", "STARTED", "STOPPED"])
def test_tags_that_a_lab_lacks_are_written_again_within_a_bound(state: str) -> None:
    """Three times while it comes up; then it goes on, and its condition names what is missing."""
    line = session("s", state)
    lost = session_start.lost_tags(line, [Node("PC", ("web",)), Node("R1", ())])
    assert lost == {"PC": ("serial:5041",)}
    actions = []
    for _ in range(5):
        step = decide(line, seen(line, tags_lost=("serial:5041 of PC",), tags_added=()), START)
        actions.append(step.action)
        fact = conditions.find(step.status.conditions, "PortsTagged")
        assert fact is not None
        assert (fact.status, fact.reason) == ("False", "TagsMissing")
        assert "serial:5041 of PC" in fact.message
        line = msgspec.structs.replace(line, status=step.status)
    after = None if state == "STARTED" else "start"
    assert actions == ["tag", "tag", "tag", after, after]
    step = decide(line, seen(line, tags_added=()), START)
    assert conditions.is_true(step.status.conditions, "PortsTagged")


def test_ports_that_somebody_added_are_told_and_left_alone() -> None:
    """A further number is named with its node; nothing is written, and the lab starts."""
    line = session("s")
    nodes = [Node("PC", ("serial:5041", "serial:9", "web")), Node("R1", ("pat:udp:5041:53",))]
    added = session_start.added_tags(line, nodes)
    assert added == ("serial:9 of PC", "pat:udp:5041:53 of R1")
    step = decide(line, seen(line, tags_added=added), START)
    fact = conditions.find(step.status.conditions, "PortsTagged")
    assert fact is not None
    assert (fact.reason, step.action) == ("TagsAdded", "start")
    assert "serial:9 of PC" in fact.message


def test_tags_that_were_not_read_prove_nothing() -> None:
    """Without a look at the nodes there is no word on their tags, good or bad."""
    line = session("s")
    assert conditions.find(decide(line, seen(line), START).status.conditions, "PortsTagged") is None


def test_tags_that_are_there_in_another_spelling_are_not_lost() -> None:
    """The meaning counts, not the text; a node that is gone is not written to."""
    line = session("s")
    assert session_start.lost_tags(line, [Node("PC", ("serial:5041:0", "x"))]) == {}
    assert session_start.lost_tags(line, [Node("R1", ())]) == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([S.SCHEDULED, S.INSTANTIATING, S.RUNNING, S.STOPPING]),
            st.integers(0, 30),
            st.integers(1, 6),
        ),
        max_size=12,
    ),
    st.integers(1, 12),
)
def test_whoever_may_come_at_once_has_room_beside_all_that_stand_there(
    rows: list[tuple[SessionPhase, int, int]], size: int
) -> None:
    """Nobody sees the others' starts of this instant, and still no two take the same room."""
    all_ = [booked(f"s{n:02}", phase, begin, cpu) for n, (phase, begin, cpu) in enumerate(rows)]
    capacity = Amounts(cpu_milli=size)
    # Each judges by the same view: all that are to come are still SCHEDULED in it.
    coming = [
        each
        for each in all_
        if each.status.phase is S.SCHEDULED and not session_start.room_held(each, all_, capacity)
    ]
    standing = [each for each in all_ if each.status.phase is not S.SCHEDULED]
    used = sum(each.status.reservation.amounts.cpu_milli for each in (*standing, *coming))
    assert not coming or used <= size


def booked(name: str, phase: SessionPhase, begin: int, cpu: int, end: int = 60) -> Session:
    begin_at, end_at = (START + timedelta(minutes=each) for each in (begin, end))
    amounts = Amounts(cpu_milli=cpu)
    held = Reservation(holder="w1", amounts=amounts, start=begin_at, end=end_at)
    return session(name, phase=phase, reservation=held)


def test_who_holds_the_room_past_its_end_is_named() -> None:
    """What is lacking is said, and which labs stay although their time is over."""
    mine, late = booked("mine", S.SCHEDULED, 30, 4000), booked("late", S.STOPPING, 0, 3000, 20)
    told = session_start.room_held(mine, [late, mine], Amounts(cpu_milli=6000))
    assert told == "w1 lacks 1 CPU; past their end and still there: late"
    assert session_start.room_held(mine, [mine], Amounts(cpu_milli=6000)) == ""
    assert session_start.room_held(mine, [late, mine], None) == ""
    assert session_start.room_held(session("s"), [late], Amounts(cpu_milli=1)) == ""


@pytest.mark.parametrize("licensed", [None, False, True])
@pytest.mark.parametrize("token", [True, False])
def test_only_the_nodes_of_a_size_still_grow(token: bool, licensed: bool | None) -> None:
    """Five nodes are no lack while the licence does not count; CPUs never are without end.

    Rehearsal seed 265: a licence out of compliance let a lab in where no CPU was left.
    """
    size = Amounts(cpu_milli=6000, memory_mib=1024, nodes=5)
    status = WorkerStatus(capacity=size, licence=LicenceStatus(licensed=licensed))
    made = msgspec.structs.replace(
        worker(status), spec=worker(machine=machine(licensed=token)).spec
    )
    nodes = 200 if token and not licensed else 5
    known = session_start.size_of(made)
    assert known == msgspec.structs.replace(size, nodes=nodes)
    mine, late = booked("mine", S.SCHEDULED, 30, 4000), booked("late", S.STOPPING, 0, 3000, 20)
    assert session_start.room_held(mine, [late, mine], known).startswith("w1 lacks 1 CPU")


def test_a_size_that_nobody_has_seen_holds_nobody_up() -> None:
    """Unknown is not nothing: the placement knew a size."""
    assert session_start.size_of(worker(WorkerStatus())) is None
