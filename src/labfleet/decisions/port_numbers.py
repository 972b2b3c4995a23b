"""Ports of a lab: which its tags request, which numbers they get, which are seen later.

Pure. This module proposes numbers from a snapshot; the store's unique key ensures that they are
unique on a worker (docs/decisions/0002-store.md). Port numbers in a topology file's tags are
ignored: two sessions of one definition must not want the same port.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Protocol

from labfleet.resources import port_tags
from labfleet.resources.amounts import Shortage
from labfleet.resources.definition import PortRequest
from labfleet.resources.held_ports import FIRST, LAST
from labfleet.resources.session import PortAllocation, PortChange
from labfleet.resources.topology import Topology

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")
_BASE_LIMIT = 80
UNASKED_KEPT = 200
"""How many ports that nobody was given are named of one lab; whoever edits tags may write any number."""

_Port = tuple[str, str, str, int]
"""Label of the node, kind, transport and inner port: what one port is, whatever its name."""


class Tagged(Protocol):
    """Anything with a label and tags: a node of a file, or one seen on a server."""

    @property
    def label(self) -> str: ...

    @property
    def tags(self) -> Sequence[str]: ...


def template_of(topology: Topology) -> tuple[PortRequest, ...]:
    """Return the ports that the topology's tags request, in file order, without duplicates."""
    made: dict[str, PortRequest] = {}
    names = _bases(node.label for node in topology.nodes)
    for node in topology.nodes:
        for tag in node.tags:
            wanted = port_tags.parse(tag)
            if wanted is None:
                continue
            name = names[node.label] + _suffix(wanted)
            made.setdefault(
                name,
                PortRequest(
                    name=name,
                    node=node.label,
                    kind=wanted.kind,
                    transport=wanted.transport,
                    inner=wanted.inner,
                ),
            )
    return tuple(made.values())


def allocate(
    requests: Sequence[PortRequest],
    *,
    taken: AbstractSet[tuple[str, int]],
    begin: int = FIRST,
    first: int = FIRST,
    last: int = LAST,
) -> tuple[PortAllocation, ...] | Shortage:
    """Return a number for every request, or the shortage: all or nothing.

    The next free number from `begin` on, past `last` from `first` again, in the order of the
    requests; TCP and UDP are numbered separately. `taken` are the ports that our sessions hold on
    the worker and those that something else may hold.
    """
    free = {each: _free(each, taken, begin, first, last) for each in ("tcp", "udp")}
    made = []
    for request in requests:
        number = next(free[request.transport], None)
        if number is None:
            return _shortage(requests, request.transport, taken, first, last)
        made.append(
            PortAllocation(
                name=request.name,
                node=request.node,
                kind=request.kind,
                transport=request.transport,
                inner=request.inner,
                number=number,
            )
        )
    return tuple(made)


def home(owner: str, definition: str, first: int = FIRST, last: int = LAST) -> int:
    """Return from which number on a person's labs of one definition get their ports.

    So a person finds the lab's ports at the same numbers again on any worker, as far as these are
    free there: bookmarks and scripts go on working, and a number that somebody gave back is seldom
    the next one's. It is worked out and kept nowhere, so it neither reserves anything nor grows
    with what was, and holds over restarts and restores. `owner` and `definition` are names with
    their namespace.
    """
    digest = hashlib.sha256(f"{owner}\n{definition}".encode()).digest()
    return first + int.from_bytes(digest[:8], "big") % (last - first + 1)


def tags(allocations: Iterable[PortAllocation]) -> dict[str, tuple[str, ...]]:
    """Return the port tags of each node, by label, as they go into the topology."""
    made: dict[str, tuple[str, ...]] = {}
    for port in allocations:
        tag = port_tags.write(port.kind, port.transport, port.number, port.inner)
        made[port.node] = (*made.get(port.node, ()), tag)
    return made


