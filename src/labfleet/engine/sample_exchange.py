"""Gives what this process measured to the other processes, through the store, and takes theirs.

A process that does not lead the worker controller measures nothing, and shows what the leader
did; a new leader begins with what the last one knew. Each exchange is at most one batch of writes
and one read of all times; data is read only of what is newer than what is known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import vitals
from labfleet.engine.cache import Cache
from labfleet.engine.wakeup import Pause
from labfleet.interfaces import store as stores
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.meta import Key, Record
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.resources.worker import Worker

CML = "cml"
PROVIDER = "provider"
CHUNK = 500
"""Rows of one transaction: between two transactions, other commits can run."""


class Measured(Record, frozen=True, kw_only=True):
    """One part of what was measured of the worker with this uid."""

    uid: str
    sample: Sample | None = None
    points: tuple[ProviderPoint, ...] = ()


class SampleExchange:
    """Keeps the samples of one process and those in the store alike."""

    def __init__(
        self,
        samples: Samples,
        kept: stores.SampleStore,
        cache: Cache,
        clock: Clock,
        *,
        life: Callable[[], timedelta],
        change_percent: Callable[[], float],
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take where samples go, how long one counts, and by how much a value moves for a change."""
        self._samples = samples
        self._kept = kept
        self._cache = cache
        self._clock = clock
        self._life = life
        self._change_percent = change_percent
        self._pause = pause
        self._alike: dict[tuple[str, str], datetime] = {}
        self._living: tuple[Key, ...] = ()

    async def run(self) -> None:
        """Exchange every few seconds until cancelled; a store in trouble is asked again later."""
        await self._cache.ready()
        while True:
            # Nothing is lost by an error: what was not written is still the newest here.
            with suppress(errors.LabfleetError):
                await self.exchange()
            await self._pause(vitals.EXCHANGE_SECONDS)

    async def exchange(self) -> None:
        """Take what is newer in the store, then give what is newer here."""
        self._forget_the_gone()
        await self._take()
        await self._give()

    # --- from the store ------------------------------------------------------------------

    async def _take(self) -> None:
        wanted = []
        for row in await self._kept.sample_times():
            if self._alike.get((row.worker, row.part)) == row.at:
                continue  # first: nearly every row of a leader's own exchange ends here
            key = Key("Worker", *row.worker.split("/", 1))
            if self._cache.at(key) is None:
                continue
            if self._is_newer(row.at, self._measured_at(key, row.part)):
                wanted.append(row.worker)
        workers = list(dict.fromkeys(wanted))
        for first in range(0, len(workers), CHUNK):
            for found in await self._kept.samples(workers[first : first + CHUNK]):
                self._keep(Key("Worker", *found.worker.split("/", 1)), found)

    def _is_newer(self, at: datetime, known: datetime | None) -> bool:
        # An instant in the future was given by a clock that has been set back since.
        return known is None or at > known or known > self._clock.now()

    def _measured_at(self, worker: Key, part: str) -> datetime | None:
        if part == CML:
            sample = self._samples.newest(worker)
            return None if sample is None else sample.at
        points = self._samples.points(worker)
        return points[-1].at if points else None

    def _keep(self, worker: Key, row: stores.SampleRow) -> None:
        if not self._is_newer(row.at, self._measured_at(worker, row.part)):
            return
        self._alike[row.worker, row.part] = row.at
        found, told = self._cache.at(worker), _decoded(row.data)
        if found is None or told is None or told.uid != found.metadata.uid:
            return  # also of a worker that had this name before
        percent = self._change_percent()
        self._samples.put_points(worker, told.points, change_percent=percent)
        known, now = self._samples.newest(worker), self._clock.now()
        if told.sample is not None and vitals.replaces(told.sample, known, now, self._life()):
            self._samples.put(told.sample, change_percent=percent)

    # --- to the store --------------------------------------------------------------------

    async def _give(self) -> None:
        rows = list(self._new_rows())
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            await self._kept.put_samples(chunk)
            self._alike |= {(row.worker, row.part): row.at for row in chunk}

    def _new_rows(self) -> Iterator[stores.SampleRow]:
        for worker in self._samples.workers():
            path = worker.path
            sample, points = self._samples.newest(worker), self._samples.points(worker)
            said = sample is not None and self._alike.get((path, CML)) != sample.at
            told = bool(points) and self._alike.get((path, PROVIDER)) != points[-1].at
            found = self._cache.at(worker) if said or told else None
            if found is None:
                continue
            uid = found.metadata.uid
            if said and sample is not None:
                yield _row(path, CML, sample.at, Measured(uid=uid, sample=sample))
            if told:
                yield _row(path, PROVIDER, points[-1].at, Measured(uid=uid, points=tuple(points)))

    def _forget_the_gone(self) -> None:
        """Drop workers that are no more: only the leader is told of each of them.

        One that was never in the cache may be too new for it: a report of it came first.
        """
        here = self._cache.keys(Worker)
        if here is self._living:  # nobody came or went
            return
        for worker in set(self._living).difference(here):
            self._samples.forget(worker)
            for part in (CML, PROVIDER):
                self._alike.pop((worker.path, part), None)
        self._living = here


def _row(worker: str, part: str, at: datetime, told: Measured) -> stores.SampleRow:
    return stores.SampleRow(worker, part, at, str(msgspec.json.encode(told), "utf-8"))


def _decoded(data: str) -> Measured | None:
    """Return what was measured; None when a newer program has written it in another form."""
    try:
        return msgspec.json.decode(data, type=Measured)
    except msgspec.DecodeError:  # ValidationError is one
        return None
