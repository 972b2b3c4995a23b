"""Closing a leak: somebody has freed the licence that a lost worker still held."""

from __future__ import annotations

import msgspec

from labfleet.kernel import errors
from labfleet.resources.leak import Leak
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import Caller, ServiceContext


async def resolve(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, note: str = ""
) -> Leak:
    """Close a leak: a person has freed the licence. Gone when there is none.

    The leak's last event records who resolved it, and the note.
    """
    access.demand(caller.principal, "delete", "Leak")
    if len(note) > 400:
        raise intake.invalid(("note", "at most 400 characters"))
    found = None if intake.name_problem(name) else await services.objects.get(Leak, name, namespace)
    if found is None:
        raise errors.Gone(f"leak {name[:80]!r} does not exist")
    metadata = msgspec.structs.replace(
        found.metadata, deletion_timestamp=services.clock.now(), finalizers=()
    )
    gone = msgspec.structs.replace(found, metadata=metadata)
    reason = f"Resolved: {note}" if note else "Resolved"
    _, stored = await services.objects.save(gone, cause=services.cause(caller, reason))
    return stored[0]  # type: ignore[return-value]  # save returns what it was given
