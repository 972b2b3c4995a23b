"""The route of a worker's ports."""

from __future__ import annotations

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import ports


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("workers")

    @made.get(
        "/api/v1/workers/{name:str}/ports", "The ports of a worker: used, held, free, and by whom",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def get_worker_ports(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> ports.PortsReading:
        """Return which ports of the worker are not free, why, and since when."""
        return await ports.read(services, who, name, namespace)

    return made
