"""What labs really used: records one observation, and summarises those of a definition.

The internal route and the session controller call the same `record`
(facts/upstream.md#observation); it changes no phase. Observations never change a definition:
people decide that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from labfleet.decisions import port_drift, port_numbers
from labfleet.interfaces import store as stores
from labfleet.kernel.clock import utc_text
from labfleet.resources.definition import Definition
from labfleet.resources.history import Use
from labfleet.resources.meta import Record
from labfleet.resources.session import ResourceObservation, Session, SessionPhase
from labfleet.service.core import access, intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext, retried
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import with_status

REPORTED = "internal:"
"""Before whoever reported an observation, in its `observer`."""
OBSERVABLE = (SessionPhase.RUNNING, SessionPhase.COLLECTING)
PORTS_LIMIT = 6000
LIST_LIMIT = 200


class Figure(Record, frozen=True, kw_only=True):
    """The values of one dimension over several sessions; None when it was never observed."""

    max: float | None = None
    avg: float | None = None
    latest: float | None = None


class Aggregate(Record, frozen=True, kw_only=True):
    """What sessions of one definition used."""

    cpu_cores: Figure = Figure()
    memory_mb: Figure = Figure()
    storage_mb: Figure = Figure()
    node_count: Figure = Figure()


@dataclass(frozen=True, slots=True)
class Summary:
    """The newest observed sessions of a definition, newest first, and their figures."""

    definition: Definition
    sessions: tuple[Session, ...]
    aggregate: Aggregate
    drifted: tuple[str, ...]


async def record(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    resources: ResourceObservation | None,
    ports: Mapping[str, int] | None,
    fence: stores.Fence | None = None,
) -> Session:
    """Store what was seen of a RUNNING or COLLECTING session, and whether its ports drifted.

    What was not seen stays as it was known; an observation of nothing writes nothing. `ports`
    None means that the nodes' tags tell them. Ports are compared when nodes were seen. Without a
    `fence` it is a program's report, and its `observer` says whose, whatever the report says.
    Invalid (reason WrongPhase) in any other phase: later, the lab is already being removed.
    """
    access.demand(caller.principal, "record", "Session")
    if resources is not None and fence is None:
        observer = f"{REPORTED}{caller.principal.name}"
        resources = msgspec.structs.replace(resources, observer=observer)
    told = (ports or {}) if resources is None else {**resources.observed_ports, **(ports or {})}
    bad = [key for key, number in told.items() if len(key) > 256 or not 0 < number < 65536]
    if bad or len(told) > PORTS_LIMIT:
        raise intake.invalid(("observedPorts", f"names to port numbers, at most {PORTS_LIMIT}"))

    async def attempt() -> Session:
        old = await lookup.found(services, caller, Session, name, namespace)
        if old.status.phase not in OBSERVABLE:
            what = f"session {old.name!r} is {old.status.phase}, not RUNNING or COLLECTING"
            raise intake.invalid(("status.phase", what), reason="WrongPhase")
        now = services.clock.now()
        if resources is not None and fence is None:
            # A controller's own look is of this clock, and must never hold up a teardown.
            _believable(resources.observed_at, old, now)
        seen = None if resources is None or not _told(resources) else resources
        named = _named(old, seen) if ports is None else ports
        if seen is None and not named:
            return old
        # Which observation is the newest is told by our own clock alone, when it comes.
        count = old.status.observation_count + 1
        new = with_status(old, observation_count=count, observed_at=now)
        new = _with_seen(new, seen, trusted=fence is not None)
        if named or (seen is not None and _has_nodes(seen)):
            generation = old.metadata.generation
            status = port_drift.noted(new.status, named, now, generation)
            new = msgspec.structs.replace(new, status=status)
        _, stored = await services.objects.save(
            new, cause=services.cause(caller, "ResourcesObserved"), fence=fence
        )
        saved = stored[0]
        assert isinstance(saved, Session)  # noqa: S101 - save returns what it was given
        return saved

    return await retried(attempt)


def _with_seen(old: Session, seen: ResourceObservation | None, *, trusted: bool) -> Session:
    """Return a session with what was seen of its lab; what others say of its use teaches nothing."""
    if seen is None:
        return old
    new = with_status(old, observed_resources=seen)
    if trusted and seen.measured:
        new = with_status(new, used=seen.used, measured=seen.measured)
    return new


def _named(session: Session, seen: ResourceObservation | None) -> Mapping[str, int]:
    """Return the ports that an observation names, or its nodes' tags do."""
    if seen is None:
        return {}
    return seen.observed_ports or port_numbers.observed(seen.nodes, session.status.ports)


