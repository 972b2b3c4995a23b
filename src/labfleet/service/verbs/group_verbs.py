"""Verbs on groups: all seats last longer, end earlier, or are moved; each in one commit.

A verb changes when the seats are; what the group's manifest says stays, so that applying that again
changes no seat back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime

from labfleet.resources.group import Group
from labfleet.service.core import lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import group_times, session_claims
from labfleet.service.kinds.admitted import Admitted
from labfleet.service.verbs import lifecycle


async def extend(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    end: datetime,
    uid: str | None = None,
) -> Group:
    """Let all seats of a group that are not over last longer, or none of them.

    Invalid (OnlyLater, TooLong) or Refused (NoCapacity, SlotOver) names the seats that cannot. Asked
    for the end that it has, it changes nothing. With `uid` it is Gone when another group has the name.
    """

    async def change(old: Group) -> Admitted:
        lookup.demand_uid(old, uid)
        return await group_times.ending(services, caller, old, end, later=True)

    return await _timed(services, caller, (name, namespace), ("extend", "Extended"), change)


async def shorten(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    end: datetime,
    uid: str | None = None,
) -> Group:
    """Let all seats of a group that are not over end earlier; what that frees is free at once.

    Invalid (OnlyEarlier) or Refused (SlotOver) when it cannot be. `uid` as in `extend`.
    """

    async def change(old: Group) -> Admitted:
        lookup.demand_uid(old, uid)
        return await group_times.ending(services, caller, old, end, later=False)

    return await _timed(services, caller, (name, namespace), ("shorten", "Shortened"), change)


async def move(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    start: datetime,
    uid: str | None = None,
) -> Group:
    """Move all seats of a group by as much as its start is moved; where one cannot be, none is.

    Refused (NoCapacity with the nearest slots, HasBegun, NoSlot, SlotOver). `uid` as in `extend`.
    """

    async def change(old: Group) -> Admitted:
        lookup.demand_uid(old, uid)
        return await group_times.moved(services, caller, old, start)

    return await _timed(services, caller, (name, namespace), ("move", "Moved"), change)


async def _timed(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    deed: tuple[str, str],
    change: Callable[[Group], Awaitable[Admitted]],
) -> Group:
    """Change a group's times; one after the other where claims are taken. `deed`: action, reason."""
    line, (action, reason) = session_claims.line(services, where[1]), deed
    async with nullcontext() if line is None else services.locks.of(line):
        done = await lifecycle.changed(
            services, caller, Group, where, action=action, reason=reason, change=change
        )
    await services.fresh()
    return group_times.shown(services, done)
