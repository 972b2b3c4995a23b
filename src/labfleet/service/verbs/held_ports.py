"""Releasing ports that labs on a worker name unasked: a person's word, with a reason.

Held numbers come free by themselves once their lab was seen without them. A person who knows better
may let them be given out before; the word ends with what it is for (`resources/held_ports`).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from labfleet.decisions import port_holders
from labfleet.resources.held_ports import PortRelease
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import Admitted, with_status
from labfleet.service.verbs import lifecycle

Number = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class ReleaseRequest(Record, frozen=True, kw_only=True):
    """Which held ports may be given out again, and why.

    transport: Protocol of the ports.
    first: Lowest of the numbers.
    last: Highest of them; null means that one number.
    lab: CML's name for the lab that names them; empty means each that does.
    reason: Why that is safe, in the words of whoever says so.
    """

    first: Number
    last: Number | None = None
    transport: Literal["tcp", "udp"] = "tcp"
    lab: Annotated[str, msgspec.Meta(max_length=128)] = ""
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def release(
    services: ServiceContext, caller: Caller, name: str, namespace: str, sent: ReleaseRequest
) -> Worker:
    """Let held ports be given out; released already they change nothing.

    Refused (NotHeld) when no lab holds them unasked: a session's own ports are its until its lab was
    seen gone, whoever says what. Refused (TooManyStretches) when the record cannot tell it.
    """
    last = sent.first if sent.last is None else sent.last
    if last < sent.first:
        raise intake.invalid(("last", f"must not be below first, {sent.first}"))
    if not sent.reason.strip() or not sent.reason.isprintable():
        raise intake.invalid(("reason", "say why, in a line of printable text"))

    async def change(old: Worker) -> Admitted:
        held = old.status.held_ports
        word = PortRelease(by=caller.principal.name, at=services.clock.now(), reason=sent.reason)
        new = port_holders.released(
            held, word, transport=sent.transport, first=sent.first, last=last, lab=sent.lab
        )
        if new == held:
            _demand_held(services, old, sent, last)
            return Admitted(old)
        if len(new) > port_holders.KEPT:
            message = (
                f"more than {port_holders.KEPT} stretches of ports cannot be told apart, and the next look "
                "would hold some again: release longer stretches, or remove the labs"
            )
            raise Refused(message, reason="TooManyStretches")
        kept = port_holders.named(new, port_holders.NAMED)
        return Admitted(with_status(old, held_ports=new, foreign_ports=kept))

    where = (name, namespace)
    return await lifecycle.changed(
        services, caller, Worker, where, action="release", reason="PortsReleased", change=change
    )


def _demand_held(services: ServiceContext, worker: Worker, sent: ReleaseRequest, last: int) -> None:
    """Raise Refused when not even released numbers are among these."""
    mine = [
        each
        for each in worker.status.held_ports
        if each.transport == sent.transport and each.first <= last and sent.first <= each.last
    ]
    if any(each.released and sent.lab in {"", each.lab} for each in mine):
        return
    shown = f"{sent.transport}/{sent.first}" + (f"-{last}" if last != sent.first else "")
    told = f"no lab holds {shown} of worker {worker.name!r} unasked"
    if any(not each.lab for each in mine):
        told = f"more ports are held than are listed, {shown} among them: remove their labs first"
    for session in services.cache.by(indices.SESSIONS_HERE, worker.key.path):
        if any((sent.transport, n) in port_holders.given_to(session) for n in (sent.first, last)):
            told = f"{shown} is session {session.name!r}'s until its lab was seen gone"
    raise Refused(told, reason="NotHeld")
