"""GET /api/history, as upstream 004's dashboard reads it: the last runs of simulations."""

from __future__ import annotations

from datetime import datetime

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.api.core.route import Routes
from labfleet.resources.history import KeptRun, RunKind, nodes_of, used
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import past_runs

NEWEST = 100


class PastRun(SeedRecord, frozen=True, kw_only=True):
    """One run in upstream 004's words; null is unknown.

    id: Uid of the simulation.
    chart: Family of the run.
    node_count: Of how many nodes it was.
    duration_secs: How long it ran.
    cpu_cores: The most CPUs that it used.
    memory_gb: The most memory that it used, in GiB.
    peak_cpu_delta: The same as cpu_cores.
    peak_mem_delta: The same as memory_gb.
    peak_network_delta: The most that it sent or received, in kbit/s.
    observed_at: When it was over.
    """

    id: str
    chart: str
    node_count: int | None
    duration_secs: float | None
    cpu_cores: float | None
    memory_gb: float | None
    peak_cpu_delta: float | None
    peak_mem_delta: float | None
    peak_network_delta: float | None
    observed_at: datetime


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("seeds")

    @made.get("/api/history", "The last runs of simulations", needs=("read", "Simulation"))
    async def seed_history(who: Caller) -> list[PastRun]:
        """Return the last hundred runs, the newest first; runners see their own."""
        found, _ = await past_runs.read(services, who, kind=RunKind.SIMULATION, limit=NEWEST)
        return [_past(each) for each in found]

    return made


def _past(kept: KeptRun) -> PastRun:
    run = kept.run
    milli, mib = used(run, "cpu_milli"), used(run, "memory_mib")
    cores = None if milli is None else milli / 1000
    gib = None if mib is None else mib / 1024
    return PastRun(
        id=run.uid,
        chart=run.family,
        node_count=nodes_of(run),
        duration_secs=run.duration_seconds,
        cpu_cores=cores,
        memory_gb=gib,
        peak_cpu_delta=cores,
        peak_mem_delta=gib,
        peak_network_delta=used(run, "network_kbps"),
        observed_at=run.ended_at,
    )
