"""Who holds a worker's ports: sessions, labs that name them unasked, and since when.

The numbered case is a row of facts/fleet-bugs.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
from alert_line import Line, measured
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, session

from labfleet.decisions import port_holders
from labfleet.decisions.port_holders import SeenPort
from labfleet.resources.held_ports import FIRST, LAST, HeldPorts, PortCounts, PortRelease, PortUse
from labfleet.resources.session import LabStatus, PortAllocation, Session, SessionPhase

S = SessionPhase
LATER = START + timedelta(hours=1)


@dataclass
class Node:
    """A node as a server lists it."""

    lab_id: str
    tags: tuple[str, ...]
    label: str = "r1"


def holder(*numbers: int, lab: str | None = "lab-1", phase: SessionPhase = S.RUNNING) -> Session:
    """A session with these TCP ports, whose lab is known or not."""
    ports = tuple(
        PortAllocation(name=f"p{each}", node="r1", kind="serial", number=each) for each in numbers
    )
    known = None if lab is None else LabStatus(title="t", marker="u-1", id=lab)
    return session(phase, ports=ports, lab=known)


def test_a_port_belongs_to_the_lab_it_was_given_to():
    """The lab's own numbers are no news; each further one, and each in another lab, is held (T41)."""
    mine = holder(2000, 2001)
    own = Node("lab-1", ("serial:2000", "serial:5041"))
    theirs = Node("lab-2", ("serial:2001", "pat:udp:2000:53", "core"))
    assert port_holders.unasked((own, theirs), (mine,)) == (
        SeenPort("tcp", 2001, "lab-2"),
        SeenPort("tcp", 5041, "lab-1"),
        SeenPort("udp", 2000, "lab-2"),
    )


def test_a_lab_that_is_being_imported_may_be_any():
    """While a session's lab has no known id its numbers raise no alarm, wherever they are seen."""
    coming = holder(2000, lab=None, phase=S.INSTANTIATING)
    assert port_holders.unasked((Node("lab-9", ("serial:2000",)),), (coming,)) == ()
    known = holder(2000, lab="lab-1")
    assert port_holders.unasked((Node("lab-9", ("serial:2000",)),), (known,)) != ()


def test_a_look_keeps_since_when_and_forgets_what_is_gone():
    """Numbers that follow each other are one stretch; what is seen again keeps its first sight."""
    seen = [SeenPort("tcp", number, "lab-2") for number in (5040, 5041, 5043)]
    first = port_holders.noted((), seen, START)
    assert [(each.first, each.last, each.since) for each in first] == [
        (5040, 5041, START), (5043, 5043, START),
    ]  # fmt: skip
    grown = port_holders.noted(first, [*seen, SeenPort("tcp", 5042, "lab-2")], LATER)
    assert [(each.first, each.last, each.since) for each in grown] == [(5040, 5043, START)]
    other = port_holders.noted(first, [SeenPort("tcp", 5041, "lab-3")], LATER)
    assert [(each.lab, each.since) for each in other] == [("lab-3", LATER)]
    assert port_holders.noted(first, (), LATER) == ()


