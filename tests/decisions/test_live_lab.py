"""The lab of a running session: what CML shows late is not taken for what somebody did."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from lifecycle_worlds import START, session

from labfleet.decisions.lifecycle.session.decide import SessionObservation, decide
from labfleet.resources import conditions
from labfleet.resources.lab_orders import LabMember, LabOff, LabOrder, LabOrderProgress
from labfleet.resources.session import LabStatus, Session, SessionPhase

LAB = LabStatus(
    title="t", marker="m", id="lab-1", state="STARTED", nodes=2, booted=2,
    members=(LabMember(id="1", label="r1"), LabMember(id="2", label="r2")),
)  # fmt: skip
SOON, LATER = START + timedelta(seconds=20), START + timedelta(seconds=120)


class Node(NamedTuple):
    """A node as a look shows it."""

    id: str
    label: str
    state: str = "BOOTED"


def runs(verb: str, **status: Any) -> Session:
    """A session whose last order was done at the start."""
    order = LabOrder(id="1", verb=verb, at=START, until=START + timedelta(hours=1))  # type: ignore[arg-type]
    known = LabOrderProgress(id="1", state="done", at=START)
    made = session(
        SessionPhase.RUNNING, lab=LAB, lab_order=known, end=START + timedelta(hours=5), **status
    )
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, lab_order=order))


def look(before: Session, at: Any, state: str, *nodes: Node) -> Session:
    """The session after a look that showed this."""
    lab = msgspec.structs.replace(before.status.lab, state=state)
    seen = SessionObservation(looked=True, lab=lab, nodes=nodes or None)
    return msgspec.structs.replace(before, status=decide(before, seen, at).status)


def changed(found: Session) -> str:
    fact = conditions.find(found.status.conditions, "LabChanged")
    return "" if fact is None or fact.status != "True" else fact.reason


@pytest.mark.parametrize(("verb", "shown"), [("stop", "STARTED"), ("start", "STOPPED")])
def test_a_state_that_lags_behind_an_order_is_no_deed_of_others(verb: str, shown: str) -> None:
    """CML's word for the lab is older than its nodes for a while (facts/cml-issues.md#f23)."""
    off = LabOff(whole=True, by="kim", at=START) if verb == "stop" else None
    early = look(runs(verb, lab_off=off), SOON, shown)
    assert (changed(early), early.status.lab_off) == ("", off)
    late = look(early, LATER, shown)
    assert late.status.lab_off is None
    assert changed(late) == ("StoppedOutside" if verb == "start" else "")


@pytest.mark.parametrize("node", ["", "2"])
def test_a_restart_that_cml_refuses_leaves_off_what_it_stopped(node: str) -> None:
    """It is told as ordered, and not as a deed of others; what came up meanwhile is forgotten."""
    before = runs("restart")
    order = msgspec.structs.replace(before.spec.lab_order, node=node, by="kim")
    known = LabOrderProgress(id="1", state="starting", at=START, node_id=node, asked=START)
    before = msgspec.structs.replace(
        before,
        spec=msgspec.structs.replace(before.spec, lab_order=order),
        status=msgspec.structs.replace(before.status, lab_order=known),
    )
    refused = SessionObservation(looked=True, lab=before.status.lab, refused="no licence")
    found = msgspec.structs.replace(before, status=decide(before, refused, SOON).status)
    off = found.status.lab_off
    assert found.status.lab_order.state == "refused"
    assert (off.whole, off.nodes, off.by) == (not node, ("r2",) if node else (), "kim")
    dark = (Node("1", "r1", "BOOTED" if node else "STOPPED"), Node("2", "r2", "STOPPED"))
    late = look(found, LATER, "STARTED" if node else "STOPPED", *dark)
    assert (changed(late), late.status.lab_off) == ("", off)
    up = look(late, LATER, "STARTED", Node("1", "r1"), Node("2", "r2"))
    assert (changed(up), up.status.lab_off) == ("", None)


def test_of_a_restart_that_is_given_up_only_what_is_off_is_told_as_off() -> None:
    """One node that does not come up in time does not make it a lab that is off."""
    before = runs("restart")
    known = LabOrderProgress(id="1", state="starting", at=START, asked=START)
    late = START + timedelta(hours=2)
    before = msgspec.structs.replace(
        before, status=msgspec.structs.replace(before.status, lab_order=known)
    )
    found = look(before, late, "STARTED", Node("1", "r1"), Node("2", "r2", "STOPPED"))
    assert found.status.lab_order.state == "refused"
    assert (found.status.lab_off.whole, found.status.lab_off.nodes) == (False, ("r2",))


def test_of_a_session_that_ends_nothing_is_off_as_ordered() -> None:
    """Its record would tell people for ever to start a lab that is gone."""
    before = runs("stop", lab_off=LabOff(whole=True, by="kim", at=START))
    ended = look(before, START + timedelta(hours=5), "STOPPED")
    assert ended.status.phase is SessionPhase.COLLECTING
    assert ended.status.lab_off is None


def test_nodes_are_compared_by_what_cml_calls_them() -> None:
    """One that is replaced under the same label is told as removed and added, not as the same."""
    found = look(runs("start"), LATER, "STARTED", Node("1", "r1"), Node("3", "r2"))
    assert changed(found) == "EditedOutside"
    assert found.status.lab.edits == ("node added: r2", "node removed: r2")
    back = look(found, LATER, "STARTED", Node("2", "r2"), Node("1", "r1"))
    assert (changed(back), back.status.lab.edits) == ("", ())


def test_of_a_lab_too_large_to_be_listed_the_number_of_nodes_is_told() -> None:
    """And a look that saw no nodes changes nothing of what is known."""
    large = msgspec.structs.replace(LAB, members=(), nodes=100)
    before = runs("start")
    before = msgspec.structs.replace(
        before, status=msgspec.structs.replace(before.status, lab=large)
    )
    nodes = [Node(str(number), f"r{number}") for number in range(99)]
    found = look(before, LATER, "STARTED", *nodes)
    assert found.status.lab.edits == ("it has 99 nodes, and had 100",)
    assert look(found, LATER, "STARTED").status.lab.edits == found.status.lab.edits
