"""Reading a worker's licence: as CML told it last, what was asked of it, and how far that is."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.meta import Record, SecretRef
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import telemetry


class OrderReading(Record, frozen=True, kw_only=True):
    """What was asked last of a licence, and how far it is.

    id: Operation id of the order.
    verb: What was asked.
    by: Who asked.
    asked_at: When it was asked.
    state: How far it is.
    since: Since when it is so.
    message: Why it was refused, or what it waits for.
    """

    id: str
    verb: Literal["register", "deregister", "renew"]
    by: str = ""
    asked_at: datetime
    state: Literal["waiting", "calling", "asked", "done", "refused"] = "waiting"
    since: datetime | None = None
    message: str = ""


class LicenceReading(Record, frozen=True, kw_only=True):
    """A worker's licence. Null is unknown: CML did not say, or nobody could ask it.

    worker: Name of the worker.
    licensed: Whether it is registered and authorized.
    registered: Whether a registration is there.
    registration: State of the registration in CML's word.
    authorization: State of the authorization in CML's word.
    product: Product that is registered.
    node_capacity: Nodes that the licence allows.
    running_nodes: Nodes that run there.
    registration_expires: When the registration ends, as CML writes it; it names no zone and means UTC.
    authorization_expires: When the authorization ends, as CML writes it.
    smart_account: Smart account of the registration.
    virtual_account: Virtual account of the registration.
    renewed_at: When a renewal was last asked for.
    leak: Why the licence could not be given back.
    wanted: What somebody ordered: a licence, or none; null means what the template says.
    wanted_product: Product that a registration would take.
    token: Reference of the token that a registration would take.
    order: What was asked last.
    open: Whether that is still under way.
    """

    worker: str
    licensed: bool | None = None
    registered: bool | None = None
    registration: str | None = None
    authorization: str | None = None
    product: str | None = None
    node_capacity: int | None = None
    running_nodes: int | None = None
    registration_expires: str | None = None
    authorization_expires: str | None = None
    smart_account: str | None = None
    virtual_account: str | None = None
    renewed_at: datetime | None = None
    leak: str | None = None
    wanted: bool | None = None
    wanted_product: str | None = None
    token: SecretRef | None = None
    order: OrderReading | None = None
    open: bool = False


async def read(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> LicenceReading:
    """Return a worker's licence; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    return of(services, await lookup.found(services, caller, Worker, name, namespace))


def of(services: ServiceContext, worker: Worker) -> LicenceReading:
    """Return the licence of a worker's record, with what its newest sample adds."""
    status, settings, order = worker.status.licence, worker.spec.licensing, worker.spec.licence
    sample = telemetry.of(services, worker).sample
    told = None if sample is None else sample.licence
    return LicenceReading(
        worker=worker.name,
        licensed=status.licensed,
        registered=status.registered,
        registration=status.registration,
        authorization=status.authorization,
        product=status.product,
        node_capacity=status.node_capacity,
        running_nodes=worker.status.cml.running_nodes,
        registration_expires=None if told is None else told.registration_expires,
        authorization_expires=None if told is None else told.authorization_expires,
        smart_account=None if told is None else told.smart_account,
        virtual_account=None if told is None else told.virtual_account,
        renewed_at=status.renewed_at,
        leak=status.leak,
        wanted=None if order is None else order.licensed,
        wanted_product=None if settings is None else settings.product,
        token=None if settings is None else settings.token,
        order=_order(worker),
        open=phases.open_order(worker) is not None,
    )


def _order(worker: Worker) -> OrderReading | None:
    order, known = worker.spec.licence, worker.status.licence.order
    if order is None:
        return None
    asked = OrderReading(id=order.id, verb=order.verb, by=order.by, asked_at=order.at)
    if known is None or known.id != order.id:
        return asked
    return OrderReading(
        id=order.id, verb=order.verb, by=order.by, asked_at=order.at,
        state=known.state, since=known.at, message=known.message,
    )  # fmt: skip
