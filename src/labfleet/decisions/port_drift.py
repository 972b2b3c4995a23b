"""Drift: ports that a lab's nodes name and that are not those its session was given. Pure.

Compared by name and never by order, of a lab whose nodes were seen. A look that saw nothing is not
noted at all: what was known stays (facts/upstream.md#observation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from labfleet.decisions import port_numbers
from labfleet.resources import conditions
from labfleet.resources.session import PortAllocation, PortChange, Session, SessionStatus
from labfleet.resources.session_conditions import SessionCondition, SessionReason

KEPT = 300
"""How many ports that differ are kept by name; there may be thousands, and they are drift anyway."""
SHOWN = 3


def given(ports: Sequence[PortAllocation]) -> dict[str, int]:
    """Return name to number of the ports that a session was given."""
    return {port.name: port.number for port in ports}


def noted(
    status: SessionStatus, seen: Mapping[str, int], now: datetime, generation: int = 0
) -> SessionStatus:
    """Return a status with what the nodes of its lab name, and whether that is drift.

    The same status when nothing is new: a look at a lab that is as it was writes nothing.
    """
    changes = port_numbers.drift(given(status.ports), seen)[:KEPT]
    before = conditions.find(status.conditions, SessionCondition.PORT_DRIFT)
    facts = status.conditions
    if changes or before is not None:
        facts = conditions.put(
            facts,
            SessionCondition.PORT_DRIFT,
            "True" if changes else "False",
            SessionReason.PORTS_DIFFER if changes else SessionReason.PORTS_AS_GIVEN,
            words(changes),
            now=now,
            generation=generation if before is None else before.observed_generation,
        )
    told = status.observed_ports, status.port_drift_detected, status.port_changes
    if told == (seen, bool(changes), changes) and facts is status.conditions:
        return status
    return msgspec.structs.replace(
        status,
        observed_ports=dict(seen),
        port_drift_detected=bool(changes),
        port_changes=changes,
        conditions=facts,
    )


def forgotten(status: SessionStatus) -> SessionStatus:
    """Return a status without what was seen of the ports, of a session that leaves its lab."""
    return msgspec.structs.replace(
        status, observed_ports=None, port_drift_detected=False, port_changes=()
    )


def drifted(sessions: Iterable[Session]) -> tuple[str, ...]:
    """Return the names of the sessions whose labs have drifted ports now, in order."""
    name = SessionCondition.PORT_DRIFT
    return tuple(
        sorted(each.name for each in sessions if conditions.is_true(each.status.conditions, name))
    )


def kind_of(change: PortChange) -> str:
    """Return whether a port was added, removed or changed on the server."""
    if change.allocated is None:
        return "added"
    return "removed" if change.observed is None else "changed"


def parts(changes: Sequence[PortChange]) -> dict[str, dict[str, object]]:
    """Return what was added, removed and changed, by name, in upstream 000's form."""
    made: dict[str, dict[str, object]] = {"added": {}, "removed": {}, "changed": {}}
    for each in changes:
        kind = kind_of(each)
        both = {"allocated": each.allocated, "observed": each.observed}
        one = each.observed if kind == "added" else each.allocated
        made[kind][each.name] = both if kind == "changed" else one
    return made


def words(changes: Sequence[PortChange]) -> str:
    """Return what differs in a sentence's part; "" when nothing does.

    Such as `added PC_serial 5041; removed R1_vnc 2003; changed R2_serial 2004 to 5099`.
    """
    told = []
    for kind in ("added", "removed", "changed"):
        those = [each for each in changes if kind_of(each) == kind]
        if those:
            named = ", ".join(_word(each) for each in those[:SHOWN])
            more = f" and {len(those) - SHOWN} more" if len(those) > SHOWN else ""
            told.append(f"{kind} {named}{more}")
    return "; ".join(told)


def _word(change: PortChange) -> str:
    numbers = [str(each) for each in (change.allocated, change.observed) if each is not None]
    return f"{change.name} {' to '.join(numbers)}"
