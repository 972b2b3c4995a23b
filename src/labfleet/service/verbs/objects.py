"""Create, read, replace, patch and delete any kind, and its events.

Bodies are raw JSON values; `intake` types them, `rules` checks them, one commit writes them.
Lists are in `reads.listing`; verbs on a part of an object are in the other modules of `verbs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors, ids
from labfleet.resources import kinds, spellings
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import Key, Metadata, Resource
from labfleet.service.core import (
    access,
    defaults,
    idempotency,
    intake,
    lookup,
    reserved_labels,
)
from labfleet.service.core.idempotency import Memo
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, Stale, retried
from labfleet.service.kinds import rules
from labfleet.service.kinds.admitted import Admitted, with_generation

R = TypeVar("R", bound=Resource)
FURTHER_PAGES = 10
"""Pages of an object's events that are read for one page of those that a caller may see."""


async def get(
    services: ServiceContext, caller: Caller, row: Kind, name: str, namespace: str, *, wait: int = 0
) -> Resource:
    """Return the object; raise Gone when there is none or the caller may not see it.

    `wait` is for how many machine seconds a reader waits while its phase is one of the kind's
    `waiting` ones; then it is returned as it is.
    """
    access.demand(caller.principal, "read", row.name)
    found = await _seen(services, caller, row, name, namespace)
    if wait and found.status.phase in row.waiting:
        await services.reached(found.revision)
        await services.awaited.settled(row, found.key, wait, caller.principal.id)
        found = await _seen(services, caller, row, name, namespace)
    rules = TABLE[row.name]
    if rules.shown is None:
        return found
    if rules.of_others:
        await services.fresh()
    shown: Resource = rules.shown(services, found)
    return shown


async def create(
    services: ServiceContext,
    caller: Caller,
    row: Kind,
    body: object,
    *,
    namespace: str | None = None,
    key: str | None = None,
) -> Resource:
    """Create an object from a body; raise Refused (AlreadyExists) when the name is taken.

    A session without a name gets one. `key` is the caller's idempotency key.
    """
    access.demand(caller.principal, "create", row.name)
    if not row.creatable:
        message = f"{row.plural} are made by a verb, not by hand"
        raise Refused(message, reason="NotCreatable")
    raw = intake.shaped(row, body)
    access.demand_fields(caller.principal, "create", row.name, raw.get("spec"))
    found = idempotency.memo(caller, key, "create", row.name, namespace, raw)
    if found is not None:
        before = await idempotency.replayed(services, found, row.name)
        if before is not None:
            return before
    obj = intake.typed(row, new_body(services, row, raw, namespace))
    return await add(services, caller, obj, memo=found)


async def add(
    services: ServiceContext,
    caller: Caller,
    obj: R,
    *,
    memo: Memo | None = None,
    writes: tuple[stores.Write, ...] = (),
    fence: stores.Fence | None = None,
    reason: str | None = None,
) -> R:
    """Create a typed object; controllers call it with finalizers and owners already set."""
    now = services.clock.now()
    metadata = msgspec.structs.replace(
        obj.metadata,
        uid=services.ids.uid(),
        generation=1,
        resource_version="",
        creation_timestamp=now,
        deletion_timestamp=None,
    )
    fresh = msgspec.structs.replace(obj, metadata=metadata)

    async def attempt() -> R:
        async with in_turn(services, caller, fresh.kind, rules.line(services, fresh)):
            return await _made()

    async def _made() -> R:
        admitted = await rules.create(services, caller, fresh)
        extra = (*admitted.writes, *writes)
        if memo is not None:
            extra = (*extra, memo.write(services, admitted.obj))
        try:
            _, stored = await services.objects.save(
                admitted.obj,
                *admitted.others,
                cause=services.cause(caller, reason or admitted.reason or "Created"),
                preconditions=admitted.preconditions,
                writes=extra,
                fence=fence,
            )
        except errors.Fenced:
            raise
        except errors.Conflict:
            return await _lost(fresh)
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    async def _lost(mine: R) -> R:
        if memo is not None:
            before = await idempotency.replayed(services, memo, mine.kind)
            if before is not None:
                return before  # type: ignore[return-value]  # the memo's digest holds the kind
        if await services.objects.store.get(mine.key) is not None:
            message = f"{mine.kind.lower()} {mine.name!r} exists already"
            raise Refused(message, reason="AlreadyExists")
        raise errors.Conflict(f"somebody else was first while {mine.name!r} was made")

    return await retried(attempt)


