"""Drift of ports: by name, whatever the order; what is noted of it, and when it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, session

from labfleet.decisions import port_drift, port_numbers
from labfleet.decisions.lifecycle.session import decide as sessions
from labfleet.resources import conditions
from labfleet.resources.session import LabStatus, PortAllocation, PortChange, SessionPhase

LATER = START + timedelta(minutes=5)


@dataclass
class Node:
    """A node of a lab as a server lists it."""

    label: str
    tags: tuple[str, ...]


def port(name: str, number: int, node: str = "PC") -> PortAllocation:
    """A serial port that a session was given."""
    return PortAllocation(name=name, node=node, kind="serial", number=number)


def running(*ports: PortAllocation):
    """A session that runs with these ports."""
    lab = LabStatus(title="t", marker="u-1", id="lab-1", state="STARTED")
    return session(SessionPhase.RUNNING, ports=ports, lab=lab, end=START + timedelta(hours=1))


def fact(status) -> conditions.Condition | None:
    """The fact about drift."""
    return conditions.find(status.conditions, "PortDrift")


def test_a_number_beside_ours_is_seen_whatever_the_order_of_tags():
    """Ours keeps its name and the other is added: neither blind nor a wrong alarm by reordering."""
    mine = (port("PC_serial", 2000),)
    for tags in (("serial:2000", "serial:5041"), ("serial:5041", "serial:2000")):
        seen = port_numbers.observed((Node("PC", tags),), mine)
        assert seen == {"PC_serial": 2000, "PC_serial@5041": 5041}
    assert port_numbers.observed((Node("PC", ("serial:5041",)),), mine) == {"PC_serial": 5041}


def test_a_port_keeps_the_name_under_which_it_was_given():
    """A template that people wrote may name it otherwise, and a node beside it changes no name."""
    mine = (port("console", 2000, node="PC 1"),)
    nodes = [Node("PC 1", ("serial:2000",)), Node("PC_1", ())]
    assert port_numbers.observed(nodes, mine) == {"console": 2000}


def test_what_is_named_unasked_is_bounded_and_what_was_given_is_always_named():
    """Whoever edits tags may write any number of them."""
    mine = tuple(port(f"p{n}", 2000 + n, node=f"r{n}") for n in range(5))
    nodes = [Node(f"r{n}", (f"serial:{2000 + n}",)) for n in range(5)]
    nodes += [Node("a", tuple(f"pat:{n}:{n}" for n in range(1, 3000)))]
    seen = port_numbers.observed(nodes, mine)
    assert len(seen) == 5 + port_numbers.UNASKED_KEPT
    assert {each.name: each.number for each in mine}.items() <= seen.items()
    status = port_drift.noted(running(*mine).status, seen, START)
    assert len(status.port_changes) == port_numbers.UNASKED_KEPT
    assert fact(status).message.endswith("and 197 more")
    many = tuple(port(f"p{n}", 2000 + n, node=f"r{n}") for n in range(900))
    assert len(port_drift.noted(running(*many).status, {}, START).port_changes) == port_drift.KEPT


tag_lists = st.lists(st.integers(2000, 2005).map("serial:{}".format), max_size=4)


@given(st.lists(tag_lists, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_order_says_nothing(tags, random):
    """Any order of nodes and of each node's tags is the same look."""
    mine = tuple(port(f"n{n}_serial", 2000 + n, node=f"n{n}") for n in range(3))
    nodes = [Node(f"n{n}", tuple(each)) for n, each in enumerate(tags)]
    mixed = [Node(each.label, tuple(random.sample(each.tags, len(each.tags)))) for each in nodes]
    random.shuffle(mixed)
    assert port_numbers.observed(mixed, mine) == port_numbers.observed(nodes, mine)


def test_what_differs_is_noted_once_and_taken_back():
    """The fact names what was added, removed and changed; a look that is the same writes nothing."""
    old = running(port("a", 2000), port("b", 2001)).status
    assert port_drift.noted(old, {"a": 2000, "b": 2001}, START).conditions == old.conditions
    drifted = port_drift.noted(old, {"a": 2099, "c": 5041}, START)
    found = fact(drifted)
    assert (found.status, found.reason) == ("True", "PortsDiffer")
    assert found.message == "added c 5041; removed b 2001; changed a 2000 to 2099"
    assert drifted.port_drift_detected
    assert port_drift.noted(drifted, {"a": 2099, "c": 5041}, LATER) is drifted
    mended = port_drift.noted(drifted, {"a": 2000, "b": 2001}, LATER)
    assert (fact(mended).status, fact(mended).reason) == ("False", "PortsAsGiven")
    assert (mended.port_drift_detected, mended.port_changes) == (False, ())


def test_what_differs_is_told_in_upstreams_form():
    """Numbers of what was added and removed, both numbers of what changed."""
    changes = (PortChange(name="a", allocated=1, observed=2), PortChange(name="b", observed=3),
               PortChange(name="c", allocated=4))  # fmt: skip
    assert port_drift.parts(changes) == {
        "added": {"b": 3}, "removed": {"c": 4}, "changed": {"a": {"allocated": 1, "observed": 2}},
    }  # fmt: skip


def test_drift_ends_no_session_and_a_look_without_nodes_clears_nothing():
    """It goes on running; None is a look that saw nothing, and what was known stays."""
    now = START + timedelta(minutes=1)
    lab = LabStatus(title="t", marker="u-1", id="lab-1", state="STARTED")
    seen = sessions.SessionObservation(looked=True, lab=lab, ports_seen={"a": 2000, "b": 5041})
    step = sessions.decide(running(port("a", 2000)), seen, now)
    assert step.status.phase is SessionPhase.RUNNING
    assert fact(step.status).status == "True"
    before = running(port("a", 2000))
    kept = msgspec.structs.replace(before, status=step.status)
    blind = sessions.SessionObservation(looked=True, lab=lab)
    after = sessions.decide(kept, blind, now + timedelta(minutes=1)).status
    assert (after.port_changes, fact(after)) == (step.status.port_changes, fact(step.status))
    moved = port_drift.forgotten(after)
    assert (moved.observed_ports, moved.port_drift_detected, moved.port_changes) == (
        None,
        False,
        (),
    )


def test_looks_that_people_ask_for_have_a_pause_between_them():
    """The first at once, the next after ten seconds; asking in a loop costs a server no more."""
    lab = LabStatus(title="t", marker="u-1", id="lab-1", state="STARTED")
    seen = sessions.SessionObservation(looked=True, lab=lab)
    for handled, at, due in ((None, 1, True), (0, 9, False), (0, 10, True)):
        before = running(port("a", 2000))
        asked = START + timedelta(seconds=at)
        spec = msgspec.structs.replace(before.spec, observe_requested=asked)
        last = None if handled is None else START + timedelta(seconds=handled)
        status = msgspec.structs.replace(before.status, observe_handled=last)
        wanted = msgspec.structs.replace(before, spec=spec, status=status)
        step = sessions.decide(wanted, seen, asked)
        assert (step.action == "observe") == due
        assert due or step.again == 1
