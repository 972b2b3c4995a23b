"""Which labs of ours are no session's, what they hold, and which is removed next: pure.

A lab carries its session's uid in its notes. After an older backup was restored there may be labs
whose session this store does not know; nobody else removes them. Like garbage of a provider they
are removed in two phases: seen first, and again after a grace in which somebody ran to see it.
Removing one is safe to repeat; at most one removal of a worker is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from labfleet.decisions import ledger, port_numbers
from labfleet.resources import node_definitions
from labfleet.resources.amounts import Amounts
from labfleet.resources.worker import StrayLab, StrayLabs

KEPT = 50
"""How many labs are named in a worker's record; all are counted."""
ACTIVE = frozenset({"QUEUED", "STARTED", "BOOTED", "STARTING"})
_DISK_SHARE = 8
_NONE = StrayLabs()


class Node(port_numbers.Tagged, Protocol):
    """What is read of a node on a server."""

    @property
    def definition(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def cpus(self) -> int | None: ...

    @property
    def cpu_limit(self) -> int | None: ...

    @property
    def ram_mib(self) -> int | None: ...


class SeenLab(msgspec.Struct, frozen=True):
    """A lab with our marker `uid` that is no session's, and what it holds."""

    id: str
    uid: str
    amounts: Amounts = Amounts()


class Rules(msgspec.Struct, frozen=True):
    """The settings' rules: `hold` says why nothing may be removed now, "" when it may.

    `grace` is seconds. `shared`: others may use the server, and a marker does not tell whose it is.
    """

    grace: float = 300.0
    hold: str = ""
    shared: bool = False


def held_by(nodes: Iterable[Node]) -> Amounts:
    """Return what a lab of these nodes holds; what CML does not tell is taken of the definition.

    A node that does not run holds its disk only. Every lab holds a place and its port numbers.
    """
    listed = list(nodes)
    cpu = memory = storage = licensed = 0
    for node in listed:
        default = node_definitions.DEFAULTS.get(node.definition, node_definitions.UNKNOWN)
        if not default.has_vm:
            continue
        storage += default.disk_gib * 1024 // _DISK_SHARE
        if node.state not in ACTIVE:
            continue
        licensed += 1
        limit = default.cpu_limit if node.cpu_limit is None else node.cpu_limit
        cpu += max((default.cpus if node.cpus is None else node.cpus) * limit * 10, 0)
        memory += max(default.ram_mib if node.ram_mib is None else node.ram_mib, 0)
    return Amounts(
        cpu_milli=cpu,
        memory_mib=memory,
        storage_mib=storage,
        nodes=licensed,
        labs=1,
        ports=len(port_numbers.claims(listed)),
    )


def note(
    before: StrayLabs,
    seen: Sequence[SeenLab],
    now: datetime,
    ignored: AbstractSet[str] = frozenset(),
) -> StrayLabs:
    """Return what is known after a look that saw all stray labs of a server.

    Those `ignored` by a person hold what they hold, and are never removed.
    """
    if not seen:
        return _NONE
    known = {lab.id: lab for lab in before.labs}
    labs = [
        msgspec.structs.replace(
            lab
            if lab is not None and lab.uid == each.uid
            else StrayLab(id=each.id, uid=each.uid, since=now),
            ignored=each.id in ignored,
        )
        for each in seen
        for lab in (known.get(each.id),)
    ]
    held = Amounts()
    for each in seen:
        held += each.amounts
    return StrayLabs(labs=tuple(sorted(labs, key=_order)[:KEPT]), count=len(labs), held=held)


def offered(capacity: Amounts | None, strays: StrayLabs) -> tuple[Amounts | None, StrayLabs]:
    """Return the capacity without what stray labs hold, and exactly what was taken off."""
    if capacity is None:
        return None, msgspec.structs.replace(strays, held=Amounts())
    if strays.held == ledger.NOTHING:
        return capacity, strays
    left = ledger.less(capacity, strays.held)
    return left, msgspec.structs.replace(strays, held=ledger.less(capacity, left))


def real(capacity: Amounts | None, strays: StrayLabs) -> Amounts | None:
    """Return the capacity that `offered` was given."""
    if capacity is None or strays.held == ledger.NOTHING:
        return capacity
    return capacity + strays.held


def heeded(strays: StrayLabs) -> list[StrayLab]:
    """Return the labs of the record that nobody said are left alone."""
    return [each for each in strays.labs if not each.ignored]


def next_lab(strays: StrayLabs) -> StrayLab | None:
    """Return the lab whose removal has been due for longest; one that failed waits anew."""
    return min(heeded(strays), key=_turn, default=None)


def due(
    strays: StrayLabs, rules: Rules, now: datetime, watched: datetime | None
) -> StrayLab | None:
    """Return the lab to be removed now; None when none may be.

    Only time since `watched`, from when on somebody ran to see it, counts as grace.
    """
    lab = next_lab(strays)
    if lab is None or rules.hold or rules.shared:
        return None
    since = _turn(lab)[0] if watched is None else max(_turn(lab)[0], watched)
    return lab if now - since >= timedelta(seconds=rules.grace) else None


def parameters(strays: StrayLabs) -> dict[str, str]:
    """Return what the intent of removing the next lab names: the lab, and whose it was."""
    lab = next_lab(strays)
    return {} if lab is None else {"lab": lab.id, "uid": lab.uid}


def failed(strays: StrayLabs, lab_id: str, why: str, now: datetime) -> StrayLabs:
    """Return the record after a removal that failed: that lab is tried again after a grace."""
    labs = [
        msgspec.structs.replace(lab, tried=now, refused=why[:300]) if lab.id == lab_id else lab
        for lab in strays.labs
    ]
    return msgspec.structs.replace(strays, labs=tuple(sorted(labs, key=_order)))


def _order(lab: StrayLab) -> tuple[bool, datetime, str]:
    return (lab.ignored, *_turn(lab))


def _turn(lab: StrayLab) -> tuple[datetime, str]:
    return lab.tried or lab.since, lab.id
