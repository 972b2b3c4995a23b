"""The first page: how much of what runs, what asks for somebody, waits and costs; what happened last.

Who may not read workers gets the live tables of what they may see instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labfleet.resources.meta import Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.web import overview, words
from labfleet.web.overview import Overview, RecentEvent
from labfleet.web.view import Asked
from labfleet.web.views import summary
from labfleet.web.views.summary import Summary

EVENTS = 10
"""How many of the newest events stand on the first page."""
FOLLOWS = "Worker,Session,Simulation,Pool,Group,Region,Leak,alerts"


@dataclass(frozen=True, slots=True)
class Vital:
    """How many objects of a kind are in each group of states; ended ones are not counted."""

    kind: str
    title: str
    href: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Home:
    """The first page of who may read workers."""

    vitals: tuple[Vital, ...]
    summary: Summary
    events: tuple[RecentEvent, ...]
    follows: str = FOLLOWS


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> Home | Overview:
    """Return the first page's data."""
    head = await summary.read(services, caller)
    if head is None:
        return await overview.page(services, caller, asked)
    events = await overview.events(services, caller, services.clock.now())
    return Home(vitals(services, caller), head, events[:EVENTS])


def vitals(services: ServiceContext, caller: Caller) -> tuple[Vital, ...]:
    """Return the counts; work does not grow with what has ended, which no index here has."""
    cache = services.cache
    runs = (
        each
        for index in (indices.SIMULATIONS_QUEUED, indices.SIMULATIONS_HOLDING)
        for cluster in cache.values(index)
        for each in cache.by(index, cluster)
    )
    workers, sessions = (
        cache.by(indices.WORKERS_LIVING, True),
        cache.by(indices.SESSIONS_OPEN, True),
    )
    found: tuple[tuple[str, Iterable[Resource]], ...] = (
        ("Worker", workers),
        ("Session", sessions),
        ("Simulation", runs),
    )
    return tuple(
        _vital(caller, kind, objects)
        for kind, objects in found
        if access.may(caller.principal, "read", kind)
    )


def _vital(caller: Caller, kind: str, objects: Iterable[Resource]) -> Vital:
    counts: dict[str, int] = {}
    for each in objects:
        if access.sees(caller.principal, each):
            state = words.state(kind, overview.phase_of(each))
            counts[state.group] = counts.get(state.group, 0) + 1
    section = words.section(kind)
    title, plural = (kind, kind) if section is None else (section.title, section.plural)
    shown = [(group, counts[group]) for group in words.groups(kind) if counts.get(group)]
    return Vital(kind, title, f"/{plural}", tuple(shown))