def _has_nodes(seen: ResourceObservation) -> bool:
    return bool(seen.nodes) or seen.actual_node_count > 0


def _told(seen: ResourceObservation) -> bool:
    """Tell whether an observation says anything of the lab."""
    totals = (seen.total_cpu_cores, seen.total_memory_mb, seen.total_storage_mb)
    return (
        _has_nodes(seen)
        or any(value is not None for value in totals)
        or bool(seen.observed_ports or seen.simulation_stats)
    )


def _believable(at: datetime, session: Session, now: datetime) -> None:
    """Refuse an instant without a zone, before the session was made, or in the future."""
    where = "observed_resources.observed_at"
    if at.tzinfo is None:
        what = "give a time zone, for example 2026-11-27T09:00:00Z (datetime.now(UTC).isoformat())"
        raise intake.invalid((where, what))
    made = session.metadata.creation_timestamp
    if made is not None and at < made - intake.TOLERANCE:
        raise intake.invalid((where, f"lies before the session, made at {utc_text(made)}"))
    intake.not_ahead(where, at, now)


_USAGE = {
    "cpu_cores": ("cpu_milli", 1000),
    "memory_mb": ("memory_mib", 1),
    "storage_mb": ("storage_mib", 1),
}


def usage(session: Session) -> dict[str, dict[str, float | None]] | None:
    """Return what a session's lab used in upstream 000's units; None when nobody measured it."""
    status = session.status
    if not status.measured:
        return None
    shown = {}
    for name, (figure, factor) in _USAGE.items():
        use = status.used.get(figure, Use())
        told = {"peak": use.peak, "mean": use.mean, "p95": use.p95}
        shown[name] = {
            part: None if value is None else round(value / factor, 4)
            for part, value in told.items()
        }
        shown[name]["minutes"] = float(status.measured) if figure in status.used else None
    return shown


async def summary(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, limit: int = 20
) -> Summary:
    """Return the figures of a definition's newest observed sessions; Gone without a definition."""
    access.demand(caller.principal, "read", "Definition")
    if not 1 <= limit <= LIST_LIMIT:
        raise intake.invalid(("limit", f"must be 1 to {LIST_LIMIT}"))
    definition = await lookup.found(services, caller, Definition, name, namespace)
    await services.fresh()
    seen = [
        each
        for each in services.cache.by(indices.SESSIONS_OBSERVED, definition.key.path)
        if access.sees(caller.principal, each)
    ]
    newest = tuple(sorted(seen, key=_observed, reverse=True)[:limit])
    looks = [
        each.status.observed_resources
        for each in newest
        if each.status.observed_resources is not None
    ]
    figures = Aggregate(
        cpu_cores=_figure([look.total_cpu_cores for look in looks]),
        memory_mb=_figure([look.total_memory_mb for look in looks]),
        storage_mb=_figure([look.total_storage_mb for look in looks]),
        node_count=_figure([look.actual_node_count for look in looks]),
    )
    drifted = tuple(each.name for each in newest if each.status.port_drift_detected)
    return Summary(definition=definition, sessions=newest, aggregate=figures, drifted=drifted)


def _figure(newest_first: list[float | None] | list[int | None] | list[int]) -> Figure:
    known = [value for value in newest_first if value is not None]
    if not known:
        return Figure()
    # Upstream took the latest from the wrong end of the list (facts/upstream.md#observation).
    return Figure(max=max(known), avg=round(sum(known) / len(known), 3), latest=known[0])


def _observed(session: Session) -> tuple[datetime, str]:
    at = session.status.observed_at
    assert at is not None  # noqa: S101 - only observed sessions are sorted
    # Stores of earlier versions hold instants without a zone, written by UTC clocks.
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)), session.name
