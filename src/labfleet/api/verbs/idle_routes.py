"""Routes of idle detection: the explained verdict, and the switch of one worker."""

from __future__ import annotations

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import idle
from labfleet.service.verbs import idle_checks


class SwitchRequest(Record, frozen=True, kw_only=True):
    """Whether the worker may be stopped for idleness.

    enabled: Whether it may be.
    """

    enabled: bool


class IdleList(Record, frozen=True, kw_only=True):
    """The verdicts of living workers, without signals, by name; and how many more there are.

    items: One verdict for each worker.
    left_out: How many workers are left out of the list.
    """

    items: tuple[idle.IdleReading, ...]
    left_out: int = 0


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("workers")

    @made.get(
        "/api/v1/workers/{name:str}/idle", "Is it idle, and what keeps it",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def get_worker_idle(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> idle.IdleReading:
        """Return whether it is in use, every signal, and when it would be stopped."""
        return await idle.read(services, who, name, namespace)

    @made.get(
        "/api/v1/fleet/idle", "Every worker's verdict, and what keeps it",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def list_idle(who: Caller) -> IdleList:
        """Return the verdict on each living worker, by name."""
        items, left_out = await idle.overview(services, who)
        return IdleList(items=items, left_out=left_out)

    @made.post(
        "/api/v1/workers/{name:str}/idle-detection", "Switch its idle detection",
        needs=("drain", "Worker"),
    )  # fmt: skip
    async def idle_detection_worker(
        who: Caller, name: Name, sent: SwitchRequest, namespace: Namespace = "default"
    ) -> Worker:
        """Let the idle rule stop this worker, or keep it from that."""
        return await idle_checks.switch(services, who, name, namespace, enabled=sent.enabled)

    return made
