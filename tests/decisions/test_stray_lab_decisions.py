"""Labs of no session: which are known, what they hold, and which may be removed when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import worker

from labfleet.decisions import ledger, stray_labs
from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.stray_labs import Rules, SeenLab
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.hosted_labs import IgnoredLab
from labfleet.resources.machine import MachineStatus
from labfleet.resources.worker import StrayLab, StrayLabs, WorkerPhase, WorkerStatus

START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
NUMBERS = st.integers(0, 9_000)
AMOUNTS = st.builds(
    Amounts, cpu_milli=NUMBERS, memory_mib=NUMBERS, storage_mib=NUMBERS, nodes=NUMBERS,
    labs=NUMBERS, ports=NUMBERS,
)  # fmt: skip
IDS = st.sampled_from("abcdef")
SEEN = st.lists(
    st.builds(SeenLab, IDS, st.sampled_from(["u1", "u2"]), AMOUNTS), unique_by=lambda lab: lab.id
)
LOOKS = st.lists(st.tuples(SEEN, st.integers(1, 400)), min_size=1, max_size=8)
HOLDS = st.sampled_from(["", "paused"])


@dataclass
class Node:
    """A node as a server shows it."""

    definition: str
    state: str = "BOOTED"
    cpus: int | None = None
    cpu_limit: int | None = None
    ram_mib: int | None = None
    tags: Sequence[str] = ()
    label: str = "n"


@given(LOOKS, st.integers(60, 600), HOLDS, st.booleans(), st.integers(0, 1000))
def test_only_what_was_seen_over_a_grace_and_is_seen_now_is_due(
    looks: list[tuple[list[SeenLab], int]], grace: int, hold: str, shared: bool, watched: int
) -> None:
    """Never while held, never on a shared server, never before somebody watched for a grace."""
    known, now, first = StrayLabs(), START, dict[tuple[str, str], datetime]()
    since = START + timedelta(seconds=watched)
    for seen, seconds in looks:
        now += timedelta(seconds=seconds)
        known = stray_labs.note(known, seen, now)
        there = {(each.id, each.uid) for each in seen}
        first = {each: first.get(each, now) for each in there}
        assert {(lab.id, lab.uid): lab.since for lab in known.labs} == first
        assert known.count == len(seen)
        lab = stray_labs.due(known, Rules(float(grace), hold, shared), now, since)
        ripe = {
            each for each, at in first.items() if now - max(at, since) >= timedelta(seconds=grace)
        }
        if hold or shared or not ripe:
            assert lab is None
        else:
            assert lab is not None
            assert (lab.id, lab.uid) in ripe
            assert stray_labs.parameters(known) == {"lab": lab.id, "uid": lab.uid}


@given(AMOUNTS, LOOKS)
def test_what_stray_labs_hold_is_taken_off_once_and_given_back_whole(
    size: Amounts, looks: list[tuple[list[SeenLab], int]]
) -> None:
    """However often it is looked, and however much more they hold than there is."""
    capacity: Amounts | None = size
    known = StrayLabs()
    for seen, _ in looks:
        real = stray_labs.real(capacity, known)
        assert real == size
        capacity, known = stray_labs.offered(real, stray_labs.note(known, seen, START))
        held = Amounts()
        for each in seen:
            held += each.amounts
        assert capacity == ledger.less(size, held)
    assert stray_labs.real(capacity, known) == size


@given(st.integers(1, 5))
def test_a_lab_that_failed_lets_the_others_go_first(failures: int) -> None:
    """It waits for another grace; those that were due before it are removed meanwhile."""
    seen = [SeenLab("a", "u"), SeenLab("b", "u")]
    known, now = stray_labs.note(StrayLabs(), seen, START), START
    for _ in range(failures):
        now += timedelta(seconds=301)
        lab = stray_labs.due(known, Rules(), now, None)
        assert lab is not None
        known = stray_labs.failed(known, lab.id, "no", now)
        known = stray_labs.note(known, seen, now)
        after = stray_labs.due(known, Rules(), now, None)
        assert after is None or after.id != lab.id


def test_more_labs_than_are_named_are_all_counted() -> None:
    """A record keeps so many; the amounts and the number are of all."""
    many = [SeenLab(f"l{number:03}", "u", Amounts(labs=1)) for number in range(120)]
    known = stray_labs.note(StrayLabs(), many, START)
    assert (len(known.labs), known.count, known.held.labs) == (stray_labs.KEPT, 120, 120)


def test_labs_that_are_left_alone_are_not_counted_though_the_record_does_not_name_them() -> None:
    """Nor does what their removal ran into stand beside those that are still to go."""
    ids = [f"l{number:03}" for number in range(stray_labs.KEPT + 9)]
    words = tuple(IgnoredLab(id=each, by="op", at=START, reason="mine") for each in ids[:10])
    tried = StrayLab(id="l000", uid="u", since=START, tried=START, refused="busy")
    status = WorkerStatus(
        phase=WorkerPhase.READY, phase_since=START, stray_labs=StrayLabs(labs=(tried,), count=1),
        machine=MachineStatus(id="i-1", state="running"),
    )  # fmt: skip
    found = worker(status)
    found = msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, ignored_labs=words)
    )
    seen = lifecycle.WorkerObservation(
        stage="ready", strays=tuple(SeenLab(each, "u") for each in ids), stray_rules=Rules(60.0)
    )
    told = conditions.find(lifecycle.decide(found, seen, START).status.conditions, "StrayLabs")
    assert told is not None
    assert told.message.startswith(f"{stray_labs.KEPT - 1} labs of no session: l010, l011, l012")
    assert told.measured.value == stray_labs.KEPT - 1
    assert "busy" not in told.message


@pytest.mark.parametrize(
    ("node", "held"),
    [
        (Node("alpine"), (1000, 512, 1)),
        (Node("alpine", cpus=4, cpu_limit=50, ram_mib=2048), (2000, 2048, 1)),
        (Node("never heard of"), (1000, 1024, 1)),
        (Node("alpine", state="STOPPED"), (0, 0, 0)),
        (Node("unmanaged_switch"), (0, 0, 0)),
    ],
)
def test_what_cml_does_not_tell_is_taken_of_the_definition(
    node: Node, held: tuple[int, int, int]
) -> None:
    """Unknown is not nothing; what does not run holds no CPU, memory or licence."""
    found = stray_labs.held_by([node])
    assert (found.cpu_milli, found.memory_mib, found.nodes) == held
    assert found.labs == 1


@given(HOLDS, st.booleans(), st.sampled_from(["ready", "not_ready"]), st.sampled_from(["", "no"]))
def test_a_worker_removes_one_lab_at_a_time_and_only_as_an_automatic_action(
    hold: str, shared: bool, stage: str, trouble: str
) -> None:
    """The step's guard stops it when the fleet is paused until its commit."""
    lab = StrayLab(id="l1", uid="u1", since=START)
    status = WorkerStatus(
        phase=WorkerPhase.READY,
        phase_since=START,
        machine=MachineStatus(id="i-1", state="running"),
        stray_labs=StrayLabs(labs=(lab,), count=1),
    )
    seen = lifecycle.WorkerObservation(
        stage=stage, trouble=trouble, strays=(SeenLab("l1", "u1"), SeenLab("l2", "u2")),
        stray_rules=Rules(60.0, hold, shared), paused=bool(hold),
    )  # fmt: skip
    step = lifecycle.decide(worker(status), seen, START + timedelta(seconds=61))
    may = not hold and not shared and stage == "ready" and not trouble
    assert (step.action == "remove_lab") is may
    assert (step.guard is not None and step.guard.unpaused) is may
    unseen = msgspec.structs.replace(seen, strays=None)
    assert lifecycle.decide(worker(status), unseen, START + timedelta(days=1)).action is None
