"""Labs by the nodes of a server: whatever is seen, each is told once, with what was known of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as some

from labfleet.decisions import hosted_labs
from labfleet.decisions.hosted_labs import LabName
from labfleet.resources.hosted_labs import LISTED

NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Node(NamedTuple):
    """A node of a server."""

    lab_id: str
    state: str


NODES = some.lists(
    some.builds(
        Node,
        some.sampled_from("abcd"),
        some.sampled_from(["DEFINED_ON_CORE", "STOPPED", "STARTED", "BOOTED", "QUEUED", "ODD"]),
    )
)


@given(NODES, NODES, some.sets(some.sampled_from("abcd")))
def test_each_lab_is_told_once_and_since_its_first_look(
    first: list[Node], then: list[Node], ours: set[str]
) -> None:
    """Its nodes add up, what runs is among them, and only what was gone begins anew."""
    names = {"a": LabName("mine", "kim")}
    before = hosted_labs.noted(None, hosted_labs.seen(first, names, ours), NOW)
    later = NOW + timedelta(minutes=1)
    found = hosted_labs.noted(before, hosted_labs.seen(then, {}, ours), later)
    assert [each.id for each in found] == sorted({each.lab_id for each in then})
    assert sum(each.nodes for each in found) == len(then)
    old = {each.id: each for each in before}
    for lab in found:
        assert lab.running <= lab.nodes
        assert (lab.state == "STARTED") >= (lab.running > 0)
        assert lab.since == (NOW if lab.id in old else later)
        if lab.id == "a":
            assert lab.title == ("mine" if "a" in old and "a" not in ours else "")


def test_where_not_all_can_be_listed_those_of_nobody_come_first() -> None:
    """Sessions tell of their own labs; of nobody's the worker's record alone tells."""
    nodes = [Node(f"lab-{number:03}", "BOOTED") for number in range(LISTED + 5)]
    ours = [each.lab_id for each in nodes[:50]]
    found = hosted_labs.noted(None, hosted_labs.seen(nodes, {}, ours), NOW)
    assert len(found) == LISTED
    assert {each.lab_id for each in nodes[50:]} <= {each.id for each in found}
