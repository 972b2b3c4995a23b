"""The routes of a worker's ports."""

from __future__ import annotations

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import ports
from labfleet.service.verbs import held_ports


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
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

    @made.post(
        "/api/v1/workers/{name:str}/ports/release", "Let held ports be given out",
        needs=("release", "Worker"),
    )  # fmt: skip
    async def release_worker_ports(
        who: Caller, name: Name, sent: held_ports.ReleaseRequest, namespace: Namespace = "default"
    ) -> ports.PortsReading:
        """Let ports be given out although a lab names them; the reason is kept with who said so."""
        await held_ports.release(services, who, name, namespace, sent)
        return await ports.read(services, who, name, namespace)

    return made
