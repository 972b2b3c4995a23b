"""Who did what, when and why: the event log backwards, and what one change made different.

For those who answer for the fleet. Events of one object are read from its own history, which
reaches behind the log's horizon; of all objects only as far back as the log goes, and a bounded
part of it at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key
from labfleet.service.core import intake, views
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import history
from labfleet.service.reads.history import Told

READERS = frozenset({Role.ADMIN, Role.OPERATOR})
"""Roles that may read what everybody did."""
LOOKS = 8
"""Pages of the log that one question reads at most."""
AT_ONCE = 100
"""Events that are read at once."""
TEXT = 200
"""Characters of a value that a difference shows."""
FIELDS = 300
"""Fields of one change that are told at most."""
_NEVER_TOLD = frozenset({"metadata.resourceVersion"})
Flat = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """What is asked for; an empty field asks for everything.

    kind: Kind of the object.
    namespace: Namespace of the object.
    name: Name of the object.
    actor: Who did it, whole.
    reason: Part of the word or sentence that says why.
    change: ADDED, MODIFIED or DELETED.
    asked: Whether only what somebody asked for counts, and not what the product did by itself.
    before: Only earlier revisions than this; 0 begins at the newest.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    actor: str = ""
    reason: str = ""
    change: str = ""
    asked: bool = False
    before: int = 0


@dataclass(frozen=True, slots=True)
class AuditPage:
    """The newest events that were asked for, and where earlier ones are looked for next.

    before: The revision to go on before; None at the log's end.
    horizon: Whether it ended where the log is no longer kept for all objects together.
    """

    found: tuple[Told, ...]
    before: int | None
    horizon: bool


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that a change made different; None where there was none before, or is none now."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AuditChange:
    """One event with the fields that it changed.

    fields: The fields, at most so many.
    more: How many further ones there are.
    known: Whether what was there before is still known.
    """

    told: Told
    fields: tuple[FieldChange, ...]
    more: int
    known: bool


def demand(caller: Caller) -> None:
    """Raise Denied for who may not read what others did."""
    role = caller.principal.role
    if role not in READERS:
        told = f"role {role} may not read what others did; ask an operator"
        raise errors.Denied(told, reason="Forbidden")


async def read(
    services: ServiceContext, caller: Caller, query: AuditQuery, *, limit: int
) -> AuditPage:
    """Return one page of events, the newest first; Denied, or Invalid for odd questions."""
    demand(caller)
    if query.kind and query.kind not in KINDS:
        known = intake.hint(query.kind[:64], list(KINDS))
        raise intake.invalid(("kind", f"there is no kind {query.kind[:64]!r}{known}"))
    if query.kind and query.name:
        return await _of_object(services, query, limit)
    return await _of_all(services, query, limit)


async def _of_object(services: ServiceContext, query: AuditQuery, limit: int) -> AuditPage:
    key = Key(query.kind, query.namespace or DEFAULT_NAMESPACE, query.name)
    before, kept = query.before or None, list[Told]()
    for _ in range(LOOKS):
        page = await services.log.events_of(key, before=before)
        kept += itertools.islice(_passing(page, query), limit + 1 - len(kept))
        if len(kept) > limit:
            return AuditPage(tuple(kept[:limit]), kept[limit - 1].event.revision, horizon=False)
        if len(page) < stores.PAGE_LIMIT:
            return AuditPage(tuple(kept), None, horizon=False)
        before = page[-1].revision
    return AuditPage(tuple(kept), before, horizon=False)


async def _of_all(services: ServiceContext, query: AuditQuery, limit: int) -> AuditPage:
    head = await services.log.head()
    top, kept = min(query.before or head.revision + 1, head.revision + 1), list[Told]()
    for _ in range(LOOKS):
        if top <= 1:
            return AuditPage(tuple(kept), None, horizon=False)
        begin = max(0, top - 1 - stores.PAGE_LIMIT)
        page, ends = await _page(services, head.epoch, begin, top)
        earlier = [each for each in page.events if each.revision < top]
        kept += itertools.islice(_passing(earlier[::-1], query), limit + 1 - len(kept))
        if len(kept) > limit:
            return AuditPage(tuple(kept[:limit]), kept[limit - 1].event.revision, horizon=False)
        if ends:
            return AuditPage(tuple(kept), None, horizon=True)
        top = begin + 1
    return AuditPage(tuple(kept), top, horizon=False)


