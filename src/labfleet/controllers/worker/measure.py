"""Measure a CML server: a bounded number of requests, each best effort (facts/cml.md#client-rules).

Read order: health, stats, licence (with diagnostics), maintenance, nodes. With the readiness
and login checks before them, one observation of a worker makes at most `REQUESTS` requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from labfleet.interfaces.lab_host import LabHost, NodeState
from labfleet.kernel import errors
from labfleet.resources.telemetry import Licensing, Sample, SystemHealth, SystemStats
from labfleet.resources.worker import CmlStatus, Worker

T = TypeVar("T")

REQUESTS = 8
"""HTTP requests of one observation: system_information, authok, system_health,
system_stats, licensing, diagnostics/licensing, maintenance_mode, nodes; a login comes on top."""

NOT_ASKED = "not asked: CML says that it is not ready"
"""Why a server that is not ready has only its health in a sample."""

SILENT = (errors.Unreachable, errors.Booting)
"""Errors after which the remaining requests would only run into their deadlines."""


@dataclass(slots=True)
class Survey:
    """Results of one observation; None is a value not read, with the reason in `gaps`."""

    health: SystemHealth | None = None
    stats: SystemStats | None = None
    licence: Licensing | None = None
    maintenance: bool | None = None
    nodes: tuple[NodeState, ...] | None = None
    gaps: dict[str, str] = field(default_factory=dict)
    problems: list[errors.LabfleetError] = field(default_factory=list)

    def sample(self, worker: Worker, cml: CmlStatus, at: datetime) -> Sample:
        """Return the sample to be stored."""
        launched = worker.status.machine.launched
        gaps = {**self.gaps}
        if launched is None:
            gaps["uptime_seconds"] = "the instance's launch time was not seen"
        labs = None if self.nodes is None else len({each.lab_id for each in self.nodes})
        if labs is None:
            gaps.setdefault("labs_count", "nodes are listed only while the worker hosts")
        return Sample(
            worker=worker.name,
            namespace=worker.namespace,
            at=at,
            boot=cml.boot or "",
            version=cml.version,
            ready=cml.ready,
            uptime_seconds=None if launched is None else int((at - launched).total_seconds()),
            labs_count=labs,
            maintenance=self.maintenance,
            stats=self.stats,
            health=self.health,
            licence=self.licence,
            gaps=gaps,
        )


async def survey(host: LabHost, *, nodes: bool) -> Survey:
    """Request everything and keep what succeeded; raise the first error if nothing did."""
    made = Survey()
    made.health = await _try(made, "health", host.system_health)
    made.stats = await _try(made, "stats", host.system_stats)
    made.licence = await _try(made, "licence", host.licensing)
    made.maintenance = await _try(made, "maintenance", host.maintenance)
    if nodes:
        made.nodes = await _try(made, "labs_count", host.all_nodes)
    if made.health is None and made.stats is None and made.licence is None:
        raise made.problems[0]
    return made


async def health_only(host: LabHost, *, licence: bool = False) -> Survey:
    """Request the health of a server that says it is not ready; never raises for its errors.

    `licence`: that is on its way back, and has nothing to do with whether nodes can start.
    """
    made = Survey()
    made.health = await _try(made, "health", host.system_health)
    made.gaps |= dict.fromkeys(("stats", "licence", "maintenance", "labs_count"), NOT_ASKED)
    if licence:
        del made.gaps["licence"]
        made.licence = await _try(made, "licence", host.licensing)
    return made


async def _try(made: Survey, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
    if any(isinstance(each, SILENT) or each.reason == "Timeout" for each in made.problems):
        # One deadline spent on a server that hangs is enough.
        made.gaps[what] = f"not asked after: {made.problems[-1].message}"[:300]
        return None
    try:
        return await ask()
    except errors.LabfleetError as problem:
        made.gaps[what] = f"{problem.reason}: {problem.message}"[:300]
        made.problems.append(problem)
        return None
