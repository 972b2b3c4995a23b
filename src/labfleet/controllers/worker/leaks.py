"""Stores each licence leak as an object that outlives its worker, in the worker's own commit.

Decides nothing: the condition LicenceLeaked says what is a leak.
"""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.interfaces import store as stores
from labfleet.kernel import ids
from labfleet.kernel.clock import format_instant
from labfleet.resources import conditions, kinds
from labfleet.resources.leak import KEPT, Leak, LeakSpec
from labfleet.resources.meta import Metadata
from labfleet.resources.worker import Worker, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition


def writes(context: Context, before: Worker, after: WorkerStatus) -> tuple[stores.Write, ...]:
    """Return the writes for a worker's new status: a new leak, or removal of a doubtful one.

    A certain leak stays when its worker gets another machine: it belongs to the old machine,
    and a person must resolve it.
    """
    was, now = _told(before.status), _told(after)
    if was == now:
        return ()
    name = leak_name(before)
    known = context.cache.get(Leak, name, before.namespace)
    if now is None:
        return (stores.Delete(known.key),) if known is not None and was == "Unknown" else ()
    made = _leak(context, before, after, name, certain=now == "True")
    put = stores.Put(made.key, made.metadata.uid, kinds.encode(made))
    kept = context.cache.all(Leak)
    if known is None and len(kept) >= KEPT:
        return (put, stores.Delete(min(kept, key=_age).key))
    return (put,)


def leak_name(worker: Worker) -> str:
    """Return the name for the leak of a worker's present machine, always the same."""
    machine = (worker.status.machine.id or "")[-8:]
    return ids.slug(f"{worker.name[:40]}-{worker.metadata.uid[:8]}-{machine}".rstrip("-"))


def _told(status: WorkerStatus) -> str | None:
    found = conditions.find(status.conditions, WorkerCondition.LICENCE_LEAKED)
    return None if found is None or found.status == "False" else found.status


def _leak(
    context: Context, worker: Worker, status: WorkerStatus, name: str, *, certain: bool
) -> Leak:
    found = conditions.find(status.conditions, WorkerCondition.LICENCE_LEAKED)
    machine, now = worker.spec.machine, context.clock.now()
    return Leak(
        metadata=Metadata(
            name=name,
            namespace=worker.metadata.namespace,
            uid=context.ids.uid(),
            generation=1,
            creation_timestamp=now,
        ),
        spec=LeakSpec(
            worker=worker.name,
            worker_uid=worker.metadata.uid,
            instance_id=status.machine.id,
            region=None if machine is None else machine.provider.region,
            product_uuid=status.cml.product_uuid,
            hostname=status.cml.hostname,
            product=status.licence.product,
            since=now,
            why=(status.licence.leak or "") if found is None else found.message,
            certain=certain,
        ),
    )


def _age(leak: Leak) -> tuple[str, str]:
    return format_instant(leak.spec.since, "microseconds"), leak.key.label
