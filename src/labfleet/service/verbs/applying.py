"""Apply many objects in one call: create what is absent, merge into what is there.

First the shape of every object is judged, with the server's defaults: when one is wrong, nothing is
written. Then each is admitted and written by itself, in the order in which they were given, those
of one kind side by side, so that their commits share a write of the log. `DRY_RUN` runs the same
code on drafts, so it says what an apply would say.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from labfleet.engine.objects import Objects
from labfleet.kernel import errors
from labfleet.resources import spellings
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key, Resource
from labfleet.service.core import access, intake
from labfleet.service.core.draft_store import DraftStore
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.core.shared_reads import SharedReads
from labfleet.service.verbs import objects

ITEMS_LIMIT = 500
JUDGED_AS_ONE = 25
"""How many objects cost about as much to judge as one costs to write."""
TOGETHER = 16
"""How many objects of a kind are written side by side."""
_OURS = (*intake.SERVER_FIELDS, "resourceVersion")


class Mode(enum.StrEnum):
    """How far to go: judge the shape, say what would happen, or do it."""

    CHECK = "check"
    DRY_RUN = "dry-run"
    APPLY = "apply"


class ApplyResult(enum.StrEnum):
    """What became of one object."""

    VALID = "valid"
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one object: as it is now, as it was before, or why it was refused."""

    result: ApplyResult
    obj: Resource | None = None
    before: Resource | None = None
    error: errors.LabfleetError | None = None


@dataclass(frozen=True, slots=True)
class _Item:
    row: Kind
    name: str
    namespace: str
    body: dict[str, Any]
    same: bool = False
    """Whether the object is there and has all that the body says."""


async def apply(
    services: ServiceContext,
    caller: Caller,
    bodies: Sequence[object],
    *,
    namespace: str = DEFAULT_NAMESPACE,
    mode: Mode = Mode.APPLY,
    checked: bool = False,
    key: str | None = None,
    take: Callable[[], None] = lambda: None,
) -> list[Applied]:
    """Return what became of each object, in their order.

    Invalid names every mistake of shape as `items[3].spec.title`, and then nothing was written.
    `checked` says that the caller has had that judged, so that of new objects it is not done again.
    `key` is the caller's idempotency key, for objects without a name; `take` is called before each
    write after the first, which the request itself is, and for each `JUDGED_AS_ONE` objects that are
    judged, also when nothing is written; it raises Throttled when the caller has written enough.
    """
    for _ in range(len(bodies) // JUDGED_AS_ONE):
        take()
    # One wait for the cache instead of a read of the store for each object: by then it has all that
    # was written before this call, and what is written meanwhile is found by the writes themselves.
    await services.fresh()
    items = await _shaped(services, caller, bodies, namespace, judge=not checked)
    if mode is Mode.CHECK:
        return [Applied(ApplyResult.VALID)] * len(items)
    if mode is Mode.DRY_RUN:
        drafts = Objects(DraftStore(services.objects.store))
        services, key = dataclasses.replace(services, objects=drafts), None
        done = await _in_order(services, caller, items, key, lambda: None)
        return [_undrafted(each) for each in done]
    return await _in_order(services, caller, items, key, take)


async def _in_order(
    services: ServiceContext,
    caller: Caller,
    items: Sequence[_Item],
    key: str | None,
    take: Callable[[], None],
) -> list[Applied]:
    services = dataclasses.replace(services, objects=SharedReads(services.objects))
    gate, alone = asyncio.Semaphore(TOGETHER), asyncio.Semaphore(1)
    first = itertools.count()

    async def one(number: int, item: _Item) -> Applied:
        # Whoever has a quota makes one after the other, so that each counts those before it.
        counted = access.only_owner(caller.principal, item.row.name) is not None
        async with alone if counted else gate:
            await asyncio.sleep(0)  # drafts are kept in memory: nothing else would let others in
            # A name makes a repeated request harmless: the second finds everything as it shall be.
            mine = None if key is None or item.name else f"{key[:240]}.{number}"
            try:
                if not item.same and next(first):
                    take()
                return await _one(services, caller, item, mine)
            except errors.LabfleetError as error:
                return Applied(ApplyResult.REFUSED, error=error)

    done: list[Applied] = []
    numbered = enumerate(items)
    for _, run in itertools.groupby(numbered, lambda each: each[1].row.name):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, item)) for number, item in run]
        done += [task.result() for task in tasks]
    return done


def _undrafted(done: Applied) -> Applied:
    """Return it with the version that the object really has: a draft has none of its own."""
    if done.obj is None:
        return done
    version = "" if done.before is None else done.before.metadata.resource_version
    metadata = msgspec.structs.replace(done.obj.metadata, resource_version=version)
    return dataclasses.replace(done, obj=msgspec.structs.replace(done.obj, metadata=metadata))


