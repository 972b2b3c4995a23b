"""The rules of queues: their names and quotas are sound, and one that is waited in stays."""

from __future__ import annotations

import msgspec

from labfleet.decisions import wording
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources import refs
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import Cluster, capacity_of
from labfleet.resources.queue import Queue
from labfleet.service.core import intake
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.core.roles import FOR_TOKENS, Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, machine_rules, queue_users
from labfleet.service.kinds.admitted import Admitted


class QueueEvent(EventType):
    """What can happen to a queue."""

    CREATED = "queue.created", "a queue was made"
    UPDATED = "queue.updated", "a queue was changed"
    DELETED = "queue.deleted", "a queue is gone"


async def create_queue(services: ServiceContext, caller: Caller, new: Queue) -> Admitted:
    """Require roles that exist, and quotas that the cluster can give."""
    del caller
    await _judge(services, new)
    return Admitted(new)


async def update_queue(
    services: ServiceContext, caller: Caller, old: Queue, new: Queue
) -> Admitted:
    """Require the same of a changed queue; what its runs hold already they keep."""
    del caller
    if old.spec != new.spec:
        await _judge(services, new)
    return Admitted(new)


async def delete_queue(services: ServiceContext, caller: Caller, old: Queue) -> Admitted:
    """Refuse to delete a queue that requests wait in; its runs are no obstacle."""
    del caller
    await services.fresh()
    waiting = queue_users.names(services, old)
    machine_rules.in_use(old.name, "queue", "waiting requests", waiting)
    return Admitted(old)


def demand_use(services: ServiceContext, caller: Caller, queue: Queue, owner: str) -> None:
    """Refuse a request for this queue: of somebody who may not use it, or when it is full.

    Denied (reason Forbidden) or Refused (reason QueueFull). `owner` is whose run it would be.
    """
    spec, role = queue.spec, str(caller.principal.role)
    named = bool(spec.roles or spec.owners)
    if named and role not in spec.roles and owner not in spec.owners:
        told = f"queue {queue.name} is for others: role {role} and owner {owner or 'none'} are not"
        raise errors.Denied(f"{told} in its spec.roles or spec.owners", reason="Forbidden")
    waiting = queue_users.waiting(services, queue)
    if waiting >= spec.max_waiting:
        told = f"{count(waiting, 'request')} wait in queue {queue.name}, its most (spec.maxWaiting)"
        raise Refused(f"{told}; ask again later", reason="QueueFull")


async def _judge(services: ServiceContext, new: Queue) -> None:
    spec = new.spec
    known = [str(role) for role in FOR_TOKENS]
    for number, role in enumerate(spec.roles):
        if role not in known:
            what = f"no role {role[:64]!r}" + intake.hint(role[:64], known)
            raise intake.invalid((f"spec.roles[{number}]", what), reason="UnknownRole")
    for name in ("roles", "owners"):
        given = getattr(spec, name)
        if len(set(given)) != len(given):
            raise intake.invalid((f"spec.{name}", "names one twice"))
    if spec.borrowing_limit not in {None, Amounts()} and spec.cohort is None:
        what = "without spec.cohort there is nobody to borrow from; leave it out, or name a cohort"
        raise intake.invalid(("spec.borrowingLimit", what))
    ref = refs.cluster_of(new)
    cluster = await services.objects.get(Cluster, ref.name, ref.namespace)
    if cluster is not None:
        _within(spec.quota, cluster)


def _within(quota: Amounts, cluster: Cluster) -> None:
    """Refuse a quota that the whole cluster does not have; one may be made before its cluster."""
    for name in DIMENSIONS:
        wanted, has = getattr(quota, name), getattr(capacity_of(cluster), name)
        if wanted > has:
            field = msgspec.structs.fields(Amounts)[DIMENSIONS.index(name)].encode_name
            whole = wording.amounts(Amounts(**{name: has})) if has else "none"
            what = f"cluster {cluster.name} has {whole} of it; ask for no more"
            raise intake.invalid((f"spec.quota.{field}", what), reason="OverCapacity")


def shown(services: ServiceContext, queue: Queue) -> Queue:
    """Return a queue as it is read by others: with who uses it."""
    users = queue_users.of(services, queue)
    status = msgspec.structs.replace(
        queue.status, waiting=users.waiting, running=users.running, held=users.held
    )
    return msgspec.structs.replace(queue, status=status)


async def _explain(services: ServiceContext, queue: Queue) -> Explanation:
    """Return who uses a queue, and what its runs hold."""
    users = queue_users.of(services, queue)
    waits = "waits" if users.waiting == 1 else "wait"
    holds = "holds" if users.running == 1 else "hold"
    held = f"; its {count(users.running, 'run')} {holds} {wording.amounts(users.held)}"
    return plain(
        queue,
        f"{count(users.waiting, 'request')} {waits}" + (held if users.running else ""),
    )


def _warns(services: ServiceContext, queue: Queue) -> tuple[str, ...]:
    if services.cache.find(refs.cluster_of(queue)) is not None:
        return ()
    return (f"its cluster {queue.spec.cluster} is not there, so nothing of it can start",)


RULES = KindRules(
    name="Queue",
    create=create_queue,
    update=update_queue,
    delete=delete_queue,
    grants={Role.RUNNER: frozenset({"read"}), Role.USER: frozenset({"read"})},
    explain=_explain,
    warns=_warns,
    shown=shown,
    derived=("status.waiting", "status.running", "status.held"),
    event_types=QueueEvent,
    indices=(indices.QUEUES_OF_CLUSTER,),
)
