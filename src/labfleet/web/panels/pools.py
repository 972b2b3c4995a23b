"""The tabs of a pool: its workers by state, its sessions, its history, what it has promised."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Resource
from labfleet.resources.pool import EVENTS_KEPT, Loss, Pool, ScalingEvent
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.web import addresses, calendar, overview, sheet, values, words
from labfleet.web.panels import worker_sessions
from labfleet.web.sheet import Choice, Head, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_EVENTS = (
    Head("When"), Head("What", 2), Head("Before", 1), Head("After", 1), Head("Worker", 3),
    Head("Why", 0),
)  # fmt: skip
_WORDS = {"scale_up": "grew", "scale_down": "shrank", "replace": "replaced one"}
_LOSSES = (Head("When"), Head("Worker", 3), Head("Why", 0))


async def workers(services: ServiceContext, caller: Caller, obj: Resource, asked: Asked) -> Sheet:
    """Return the tab of a pool's workers: a table for each group of states."""
    assert isinstance(obj, Pool)  # noqa: S101 - the table names this kind alone
    found = [
        each
        for each in services.cache.by(indices.WORKERS_OF_POOL, obj.key.path)
        if access.sees(caller.principal, each)
    ]
    section = words.section("Worker")
    assert section is not None  # noqa: S101 - workers have a table, for the type checker
    grouped: dict[str, list[Worker]] = {}
    for each in found:
        grouped.setdefault(words.state("Worker", str(each.status.phase)).group, []).append(each)
    names = [name for name in (*words.groups("Worker"), "ended") if name in grouped]
    wanted = asked.last("state")
    now, held = services.clock.now(), overview.uses(services, "Worker")
    readable = overview.readable(caller.principal)
    parts = []
    for name in names:
        if wanted in {"", name}:
            table = overview.table(section, grouped[name], now, held, readable)
            parts.append(
                Part(
                    name.capitalize(),
                    heads=tuple(Head(column.title, column.wide) for column in section.columns),
                    rows=tuple(row.cells for row in table.rows),
                    more=table.more,
                    further="/fleet?view=table",
                    caption=f"Workers that are {name}",
                )
            )
    if not parts:
        parts.append(Part("Workers", empty="No workers, or none in that state."))
    base = addresses.tab(values.address("pools", obj.name, obj.namespace), "workers")
    choices = [Choice("all", "" if not wanted else base)]
    choices += [
        Choice(f"{name} {len(grouped[name])}", "" if wanted == name else f"{base}&state={name}")
        for name in names
    ]
    return Sheet("Workers", "", tuple(parts), choices=tuple(choices))


async def sessions(services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked) -> Sheet:
    """Return the tab of the sessions on a pool's workers, and of those promised that wait for one."""
    assert isinstance(obj, Pool)  # noqa: S101 - the table names this kind alone
    here = [
        each
        for worker in services.cache.by(indices.WORKERS_OF_POOL, obj.key.path)
        for each in services.cache.by(indices.SESSIONS_HERE, worker.key.path)
        if each.status.phase not in TERMINAL and access.sees(caller.principal, each)
    ]
    waits = [
        each
        for each in services.cache.by(indices.SESSIONS_PENDING, True)
        if _promised(each, obj) and access.sees(caller.principal, each)
    ]
    parts = (
        worker_sessions.sessions(
            services, caller, here, Part("On its workers", empty="None is on its workers.")
        ),
        worker_sessions.sessions(
            services, caller, waits, Part("Promised, not placed yet", empty="None is promised.")
        ),
    )
    return Sheet("Sessions", "", parts)


def _promised(session: Session, pool: Pool) -> bool:
    claim = session.status.claim
    return claim is not None and (claim.pool, session.namespace) == (pool.name, pool.namespace)


async def history(services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked) -> Sheet:
    """Return the tab of a pool's changes of size with their reasons, and of its losses."""
    assert isinstance(obj, Pool)  # noqa: S101 - the table names this kind alone
    status, now = obj.status, services.clock.now()
    lead = status.lead
    facts = [
        ("Says", sheet.text(status.message)),
        ("Last grew", _at(status.last_scale_up, now)),
        ("Last shrank", _at(status.last_scale_down, now)),
        ("Workers made so far", Cell("text", str(status.created_workers))),
    ]
    if lead is not None:
        facts.append(("Makes workers ahead by", Cell("text", f"{lead.seconds / 60:.0f} min")))
        facts.append(("By what", Cell("text", lead.sentence or str(lead.source))))
    if status.tripped_at is not None:
        facts.append(("Paused itself", values.instant(status.tripped_at, now)))
    parts = (
        Part("Size", facts=tuple(facts)),
        Part(
            "Changes of its size", heads=_EVENTS, whole=True,
            rows=tuple(_change(each, obj, now) for each in reversed(status.events)),
            empty="Its size has not changed yet.", note=f"The newest {EVENTS_KEPT} are kept.",
            caption="Changes of its size with their reasons, newest first",
        ),
        Part(
            "Workers that were lost", heads=_LOSSES, whole=True,
            rows=tuple(_loss(each, obj, now) for each in reversed(status.losses)),
            empty="None lately.", caption="Workers that were lost, newest first",
        ),
    )  # fmt: skip
    return Sheet("History", "", parts)


def _at(at: datetime | None, now: datetime) -> Cell:
    return Cell("absent", "never") if at is None else values.instant(at, now)


def _change(each: ScalingEvent, pool: Pool, now: datetime) -> Row:
    return (
        values.instant(each.at, now),
        Cell("text", _WORDS.get(each.kind, each.kind)),
        Cell("text", str(each.before)),
        Cell("text", str(each.after)),
        Cell("link", each.worker, href=values.address("workers", each.worker, pool.namespace)),
        Cell("text", each.reason),
    )


def _loss(each: Loss, pool: Pool, now: datetime) -> Row:
    return (
        values.instant(each.at, now),
        Cell("link", each.worker, href=values.address("workers", each.worker, pool.namespace)),
        Cell("text", each.why or "its machine was ended from outside"),
    )


async def promises(services: ServiceContext, caller: Caller, obj: Resource, asked: Asked) -> Sheet:
    """Return the tab of what a pool has promised, from now on: the calendar's rows of it."""
    query = {"pool": [obj.name], "namespace": [obj.namespace]}
    query |= {name: [asked.last(name)] for name in ("from", "to") if asked.last(name)}
    found = await calendar.page(services, caller, Asked(query))
    empty = "Nothing is promised."
    if found.unknown:
        empty = "Nobody knows what it can hold: its template is missing or disabled."
    part = Part(
        "Promised times",
        heads=tuple(Head(column.title, column.wide) for column in found.columns),
        rows=tuple(row.cells for row in found.rows),
        whole=True,
        empty=empty,
        note="A time lasts from labs' head starts to the end of their cleaning.",
        commands=(f"labfleet calendar --pool {obj.key.argument}",),
        caption="Promised times of this pool, the earliest first",
    )
    further = tuple(Choice(each.text, each.href) for each in found.more)
    return Sheet("Promises", "", (part,), choices=further)
