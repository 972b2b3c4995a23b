"""How an order to start, stop, restart or wipe a lab or one of its nodes goes on: pure.

It is judged by the states of the nodes alone. CML answers such calls at once, and its word that a
lab has converged may come too early (facts/cml-issues.md#f1): nothing is wiped or started again
before each node that is meant was seen off. Every call is safe to repeat, so a process that comes
after a killed one goes on from what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from labfleet.kernel.clock import utc_text
from labfleet.resources.lab_orders import LabOrder, LabOrderProgress

OFF = frozenset({"STOPPED", "DEFINED_ON_CORE"})
"""States of a node that does not run; DEFINED_ON_CORE has no disk either."""
WIPED = "DEFINED_ON_CORE"
BOOTED = "BOOTED"
ASK_AGAIN = timedelta(seconds=30)
"""After how long CML is asked once more for what it took and does not show."""
OVER = frozenset({"done", "refused"})

LabCall = Literal["start", "stop", "wipe"]
State = Literal["waiting", "stopping", "wiping", "starting", "done", "refused"]


class LabNode(Protocol):
    """What is read of a node on a server."""

    @property
    def id(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def state(self) -> str: ...


class Turn(NamedTuple):
    """How far an order is now, and the call that it needs next; None when it needs none."""

    progress: LabOrderProgress
    call: LabCall | None = None


def is_open(order: LabOrder | None, known: LabOrderProgress | None) -> bool:
    """Tell whether an order was neither done nor refused yet."""
    if order is None:
        return False
    return known is None or known.id != order.id or known.state not in OVER


def same(order: LabOrder, other: LabOrder) -> bool:
    """Tell whether two orders ask for the same."""
    return (order.verb, order.lab, order.node) == (other.verb, other.lab, other.node)


def turn(
    order: LabOrder,
    known: LabOrderProgress | None,
    nodes: Sequence[LabNode] | None,
    now: datetime,
    trouble: str = "",
) -> Turn:
    """Return how an open order goes on; `nodes` are all of its lab's, None when they were not seen.

    `trouble` says what the last look or call ran into.
    """
    held = _held(order, known, now)
    if trouble:
        held = replace(held, message=trouble[:500])
    if now >= order.until:
        why = f": {held.message}" if held.message else ""
        return Turn(refused(held, f"not done by {utc_text(order.until)}{why}", now))
    if nodes is None:
        return Turn(held)
    meant = _meant(order, nodes)
    if not meant:
        what = f"node {order.node!r}" if order.node else "any node"
        return Turn(refused(held, f"the lab does not have {what}", now))
    held = replace(held, node_id=meant[0].id if order.node else "")
    return _next(order, held, {each.state for each in meant}, now)


def refused(known: LabOrderProgress, why: str, now: datetime) -> LabOrderProgress:
    """Return the end of an order that cannot be."""
    return replace(known, state="refused", at=now, message=why[:500])


def outlives_its_person(order: LabOrder, known: LabOrderProgress | None) -> bool:
    """Tell whether an open order goes on when its session is given to somebody else.

    One that CML was asked for does, unless it loses work: half a restart would leave the lab off.
    """
    begun = known is not None and known.id == order.id and known.asked is not None
    return begun and order.verb != "wipe"


def closed(
    order: LabOrder | None, known: LabOrderProgress | None, why: str, now: datetime
) -> LabOrderProgress | None:
    """Return the progress when nothing can be ordered any more: an open order is refused."""
    if order is None or not is_open(order, known):
        return known
    return refused(_held(order, known, now), why, now)


def _held(order: LabOrder, known: LabOrderProgress | None, now: datetime) -> LabOrderProgress:
    if known is None or known.id != order.id:
        return LabOrderProgress(id=order.id, at=now)
    return known


def _meant(order: LabOrder, nodes: Sequence[LabNode]) -> list[LabNode]:
    """Return the nodes that an order is about; one is meant by its id, or else by its label."""
    if not order.node:
        return list(nodes)
    by_id = [each for each in nodes if each.id == order.node]
    return by_id or [each for each in nodes if each.label == order.node][:1]


def _next(order: LabOrder, held: LabOrderProgress, states: set[str], now: datetime) -> Turn:
    off, starts = states <= OFF, order.verb in {"start", "restart"}
    if held.state == "starting" or (order.verb == "start" and held.state == "waiting"):
        if states == {BOOTED}:
            return _done(held, now)
        # What comes up is not asked again: a node that boots is neither off nor booted.
        return _ask(held, "starting", "start" if states & OFF else None, now)
    if not off:
        return _ask(held, "stopping", "stop", now)
    if starts:
        return _ask(held, "starting", "start", now)
    if order.verb == "wipe" and states != {WIPED}:
        return _ask(held, "wiping", "wipe", now)
    return _done(held, now)


def _done(held: LabOrderProgress, now: datetime) -> Turn:
    return Turn(replace(held, state="done", at=now, message=""))


def _ask(held: LabOrderProgress, state: State, call: LabCall | None, now: datetime) -> Turn:
    """Enter a state or stay in it; CML is asked on entering, and again when it does not show it."""
    if held.state != state:
        return Turn(replace(held, state=state, at=now, asked=now, message=""), call)
    if call is None or (held.asked is not None and now < held.asked + ASK_AGAIN):
        return Turn(held)
    return Turn(replace(held, asked=now), call)