@asynccontextmanager
async def in_turn(
    services: ServiceContext, caller: Caller, kind: str, line: str | None = None
) -> AsyncIterator[None]:
    """Let those who have a quota make one object after the other, so that each counts the others.

    Each process makes one at a time, so several pass a limit by one for each further process.
    `line` is the lock of all who take from one thing: between processes the store decides.
    """
    if line is not None:
        async with services.locks.of(line), in_turn(services, caller, kind):
            yield
        return
    counted = access.only_owner(caller.principal, kind)
    if caller.principal.role in TABLE[kind].counted:
        counted = f"role {caller.principal.role}"
    if counted is None:
        yield
        return
    async with services.locks.of(f"made by {counted}"):
        await services.fresh()
        yield


async def replace(
    services: ServiceContext, caller: Caller, row: Kind, name: str, body: object, *, namespace: str
) -> Resource:
    """Replace a whole object; immutable fields that the body leaves out keep their value."""
    access.demand(caller.principal, "update", row.name)
    raw = intake.shaped(row, body)
    access.demand_fields(caller.principal, "update", row.name, raw.get("spec"))
    return await _change(services, caller, row, Key(row.name, namespace, name), raw, whole=True)


async def patch(
    services: ServiceContext, caller: Caller, row: Kind, name: str, body: object, *, namespace: str
) -> Resource:
    """Apply a JSON merge patch (RFC 7396) to labels, annotations and spec."""
    access.demand(caller.principal, "update", row.name)
    raw = intake.shaped(row, body)
    access.demand_fields(caller.principal, "update", row.name, raw.get("spec"))
    if row.single and _version(raw) is None:
        kind: type[Resource] = row.type
        named = not (intake.name_problem(name) or intake.name_problem(namespace))
        if named and await services.objects.get(kind, name, namespace) is None:
            metadata = {"name": name, "namespace": namespace}
            return await create(services, caller, row, intake.merged({"metadata": metadata}, raw))
    return await _change(services, caller, row, Key(row.name, namespace, name), raw, whole=False)


async def delete(
    services: ServiceContext,
    caller: Caller,
    row: Kind,
    name: str,
    namespace: str,
    *,
    version: str | None = None,
    uid: str | None = None,
) -> Resource:
    """Delete an object; it is removed at once when it has no finalizer.

    The answer carries deletionTimestamp, and the finalizers while it still exists. Repeating
    it is no error. With `uid` it is Gone when another object has the name by now.
    """
    access.demand(caller.principal, "delete", row.name)

    async def attempt() -> Resource:
        old = await _seen(services, caller, row, name, namespace)
        lookup.demand_uid(old, uid)
        _check_version(old, version)
        if old.deleting:
            return old
        admitted = await rules.delete(services, caller, old)
        new = admitted.obj
        moved = old.metadata.generation + (1 if new.spec != old.spec else 0)
        metadata = msgspec.structs.replace(
            new.metadata, deletion_timestamp=services.clock.now(), generation=moved
        )
        ended = msgspec.structs.replace(new, metadata=metadata)
        return await _save(
            services,
            caller,
            old,
            dataclasses.replace(admitted, obj=ended),
            version=version,
            reason="Deleted",
        )

    return await retried(attempt)


async def events(
    services: ServiceContext,
    caller: Caller,
    row: Kind,
    name: str,
    namespace: str,
    *,
    before: int | None = None,
    limit: int = 100,
) -> tuple[stores.Event, ...]:
    """Return the events of an object, newest first, even of one that was removed.

    Raises Gone when no event has this name, or when the caller may not see the object. Who sees
    only their own gets none of the time when the name, or the object, was somebody else's.
    """
    access.demand(caller.principal, "read", row.name)
    if intake.name_problem(name) or intake.name_problem(namespace):
        raise _gone(row, name)
    limited = access.only_owner(caller.principal, row.name) is not None
    if limited:
        await _seen(services, caller, row, name, namespace)
    bounded = max(1, min(limit, stores.PAGE_LIMIT))
    found = await services.log.events_of(
        Key(row.name, namespace, name), before=before, limit=bounded
    )
    if not found and before is None:
        raise _gone(row, name)
    return await _theirs_of(services, caller, found, bounded) if limited else found