ports = st.lists(
    st.builds(
        SeenPort, st.sampled_from(["tcp", "udp"]), st.integers(1, 65535),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=400,
)  # fmt: skip


@given(ports)
def test_no_named_port_is_ever_left_out(seen):
    """However many numbers labs name, the bounded record holds each of them."""
    found = port_holders.noted((), seen, START)
    assert len(found) <= port_holders.KEPT
    held = port_holders.numbers(found, 1, 65535)
    assert {(each.transport, each.number) for each in seen} <= held


def test_who_names_many_ports_takes_few_besides():
    """Of more stretches than are listed the nearest count as one; else a lab of 201 takes a server's."""
    seen = [SeenPort("tcp", number, "a") for number in range(FIRST, FIRST + 1200, 2)]
    far = [SeenPort("tcp", LAST, "b"), SeenPort("udp", FIRST, "b")]
    found = port_holders.noted((), [*seen, *far], START)
    assert len(found) == port_holders.KEPT
    held = port_holders.numbers(found)
    assert {(each.transport, each.number) for each in (*seen, *far)} <= held
    assert len(held) < 2 * len(seen)
    assert ("tcp", LAST - 1) not in held
    assert ("udp", FIRST + 1) not in held


def test_used_held_and_free_add_up():
    """A port counts once; what ends is held until its lab was seen gone, out of range not at all."""
    sessions = [holder(2000, 2001), holder(2002, lab="lab-2", phase=S.STOPPING)]
    stranger = HeldPorts(transport="tcp", first=1999, last=2003, lab="x", since=START)
    found = port_holders.use(sessions, [stranger])
    size = LAST - FIRST + 1
    assert found.tcp == PortCounts(used=2, held=2, free=size - 4)
    assert found.udp == PortCounts(free=size)


def test_only_what_is_over_says_why_it_is_held():
    """A session that runs uses its ports; one that is being removed holds them, with its message."""
    assert port_holders.why(holder(2000)) == ""
    over = holder(2000, phase=S.STOPPING)
    told = msgspec.structs.replace(over.status, message="stopping the lab")
    assert "stopping the lab" in port_holders.why(msgspec.structs.replace(over, status=told))


def test_few_free_ports_raise_an_alert_that_eases_later():
    """90 percent taken raises PortsLow, between 85 and 90 it stays, below it is taken back."""

    def left(tcp: int, udp: int = 6000) -> PortUse:
        return PortUse(tcp=PortCounts(free=tcp), udp=PortCounts(free=udp))

    line = Line()
    line.look(measured(), port_use=left(700))
    assert line.fact("PortsLow") == ("", "")
    line.look(measured(), port_use=left(6000, 600))
    assert line.fact("PortsLow") == ("True", "FewFree")
    line.look(measured(), port_use=left(700))
    assert line.fact("PortsLow") == ("True", "FewFree")
    line.look(measured(), port_use=left(1000))
    assert line.fact("PortsLow") == ("False", "EnoughFree")


WORD = PortRelease(by="ada", at=LATER, reason="the lab is switched off")
stretches = st.tuples(st.integers(2000, 2040), st.integers(0, 8), st.sampled_from(["", "a", "b"]))


@given(
    st.lists(stretches, max_size=6),
    st.sets(st.integers(2000, 2040)),
    st.sets(st.integers(2000, 2040)),
)
def test_a_release_lets_out_its_numbers_alone_and_ends_with_them(words, named, later):
    """Through any looks: what was released and never unnamed since is given out, all else is held."""
    seen = [SeenPort("tcp", number, lab) for number in named for lab in ("a", "b")]
    held = port_holders.noted((), seen, START)
    free: set[tuple[int, str]] = set()
    for first, more, lab in words:
        held = port_holders.released(
            held, WORD, transport="tcp", first=first, last=first + more, lab=lab
        )
        labs = ("a", "b") if not lab else (lab,)
        free |= {(n, each) for n in range(first, first + more + 1) for each in labs if n in named}
    for look in (named, later, named):
        seen = [SeenPort("tcp", number, lab) for number in look for lab in ("a", "b")]
        held = port_holders.noted(held, seen, LATER)
        free = {(number, lab) for number, lab in free if number in look}
        wanted = {("tcp", n) for n in look if {(n, "a"), (n, "b")} - free}
        assert port_holders.numbers(held) == wanted
        assert set(port_holders.named(held, 500)) == {f"{kind}/{n}" for kind, n in wanted}


def test_what_is_not_listed_cannot_be_released():
    """What stands for several stretches is no lab's: nobody knows what it would let out."""
    seen = [SeenPort("tcp", number, "a") for number in range(FIRST, FIRST + 1200, 2)]
    held = port_holders.noted((), seen, START)
    whole = next(each for each in held if not each.lab)
    stretch = {"first": whole.first, "last": whole.last}
    assert port_holders.released(held, WORD, transport="tcp", **stretch) == held


def test_a_look_at_too_many_ports_writes_nothing_new():
    """What is held as a whole keeps since when, so that a server that is as it was tells nothing."""
    gaps = [FIRST + number * number % 977 * 3 for number in range(600)]
    seen = [SeenPort("tcp", number, lab) for number in gaps for lab in ("a", "b")]
    first = port_holders.noted((), seen, START)
    assert len(first) == port_holders.KEPT
    assert port_holders.noted(first, seen, LATER) == first


def test_the_owner_of_a_lab_stays_known():
    """A look that could not ask for it keeps what an earlier one was told."""
    first = port_holders.noted((), [SeenPort("tcp", 5041, "a", "eve")], START)
    again = port_holders.noted(first, [SeenPort("tcp", 5041, "a")], LATER)
    assert [each.owner for each in (*first, *again)] == ["eve", "eve"]


def test_drifted_labs_raise_an_alert_that_names_them():
    """The worker's alert follows its sessions' facts, and a look that did not ask leaves it."""
    line = Line()
    line.look(measured(), drifted=())
    assert line.fact("PortDrift") == ("", "")
    line.look(measured(), drifted=("a", "b", "c", "d"))
    assert line.fact("PortDrift") == ("True", "PortsDiffer")
    line.look(measured())
    assert line.fact("PortDrift") == ("True", "PortsDiffer")
    line.look(measured(), drifted=())
    assert line.fact("PortDrift") == ("False", "PortsAsGiven")
