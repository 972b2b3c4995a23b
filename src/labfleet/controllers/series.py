"""Measurements over time: CloudWatch when it is switched on, and all numbers folded by the minute.

The leading worker controller takes what its looks put into memory and merges it into the
store's rings, one batch a minute; no event is appended. Losing the process loses a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from labfleet.controllers.context import Context
from labfleet.decisions import vitals
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.compute import MetricPoint
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.resources.telemetry import ProviderPoint
from labfleet.resources.worker import Worker

KEY = Key("Worker", "", "series")
EVERY = 60.0
SWEEP_EVERY = 600.0
PERIOD = 300
"""Seconds of a CloudWatch point: basic monitoring has no finer ones (aws.md 6.5)."""

DETAILED = 60
LOOK_BACK = timedelta(minutes=20)
"""How far back is asked: points come up to 15 minutes late."""

SAMPLES_READ = 20
CHUNK = 500
"""Rows of one transaction: commits of others take their turn between two of them."""

Buckets = dict[tuple[int, datetime], dict[str, series.Spread]]


class SeriesController:
    """Runs all of it under one key."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._taken: dict[str, datetime] = {}
        self._metered: dict[str, datetime] = {}
        self._ask_at = 0.0
        self._sweep_at = 0.0
        self._since = context.clock.now()

    async def reconcile(self, key: Key) -> Done | Again:
        """Do one bounded round."""
        del key
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
        """Ask one region after the other, all its machines in one batch; trouble is no number."""
        period = DETAILED if interval < PERIOD else PERIOD
        percent = self.context.settings.now().monitoring.metrics_change_percent
        for region, machines in self._running().items():
            end = series.bucket_start(self.context.clock.now(), period)
            try:
                found = await self.context.compute.metrics(
                    region, list(machines), end - LOOK_BACK, end, period
                )
            except errors.LabfleetError:
                continue  # the numbers grow old, and say so
            for instance, told in found.items():
                name = machines.get(instance)
                if name is not None:
                    points = [_point(each, period) for each in told]
                    self.context.samples.put_points(name, points, change_percent=percent)

    def _running(self) -> dict[str, dict[str, str]]:
        """Return region -> instance -> worker, of the machines that run."""
        found: dict[str, dict[str, str]] = {}
        for worker in self.context.cache.all(Worker):
            machine, ec2 = worker.spec.machine, worker.status.ec2
            if machine is not None and ec2.instance_id is not None and ec2.state == "running":
                found.setdefault(machine.aws.region, {})[ec2.instance_id] = worker.name
        return found

    # --- folding -------------------------------------------------------------------------

    async def _fold(self) -> None:
        """Merge what was measured since the last round into the store."""
        rows: list[stores.SeriesRow] = []
        taken: dict[str, datetime] = {}
        metered: dict[str, datetime] = {}
        for name in self.context.samples.workers():
            if self.context.cache.get(Worker, name) is None:
                continue
            buckets: Buckets = {}
            for at, values in self._sampled(name, taken):
                _add(buckets, at, values)
            for at, values in self._provided(name, metered):
                _add(buckets, at, values)
            rows += [
                stores.SeriesRow(name, step, at, series.pack(bucket))
                for (step, at), bucket in buckets.items()
                if bucket
            ]
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            await self.context.objects.store.merge_series(chunk)
        self._taken |= taken
        self._metered |= metered

    def _sampled(
        self, name: str, taken: dict[str, datetime]
    ) -> Iterator[tuple[datetime, Mapping[str, float | None]]]:
        last = self._taken.get(name)
        sessions = sum(
            each.status.phase in session_phases.BOUND
            for each in self.context.cache.by(Session, "here", name)
        )
        for sample in self.context.samples.recent(name, SAMPLES_READ):
            if last is None or sample.at > last:
                taken[name] = sample.at
                yield sample.at, {**vitals.of_sample(sample), "sessions": sessions}

    def _provided(
        self, name: str, metered: dict[str, datetime]
    ) -> Iterator[tuple[datetime, Mapping[str, float | None]]]:
        """Yield new points; those of before this process were taken by the one before."""
        last = self._metered.get(name, self._since - timedelta(seconds=PERIOD))
        for point in self.context.samples.points(name):
            if point.at > last:
                metered[name] = point.at
                yield point.at, vitals.of_point(point)

    async def _sweep(self) -> None:
        """Drop what is left of workers that are gone, also those that went while nobody led."""
        there = {each.name for each in self.context.cache.all(Worker)}
        kept = await self.context.objects.store.series_workers()
        gone = [name for name in kept if name not in there]
        if gone:
            await self.context.objects.store.drop_series(gone)
        for name in [each for each in self._taken if each not in there]:
            del self._taken[name]
        for name in [each for each in self._metered if each not in there]:
            del self._metered[name]


def _add(buckets: Buckets, at: datetime, values: Mapping[str, float | None]) -> None:
    single = series.single(values)
    for tier in series.TIERS:
        place = (tier.step, series.bucket_start(at, tier.step))
        buckets[place] = series.merged(buckets.get(place, {}), single)


def _point(told: MetricPoint, period: int) -> ProviderPoint:
    """Return a point with rates: CloudWatch sends bytes over the period (aws.md 5, case 29)."""

    def rate(amount: float | None) -> float | None:
        return None if amount is None else amount / period

    return ProviderPoint(
        at=told.at,
        seconds=period,
        cpu_percent=told.cpu_percent,
        network_in_bytes_per_second=rate(told.network_in_bytes),
        network_out_bytes_per_second=rate(told.network_out_bytes),
    )
