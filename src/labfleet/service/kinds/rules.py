"""The rules of each kind for create, change and delete, beyond the shape of the body.

A rule returns the object to store, with preconditions and further writes of the same commit;
it writes nothing itself. Kinds without an entry have no rule of their own.
"""

from __future__ import annotations

from typing import Any

from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import (
    definition_rules,
    machine_rules,
    origin_rules,
    session_rules,
    settings_rules,
    webhook_rules,
)
from labfleet.service.kinds.admitted import Admitted

# Any: each rule takes its own kind, and the table is keyed by that kind's name.
_CREATE: dict[str, Any] = {
    "Worker": machine_rules.create_worker,
    "Pool": machine_rules.create_pool,
    "Template": machine_rules.create_template,
    "Definition": definition_rules.create_definition,
    "Session": session_rules.create_session,
    "Settings": settings_rules.create_settings,
    "Webhook": webhook_rules.create_webhook,
}
_UPDATE: dict[str, Any] = {
    "Worker": machine_rules.update_worker,
    "Pool": machine_rules.update_pool,
    "Template": machine_rules.update_template,
    "Definition": definition_rules.update_definition,
    "Session": session_rules.update_session,
    "Settings": settings_rules.update_settings,
    "Webhook": webhook_rules.update_webhook,
}
_DELETE: dict[str, Any] = {
    "Worker": origin_rules.delete_worker,
    "Pool": machine_rules.delete_pool,
    "Template": machine_rules.delete_template,
    "Definition": definition_rules.delete_definition,
    "Session": session_rules.delete_session,
    "Settings": settings_rules.delete_settings,
    "Cluster": machine_rules.delete_cluster,
    "Simulation": machine_rules.delete_simulation,
}


async def create(services: ServiceContext, caller: Caller, new: Resource) -> Admitted:
    """Return the new object as its kind's rule admits it."""
    rule = _CREATE.get(new.kind)
    admitted: Admitted = Admitted(new) if rule is None else await rule(services, caller, new)
    return admitted


async def update(
    services: ServiceContext, caller: Caller, old: Resource, new: Resource
) -> Admitted:
    """Return the changed object as its kind's rule admits it."""
    rule = _UPDATE.get(new.kind)
    admitted: Admitted = Admitted(new) if rule is None else await rule(services, caller, old, new)
    return admitted


async def delete(services: ServiceContext, caller: Caller, old: Resource) -> Admitted:
    """Return the object to delete as its kind's rule admits it."""
    rule = _DELETE.get(old.kind)
    admitted: Admitted = Admitted(old) if rule is None else await rule(services, caller, old)
    return admitted
