"""Which object names which: the one place that says where a stored bare name is looked up.

Every reference stays in its namespace. Names in specs and statuses are bare; the namespace is
that of the object that holds them.
"""

from __future__ import annotations

from labfleet.resources.cluster import Cluster
from labfleet.resources.definition import Definition
from labfleet.resources.group import Group
from labfleet.resources.leak import Leak
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.queue import Queue
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker


def definition_of(obj: Session | Group) -> Ref[Definition]:
    """Return the definition that a session, or each seat of a group, uses."""
    return Ref(Definition, obj.namespace, obj.spec.definition)


def worker_of(obj: Session | Leak) -> Ref[Worker] | None:
    """Return the worker that a session was placed on, or that a leak is of; None when none."""
    name = obj.status.worker if isinstance(obj, Session) else obj.spec.worker
    return None if name is None else Ref(Worker, obj.namespace, name)


def pool_of(worker: Worker) -> Ref[Pool] | None:
    """Return the pool that a worker belongs to; None when to none."""
    name = worker.spec.pool
    return None if name is None else Ref(Pool, worker.namespace, name)


def template_of(pool: Pool) -> Ref[Template]:
    """Return the template that a pool makes its workers of."""
    return Ref(Template, pool.namespace, pool.spec.template)


def cluster_of(obj: Simulation | Queue) -> Ref[Cluster]:
    """Return the cluster that a simulation runs on, or that a queue's requests ask for."""
    return Ref(Cluster, obj.namespace, obj.spec.cluster)


def cluster_path(obj: Simulation | Queue) -> str:
    """Return the path of that cluster's key, by which indices and loads go."""
    return f"{obj.metadata.namespace}/{obj.spec.cluster}"
