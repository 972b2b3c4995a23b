"""The route of the console text that was kept of a worker."""

from __future__ import annotations

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import console_text


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("workers")

    @made.get(
        "/api/v1/workers/{name:str}/logs", "The console text that is kept of a worker",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def get_worker_logs(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> console_text.ConsoleText:
        """Return the end of the console text kept of the worker's last boot that failed."""
        return await console_text.kept(services, who, name, namespace)

    return made
