"""Looks up one object by name or uid, as far as the caller may see it."""

from __future__ import annotations

from typing import TypeVar

from labfleet.kernel import errors
from labfleet.resources.meta import Resource
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import Caller, ServiceContext

R = TypeVar("R", bound=Resource)


async def found(
    services: ServiceContext,
    caller: Caller,
    kind: type[R],
    name: str,
    namespace: str,
    *,
    newest: bool = True,
) -> R:
    """Return the object of this name or uid if the caller may see it; else raise Gone.

    Not `newest`: as the cache has it, if it does. That is for who writes by its version and looks
    again after a conflict.
    """
    obj = None if newest else services.cache.get(kind, name, namespace)
    if obj is None and not intake.name_problem(name) and not intake.name_problem(namespace):
        obj = await services.objects.get(kind, name, namespace)
        if obj is None and len(name) == 36:
            # The compatible routes address objects by id.
            known = services.cache.of_uid(kind, name)
            if known is not None:
                obj = await services.objects.get(kind, known.name, known.namespace)
    if obj is None or not access.sees(caller.principal, obj):
        raise errors.Gone(f"{kind.__name__.lower()} {name[:80]!r} does not exist")
    return obj


def demand_uid(obj: Resource, uid: str | None) -> None:
    """Raise Gone when a caller means another object than the one that has the name now."""
    if uid is not None and obj.metadata.uid != uid:
        message = f"that {obj.kind.lower()} {obj.name!r} is gone; another one has its name now"
        raise errors.Gone(message)
