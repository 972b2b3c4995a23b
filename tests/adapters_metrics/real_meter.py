"""A meter of real PromQL servers, on the real clock."""

from __future__ import annotations

import asyncio

from scripted_promql import Named, cluster

from labfleet.adapters.http.transport import Deadlines
from labfleet.adapters.metrics.meter import SourcesMeter
from labfleet.adapters.metrics.promql import Limits, PromqlReader
from labfleet.app.system import SystemClock
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.resources.cluster_access import MetricsKind, MetricsSource


def measured(
    url: str, matchers: str = "", window: int = 120, seconds: float = 10.0
) -> ClusterUsage:
    """Return what a cluster uses, as a server tells it now; each query may take so long."""
    source = MetricsSource(name="real", url=url, matchers=matchers, window_seconds=window)
    limits = Limits(query=Deadlines(seconds, seconds, seconds))

    async def asked() -> ClusterUsage:
        clock = SystemClock()
        reader = PromqlReader(Named(), clock, limits=limits)
        try:
            found = await SourcesMeter({MetricsKind.PROMQL: reader}, clock).usage(cluster(source))
        finally:
            await reader.close()
        assert found is not None
        return found

    return asyncio.run(asked())
