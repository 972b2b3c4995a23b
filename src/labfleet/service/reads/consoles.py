"""Reading how each node of a session's lab is reached: its ports, and CML's own console server.

Of what the session and its worker say already; nothing is asked of the server. Who may know how much
is the rule of `status.access`: what the caller may not see there is not in here either.
"""

from __future__ import annotations

from labfleet.decisions import reach
from labfleet.resources.definition import LabUser
from labfleet.resources.meta import Record
from labfleet.resources.session import PortAccess, Session, SessionAccess
from labfleet.service.core import access, lookup, views
from labfleet.service.core.service_context import Caller, ServiceContext

CONSOLE_LINE = 0


class NodeConsole(Record, frozen=True, kw_only=True):
    """One node of a lab, and how it is reached.

    node: Label of the node.
    node_id: CML's name for it; empty when the lab's nodes were not listed.
    ports: How each of its ports is reached: serial consoles, screens and ports of its own.
    cml_console: What to open at CML's console server (its SSH port) for the node's first console; null
    for who does not see CML.
    off: Whether it is off because somebody ordered that: nothing of it answers.
    """

    node: str
    node_id: str = ""
    ports: tuple[PortAccess, ...] = ()
    cml_console: str | None = None
    off: bool = False


class ConsolesReading(Record, frozen=True, kw_only=True):
    """How the nodes of a session's lab are reached, as far as the caller may know.

    session: Name of the session.
    host: Address of the ports; null when there is none now, or it is not shown to the caller.
    cml_url: CML's page on that server; null for who does not see CML.
    lab_url: The lab on that page.
    lab_user: Account for CML that the definition names; no password.
    nodes: Its nodes, by label; of a lab with more than 64 those that have a port.
    message: Why there is no address; empty when there is one.
    """

    session: str
    host: str | None = None
    cml_url: str | None = None
    lab_url: str | None = None
    lab_user: LabUser | None = None
    nodes: tuple[NodeConsole, ...] = ()
    message: str = ""


async def read(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> ConsolesReading:
    """Return how a session's nodes are reached; Gone when the caller sees no such session."""
    access.demand(caller.principal, "read", "Session")
    await services.fresh()
    found = await lookup.found(services, caller, Session, name, namespace)
    session = views.of(services, caller.principal, found)
    shown = session.status.access
    if shown is None:
        told = "its lab is not up" if not reach.is_there(session) else "its worker is gone"
        return ConsolesReading(session=session.name, message=told)
    return ConsolesReading(
        session=session.name,
        host=shown.host,
        cml_url=shown.cml_url,
        lab_url=shown.lab_url,
        lab_user=shown.lab_user,
        nodes=() if shown.host is None else _nodes(session, shown),
        message=shown.message,
    )


def _nodes(session: Session, shown: SessionAccess) -> tuple[NodeConsole, ...]:
    lab, off = session.status.lab, session.status.lab_off
    if lab is None:
        return ()
    ids = {each.label: each.id for each in lab.members}
    labels = sorted({*ids, *(port.node for port in shown.ports)})
    return tuple(
        NodeConsole(
            node=label,
            node_id=ids.get(label, ""),
            ports=tuple(port for port in shown.ports if port.node == label),
            cml_console=_path(lab.title, label) if shown.cml_url is not None else None,
            off=off is not None and (off.whole or label in off.nodes),
        )
        for label in labels
    )


def _path(title: str, label: str) -> str:
    return f"/{title}/{label}/{CONSOLE_LINE}"
