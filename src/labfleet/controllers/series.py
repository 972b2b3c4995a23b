"""Measurements over time: reads CloudWatch if enabled, and stores all numbers once a minute.

The leading worker controller merges the samples in its memory into the store's ring buffers, one
batch a minute; no event is appended. A crash loses one minute. It also drops the series of every
kind that are no longer wanted; those of clusters and runs are written by `cluster_samples`. Samples
that another process gave (`engine.sample_exchange`) are merged when they were measured in this
leader's term; older ones were merged by the leader before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from labfleet.controllers.context import Context
from labfleet.decisions import vitals
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.compute import MetricPoint
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.telemetry import ProviderPoint
from labfleet.resources.worker import Worker
from labfleet.service.kinds import indices

KEY = Key("Worker", "", "series")
KIND = "Worker"
EVERY = 60.0
SWEEP_EVERY = 600.0
PERIOD = 300
"""Seconds of a CloudWatch point: basic monitoring has no finer ones (facts/aws.md#cloudwatch)."""

DETAILED = 60
LOOK_BACK = timedelta(minutes=20)
"""How far back CloudWatch is queried: points come up to 15 minutes late."""

SAMPLES_READ = 20
CHUNK = 500
"""Rows of one transaction: between two transactions, other commits can run."""
BEHIND_SECONDS = 2.0
"""Machine seconds that a sweep waits for the cache; when it is later, the next one sweeps."""

Buckets = dict[tuple[int, datetime], dict[str, series.Spread]]


class _Store(stores.SeriesStore, stores.SampleStore, stores.EventLog, Protocol):
    """Where series lie, with the samples and the log's end."""


class SeriesController:
    """Does this under one key."""

    def __init__(self, context: Context, kept: _Store) -> None:
        self.context = context
        self._kept = kept
        self._taken: dict[Key, datetime] = {}
        self._metered: dict[Key, datetime] = {}
        self._ask_at = 0.0
        self._sweep_at = 0.0
        self._term: stores.Fence | None = None
        self._since = context.clock.now()

    async def reconcile(self, key: Key) -> Done | Again:
        """Do one bounded round."""
        del key
        if self._term != self.context.leadership.fence:
            self._term, self._since = self.context.leadership.fence, self.context.clock.now()
        now = self.context.clock.monotonic()
        settings = self.context.settings.now().monitoring
        if settings.cloudwatch and now >= self._ask_at:
            self._ask_at = now + settings.cloudwatch_interval_seconds
            await self._meter(settings.cloudwatch_interval_seconds)
        await self._fold()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY
            await self._sweep()
        return Again(EVERY)

    # --- CloudWatch ----------------------------------------------------------------------

    async def _meter(self, interval: int) -> None:
        """Query one region after the other, its machines in one batch; errors store nothing."""
        period = DETAILED if interval < PERIOD else PERIOD
        percent = self.context.settings.now().monitoring.metrics_change_percent
        for region, machines in self._running().items():
            end = series.bucket_start(self.context.clock.now(), period)
            try:
                found = await self.context.compute.metrics(
                    region, list(machines), end - LOOK_BACK, end, period
                )
            except errors.LabfleetError:
                continue  # the old numbers stay and become stale
            for instance, told in found.items():
                worker = machines.get(instance)
                if worker is not None:
                    points = [_point(each, period) for each in told]
                    self.context.samples.put_points(worker, points, change_percent=percent)

    def _running(self) -> dict[str, dict[str, Key]]:
        """Return region -> instance -> worker's key, for the machines that run."""
        found: dict[str, dict[str, Key]] = {}
        for worker in self.context.cache.by(indices.WORKERS_LIVING, True):
            machine, shown = worker.spec.machine, worker.status.machine
            if machine is not None and shown.id is not None and shown.state == "running":
                found.setdefault(machine.provider.region, {})[shown.id] = worker.key
        return found

    # --- folding -------------------------------------------------------------------------

    async def _fold(self) -> None:
        """Merge what was measured since the last round into the store."""
        rows: list[stores.SeriesRow] = []
        taken: dict[Key, datetime] = {}
        metered: dict[Key, datetime] = {}
        for worker in self.context.samples.workers():
            found = self.context.cache.at(worker)
            if found is None:
                continue
            buckets: Buckets = {}
            for at, values in self._sampled(worker, taken):
                series.add(buckets, KIND, at, values)
            for at, values in self._provided(worker, metered):
                series.add(buckets, KIND, at, values)
            rows += rows_of(series.Owner(KIND, found.metadata.uid), buckets)
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            await self._kept.merge_series(chunk)
        self._taken |= taken
        self._metered |= metered

    def _sampled(
        self, worker: Key, taken: dict[Key, datetime]
    ) -> Iterator[tuple[datetime, Mapping[str, float | None]]]:
        last = self._taken.get(worker)
        sessions = sum(
            each.status.phase in session_phases.BOUND
            for each in self.context.cache.by(indices.SESSIONS_HERE, worker.path)
        )
        for sample in self.context.samples.recent(worker, SAMPLES_READ):
            if sample.at >= self._since and (last is None or sample.at > last):
                taken[worker] = sample.at
                yield sample.at, {**vitals.of_sample(sample), "sessions": sessions}

    def _provided(
        self, worker: Key, metered: dict[Key, datetime]
    ) -> Iterator[tuple[datetime, Mapping[str, float | None]]]:
        """Yield new points; those from before this term were stored by the leader before."""
        begin = self._since - timedelta(seconds=PERIOD)
        last = max(self._metered.get(worker, begin), begin)
        for point in self.context.samples.points(worker):
            if point.at > last:
                metered[worker] = point.at
                yield point.at, vitals.of_point(point)

    async def _sweep(self) -> None:
        """Drop what belongs to no object any more, and what is over for long enough."""
        owners = await self._kept.series_owners()
        workers = {row.worker for row in await self._kept.sample_times()}
        # An owner may be newer than this cache: once the cache has the log's end, it is not.
        head = await self._kept.head()
        try:
            async with asyncio.timeout(BEHIND_SECONDS):
                await self.context.cache.reached(head.revision)
        except TimeoutError:
            return
        gone = [each for each in owners if self._over(each)]
        if gone:
            await self._kept.drop_series(gone)
        there = frozenset(self.context.cache.keys(Worker))
        left = workers - {each.path for each in there}
        if left:
            await self._kept.drop_samples(sorted(left))
        for worker in [each for each in self._taken if each not in there]:
            del self._taken[worker]
        for worker in [each for each in self._metered if each not in there]:
            del self._metered[worker]

    def _over(self, owner: series.Owner) -> bool:
        """Tell whether an object is gone, or is a run or session that ended days ago."""
        obj = self.context.cache.of_uid(KINDS[owner.kind].type, owner.uid)
        if obj is None:
            return True
        days = timedelta(days=self.context.settings.now().monitoring.samples_days)
        ended = None
        if isinstance(obj, Simulation):
            ended = obj.status.completed_at
        elif isinstance(obj, Session):
            ended = obj.status.ended_at
        return ended is not None and ended + days <= self.context.clock.now()


def rows_of(owner: series.Owner, buckets: Buckets) -> list[stores.SeriesRow]:
    """Return an owner's buckets (step, start) as rows of the store."""
    return [
        stores.SeriesRow(owner, step, at, series.pack(owner.kind, bucket))
        for (step, at), bucket in buckets.items()
        if bucket
    ]


def _point(told: MetricPoint, period: int) -> ProviderPoint:
    """Return a point with rates: CloudWatch sends the bytes of the whole period.

    Source: facts/aws-bugs.md#case-29.
    """

    def rate(amount: float | None) -> float | None:
        return None if amount is None else amount / period

    return ProviderPoint(
        at=told.at,
        seconds=period,
        cpu_percent=told.cpu_percent,
        network_in_bytes_per_second=rate(told.network_in_bytes),
        network_out_bytes_per_second=rate(told.network_out_bytes),
    )
