"""Who holds the ports of a worker, and who may still hold them: pure.

A number is given out again only when nothing may hold it. That are two records beside each other:
the ports of sessions, which a session keeps until its lab was seen gone, and the numbers that labs
on the server name unasked (`WorkerStatus.held_ports`), which stay until the labs were seen without
them, or a person released them. A look that saw nothing changes neither. What is quarantined for
other reasons joins the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from labfleet.decisions import port_numbers
from labfleet.resources.held_ports import FIRST, LAST, HeldPorts, PortCounts, PortRelease, PortUse
from labfleet.resources.session import Session, SessionPhase

KEPT = 200
"""How many stretches of numbers are named; of more the nearest count as one, with what is between."""
NAMED = 500
"""How many numbers are named one by one; the stretches leave none out."""
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
    owner: str = ""


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

    A release stays with its numbers, and ends with them. The record is bounded: what does not fit is
    held as a whole, for it is not known to be free.
    """
    known: dict[tuple[str, str], list[HeldPorts]] = {}
    for each in before:
        known.setdefault((each.transport, each.lab), []).append(each)
    made = []
    for first, last in _stretches(seen):
        old = [
            each
            for each in known.get((first.transport, first.lab), ())
            if _touches(each, first.number, last.number)
        ]
        since = min((each.since for each in old), default=now)
        owner = first.owner or next((each.owner for each in old), "")
        for begin, end, released in _parts(first.number, last.number, old):
            found = _held(first._replace(number=begin, owner=owner), end, since)
            made.append(found if released is None else replace(found, released=released))
    made.sort(key=lambda each: (each.transport, each.first, each.lab))
    whole = [each for key, those in known.items() if not key[1] for each in those]
    return tuple(made) if len(made) <= KEPT else _bounded(made, whole)


def _bounded(made: Sequence[HeldPorts], whole: Iterable[HeldPorts]) -> tuple[HeldPorts, ...]:
    """Return so many stretches as are kept, those that are nearest to each other as one of no lab.

    So whoever names many numbers takes few besides. `made` are in order; of what was held as a
    `whole` before, nobody knows since when each number is: that is never told later.
    """
    runs: list[list[HeldPorts]] = []
    gaps: list[tuple[int, int]] = []
    reach = 0
    for place, each in enumerate(made):
        if place and each.transport == made[place - 1].transport:
            gaps.append((each.first - reach, place))
        else:
            reach = 0
        reach = max(reach, each.last)
    joined = {place for _, place in sorted(gaps)[: len(made) - KEPT]}
    for place, each in enumerate(made):
        if place in joined:
            runs[-1].append(each)
        else:
            runs.append([each])
    before = list(whole)
    return tuple(run[0] if len(run) == 1 else _one(run, before) for run in runs)


def _one(run: Sequence[HeldPorts], whole: Iterable[HeldPorts]) -> HeldPorts:
    """Return stretches as one, with what is between them."""
    first, last = run[0].first, max(each.last for each in run)
    transport = run[0].transport
    old = [each for each in whole if each.transport == transport and _touches(each, first, last)]
    since = min(each.since for each in (*run, *old))
    return _held(SeenPort(transport, first, ""), last, since)


def _parts(
    first: int, last: int, old: Iterable[HeldPorts]
) -> Iterator[tuple[int, int, PortRelease | None]]:
    """Yield the parts of a stretch that were released, and those between them that were not."""
    at = first
    for each in sorted(old, key=lambda held: held.first):
        if each.released is None or each.last < at:
            continue
        begin, end = max(each.first, at), min(each.last, last)
        if begin > at:
            yield at, begin - 1, None
        yield begin, end, each.released
        at = end + 1
    if at <= last:
        yield at, last, None


def released(
    held: Iterable[HeldPorts],
    word: PortRelease,
    *,
    transport: str,
    first: int,
    last: int,
    lab: str = "",
) -> tuple[HeldPorts, ...]:
    """Return what is held once a person released these numbers, of one lab or (empty) of any.

    The same when none of them is held. What stands for numbers that are not listed is no lab's and
    stays: nobody can tell what it would release.
    """
    made = []
    for each in held:
        begin, end = max(each.first, first), min(each.last, last)
        other = lab not in {"", each.lab}
        if each.transport != transport or begin > end or other or not each.lab or each.released:
            made.append(each)
            continue
        if each.first < begin:
            made.append(replace(each, last=begin - 1))
        made.append(replace(each, first=begin, last=end, released=word))
        if end < each.last:
            made.append(replace(each, first=end + 1))
    return tuple(made)


def named(held: Iterable[HeldPorts], most: int) -> tuple[str, ...]:
    """Return the numbers that are held as texts such as tcp/5041, in order, so many at most."""
    found: set[Numbered] = set()
    for each in held:
        if each.released is None and each.lab:
            until = min(each.last, each.first + most)
            found.update((each.transport, number) for number in range(each.first, until + 1))
    return tuple(f"{transport}/{number}" for transport, number in sorted(found)[:most])


def _held(first: SeenPort, last: int, since: datetime) -> HeldPorts:
    transport: Literal["tcp", "udp"] = "udp" if first.transport == "udp" else "tcp"
    return HeldPorts(
        transport=transport,
        first=first.number,
        last=last,
        lab=first.lab,
        owner=first.owner,
        since=since,
    )


def _touches(before: HeldPorts, first: int, last: int) -> bool:
    return before.first <= last and first <= before.last


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
    """Return the numbers between first and last that are held, without those that were released."""
    return {
        (each.transport, number)
        for each in held
        if each.released is None
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
