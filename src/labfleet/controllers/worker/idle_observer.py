"""Read what the idle rule needs of a server: little for each check, everything before a stop.

A value that cannot be read is recorded as a gap with its reason, never as "nothing there".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from labfleet.controllers.context import Context
from labfleet.controllers.worker import address
from labfleet.decisions import idle
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.worker import Worker
from labfleet.service.reads import idle_facts
from labfleet.service.reads.idle_facts import Reading

T = TypeVar("T")
TIMED = frozenset({"quiet_time", "snooze", "telemetry"})


@dataclass(frozen=True, slots=True)
class IdleObserver:
    """Asks servers; built once per process."""

    context: Context

    async def cheap(self, worker: Worker, settings: Idle) -> Reading:
        """Return the newest sample, and people's activity when nothing else keeps the worker."""
        context, now = self.context, self.context.clock.now()
        reading = idle_facts.of_sample(worker, context.samples.newest(worker.key))
        reading = replace(reading, network=self._traffic(worker))
        facts = idle_facts.gather(context.cache, context.settings, worker, reading, now, brief=True)
        verdict = idle.judge(worker, facts, settings, now)
        if any(each.verdict != "quiet" for each in verdict.signals if each.name not in TIMED):
            why = ("telemetry", "not asked: something else keeps the worker")
            return replace(reading, gaps=(*reading.gaps, why))
        gaps: list[tuple[str, str]] = []
        host = self._host(worker, gaps)
        return await self._with_deeds(host, reading, gaps)

    async def whole(self, worker: Worker) -> Reading:
        """Ask the server for everything now; no value is from memory."""
        gaps: list[tuple[str, str]] = []
        host = self._host(worker, gaps)
        if host is None:
            return Reading(gaps=tuple((name, gaps[0][1]) for name in ("nodes", "cpu", "telemetry")))
        nodes = await _try(host.all_nodes, "nodes", gaps)
        stats = None if gaps else await _try(host.system_stats, "cpu", gaps)
        maintenance = None if gaps else await _try(host.maintenance, "maintenance", gaps)
        running = None
        if nodes is not None and stats is not None and stats.running_nodes is not None:
            listed = sum(each.state in idle.STARTED for each in nodes)
            running = max(listed, stats.running_nodes) + (stats.running_orphans or 0)
        reading = Reading(
            nodes=running,
            cpu_percent=None if stats is None else stats.cpu_percent,
            maintenance=maintenance,
            network=self._traffic(worker),
            read_at=self.context.clock.now(),
        )
        return await self._with_deeds(None if gaps else host, reading, gaps)

    def _traffic(self, worker: Worker) -> float | None:
        context = self.context
        points = context.samples.points(worker.key)
        return idle_facts.traffic(points, context.settings.now(), context.clock.now())

    async def _with_deeds(
        self, host: LabHost | None, reading: Reading, gaps: list[tuple[str, str]]
    ) -> Reading:
        deeds = None if host is None else await _try(host.activity, "telemetry", gaps)
        return replace(
            reading,
            activity=deeds,
            activity_at=self.context.clock.now(),
            gaps=(*reading.gaps, *gaps),
        )

    def _host(self, worker: Worker, gaps: list[tuple[str, str]]) -> LabHost | None:
        machine = worker.spec.machine
        try:
            where = (
                None
                if machine is None
                else address.address_of(self.context, worker, machine, worker.status.machine)
            )
        except errors.LabfleetError as problem:
            gaps.append(("telemetry", f"{problem.reason}: {problem.message}"[:200]))
            return None
        if where is None:
            gaps.append(("telemetry", "its address is not known"))
            return None
        return self.context.hosts.at(where)


async def _try(ask: Callable[[], Awaitable[T]], what: str, gaps: list[tuple[str, str]]) -> T | None:
    try:
        return await ask()
    except errors.LabfleetError as problem:
        gaps.append((what, f"{problem.reason}: {problem.message}"[:200]))
        return None
