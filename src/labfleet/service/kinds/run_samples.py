"""What a run has used by its own samples, read once more when it ends."""

from __future__ import annotations

from labfleet.decisions import run_use
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.history import Use
from labfleet.resources.simulation import Simulation
from labfleet.service.core.service_context import ServiceContext


async def at_end(services: ServiceContext, run: Simulation) -> dict[str, Use]:
    """Return what a run that ends now has used; nothing when nobody has measured it.

    Reads the minutes of a measured run, 360 rows at most: what is in its status was recorded some
    time ago. Where they cannot be read now, that is what there is.
    """
    status, minute = run.status, series.TIERS[0]
    if not status.used or status.decided_at is None:
        return status.used
    owner = series.Owner(run.kind, run.metadata.uid)
    since = status.started_at or status.decided_at
    lasted = (status.completed_at or services.clock.now()) - since
    begin = series.bucket_start(status.decided_at, minute.step)
    try:
        rows = await services.series.series(owner, minute.step, begin)
    except errors.Temporary:
        return status.used
    buckets = (series.unpack(owner.kind, row.data) for row in rows)
    return run_use.at_end(status.used, buckets, lasted)
