"""Orders of labs: whatever CML shows and loses, nothing is wiped or started before it was seen off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as some

from labfleet.decisions import lab_orders
from labfleet.decisions.lab_orders import OFF
from labfleet.resources.lab_orders import LabOrder, LabOrderProgress

NOW = datetime(2026, 11, 30, tzinfo=UTC)
STEP = timedelta(seconds=5)
STATES = ["DEFINED_ON_CORE", "STOPPED", "STARTED", "BOOTED", "QUEUED", "DISCONNECTED"]
VERBS = ["start", "stop", "restart", "wipe"]


class Node(NamedTuple):
    """A node as CML shows it."""

    id: str
    label: str
    state: str


def ordered(verb: str, node: str = "") -> LabOrder:
    return LabOrder(id="o", verb=verb, node=node, at=NOW, until=NOW + 100 * STEP, by="kim")  # type: ignore[arg-type]


@given(
    some.sampled_from(VERBS),
    some.lists(some.none() | some.lists(some.sampled_from(STATES), max_size=3), max_size=120),
)
def test_whatever_is_seen_an_order_ends_in_time_and_never_acts_out_of_turn(
    verb: str, looks: list[list[str] | None]
) -> None:
    """Wipes follow looks that saw everything off, restarts stop first, and all of it has an end."""
    order, known, calls = ordered(verb), None, list[str]()
    at = NOW
    for look in (*looks, *[None] * 101):
        nodes = None if look is None else [Node(str(i), f"n{i}", s) for i, s in enumerate(look)]
        found = lab_orders.turn(order, known, nodes, at)
        known = found.progress
        if found.call is not None:
            assert look
            assert found.call != "wipe" or set(look) <= OFF
            assert found.call != "start" or verb in {"start", "restart"}
            assert found.call != "start" or set(look) & OFF
            calls.append(found.call)
        if known.state in lab_orders.OVER:
            break
        at += STEP
    assert known is not None
    assert not lab_orders.is_open(order, known)
    assert len(calls) <= 100


@given(some.sampled_from(VERBS), some.booleans())
def test_a_server_that_obeys_is_asked_once_for_each_thing(verb: str, one: bool) -> None:
    """Played against nodes that do as they are told: each order ends done, in its own state."""
    nodes = {"a": "BOOTED", "b": "STOPPED", "c": "DEFINED_ON_CORE"}
    order, known, calls = ordered(verb, "b" if one else ""), None, list[str]()
    for number in range(20):
        seen = [Node(each, each, state) for each, state in nodes.items()]
        found = lab_orders.turn(order, known, seen, NOW + number * STEP)
        known = found.progress
        if known.state == "done":
            break
        if found.call is not None:
            calls.append(found.call)
            becomes = {"start": "BOOTED", "stop": "STOPPED", "wipe": "DEFINED_ON_CORE"}[found.call]
            meant = [known.node_id] if one else list(nodes)
            for each in meant:
                if found.call != "stop" or nodes[each] not in OFF:
                    nodes[each] = becomes
    assert known is not None
    assert known.state == "done"
    assert len(calls) == len(set(calls))
    meant_states = {nodes["b"]} if one else set(nodes.values())
    wanted = {"stop": OFF, "wipe": {"DEFINED_ON_CORE"}}.get(verb, {"BOOTED"})
    assert meant_states <= set(wanted)


def test_a_node_is_meant_by_its_id_before_any_label() -> None:
    """Labels are people's own: one that looks like another node's id takes no order of that one."""
    nodes = [Node("x", "y", "BOOTED"), Node("y", "x", "BOOTED")]
    found = lab_orders.turn(ordered("stop", "x"), None, nodes, NOW)
    assert (found.progress.node_id, found.call) == ("x", "stop")
    gone = lab_orders.turn(ordered("stop", "z"), None, nodes, NOW).progress
    assert (gone.state, gone.message) == ("refused", "the lab does not have node 'z'")


def test_progress_of_an_older_order_is_not_taken_for_this_one() -> None:
    """The next order of the same lab begins anew, whatever became of the last."""
    old = LabOrderProgress(id="before", state="done", at=NOW)
    assert lab_orders.is_open(ordered("stop"), old)
    found = lab_orders.turn(ordered("stop"), old, None, NOW)
    assert (found.progress.id, found.progress.state) == ("o", "waiting")
