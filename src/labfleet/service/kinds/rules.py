"""The rules of each kind for create, change and delete, beyond the shape of the body.

A rule returns the object to store, with preconditions and further writes of the same commit;
it writes nothing itself. Kinds that declare none have no rule of their own.
"""

from __future__ import annotations

from labfleet.resources.meta import Resource
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.admitted import Admitted


async def create(services: ServiceContext, caller: Caller, new: Resource) -> Admitted:
    """Return the new object as its kind's rule admits it."""
    rules = TABLE.get(new.kind)
    rule = None if rules is None else rules.create
    admitted: Admitted = Admitted(new) if rule is None else await rule(services, caller, new)
    return admitted


async def update(
    services: ServiceContext, caller: Caller, old: Resource, new: Resource
) -> Admitted:
    """Return the changed object as its kind's rule admits it."""
    rules = TABLE.get(new.kind)
    rule = None if rules is None else rules.update
    admitted: Admitted = Admitted(new) if rule is None else await rule(services, caller, old, new)
    return admitted


async def delete(services: ServiceContext, caller: Caller, old: Resource) -> Admitted:
    """Return the object to delete as its kind's rule admits it."""
    rules = TABLE.get(old.kind)
    rule = None if rules is None else rules.delete
    admitted: Admitted = Admitted(old) if rule is None else await rule(services, caller, old)
    return admitted


def line(services: ServiceContext, new: Resource) -> str | None:
    """Return the lock under which a new object is made after others; None when it needs none."""
    rules = TABLE.get(new.kind)
    return None if rules is None or rules.line is None else rules.line(services, new)
