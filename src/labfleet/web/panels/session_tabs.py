"""The tabs of a session's page that show one side of it whole: access, ports, decision."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.decisions import port_drift, wording
from labfleet.resources import conditions
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import PortChange, Session
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core.explanation import Explanation
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import explain
from labfleet.web import values
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.ways_in import Reached, reached

PORTS = 500
"""Ports that the tab lists; a lab has at most a few for each node."""
_WORD = {"added": ("added", "▲"), "removed": ("removed", "▲"), "changed": ("changed", "▲")}
_SAME = Cell("state", "same", tone="good", shape="●")
_UNSEEN = Cell("unknown", "unknown", why="not looked at yet")


@dataclass(frozen=True, slots=True)
class AccessPanel:
    """Where a lab is reached: address, pages, sign-in, consoles; `note` says why there is none."""

    host: str
    reached: Reached
    note: str
    command: str


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port: what was given, what was seen (both "" when there is none), and how they differ."""

    name: str
    node: str
    given: str
    seen: str
    differs: Cell


@dataclass(frozen=True, slots=True)
class PortsPanel:
    """Ports as they were given against those seen last; `at` is when the whole lab was looked at."""

    rows: tuple[PortRow, ...]
    more: int
    looked: bool
    at: Cell | None
    said: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionPanel:
    """The whole explanation, and each candidate with what it lacks."""

    told: Explanation
    rows: tuple[tuple[str, Cell, str, str, str], ...]
    more: str
    command: str

    @property
    def scored(self) -> bool:
        """Tell whether its reader is told how those that fit were ranked."""
        return any(score for *_, score in self.rows)


async def access(
    _services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> AccessPanel:
    """Return the tab that says where a lab is reached."""
    assert isinstance(obj, Session)  # noqa: S101 - the table of tabs says so
    found = obj.status.access
    note = "" if found is not None else "The lab is not up now: there is nothing to reach."
    host = "" if found is None else found.host or ""
    return AccessPanel(
        host, reached(found, PORTS), note, f"labfleet describe session {_named(obj)}"
    )


async def ports(
    services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> PortsPanel:
    """Return the tab that holds ports given against ports seen."""
    assert isinstance(obj, Session)  # noqa: S101 - the table of tabs says so
    rows = _port_rows(obj)
    at, now = obj.status.observed_at, services.clock.now()
    fact = conditions.find(obj.status.conditions, SessionCondition.PORT_DRIFT)
    said = "" if fact is None or fact.status != "True" else fact.message
    return PortsPanel(
        rows=tuple(rows[:PORTS]),
        more=max(0, len(rows) - PORTS),
        looked=obj.status.observed_ports is not None,
        at=None if at is None else values.instant(at, now),
        said=said,
        commands=(f"labfleet observe {_named(obj)}",),
    )


def _port_rows(session: Session) -> list[PortRow]:
    seen, status = session.status.observed_ports, session.status
    changes = {each.name: each for each in status.port_changes}
    made = list[PortRow]()
    for each in status.ports:
        change, given = changes.get(each.name), f"{each.transport}/{each.number}"
        number = None if seen is None else seen.get(each.name)
        differs = _UNSEEN if seen is None else _SAME if change is None else _differs(change)
        shown = "" if number is None else str(number)
        made.append(PortRow(each.name, each.node, given, shown, differs))
    known = {each.name for each in status.ports}
    made += [
        PortRow(each.name, "", "", str(each.observed), _differs(each))
        for each in status.port_changes
        if each.name not in known
    ]
    # What differs is what the tab is opened for.
    return sorted(made, key=lambda row: row.differs.tone != "warn")


def _differs(change: PortChange) -> Cell:
    word, shape = _WORD[port_drift.kind_of(change)]
    return Cell("state", word, tone="warn", shape=shape)


async def decision(
    services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked
) -> DecisionPanel:
    """Return the tab that explains a session whole."""
    row = KINDS[obj.kind]
    told = await explain.explain(services, caller, row, obj.name, obj.namespace)
    found = told.decision
    rows = () if found is None else tuple(
        (
            each.name,
            _verdict(fits=each.fits, chosen=each.name == found.chosen),
            wording.short(each.shortages) or "nothing",
            ", ".join(each.reasons),
            "" if each.score is None else f"{each.score:.3g}",
        )
        for each in found.candidates
    )  # fmt: skip
    left = 0 if found is None else found.evaluated - len(rows)
    counts = "" if found is None else ", ".join(
        f"{many} {word}" for word, many in found.rejected_by_reason.items()
    )  # fmt: skip
    more = f"{left} more were looked at" + (f": {counts}" if counts else "") if left > 0 else ""
    return DecisionPanel(told, rows, more, f"labfleet explain session {_named(obj)}")


def _verdict(*, fits: bool, chosen: bool) -> Cell:
    if chosen:
        return Cell("state", "chosen", tone="good", shape="●")
    if fits:
        return Cell("state", "would fit", tone="calm", shape="○")
    return Cell("state", "does not fit", tone="warn", shape="▲")


def _named(obj: Resource) -> str:
    return Key("", obj.namespace, obj.name).argument
