"""The page `/replicas`: which process leads each role, since which term, and how its lease is."""

from __future__ import annotations

from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import leaders
from labfleet.service.reads.leaders import RoleLeader
from labfleet.web.sheet import Head, Part, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/replicas"
_STATES = {"led": ("good", "●"), "silent": ("warn", "▲"), "unknown": ("calm", "?")}
_HEADS = (
    Head("Role", 3), Head("State"), Head("Leader", 5), Head("Term", 1), Head("Lease seen unchanged"),
    Head("What that means", 5),
)  # fmt: skip


async def page(services: ServiceContext, caller: Caller, _asked: Asked) -> Sheet:
    """Return the page; Denied for who may not read workers."""
    found = await leaders.read(services, caller)
    return Sheet(
        title="Replicas",
        lead="Which process leads each role, as the store's leases tell. Every server answers; one "
        "leads a role at a time, and another takes over when its lease runs out.",
        parts=(
            Part(
                "Who leads",
                heads=_HEADS,
                rows=tuple(_row(each) for each in found),
                empty="Nobody reads the leases here: this process has no part in leading.",
                caption="Which process leads each role",
            ),
        ),
        commands=("labfleet leaders",),
    )


def _row(each: RoleLeader) -> tuple[Cell, ...]:
    tone, shape = _STATES.get(each.state, ("calm", "○"))
    here = " (this server)" if each.here else ""
    seconds = each.renewed_seconds
    lag = (
        Cell("absent", "no lease")
        if seconds is None
        else Cell("text", f"{seconds:.1f} s", exact=f"{seconds} seconds of this server's own clock")
    )
    return (
        Cell("text", each.role),
        Cell("state", each.state, tone=tone, shape=shape),
        Cell("text", f"{each.holder}{here}") if each.holder else Cell("absent", "nobody"),
        Cell("text", str(each.term)),
        lag,
        Cell("text", each.summary),
    )
