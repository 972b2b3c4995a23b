"""The tab of a worker's ports: which are allocated, what was seen of them, which are quarantined."""

from __future__ import annotations

from datetime import datetime

from labfleet.decisions import port_drift
from labfleet.resources.held_ports import FIRST, LAST, PortCounts
from labfleet.resources.meta import Resource
from labfleet.resources.session import PortChange, Session
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import ports
from labfleet.service.reads.ports import TakenPort
from labfleet.web import addresses, sheet, values
from labfleet.web.sheet import Facts, Head, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_STATES = {
    "used": ("allocated", "good", "●"), "held": ("quarantined", "warn", "▲"),
    "released": ("released", "calm", "○"),
}  # fmt: skip
_HEADS = (
    Head("Port", 2), Head("State"), Head("Name", 3), Head("Session", 3), Head("Owner"),
    Head("Observed", 3), Head("Since"), Head("Lab", 3), Head("Why", 0),
)  # fmt: skip


async def make(services: ServiceContext, caller: Caller, obj: Resource, asked: Asked) -> Sheet:
    """Return the tab of a worker."""
    found = await ports.read(services, caller, obj.name, obj.namespace)
    now, name = services.clock.now(), obj.key.argument
    command = f"labfleet ports worker/{name}"
    if found.use is None:
        unknown = Part(
            "Ports", empty="Unknown: the worker is over, or its server was not seen yet."
        )
        return Sheet("Ports", "", (unknown,), commands=(command,))
    rows = [_row(services, caller, obj, each, now) for each in found.ports]
    where = addresses.tab(values.address("workers", obj.name, obj.namespace), "ports")
    shown, more, further = sheet.paged(rows, asked.last("page"), where)
    heads, shown = sheet.told(_HEADS, shown)
    parts = (
        Part(
            "Counts",
            facts=(*_counts("tcp", found.use.tcp), *_counts("udp", found.use.udp)),
            note=f"Numbers {FIRST} to {LAST} are given out. A quarantined one is given to nobody "
            "until it was seen gone, or a person releases it.",
        ),
        Part(
            "Ports that are not free", heads=heads, rows=shown, more=more + found.more,
            further=further, empty="All are free.", commands=(command, f"{command} --release"),
            whole=True, caption="Ports of sessions, and ports that labs hold unasked, by number",
        ),
    )  # fmt: skip
    return Sheet("Ports", "", parts)


def _counts(transport: str, counts: PortCounts) -> Facts:
    return (
        (f"{transport}, allocated", Cell("text", str(counts.used))),
        (f"{transport}, quarantined", Cell("text", str(counts.held))),
        (f"{transport}, free", Cell("text", str(counts.free))),
    )


def _row(
    services: ServiceContext, caller: Caller, worker: Resource, port: TakenPort, now: datetime
) -> Row:
    word, tone, shape = _STATES[port.state]
    numbers = str(port.first) if port.first == port.last else f"{port.first} to {port.last}"
    session = services.cache.get(Session, port.session, worker.namespace) if port.session else None
    if session is not None and not access.sees(caller.principal, session):
        session = None
    href = values.address("sessions", port.session, worker.namespace)
    return (
        Cell("text", f"{port.transport}/{numbers}"),
        Cell("state", word, tone=tone, shape=shape),
        sheet.text(port.name),
        Cell("link", port.session, href=href) if port.session else Cell("absent", "not shown"),
        sheet.text(port.owner),
        _observed(port, session, now),
        Cell("unknown", "unknown") if port.since is None else values.instant(port.since, now),
        sheet.text(port.lab),
        sheet.text(port.why),
    )


def _observed(port: TakenPort, session: Session | None, now: datetime) -> Cell:
    """Return what a look saw of a port: of an allocated one how it was, of another one when."""
    if session is not None and port.name:
        changes = {each.name: each for each in session.status.port_changes}
        return seen(changes.get(port.name), session.status.observed_ports)
    if port.seen is not None:
        return values.instant(port.seen, now)
    return Cell("unknown", "unknown", why="not looked at")


def seen(change: PortChange | None, observed: dict[str, int] | None) -> Cell:
    """Return how a port of a session was seen last, by what changed and what was observed."""
    if observed is None:
        return Cell("text", "unknown: not observed yet")
    if change is None:
        return Cell("text", "as given")
    kind = port_drift.kind_of(change)
    told = {
        "added": f"added: {change.observed}",
        "removed": "removed: not there",
        "changed": f"changed: {change.observed}",
    }
    return Cell("state", told[kind], tone="warn", shape="▲")
