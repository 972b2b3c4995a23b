"""Where a lab is reached: derived of the session and its worker, for as long as there is a lab."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, definition, machine, session, worker
from session_records import sessions

from labfleet.decisions import reach
from labfleet.resources.definition import LabUser
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import LabStatus, PortAllocation, Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerStatus

S = SessionPhase
RUNNING = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
LAB = LabStatus(title="t", marker="u-1", id="lab-1", state="STARTED")
PORTS = (
    PortAllocation(name="r1_serial", node="r1", kind="serial", number=2001),
    PortAllocation(name="pc_vnc", node="pc", kind="vnc", number=2002),
    PortAllocation(name="pc_web", node="pc", kind="pat", inner=443, number=2003),
    PortAllocation(name="pc_ssh", node="pc", kind="pat", inner=22, number=2004),
    PortAllocation(name="pc_own", node="pc", kind="pat", inner=9000, number=2005),
    PortAllocation(name="r1_snmp", node="r1", kind="pat", transport="udp", inner=443, number=2006),
)


def on(shown: MachineStatus, **cml: Any) -> Worker:
    """A worker on this machine, with these settings of its CML."""
    made = machine()
    made = msgspec.structs.replace(made, cml=msgspec.structs.replace(made.cml, **cml))
    return worker(WorkerStatus(machine=shown), machine=made)


def up(phase: SessionPhase = S.RUNNING, **changes: Any) -> Session:
    """A session whose lab was ready."""
    given = {"lab": LAB, "ports": PORTS, "worker": "w1", "ready_at": START, **changes}
    return session(phase, **given)


def test_every_port_has_the_url_of_its_client() -> None:
    """Consoles by kind, ports of a node by what listens there; the lab's page by its id."""
    found = reach.access(up(), on(RUNNING), None)
    assert found is not None
    assert found.host == "198.51.100.7"
    assert found.cml_url == "https://198.51.100.7"
    assert found.lab_url == "https://198.51.100.7/lab/lab-1"
    assert [each.url.replace("198.51.100.7", "H") for each in found.ports] == [
        "telnet://H:2001",
        "vnc://H:2002",
        "https://H:2003",
        "ssh://H:2004",
        "tcp://H:2005",
        "udp://H:2006",
    ]
    assert [(each.name, each.node, each.kind) for each in found.ports] == [
        (each.name, each.node, each.kind) for each in PORTS
    ]


@pytest.mark.parametrize(
    ("base", "page"),
    [
        (None, "https://198.51.100.7:8443"),
        ("https://cml.example.com/", "https://cml.example.com"),
        ("https://cml.example.com:443/api/v0", "https://cml.example.com"),
        ("http://[2001:db8::1]:8080", "http://[2001:db8::1]:8080"),
        ("https://root:hunter2@cml.example.com", "https://cml.example.com"),
        ("https://[cml", None),
        ("https://cml.example.com:port", None),
    ],
)
def test_the_servers_page_is_a_browsers_address(base: str | None, page: str | None) -> None:
    """The template's address wins, without its path, and never with what signs in."""
    found = reach.access(up(), on(RUNNING, api_base_url=base, port=8443), None)
    assert found is not None
    assert found.cml_url == page
    assert found.lab_url == (None if page is None else f"{page}/lab/lab-1")
    assert "hunter2" not in str(found)


def test_an_address_of_version_six_is_bracketed() -> None:
    """A port cannot be told from the rest of a bare IPv6 address."""
    shown = msgspec.structs.replace(RUNNING, public_address="2001:db8::7")
    found = reach.access(up(), on(shown), None)
    assert found is not None
    assert found.host == "2001:db8::7"
    assert found.ports[0].url == "telnet://[2001:db8::7]:2001"


def test_a_server_without_a_machine_is_reached_at_its_url() -> None:
    """An external server has no instance, no state, and its address in its spec."""
    found = reach.access(up(), on(MachineStatus(), api_base_url="https://cml.example.com"), None)
    assert found is not None
    assert found.host == "cml.example.com"
    assert found.ports[0].url == "telnet://cml.example.com:2001"


@given(sessions())
def test_nothing_is_reached_before_a_lab_is_ready_and_after_it_has_gone(made: Session) -> None:
    """Whatever the record is: no lab, not ready yet, or seen gone means that there is no access."""
    found = reach.access(made, on(RUNNING), None)
    lab = made.status.lab
    there = lab is not None and lab.id is not None and not lab.seen_gone
    assert (found is not None) == (
        there and made.status.ready_at is not None and made.status.phase in reach.UP
    )


STATES = st.sampled_from([None, "booting", "running", "stopping", "stopped", "ending", "gone"])


@given(STATES, STATES.map(lambda state: None if state is None else f"192.0.2.{len(state)}"))
def test_an_address_is_only_told_of_a_machine_that_runs(state: Any, address: str | None) -> None:
    """A stopped machine gets another address at its start, so its last one is told to nobody."""
    shown = MachineStatus(id="i-1", state=state, public_address=address, private_address=None)
    found = reach.access(up(), on(shown), None)
    if state in {"ending", "gone"}:
        assert found is None
        return
    assert found is not None
    assert found.host == (address if state == "running" else None)
    if found.host is None:
        assert found.message
        assert (found.cml_url, found.lab_url, found.ports) == (None, None, ())


def test_after_a_stop_only_the_new_address_is_told() -> None:
    """The same session, before, while and after its worker was stopped."""
    private = msgspec.structs.replace(RUNNING, private_address="10.0.0.7")
    halted = msgspec.structs.replace(private, state="stopped", public_address=None)
    again = msgspec.structs.replace(private, public_address="203.0.113.9")
    seen = [reach.access(up(), on(each), None) for each in (private, halted, again)]
    assert [each and each.host for each in seen] == ["198.51.100.7", None, "203.0.113.9"]
    assert "198.51.100.7" not in str(seen[1:])
    assert "10.0.0.7" not in str(seen)


def test_a_definition_may_name_a_labs_user_and_never_the_servers_administrator() -> None:
    """The account's name and where to ask; the account that Labfleet uses is left out."""
    named = definition(replaces=True)
    for name, shown in (("student", True), ("admin", False)):
        user = LabUser(name=name, ask="the course's page")
        spec = msgspec.structs.replace(named.spec, lab_user=user)
        found = reach.access(up(), on(RUNNING), msgspec.structs.replace(named, spec=spec))
        assert found is not None
        assert found.lab_user == (user if shown else None)
    without = reach.access(up(), on(RUNNING), named)
    assert without is not None
    assert without.lab_user is None
