"""Where a worker's CML and the labs on it are reached: the one rule for probes, calls and people.

Pure. Nothing of it is stored: the address is the worker's fact and the port numbers are the
session's, so that neither can be out of date elsewhere.
"""

from __future__ import annotations

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


def access(
    session: Session, worker: Worker | None, definition: Definition | None
) -> SessionAccess | None:
    """Return where a session's lab is reached; None before it is ready and after it has gone.

    A lab on a machine that does not run is still there and has no address, for the next start
    may bring another one: then only `message` is set.
    """
    status = session.status
    lab = status.lab
    if worker is None or not is_there(session):
        return None
    shown, machine = worker.status.machine, worker.spec.machine
    if shown.state in _OVER or machine is None:
        return None
    # A server without a machine of ours has no state, and its address is a part of its spec.
    if shown.id is not None and shown.state != "running":
        told = f"{worker.name} is {shown.state or 'not seen'}: its address is told when it runs"
        return SessionAccess(message=told)
    host, base = host_of(worker), page(cml_url(machine, shown))
    if not host:
        return SessionAccess(message=f"{worker.name} has no address")
    named = None if definition is None else definition.spec.lab_user
    if named is not None and named.name == machine.cml.admin_username:
        named = None  # the account that Labfleet itself uses is nobody's of a lab
    return SessionAccess(
        host=host,
        cml_url=base,
        lab_url=None if base is None or lab is None else f"{base}/lab/{lab.id}",
        lab_user=named,
        ports=tuple(_port(host, each) for each in status.ports),
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


def _port(host: str, port: PortAllocation) -> PortAccess:
    address = f"{_bracketed(host)}:{port.number}"
    url = f"{_scheme(port)}://{address}"
    return PortAccess(name=port.name, node=port.node, kind=port.kind, url=url)


def _scheme(port: PortAllocation) -> str:
    if port.kind == "serial":
        return "telnet"
    if port.kind == "vnc":
        return "vnc"
    return port.transport if port.transport == "udp" else _SCHEMES.get(port.inner, "tcp")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