async def _theirs_of(
    services: ServiceContext, caller: Caller, found: Sequence[stores.Event], limit: int
) -> tuple[stores.Event, ...]:
    """Return so many events of what was the caller's, from a page of an object's on, newest first.

    Further pages are read, so that a page does not end early for what was somebody else's; a
    bounded number, so that whoever had the name before costs no more.
    """
    theirs = list[stores.Event]()
    for _ in range(FURTHER_PAGES):
        theirs += [each for each in found if _theirs(caller, each)]
        if len(theirs) >= limit or len(found) < limit:
            break
        last = found[-1]
        found = await services.log.events_of(last.key, before=last.revision, limit=limit)
    return tuple(theirs[:limit])


def _theirs(caller: Caller, event: stores.Event) -> bool:
    """Tell whether a caller may see the object as an event has it: it may have been another's then."""
    try:
        then = kinds.decode(event.key.kind, event.doc, event.revision)
    except ValueError:
        return False  # another version has written it in a form that this one cannot read
    return access.sees(caller.principal, then)


async def _change(
    services: ServiceContext,
    caller: Caller,
    row: Kind,
    key: Key,
    raw: dict[str, Any],
    *,
    whole: bool,
) -> Resource:
    version = _version(raw)
    raw = dict(spellings.present(row.name, raw))

    async def attempt() -> Resource:
        old = await _seen(services, caller, row, key.name, key.namespace)
        line = rules.line(services, old)
        if line is None:
            return await changed_from(old)
        async with services.locks.of(line):
            return await changed_from(await _seen(services, caller, row, key.name, key.namespace))

    async def changed_from(old: Resource) -> Resource:
        _check_version(old, version)
        shown: dict[str, Any] = msgspec.to_builtins(old)
        _refuse_server_fields(raw, shown["metadata"])
        if whole:
            wanted = _kept(row, raw, shown)
        else:
            wanted = intake.merged({key: shown[key] for key in ("metadata", "spec")}, raw)
        parsed = intake.typed(row, wanted)
        new = _onto(old, parsed, whole=whole)
        _refuse_frozen(row, old, new)
        if (new.spec, new.metadata) == (old.spec, old.metadata):
            return old
        admitted = await rules.update(services, caller, old, new)
        admitted = dataclasses.replace(admitted, obj=with_generation(old, admitted.obj))
        return await _save(services, caller, old, admitted, version=version, reason="Changed")

    return await retried(attempt)


async def _save(
    services: ServiceContext,
    caller: Caller,
    old: Resource,
    admitted: Admitted,
    *,
    version: str | None,
    reason: str,
) -> Resource:
    try:
        _, stored = await services.objects.save(
            admitted.obj,
            *admitted.others,
            cause=services.cause(caller, admitted.reason or reason),
            preconditions=admitted.preconditions,
            writes=admitted.writes,
        )
    except errors.Fenced:
        raise
    except errors.Conflict:
        if version is not None:
            now = await services.objects.store.get(old.key)
            if now is None or now.revision != old.revision:
                raise _stale(old, 0 if now is None else now.revision) from None
        raise
    return stored[0]


async def _seen(
    services: ServiceContext, caller: Caller, row: Kind, name: str, namespace: str
) -> Resource:
    if intake.name_problem(name) or intake.name_problem(namespace):
        raise _gone(row, name)
    kind: type[Resource] = row.type
    found = await services.objects.get(kind, name, namespace)
    if found is None or not access.sees(caller.principal, found):
        raise _gone(row, name)
    return found


def _gone(row: Kind, name: str) -> errors.Gone:
    return errors.Gone(f"{row.name.lower()} {name[:80]!r} does not exist")