async def _page(
    services: ServiceContext, epoch: str, begin: int, top: int
) -> tuple[stores.EventPage, bool]:
    """Return the events after `begin`, and whether they begin at the log's horizon instead.

    Where the horizon is, is found by halves: some ten small reads, once at the log's end.
    """
    log = services.log
    try:
        return await log.events(stores.Cursor(epoch, begin)), False
    except errors.TooOld:
        old, known = begin, top - 1
    while known - old > 1:
        middle = (old + known) // 2
        try:
            await log.events(stores.Cursor(epoch, middle), limit=1)
            known = middle
        except errors.TooOld:
            old = middle
    try:
        return await log.events(stores.Cursor(epoch, known)), True
    except errors.TooOld:
        return stores.EventPage((), stores.Cursor(epoch, known)), True


def _passing(page: Sequence[stores.Event], query: AuditQuery) -> Iterator[Told]:
    """Yield the events of a page, newest first, that pass; what cannot be read is left out.

    A few at a time, so that no more is read of them than whoever asks takes.
    """
    wanted = _wanted(query)
    found = [each for each in page if wanted(each)]
    said = query.reason.lower()
    for first in range(0, len(found), AT_ONCE):
        readable = [each for each in found[first : first + AT_ONCE] if _is_read(each)]
        for told in history.told(readable):
            if said in f"{told.reason} {told.message}".lower():
                yield told


def _wanted(query: AuditQuery) -> Callable[[stores.Event], bool]:
    def wanted(event: stores.Event) -> bool:
        key = event.key
        return (
            query.kind in {"", key.kind}
            and query.namespace in {"", key.namespace}
            and query.name in {"", key.name}
            and query.actor in {"", event.actor}
            and query.change in {"", event.type}
            and (not query.asked or event.request_id != "")
            and key.kind in KINDS
        )

    return wanted


def _is_read(event: stores.Event) -> bool:
    """Tell whether this program can read an event; another version may have written it."""
    try:
        history.read(event)
    except (ValueError, KeyError):
        return False
    return True


async def change(services: ServiceContext, caller: Caller, key: Key, revision: int) -> AuditChange:
    """Return what one change of an object made different; Gone when no such change is kept."""
    demand(caller)
    found = await services.log.events_of(key, before=revision + 1, limit=2)
    if not found or found[0].revision != revision or not _is_read(found[0]):
        raise errors.Gone("No such change of this object is kept.")
    event = found[0]
    # What another object of the same name was before is no part of this one.
    older = next((each for each in found[1:] if each.uid == event.uid), None)
    [told] = history.told([event], older=older if older and _is_read(older) else None)
    before = None if older is None else _flat(caller, older)
    after = _flat(caller, event)
    if event.type == "DELETED":
        before, after = after, {}
    known = event.type != "MODIFIED" or before is not None
    fields = [*_differences(before or {}, after or {})] if known and after is not None else []
    return AuditChange(told, tuple(fields[:FIELDS]), max(0, len(fields) - FIELDS), known)


def _flat(caller: Caller, event: stores.Event) -> Flat | None:
    """Return an event's object as path -> value, as the caller may read it; None when unreadable."""
    shown = views.past(caller.principal, event.key.kind, event.doc, event.revision)
    return None if shown is None else dict(_fields("", msgspec.json.decode(shown)))


def _fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _fields(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _fields(f"{path}[{_named(inner, number)}]", inner)
    elif path not in _NEVER_TOLD:
        yield path, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _named(row: Any, number: int) -> str:
    """Return what names one of several records: its name or type rather than its place."""
    found = row if isinstance(row, dict) else {}
    return str(found.get("name") or found.get("type") or number)[:TEXT]


def _differences(before: Flat, after: Flat) -> Iterator[FieldChange]:
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            yield FieldChange(path[:TEXT], _short(old), _short(new))


def _short(value: str | None) -> str | None:
    if value is None or len(value) <= TEXT:
        return value
    return f"{value[: TEXT - 1]}… ({len(value)} characters)"
