"""Reading a worker's ports: which are used, which something may still hold, why, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

from labfleet.decisions import port_holders
from labfleet.resources.held_ports import HeldPorts, PortUse
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, worker_allocation

SHOWN = 1000
"""How many ports are listed; all are counted."""


class TakenPort(Record, frozen=True, kw_only=True):
    """Ports that are not free: one of a session, or a stretch that a lab names unasked.

    state: Used by a session that is coming up or up, held by what may still be there, or released: a
    lab names them, and a person let them be given out all the same.
    transport: Protocol of the ports.
    first: The number; of a stretch the lowest.
    last: The same number; of a stretch the highest.
    since: Since when it is so; null when that is not known.
    seen: When a look at the server's labs last saw it held unasked; null when it was not looked at.
    why: Why it is held or released; empty while it is used.
    name: Name of the port in its definition; empty of a stretch.
    session: Name of the session; empty when there is none, or the caller may not see it.
    owner: Whose session that is; of a lab that is no session's CML's name for its user.
    lab: CML's name for the lab; empty when it is not known.
    """

    state: Literal["used", "held", "released"]
    transport: Literal["tcp", "udp"]
    first: int
    last: int
    since: datetime | None = None
    seen: datetime | None = None
    why: str = ""
    name: str = ""
    session: str = ""
    owner: str = ""
    lab: str = ""


class PortsReading(Record, frozen=True, kw_only=True):
    """The ports of a worker.

    worker: Name of the worker.
    use: How many are used, held and free; null when the worker is over, or its
    server's labs were not seen yet.
    ports: Those that are not free, by transport and number.
    more: How many more there are than are listed.
    """

    worker: str
    use: PortUse | None = None
    ports: tuple[TakenPort, ...] = ()
    more: int = 0


async def read(services: ServiceContext, caller: Caller, name: str, namespace: str) -> PortsReading:
    """Return the ports of a worker; Gone when there is no such worker.

    Whose they are is told of sessions that the caller may see; the others only count.
    """
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    worker = await lookup.found(services, caller, Worker, name, namespace)
    use = worker_allocation.port_use(services.cache, worker)
    if use is None:
        return PortsReading(worker=worker.name)
    here = services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    found = [port for session in here for port in _of_session(session, caller.principal)]
    labs = {each.status.lab.id: each for each in here if each.status.lab is not None}
    at = _seen_at(services, worker)
    found += [
        _of_lab(each, at, labs.get(each.lab or None), caller.principal)
        for each in worker.status.held_ports
    ]
    found.sort(key=lambda each: (each.transport, each.first, each.state, each.lab))
    more = max(0, len(found) - SHOWN)
    return PortsReading(worker=worker.name, use=use, ports=tuple(found[:SHOWN]), more=more)


def _of_session(session: Session, reader: Principal) -> Iterator[TakenPort]:
    status, why = session.status, port_holders.why(session)
    since = status.phase_since if why else status.scheduled_at
    lab = "" if status.lab is None else status.lab.id or ""
    for port in status.ports:
        made = TakenPort(
            state="held" if why else "used",
            transport=port.transport,
            first=port.number,
            last=port.number,
            since=since,
        )
        if access.sees(reader, session):
            made = msgspec.structs.replace(
                made, why=why, name=port.name, session=session.name,
                owner=session.spec.owner, lab=lab,
            )  # fmt: skip
        yield made


def _seen_at(services: ServiceContext, worker: Worker) -> datetime | None:
    """Return when the labs of a worker were last looked at, as far as this process knows."""
    sample = services.samples.newest(worker.key)
    return None if sample is None or sample.labs_count is None else sample.at


def _of_lab(
    held: HeldPorts, at: datetime | None, session: Session | None, reader: Principal
) -> TakenPort:
    named = f"lab {held.lab} names it and was not given it"
    if not held.lab:
        named = "labs name more ports than are listed, so none of these is given"
    word = held.released
    if word is not None:
        named = f"lab {held.lab} names it; released by {word.by}: {word.reason}"
    seen = session is not None and access.sees(reader, session)
    return TakenPort(
        state="held" if word is None else "released",
        transport=held.transport,
        first=held.first,
        last=held.last,
        since=held.since if word is None else word.at,
        seen=None if at is None else max(at, held.since),
        why=named,
        session=session.name if session is not None and seen else "",
        owner=held.owner if session is None or seen else "",
        lab=held.lab,
    )
