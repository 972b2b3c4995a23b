"""Where a worker's CML and the labs on it are reached: the one rule for probes, calls and people.

Pure. Nothing of it is stored: the address is the worker's fact and the port numbers are the
session's, so that neither can be out of date elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from labfleet.resources.definition import Definition
from labfleet.resources.machine import Machine, MachineStatus
from labfleet.resources.session import (
    PortAccess,
    PortAllocation,
    Session,
    SessionAccess,
    SessionPhase,
)
from labfleet.resources.worker import Worker

S = SessionPhase
UP = frozenset({S.READY, S.RUNNING, S.COLLECTING, S.STOPPING})
"""Phases in which a lab that was ready once is on its server."""
_OVER = frozenset({"ending", "gone"})
# The clients that people open what usually listens there with; all else is only an address.
_SCHEMES = {
    22: "ssh", 23: "telnet", 80: "http", 443: "https", 3389: "rdp", 5900: "vnc", 8080: "http",
    8443: "https",
}  # fmt: skip


def cml_url(machine: Machine, shown: MachineStatus) -> str | None:
    """Return the base of a CML server's URLs, None while its machine has no address."""
    host = shown.public_address or shown.private_address
    if machine.cml.api_base_url is not None:
        return machine.cml.api_base_url
    return None if host is None else f"https://{_bracketed(host)}:{machine.cml.port}"


def host_of(worker: Worker) -> str:
    """Return the address of a worker's ports: its machine's or its server's; "" without one."""
    shown, machine = worker.status.machine, worker.spec.machine
    url = None if machine is None else machine.cml.api_base_url
    return shown.public_address or shown.private_address or _parts(url or "")[1]


def is_there(session: Session) -> bool:
    """Tell whether a session has a lab that was ready once and has not gone; the cheap question."""
    status = session.status
    lab = status.lab
    # In this order for lists: most sessions of a fleet have no lab any more, or not yet.
    if lab is None or lab.id is None or lab.seen_gone:
        return False
    return status.phase in UP and status.ready_at is not None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker's labs are reached: what is the same for each of them.

    host: Address of the ports; empty when there is none now.
    cml_url: CML's page on that server; None when there is none.
    admin: Name of the account that Labfleet itself uses there.
    message: Why there is no address; empty when there is one.
    """

    host: str = ""
    cml_url: str | None = None
    admin: str = ""
    message: str = ""


def place(worker: Worker) -> Place | None:
    """Return where the labs on a worker are reached; None when its machine is ending or gone.

    A lab on a machine that does not run is still there and has no address, for the next start
    may bring another one: then only `message` is set.
    """
    shown, machine = worker.status.machine, worker.spec.machine
    if shown.state in _OVER or machine is None:
        return None
    # A server without a machine of ours has no state, and its address is a part of its spec.
    if shown.id is not None and shown.state != "running":
        told = f"{worker.name} is {shown.state or 'not seen'}: its address is told when it runs"
        return Place(message=told)
    host = host_of(worker)
    if not host:
        return Place(message=f"{worker.name} has no address")
    return Place(host, page(cml_url(machine, shown)), machine.cml.admin_username)


def access(
    session: Session, worker: Worker | None, definition: Definition | None
) -> SessionAccess | None:
    """Return where a session's lab is reached; None before it is ready and after it has gone."""
    found = None if worker is None or not is_there(session) else place(worker)
    return None if found is None else access_at(found, session, definition)


def access_at(found: Place, session: Session, definition: Definition | None) -> SessionAccess:
    """Return where the lab of a session, which is there, is reached on its worker's place."""
    if found.message:
        return SessionAccess(message=found.message)
    status, base = session.status, found.cml_url
    lab = status.lab
    named = None if definition is None else definition.spec.lab_user
    if named is not None and named.name == found.admin:
        named = None  # the account that Labfleet itself uses is nobody's of a lab
    address = _bracketed(found.host)
    return SessionAccess(
        host=found.host,
        cml_url=base,
        lab_url=None if base is None or lab is None else f"{base}/lab/{lab.id}",
        lab_user=named,
        ports=tuple([_port(address, each) for each in status.ports]),
    )


def page(url: str | None) -> str | None:
    """Return a server's URL as a browser takes it: no path, no user, no port that is the usual."""
    scheme, host, number = _parts(url or "")
    if not host:
        return None
    usual = {"https": 443, "http": 80}.get(scheme)
    port = "" if number in {None, usual} else f":{number}"
    return f"{scheme}://{_bracketed(host)}{port}"


def _parts(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port; all empty of what is no URL, as an old record may have it."""
    try:
        parts = urlsplit(url)
        number = parts.port
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", number


def _port(address: str, port: PortAllocation) -> PortAccess:
    url = f"{_scheme(port)}://{address}:{port.number}"
    return PortAccess(name=port.name, node=port.node, kind=port.kind, url=url)


def _scheme(port: PortAllocation) -> str:
    if port.kind == "serial":
        return "telnet"
    if port.kind == "vnc":
        return "vnc"
    return port.transport if port.transport == "udp" else _SCHEMES.get(port.inner, "tcp")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
