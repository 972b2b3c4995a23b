"""Who holds the ports of a worker, and who may still hold them: pure.

A number is given out again only when nothing may hold it. That are two records beside each other:
the ports of sessions, which a session keeps until its lab was seen gone, and the numbers that labs
on the server name unasked (`WorkerStatus.held_ports`), which stay until the labs were seen without
them. A look that saw nothing changes neither. What is quarantined for other reasons joins the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from labfleet.decisions import port_numbers
from labfleet.resources.held_ports import FIRST, LAST, HeldPorts, PortCounts, PortUse
from labfleet.resources.session import Session, SessionPhase

KEPT = 200
"""How many stretches of numbers are named; if there are more, all that follow count as held."""
_HIGHEST = 65535
_ENDING = frozenset({SessionPhase.COLLECTING, SessionPhase.STOPPING})

Numbered = tuple[str, int]
"""Transport and number."""


class LabNode(port_numbers.Tagged, Protocol):
    """A node as a server lists it."""

    @property
    def lab_id(self) -> str: ...


class SeenPort(NamedTuple):
    """A number that a lab names though it was not given to that lab."""

    transport: str
    number: int
    lab: str


def unasked(nodes: Iterable[LabNode], sessions: Iterable[Session]) -> tuple[SeenPort, ...]:
    """Return the numbers that labs on a server name and were not given, in order.

    `sessions` hold something on that worker. A number that a session was given is held by its own
    lab alone: named by any other it is held there too, and stays so when the session has ended.
    Of a session whose lab is not known yet any lab may be its own.
    """
    own: dict[str, set[Numbered]] = {}
    coming: set[Numbered] = set()
    for session in sessions:
        given = given_to(session)
        lab = session.status.lab
        if lab is not None and lab.id is not None:
            own.setdefault(lab.id, set()).update(given)
        else:
            coming |= given
    found = set()
    for node in nodes:
        allowed = own.get(node.lab_id, coming)
        for transport, number in port_numbers.claims((node,)):
            if (transport, number) not in allowed:
                found.add(SeenPort(transport, number, node.lab_id))
    return tuple(sorted(found))


def given_to(session: Session) -> set[Numbered]:
    """Return the ports that a session holds on its worker."""
    return {(port.transport, port.number) for port in session.status.ports}


def noted(
    before: Iterable[HeldPorts], seen: Sequence[SeenPort], now: datetime
) -> tuple[HeldPorts, ...]:
    """Return what is held after a look that saw these; what was known keeps its `since`.

    The record is bounded: what does not fit is held as a whole, for it is not known to be free.
    """
    known: dict[tuple[str, str], list[HeldPorts]] = {}
    for each in before:
        known.setdefault((each.transport, each.lab), []).append(each)
    made = []
    for first, last in _stretches(seen):
        old = known.get((first.transport, first.lab), ())
        since = min((each.since for each in old if _touches(each, first, last)), default=now)
        made.append(_held(first, last.number, since, first.lab))
    made.sort(key=lambda each: (each.transport, each.first, each.lab))
    if len(made) <= KEPT:
        return tuple(made)
    kept, rest = made[: KEPT - 2], made[KEPT - 2 :]
    since = min(each.since for each in rest)
    begins = {"udp": FIRST if rest[0].transport == "tcp" else rest[0].first}
    if rest[0].transport == "tcp":
        begins["tcp"] = rest[0].first
    for transport, number in sorted(begins.items()):
        kept.append(_held(SeenPort(transport, number, ""), _HIGHEST, since, ""))
    return tuple(kept)


def _held(first: SeenPort, last: int, since: datetime, lab: str) -> HeldPorts:
    transport: Literal["tcp", "udp"] = "udp" if first.transport == "udp" else "tcp"
    return HeldPorts(transport=transport, first=first.number, last=last, lab=lab, since=since)


def _touches(before: HeldPorts, first: SeenPort, last: SeenPort) -> bool:
    return before.first <= last.number and first.number <= before.last


def _stretches(seen: Iterable[SeenPort]) -> Iterator[tuple[SeenPort, SeenPort]]:
    """Yield the first and the last of numbers of one lab that follow each other."""
    first = last = None
    for each in sorted(seen, key=lambda port: (port.lab, port.transport, port.number)):
        if last is not None and each == last._replace(number=last.number + 1):
            last = each
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = each
    if first is not None and last is not None:
        yield first, last


def numbers(held: Iterable[HeldPorts], first: int = FIRST, last: int = LAST) -> set[Numbered]:
    """Return the numbers between first and last that are held."""
    return {
        (each.transport, number)
        for each in held
        for number in range(max(each.first, first), min(each.last, last) + 1)
    }


def ending(session: Session) -> bool:
    """Tell whether a session only holds its ports until its lab was seen gone."""
    return session.status.phase in _ENDING


def why(session: Session) -> str:
    """Return why a session that is over still holds its ports, or "" while it is not over."""
    if not ending(session):
        return ""
    told = session.status.message
    return f"its lab was not seen gone yet: {told}" if told else "its lab was not seen gone yet"


def use(sessions: Iterable[Session], held: Iterable[HeldPorts]) -> PortUse:
    """Return how the ports of a worker are used: of sessions there, and of labs of others."""
    used: set[Numbered] = set()
    kept = numbers(held)
    for session in sessions:
        (kept if ending(session) else used).update(given_to(session))
    return PortUse(tcp=_counts("tcp", used, kept), udp=_counts("udp", used, kept))


def _counts(transport: str, used: AbstractSet[Numbered], kept: AbstractSet[Numbered]) -> PortCounts:
    mine = _within(transport, used)
    others = _within(transport, kept) - mine
    size = LAST - FIRST + 1
    return PortCounts(used=len(mine), held=len(others), free=size - len(mine) - len(others))


def _within(transport: str, ports: AbstractSet[Numbered]) -> set[int]:
    return {number for kind, number in ports if kind == transport and FIRST <= number <= LAST}


def taken_percent(use_now: PortUse) -> float:
    """Return the share of the numbers that cannot be given out, of the scarcer transport."""
    size = use_now.last - use_now.first + 1
    left: Mapping[str, int] = {"tcp": use_now.tcp.free, "udp": use_now.udp.free}
    return 100.0 * (size - min(left.values())) / size
