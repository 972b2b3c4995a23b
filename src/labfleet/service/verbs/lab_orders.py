"""Orders to start, stop, restart or wipe a lab or one of its nodes.

Each writes what is ordered, with an operation id and until when it is tried, and nothing more: the
controller does it and says in `status.labOrder` how far it is.
"""

from __future__ import annotations

from datetime import timedelta

from labfleet.decisions.lifecycle.worker import lab_orders as worker_orders
from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.lab_orders import Label, LabOrder, LabVerb
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import session_lab
from labfleet.service.kinds.admitted import Admitted, with_spec
from labfleet.service.reads import labs
from labfleet.service.verbs import lifecycle

OTHERS_PATIENCE = timedelta(minutes=30)
"""How long CML may take for an order about a lab whose boot time nobody here knows."""


class LabOrderRequest(Record, frozen=True, kw_only=True):
    """What is ordered of a lab.

    order: What is to be done; a restart is a stop, and a start once everything is off.
    node: Label or CML's name of the one node that is meant; empty means all of the lab.
    confirm: Whether it is meant that a wipe loses what was done in the lab.
    """

    order: LabVerb
    node: Label = ""
    confirm: bool = False


async def order(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    sent: LabOrderRequest,
    *,
    uid: str | None = None,
) -> Session:
    """Order something of the lab of a session that runs; `where` is its name and namespace.

    Refused, Denied or Invalid as the rules in `session_lab` say. `uid` as in `lifecycle.cancel`.
    """
    _one_line(sent.node)
    session_lab.demand_confirmed(sent.order, confirm=sent.confirm, what=f"session {where[0]!r}")

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        return session_lab.ordered(services, caller, old, sent.order, sent.node)

    return await lifecycle.changed(
        services, caller, Session, where, action="operate", reason=f"Lab{sent.order.title()}Ordered",
        change=change,
    )  # fmt: skip


async def order_of_worker(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    lab: str,
    sent: LabOrderRequest,
) -> Worker:
    """Order something of a lab on a worker's server that is no session's.

    Gone when no look has seen it. Refused (LabOfSession, LeftBehind, BeingRemoved) when it is not to
    be ordered about here, (NotAdopted) on a server that is only observed, (NotHosting) while the worker's labs
    are not looked after, and (OrderOpen) while something else is under way on that worker.
    """
    _one_line(sent.node)
    session_lab.demand_confirmed(sent.order, confirm=sent.confirm, what=f"lab {lab[:128]}")

    async def change(old: Worker) -> Admitted:
        _demand_hosting(old)
        await services.fresh()
        found = labs.nobodys(services, old, lab)
        if found.whose == "left-behind":
            told = f"lab {lab} is left behind and is to be removed: ignore it first (ignore-lab)"
            raise Refused(told, reason="LeftBehind")
        now = services.clock.now()
        wanted = LabOrder(
            id=services.ids.uid(), verb=sent.order, lab=lab, node=sent.node, at=now,
            until=now + OTHERS_PATIENCE, by=caller.principal.name,
        )  # fmt: skip
        before = worker_orders.open_order(old)
        return Admitted(
            old if session_lab.repeats(before, wanted) else with_spec(old, lab_order=wanted)
        )

    return await lifecycle.changed(
        services, caller, Worker, where, action="operate", reason=f"Lab{sent.order.title()}Ordered",
        change=change,
    )  # fmt: skip


def _demand_hosting(worker: Worker) -> None:
    lifecycle.alive(worker)
    if phases.observed(worker):
        what = (
            f"worker {worker.name!r} is only observed; first: labfleet adopt {worker.key.argument}"
        )
        raise Refused(what, reason="NotAdopted")
    if worker.status.phase not in phases.HOSTING:
        what = f"labs on worker {worker.name!r} take no orders while it is {worker.status.phase}"
        raise Refused(what, reason="NotHosting")


def _one_line(node: str) -> None:
    if node and not node.isprintable():
        raise intake.invalid(("node", "a label is one line of printable text"))
