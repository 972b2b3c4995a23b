"""Measures what running labs use: one request a minute for each lab, into its series and its use.

For the process that manages sessions. A look at a lab takes its reading on the way, one lab of a
worker at a time, and not while the worker's own look is late: a lab's figures are never worth a
server's. What a lab has used lies in memory, is recorded in its session now and then, and is begun
again from the stored minutes when another process has measured before.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from labfleet.controllers.context import Context
from labfleet.controllers.sample_writer import SampleWriter
from labfleet.decisions.lab_use import LabUse, judged
from labfleet.decisions.run_use import RunUse, metrics
from labfleet.interfaces import store as stores
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.resources import refs, series
from labfleet.resources.lab_use import NodeSize
from labfleet.resources.meta import Key
from labfleet.resources.series import Owner
from labfleet.resources.session import Session, SessionPhase

LONGEST = 5.0
"""Seconds for one reading: the lab's own look waits for it."""
LATE = 2.0
"""A worker whose newest sample is older than so many polls is looked at too late already."""
EARLY = 5.0
"""A look that comes so many seconds before the minute is over takes the reading: the next is later."""


@dataclass(slots=True)
class _Measured:
    """One live lab: what it has used, what its nodes have, and when it was last asked."""

    lab: str
    use: LabUse
    sizes: dict[str, NodeSize] = field(default_factory=dict)
    asked_at: float | None = None


class LabSamples:
    """Takes readings of labs; of every lab that has no open session any more nothing is kept."""

    def __init__(self, context: Context, kept: stores.SeriesStore) -> None:
        self._context = context
        self._kept = kept
        self._writer = SampleWriter(context, kept)
        self._labs: dict[str, _Measured] = {}
        self._busy: set[Key] = set()
        self._term: stores.Fence | None = None

    async def look(self, session: Session, host: LabHost, *, last: bool = False) -> LabUse | None:
        """Take a reading if one is due, or `last`; return what the lab has used, None before any.

        Errors of the server leave a minute out.
        """
        await self._begin_term()
        worker, lab = refs.worker_of(session), session.status.lab
        running = session.status.phase in {SessionPhase.RUNNING, SessionPhase.COLLECTING}
        if not running or worker is None or lab is None or lab.id is None:
            return None
        measured = await self._of(session, lab.id)
        now = self._context.clock.monotonic()
        every = self._context.settings.now().observation.sample_seconds
        asked = measured.asked_at
        due = last or asked is None or now >= asked + every - EARLY
        if due and worker.key not in self._busy and (last or not self._late(worker.key)):
            measured.asked_at = now
            self._busy.add(worker.key)
            try:
                async with asyncio.timeout(LONGEST):
                    await self._read(session, host, measured)
            except (TimeoutError, errors.LabfleetError):
                pass  # what was not measured is in no sum
            finally:
                self._busy.discard(worker.key)
        await self._write(now=last)
        return measured.use if measured.use.readings else None

    def forget(self, session: Session) -> None:
        """Drop what is kept of a lab that is over."""
        self._labs.pop(session.metadata.uid, None)

    async def _begin_term(self) -> None:
        """Begin anew after another process has led: it has measured meanwhile."""
        if self._term != self._context.leadership.fence:
            self._term = self._context.leadership.fence
            self._labs.clear()

    async def _of(self, session: Session, lab: str) -> _Measured:
        uid = session.metadata.uid
        known = self._labs.get(uid)
        if known is None or known.lab != lab:
            so_far = RunUse()
            if known is None and session.status.measured:
                owner, minute = Owner(session.kind, uid), series.TIERS[0]
                since = self._context.clock.now() - minute.window
                for row in await self._kept.series(owner, minute.step, since):
                    so_far.add_bucket(series.unpack(owner.kind, row.data))
            known = self._labs[uid] = _Measured(lab, LabUse(so_far))
        return known

    def _late(self, worker: Key) -> bool:
        """Tell whether the worker's own look is late; one never looked at is not."""
        sample = self._context.samples.newest(worker)
        poll = self._context.settings.now().monitoring.poll_interval_seconds
        if sample is None:
            return False
        return self._context.clock.now() - sample.at > timedelta(seconds=LATE * poll)

    async def _read(self, session: Session, host: LabHost, measured: _Measured) -> None:
        told = await host.lab_use(measured.lab)
        if not told.keys() <= measured.sizes.keys():
            measured.sizes = {
                each.id: NodeSize(label=each.label, cpus=each.cpus, ram_mib=each.ram_mib)
                for each in await host.nodes(measured.lab)
            }
        counted = self._context.settings.now().observation.cpu_usage
        reading = judged(told, measured.sizes, counted)
        measured.use.add(reading)
        owner = Owner(session.kind, session.metadata.uid)
        self._writer.take(owner, self._context.clock.now(), metrics(reading.lab))

    async def _write(self, *, now: bool) -> None:
        try:
            await self._writer.write_due(now=now)
        except errors.Temporary:
            return  # it waits for the next write