def new_body(
    services: ServiceContext, row: Kind, raw: dict[str, Any], namespace: str | None
) -> dict[str, Any]:
    """Return a shaped body with its namespace, a name where it may lack one, and the defaults."""
    metadata = dict(raw.get("metadata") or {})
    if metadata.pop("resourceVersion", None):
        what = "a new object has none; leave it out"
        raise intake.invalid(("metadata.resourceVersion", what))
    _refuse_server_fields(raw, {})
    reserved_labels.refuse(metadata.get("labels"))
    if namespace is not None and metadata.setdefault("namespace", namespace) != namespace:
        raise intake.invalid(("metadata.namespace", f"must be {namespace!r}, as in the address"))
    if "name" not in metadata and row.named_by:
        said = raw.get("spec") or {}
        base = str(said.get(row.named_by) or said.get("family") or row.name.lower())
        metadata["name"] = f"{ids.slug(base, limit=40)}-{services.ids.uid().replace('-', '')[:12]}"
    raw = dict(spellings.present(row.name, raw))
    filled = defaults.filled(services.defaults.get(row.name, {}), raw.get("spec") or {})
    return {**raw, "metadata": metadata, "spec": filled}


def _version(raw: Mapping[str, Any]) -> str | None:
    version = (raw.get("metadata") or {}).get("resourceVersion")
    if version is None or version == "":
        return None
    if not isinstance(version, str) or not version.isdecimal() or len(version) > 19:
        raise intake.invalid(("metadata.resourceVersion", "must be text of digits"))
    return version


def _check_version(old: Resource, version: str | None) -> None:
    if version is not None and version != old.metadata.resource_version:
        raise _stale(old, old.revision)


def _stale(old: Resource, current: int) -> Stale:
    where = "it is gone" if current == 0 else f"it is at {current} now"
    message = f"{old.kind.lower()} {old.name!r} was changed by somebody else: {where}"
    return Stale(message, current=current)


def _refuse_server_fields(raw: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    metadata = raw.get("metadata") or {}
    problems = [
        (f"metadata.{field}", "is set by the server")
        for field in intake.SERVER_FIELDS
        if metadata.get(field) and not _same(metadata[field], present.get(field))
    ]
    problems += [
        (f"metadata.{field}", f"must be {present[field]!r}")
        for field in ("name", "namespace")
        if present and field in metadata and metadata[field] != present[field]
    ]
    if problems:
        raise intake.invalid(*problems, reason="ServerField")


def _same(sent: Any, present: Any) -> bool:
    """Tell whether a JSON value equals the present one, in which lists are tuples."""
    return bool(sent == (list(present) if isinstance(present, tuple) else present))


def _kept(row: Kind, raw: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """Return a PUT body completed by the fields it may omit: identity, immutable, set by verbs."""
    spec, before = dict(raw.get("spec") or {}), shown["spec"]
    keep = {_camel(name) for name in row.frozen}
    # What only a verb changes never ends because a body leaves it out.
    keep |= set(row.kept)
    for name in row.partial:
        given = spec.get(name)
        if given is None or isinstance(given, dict):
            spec[name] = {**before[name], **(given or {})}
    for name in keep:
        if name not in spec and name in before:
            spec[name] = before[name]
    metadata = {**(raw.get("metadata") or {})}
    for name in ("name", "namespace"):
        metadata[name] = shown["metadata"][name]
    return {**raw, "metadata": metadata, "spec": spec}


def _onto(old: Resource, parsed: Resource, *, whole: bool) -> Resource:
    labels = reserved_labels.kept(parsed.metadata.labels, old.metadata.labels, whole=whole)
    metadata: Metadata = msgspec.structs.replace(
        old.metadata, labels=labels, annotations=parsed.metadata.annotations
    )
    return msgspec.structs.replace(old, metadata=metadata, spec=parsed.spec)


def _refuse_frozen(row: Kind, old: Resource, new: Resource) -> None:
    problems = [
        (f"spec.{_camel(name)}", "cannot be changed after creation")
        for name in row.frozen
        if getattr(old.spec, name) != getattr(new.spec, name)
    ]
    if problems:
        raise intake.invalid(*problems, reason="FrozenField")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)
