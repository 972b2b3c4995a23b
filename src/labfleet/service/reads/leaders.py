"""Who leads: the one source of the route, the CLI, the page and the metric."""

from __future__ import annotations

from labfleet.engine.leader_watch import LeaderState
from labfleet.resources.meta import Record
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext

WORDS = {
    LeaderState.LED: "leads",
    LeaderState.SILENT: "its lease has run out; another process takes over",
    LeaderState.NOBODY: "nobody leads: no process with this role runs, or one is about to begin",
    LeaderState.UNKNOWN: "unknown: the store's leases could not be read",
}


class RoleLeader(Record, frozen=True, kw_only=True):
    """Which process leads a role.

    role: Role of a server's process.
    state: How it is led: led, silent, nobody or unknown.
    holder: The process as it calls itself; for a store in a local file the installation.
    term: Grows with each change of leader.
    here: Whether the process that answers leads.
    renewed_seconds: For how long the lease was seen unchanged (real seconds); null when nobody
    leads.
    summary: The same in a sentence.
    """

    role: str
    state: str
    holder: str
    term: int
    here: bool
    renewed_seconds: float | None
    summary: str


async def read(services: ServiceContext, caller: Caller) -> tuple[RoleLeader, ...]:
    """Return who leads each role now."""
    access.demand(caller.principal, "read", "Worker")
    if services.leaders is not None:
        await services.leaders.look()
    return known(services)


def known(services: ServiceContext) -> tuple[RoleLeader, ...]:
    """Return who leads each role, as this process read it last; empty where nobody reads it."""
    found = () if services.leaders is None else services.leaders.leaders
    return tuple(
        RoleLeader(
            role=each.role,
            state=each.state.value,
            holder=each.holder,
            term=each.term,
            here=each.here,
            renewed_seconds=each.renewed,
            summary=WORDS[each.state],
        )
        for each in found
    )
