"""The answer of a kind's rule, and the look-ups that rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Resource
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The object to store, with preconditions and further writes of the same commit.

    `others` are further objects that it writes, made or changed, each at the version that it has.
    `reason` is what the event says; None leaves it to the caller.
    """

    obj: Resource
    preconditions: tuple[stores.Precondition, ...] = ()
    writes: tuple[stores.Write, ...] = ()
    reason: str | None = None
    others: tuple[Resource, ...] = ()


async def referred(
    services: ServiceContext, kind: type[R], name: str, namespace: str, where: str
) -> R:
    """Return the object that a spec names; if missing, raise Invalid at `where`, with a hint."""
    found = await services.objects.get(kind, name, namespace)
    if found is None:
        known = [each.name for each in services.cache.all(kind) if each.namespace == namespace]
        what = f"{kind.__name__.lower()} {name[:64]!r} does not exist"
        raise intake.invalid((where, what + intake.hint(name[:64], known)), reason="UnknownName")
    if found.deleting:
        what = f"{kind.__name__.lower()} {name!r} is being deleted"
        raise intake.invalid((where, what), reason=f"{kind.__name__}Terminating")
    return found


def with_generation(old: R, new: R) -> R:
    """Return a changed object with the generation of its spec; an equal one keeps what it brings."""
    if new.spec == old.spec:
        return new
    metadata = msgspec.structs.replace(new.metadata, generation=old.metadata.generation + 1)
    return msgspec.structs.replace(new, metadata=metadata)


def with_status(obj: R, **changes: object) -> R:
    """Return the object with these status fields."""
    return msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, **changes))


def with_spec(obj: R, **changes: object) -> R:
    """Return the object with these spec fields."""
    return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, **changes))