async def _one(services: ServiceContext, caller: Caller, item: _Item, key: str | None) -> Applied:
    before = _seen(services, caller, item)
    if before is not None and item.same:
        spec = item.body.get("spec")
        access.demand(caller.principal, "update", item.row.name)
        access.demand_fields(caller.principal, "update", item.row.name, spec)
        return Applied(ApplyResult.UNCHANGED, before, before)
    if before is None and not item.row.single:
        try:
            return await _create(services, caller, item, key)
        except Refused as error:
            # Somebody else made it meanwhile: then it is merged into.
            before = await _read(services, caller, item)
            if error.reason != "AlreadyExists" or before is None:
                raise
    try:
        new = await objects.patch(
            services, caller, item.row, item.name, item.body, namespace=item.namespace
        )
    except errors.Gone:
        if before is None:
            raise
        return await _create(services, caller, item, key)  # it was deleted meanwhile
    if before is None:
        return Applied(ApplyResult.CREATED, new)
    same = new.revision == before.revision
    return Applied(ApplyResult.UNCHANGED if same else ApplyResult.CONFIGURED, new, before)


async def _create(
    services: ServiceContext, caller: Caller, item: _Item, key: str | None
) -> Applied:
    made = await objects.create(
        services, caller, item.row, item.body, namespace=item.namespace, key=key
    )
    return Applied(ApplyResult.CREATED, made)


def _seen(services: ServiceContext, caller: Caller, item: _Item) -> Resource | None:
    """Return the object as the cache has it; what the caller may not see is as if absent."""
    found = services.cache.at(Key(item.row.name, item.namespace, item.name))
    return found if found is not None and access.sees(caller.principal, found) else None


async def _read(services: ServiceContext, caller: Caller, item: _Item) -> Resource | None:
    """Return the object as the store has it, under the same rule."""
    kind: type[Resource] = item.row.type
    found = await services.objects.get(kind, item.name, item.namespace)
    return found if found is not None and access.sees(caller.principal, found) else None


async def _shaped(
    services: ServiceContext,
    caller: Caller,
    bodies: Sequence[object],
    namespace: str,
    *,
    judge: bool,
) -> list[_Item]:
    """Return the objects as they will be sent on; Invalid names what is wrong with any.

    Others get their turn after each object, and as much is looked for as a reply tells.
    """
    if len(bodies) > ITEMS_LIMIT:
        raise intake.invalid(("items", f"at most {ITEMS_LIMIT} at once"), reason="TooMany")
    items: list[_Item] = []
    problems: list[tuple[str, str]] = []
    for number, body in enumerate(bodies):
        await asyncio.sleep(0)
        if len(problems) >= intake.PROBLEM_LIMIT:
            break
        try:
            item = _item(body, namespace)
            absent = _seen(services, caller, item) is None
            if access.may(caller.principal, "create" if absent else "update", item.row.name):
                item = item if absent and not judge else _checked(services, caller, item)
            items.append(item)  # one that may not be written costs no judging: it is refused later
        except errors.Invalid as error:
            places = error.problems or (("", error.message),)
            problems += [(f"items[{number}].{where}".rstrip("."), what) for where, what in places]
    seen: set[tuple[str, str, str]] = set()
    for number, item in enumerate(items):
        place = (item.row.name, item.namespace, item.name)
        if item.name and place in seen and not problems:
            problems.append((f"items[{number}]", f"{item.row.name} {item.name!r} is given twice"))
        seen.add(place)
    if problems:
        raise intake.invalid(*problems, reason="BadManifest")
    return items


def _item(body: object, namespace: str) -> _Item:
    word = body.get("kind") if isinstance(body, dict) else None
    row = KINDS.get(word) if isinstance(word, str) else None
    if row is None:
        hint = intake.hint(str(word)[:64], list(KINDS))
        raise intake.invalid(("kind", f"unknown kind {str(word)[:64]!r}{hint}"))
    if not row.creatable:
        raise intake.invalid(("kind", f"{row.plural} are made by a verb, not by hand"))
    raw = intake.shaped(row, body)
    given = raw.get("metadata") or {}
    metadata = {each: value for each, value in given.items() if each not in _OURS}
    space = metadata.get("namespace") or namespace
    metadata["namespace"] = space
    whole = {**raw, "metadata": metadata}
    return _Item(row, str(metadata.get("name") or ""), str(space), whole)


def _checked(services: ServiceContext, caller: Caller, item: _Item) -> _Item:
    """Return the item; Invalid when merged into what is there it would have no valid shape."""
    before = _seen(services, caller, item)
    if before is None:
        intake.typed(item.row, objects.new_body(services, item.row, item.body, item.namespace))
        return item
    shown: dict[str, Any] = msgspec.to_builtins(before)
    raw = dict(spellings.present(item.row.name, item.body))
    wanted = intake.merged({each: shown[each] for each in ("metadata", "spec")}, raw)
    after = intake.typed(item.row, wanted)
    return dataclasses.replace(
        item, same=(after.spec, after.metadata) == (before.spec, before.metadata)
    )
