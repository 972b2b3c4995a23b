"""Routes of telemetry: newest numbers and series of one object or all, alerts, leaders."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources import alerts
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import leaders, series, telemetry, usage

Metrics = Annotated[
    str, QueryParameter(name="metric", description="Names with commas; all without.")
]
Since = Annotated[str, QueryParameter(description="An instant, or how far back: 90m, 6h, 3d.")]
Step = Annotated[
    int | None, QueryParameter(ge=60, le=3_024_000, description="Seconds of a point; no finer.")
]


class VitalsList(Record, frozen=True, kw_only=True):
    """Living workers, the busiest first; and how many more there are.

    items: One entry for each worker.
    left_out: How many workers are left out of the list.
    """

    items: tuple[telemetry.Vitals, ...]
    left_out: int = 0


class AlertList(Record, frozen=True, kw_only=True):
    """The raised alerts, the most severe first; and how many more there are.

    items: One entry for each alert.
    left_out: How many alerts are left out of the list.
    """

    items: tuple[alerts.Raised, ...]
    left_out: int = 0


class UsageList(Record, frozen=True, kw_only=True):
    """What each uses now, the busiest first; and how many more there are.

    items: One entry for each cluster or live run.
    left_out: How many are left out of the list.
    """

    items: tuple[usage.Usage, ...]
    left_out: int = 0


class LeaderList(Record, frozen=True, kw_only=True):
    """Which process leads each role.

    items: One entry for each role.
    """

    items: tuple[leaders.RoleLeader, ...]


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("workers")
    needs = ("read", "Worker")

    @made.get(
        "/api/v1/workers/{name:str}/series", "A worker's numbers over time, down-sampled",
        needs=needs,
    )  # fmt: skip
    async def get_worker_series(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        *,
        metric: Metrics = "",
        since: Since = "",
        step: Step = None,
    ) -> series.Series:
        """Return a worker's numbers over time: least, mean and greatest of each step."""
        return await series.read(
            services, who, Worker, name, namespace, metrics=metric, since=since, step=step
        )

    @made.get("/api/v1/fleet/vitals", "Every worker's newest numbers", needs=needs)
    async def list_vitals(who: Caller) -> VitalsList:
        """Return the newest numbers of each living worker, the busiest first."""
        items, left_out = await telemetry.all_vitals(services, who)
        return VitalsList(items=items, left_out=left_out)

    @made.get(
        "/api/v1/fleet/alerts", "What asks for somebody, with cause, command and fix", needs=needs
    )
    async def list_alerts(who: Caller) -> AlertList:
        """Return the raised alerts, the gravest first, each with cause, command and fix."""
        await services.fresh()
        items, left_out = telemetry.raised(services, who)
        return AlertList(items=items, left_out=left_out)

    @made.get("/api/v1/fleet/leaders", "Which process leads each role", needs=needs)
    async def list_leaders(who: Caller) -> LeaderList:
        """Return which process leads each role, and since which term."""
        return LeaderList(items=await leaders.read(services, who))

    @made.get(
        "/api/v1/workers/{name:str}/telemetry", "What was last measured of a worker's CML",
        needs=needs,
    )  # fmt: skip
    async def get_worker_telemetry(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> telemetry.Reading:
        """Return the newest measurements, each with source and age; null is not known."""
        return await telemetry.newest(services, who, name, namespace)

    _series_of_others(services, made)
    _used_now(services, made)
    return made


def _series_of_others(services: ServiceContext, made: Routes) -> None:
    """Add the series of clusters, runs and labs."""

    @made.get(
        "/api/v1/clusters/{name:str}/series", "A cluster's numbers over time, down-sampled",
        needs=("read", "Cluster"),
    )  # fmt: skip
    async def get_cluster_series(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        *,
        metric: Metrics = "",
        since: Since = "",
        step: Step = None,
    ) -> series.Series:
        """Return what a cluster used over time: least, mean and greatest of each step."""
        return await series.read(
            services, who, Cluster, name, namespace, metrics=metric, since=since, step=step
        )

    @made.get(
        "/api/v1/simulations/{name:str}/series", "A run's numbers over time, by the minute",
        needs=("read", "Simulation"),
    )  # fmt: skip
    async def get_simulation_series(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        *,
        metric: Metrics = "",
        since: Since = "",
        step: Step = None,
    ) -> series.Series:
        """Return what a run's own pods used: its last six hours, kept some days after its end."""
        return await series.read(
            services, who, Simulation, name, namespace, metrics=metric, since=since, step=step
        )

    @made.get(
        "/api/v1/sessions/{name:str}/series", "A lab's numbers over time, by the minute",
        needs=("read", "Session"),
    )  # fmt: skip
    async def get_session_series(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        *,
        metric: Metrics = "",
        since: Since = "",
        step: Step = None,
    ) -> series.Series:
        """Return what a session's lab used: its last six hours, kept some days after its end."""
        return await series.read(
            services, who, Session, name, namespace, metrics=metric, since=since, step=step
        )


def _used_now(services: ServiceContext, made: Routes) -> None:
    """Add what all of a kind use now."""

    @made.get(
        "/api/v1/fleet/sessions/usage", "What every lab that is up uses now",
        needs=("read", "Session"),
    )  # fmt: skip
    async def list_session_usage(who: Caller) -> UsageList:
        """Return what each lab uses now, the busiest first; unmeasured numbers are absent."""
        items, left_out = await usage.sessions(services, who)
        return UsageList(items=items, left_out=left_out)

    @made.get(
        "/api/v1/fleet/clusters/usage", "What every cluster uses now", needs=("read", "Cluster")
    )
    async def list_cluster_usage(who: Caller) -> UsageList:
        """Return what each cluster uses now, the busiest first; unmeasured numbers are absent."""
        items, left_out = await usage.clusters(services, who)
        return UsageList(items=items, left_out=left_out)

    @made.get(
        "/api/v1/fleet/simulations/usage", "What every live run uses now",
        needs=("read", "Simulation"),
    )  # fmt: skip
    async def list_simulation_usage(who: Caller) -> UsageList:
        """Return what each live run uses now, the busiest first; unmeasured numbers are absent."""
        items, left_out = await usage.simulations(services, who)
        return UsageList(items=items, left_out=left_out)
