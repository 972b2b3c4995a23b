"""The routes of labs on workers' servers."""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter

from labfleet.api.core.route import Name, Routes, Uid
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import consoles, labs
from labfleet.service.verbs import ignored_labs, lab_orders

Lab = Annotated[str, PathParameter(description="CML's name for the lab.")]
ORDER = "/api/v1/workers/{name:str}/labs/{lab:str}/order"
IGNORE = "/api/v1/workers/{name:str}/labs/{lab:str}/ignore"


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("workers")

    @made.get(
        "/api/v1/workers/{name:str}/labs", "The labs of a worker, ours and others', and whose they are",
        needs=("read", "Session"), refuses=(errors.Gone,),
    )  # fmt: skip
    async def get_worker_labs(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> labs.LabsReading:
        """Return the labs that the worker's looks found; people see those of their own sessions."""
        return await labs.labs_of_worker(services, who, name, namespace)

    @made.post(IGNORE, "Leave a lab of no session alone", needs=("operate", "Worker"))
    async def ignore_worker_lab(
        who: Caller, name: Name, lab: Lab, sent: ignored_labs.IgnoreRequest,
        namespace: Namespace = "default",
    ) -> labs.LabsReading:  # fmt: skip
        """Never remove it, whosever it was; what it holds stays counted."""
        await ignored_labs.ignore(services, who, name, namespace, lab, reason=sent.reason)
        return await labs.labs_of_worker(services, who, name, namespace)

    @made.delete(IGNORE, "Take back that a lab is left alone", needs=("operate", "Worker"))
    async def heed_worker_lab(
        who: Caller, name: Name, lab: Lab, namespace: Namespace = "default"
    ) -> labs.LabsReading:
        """Treat it again as any lab of no session: ours are removed, others' are left."""
        await ignored_labs.heed(services, who, name, namespace, lab)
        return await labs.labs_of_worker(services, who, name, namespace)

    @made.post(ORDER, "Start, stop, restart or wipe a lab of no session, or a node",
               needs=("operate", "Worker"), status=202)  # fmt: skip
    async def order_worker_lab(
        who: Caller, name: Name, lab: Lab, sent: lab_orders.LabOrderRequest,
        namespace: Namespace = "default",
    ) -> Worker:  # fmt: skip
        """Order it; the worker's `status.labOrder` tells how far it is."""
        return await lab_orders.order_of_worker(services, who, (name, namespace), lab, sent)

    _of_sessions(made, services)
    return made


def _of_sessions(made: Routes, services: ServiceContext) -> None:
    @made.get(
        "/api/v1/sessions/{name:str}/consoles", "How the nodes of a session's lab are reached",
        tag="sessions", needs=("read", "Session"),
    )  # fmt: skip
    async def get_session_consoles(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> consoles.ConsolesReading:
        """Return it as far as the caller may know where labs are reached (access.userSees)."""
        return await consoles.read(services, who, name, namespace)

    @made.post(
        "/api/v1/sessions/{name:str}/lab", "Start, stop, restart or wipe a session's lab or a node",
        tag="sessions", needs=("operate", "Session"), status=202,
    )  # fmt: skip
    async def order_session_lab(
        who: Caller, name: Name, sent: lab_orders.LabOrderRequest,
        namespace: Namespace = "default", uid: Uid = None,
    ) -> Session:  # fmt: skip
        """Order it; the session's `status.labOrder` tells how far it is."""
        return await lab_orders.order(services, who, (name, namespace), sent, uid=uid)