def observed(nodes: Iterable[Tagged], given: Iterable[PortAllocation] = ()) -> dict[str, int]:
    """Return name to number of every port that the live nodes' tags name (upstream 000).

    A port is known by its node and what listens there, so that neither the order of nodes and tags
    nor a node beside it changes its name: that under which it was `given`, else the template's. Of
    several numbers for one port that which was given counts, else the lowest; each other one is
    `name@number`. What was given is always named, of all else a bounded number.
    """
    seen = list(nodes)
    bases = _bases(node.label for node in seen)
    names: dict[_Port, str] = {}
    numbers: dict[_Port, set[int]] = {}
    for node in seen:
        for tag in node.tags:
            found = port_tags.parse(tag)
            if found is not None and found.outer is not None:
                port: _Port = (node.label, found.kind, found.transport, found.inner)
                numbers.setdefault(port, set()).add(found.outer)
                names.setdefault(port, bases[node.label] + _suffix(found))
    wanted: dict[_Port, list[PortAllocation]] = {}
    for each in given:
        wanted.setdefault((each.node, each.kind, each.transport, each.inner), []).append(each)
    own: dict[str, int] = {}
    more: dict[str, int] = {}
    for port in sorted(numbers):
        left = sorted(numbers[port] - {each.number for each in wanted.get(port, ())})
        for each in wanted.get(port, ()):
            if each.number in numbers[port]:
                own[each.name] = each.number
            elif left:
                own[each.name] = left.pop(0)
        if left and port not in wanted:
            more[names[port]] = left.pop(0)
        more |= {f"{names[port]}@{number}": number for number in left}
    return dict(list(more.items())[:UNASKED_KEPT]) | own


def drift(allocated: Mapping[str, int], seen: Mapping[str, int]) -> tuple[PortChange, ...]:
    """Return what differs by name (facts/upstream.md#observation), of a lab whose nodes were seen.

    An empty side is drift like any other: a port added by hand to a lab that was given none, or
    a lab that lost all its tags. Of a lab that was not seen nothing is known; do not ask then.
    """
    return tuple(
        PortChange(name=name, allocated=allocated.get(name), observed=seen.get(name))
        for name in sorted(allocated.keys() | seen.keys())
        if allocated.get(name) != seen.get(name)
    )


def claims(nodes: Iterable[Tagged]) -> set[tuple[str, int]]:
    """Return every (transport, number) that nodes of a server name, whoever owns their lab.

    Those that are not ours are quarantined until they are gone (facts/fleet-bugs.md#t41).
    """
    made: set[tuple[str, int]] = set()
    for node in nodes:
        for tag in node.tags:
            found = port_tags.parse(tag)
            if found is not None and found.outer is not None:
                made.add((found.transport, found.outer))
    return made


def _free(
    transport: str, taken: AbstractSet[tuple[str, int]], begin: int, first: int, last: int
) -> Iterator[int]:
    for number in chain(range(max(begin, first), last + 1), range(first, min(begin, last + 1))):
        if (transport, number) not in taken:
            yield number


def _suffix(tag: port_tags.PortTag) -> str:
    if tag.kind == "serial":
        return f"_serial{tag.inner}" if tag.inner else "_serial"
    return "_vnc" if tag.kind == "vnc" else f"_pat_{tag.transport}_{tag.inner}"


def _bases(labels: Iterable[str]) -> dict[str, str]:
    """Return the first part of the port names for each label, all different.

    Upstream 000 writes `_` for what is not a plain character; a digest is added only where that
    would give two labels one name, or where the label is too long.
    """
    plain = {label: _FOREIGN.sub("_", label) for label in labels}
    crowd = Counter(plain.values())
    made = {}
    for label, base in plain.items():
        if len(base) > _BASE_LIMIT or (crowd[base] > 1 and base != label):
            digest = hashlib.sha256(label.encode()).hexdigest()[:8]
            base = f"{base[: _BASE_LIMIT - 9]}_{digest}"  # noqa: PLW2901 - the final form
        made[label] = base
    return made


def _shortage(
    requests: Sequence[PortRequest],
    transport: str,
    taken: AbstractSet[tuple[str, int]],
    first: int,
    last: int,
) -> Shortage:
    wanted = sum(1 for each in requests if each.transport == transport)
    held = sum(1 for kind, number in taken if kind == transport and first <= number <= last)
    return Shortage(dimension="ports", wanted=wanted, free=max(0, last - first + 1 - held))
