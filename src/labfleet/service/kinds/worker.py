"""The rules of workers."""

from __future__ import annotations

from labfleet.resources import refs
from labfleet.service.core.kind_table import KindRules
from labfleet.service.core.roles import Role
from labfleet.service.kinds import (
    indices,
    machine_rules,
    origin_rules,
    worker_allocation,
    worker_events,
    worker_explained,
    worker_view,
)

RULES = KindRules(
    name="Worker",
    create=machine_rules.create_worker,
    update=machine_rules.update_worker,
    delete=origin_rules.delete_worker,
    grants={
        Role.CONTROLLER: frozenset({"create", "drain", "cleanup", "record"}),
        Role.SYSTEM: frozenset({"create", "delete", "drain", "force", "cleanup", "record"}),
    },
    # A machine or an origin of its own would have a password of ours sent to any address, and
    # start an instance with any profile and program.
    fields={Role.CONTROLLER: {"create": frozenset({"template"})}},
    counted=frozenset({Role.CONTROLLER}),
    explain=worker_explained.explain,
    shown=worker_allocation.shown,
    derived=("status.allocation", "status.lastHealthCheckAt", "status.ports"),
    pools=lambda worker: (refs.pool_of(worker),),
    event_types=worker_events.WorkerEvent,
    unlogged=frozenset({worker_events.WorkerEvent.METRICS_UPDATED}),
    born=worker_events.born,
    changed=worker_events.changed,
    view=worker_view.view,
    sight=worker_view.sight,
    private=worker_view.private,
    indices=(
        indices.WORKERS_OF_POOL,
        indices.WORKERS_OF_PRODUCT,
        indices.WORKERS_OF_INSTANCE,
        indices.WORKERS_OF_MACHINE,
        indices.WORKERS_OF_SERVER,
        indices.WORKERS_LIVING,
        indices.WORKERS_SINGLE,
        indices.WORKERS_OF_REGION,
        indices.WORKERS_ABSENT,
        indices.WORKERS_STRAY,
        indices.WORKERS_OUTSIDE,
        indices.WORKERS_RAISED,
        indices.WORKERS_ENDED,
    ),
)
