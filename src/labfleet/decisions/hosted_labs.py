"""Which labs there are on a server, by the nodes that a look at all of it found: pure.

A lab without nodes holds nothing and is in no such look. Sessions' labs are told by their sessions,
so where a record cannot list all labs, those of nobody come first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple, Protocol

from labfleet.decisions.stray_labs import ACTIVE
from labfleet.resources.hosted_labs import LISTED, TEXT, HostedLab

DEFINED, STARTED, STOPPED = "DEFINED_ON_CORE", "STARTED", "STOPPED"


class LabNode(Protocol):
    """What is read of a node on a server."""

    @property
    def lab_id(self) -> str: ...

    @property
    def state(self) -> str: ...


class LabName(NamedTuple):
    """What CML says of a lab that is no session's."""

    title: str = ""
    owner: str = ""


class SeenLabs(NamedTuple):
    """The states of each lab's nodes, names of those that were asked, and which are sessions'."""

    states: Mapping[str, Sequence[str]]
    names: Mapping[str, LabName]
    ours: AbstractSet[str]


def seen(nodes: Iterable[LabNode], names: Mapping[str, LabName], ours: Iterable[str]) -> SeenLabs:
    """Return the labs of all nodes of a server; `ours` are those that sessions recorded."""
    states: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        states[node.lab_id].append(node.state)
    return SeenLabs(states, dict(names), frozenset(ours) & states.keys())


def state_of(states: Iterable[str]) -> str:
    """Return a lab's state in CML's words, from its nodes': started while one of them is not off."""
    found = set(states)
    if found <= {DEFINED}:
        return DEFINED
    return STOPPED if found <= {DEFINED, STOPPED} else STARTED


def noted(
    before: Sequence[HostedLab] | None, found: SeenLabs, now: datetime
) -> tuple[HostedLab, ...]:
    """Return the labs to be recorded after a look, by id; what was known of a name stays."""
    known = {each.id: each for each in before or ()}
    first = sorted(found.states, key=lambda each: (each in found.ours, each))[:LISTED]
    return tuple(_lab(each, known.get(each), found, now) for each in sorted(first))


def _lab(lab: str, last: HostedLab | None, found: SeenLabs, now: datetime) -> HostedLab:
    name, states = found.names.get(lab), found.states[lab]
    if lab in found.ours:
        name = LabName()
    elif name is None:
        name = LabName() if last is None else LabName(last.title, last.owner)
    return HostedLab(
        id=lab,
        title=name.title[:TEXT],
        owner=name.owner[:TEXT],
        state=state_of(states),
        nodes=len(states),
        running=sum(each in ACTIVE for each in states),
        since=now if last is None else last.since,
    )
