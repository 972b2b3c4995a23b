"""Idle detection for people and programs: the explained verdict.

Works in a replica that does not lead: a server's values come from this process's samples if it
has any, else from the record of the leader's last check. It stops nothing: the leader does, in
the worker's step, after the server was looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions import idle, parking
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.kernel.clock import utc_text
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.idle import Activity, ActivityEvent, IdleSignal
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record
from labfleet.resources.worker import IdleStatus, Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import idle_facts

LISTED = 1000
_OUTSIDE = frozenset({"nodes", "console", "telemetry", "cpu", "network", "health"})


class IdleReading(Record, frozen=True, kw_only=True):
    """Whether a worker is idle, and why.

    worker: Name of the worker.
    namespace: Namespace of the worker.
    verdict: Whether it is in use, unused, or unknown.
    idle: Whether there was no sign of use for the whole timeout.
    eligible: Whether it is idle and nothing forbids a stop.
    told: The verdict in a sentence.
    kept_by: Names of what keeps it from being stopped.
    signals: Every signal that was read.
    since: Since when nothing was used.
    idle_minutes: For how long nothing was used.
    timeout_minutes: How long there must be no sign of use.
    stop_at: When it would be stopped if nothing changes; null while something is in use.
    warned_at: When its coming stop was announced.
    snoozed_until: Until when it is not judged after a start.
    in_snooze: Whether it is not judged now.
    checked_at: When the leader last recorded a check.
    last_activity_at: When it was last used.
    recent: The newest events of use, at most ten.
    auto_stopped: Whether the idle rule has stopped it.
    status: What is recorded of its use.
    """

    worker: str
    namespace: str = DEFAULT_NAMESPACE
    verdict: Literal["busy", "idle", "unknown"]
    idle: bool
    eligible: bool
    told: str
    kept_by: tuple[str, ...] = ()
    signals: tuple[IdleSignal, ...] = ()
    since: datetime | None = None
    idle_minutes: float | None = None
    timeout_minutes: int = 0
    stop_at: datetime | None = None
    warned_at: datetime | None = None
    snoozed_until: datetime | None = None
    in_snooze: bool = False
    checked_at: datetime | None = None
    last_activity_at: datetime | None = None
    recent: tuple[ActivityEvent, ...] = ()
    auto_stopped: bool = False
    status: IdleStatus = IdleStatus()


async def read(services: ServiceContext, caller: Caller, name: str, namespace: str) -> IdleReading:
    """Return the verdict on a worker as it stands now; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    worker = await lookup.found(services, caller, Worker, name, namespace)
    await services.fresh()
    return reading(services, worker)


async def overview(services: ServiceContext, caller: Caller) -> tuple[tuple[IdleReading, ...], int]:
    """Return the verdict on every living worker, by name, without the signals.

    At most `LISTED`, and how many were left out.

    Workers that the rule has stopped are included: they start again when they are needed.
    """
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    living = services.cache.by(indices.WORKERS_LIVING, True)
    found: list[IdleReading] = []
    for each in sorted(living, key=lambda worker: (worker.name, worker.namespace))[:LISTED]:
        found.append(msgspec.structs.replace(reading(services, each), signals=(), recent=()))
        await asyncio.sleep(0)  # each verdict reads all waiting sessions: let others run
    return tuple(found), len(living) - len(found)


def judged(
    services: ServiceContext, worker: Worker, told: tuple[ActivityEvent, ...] | None
) -> idle.IdleVerdict:
    """Return the verdict on a worker from this process's data and the given events of use."""
    now = services.clock.now()
    found = idle_facts.of_sample(worker, services.samples.newest(worker.key))
    points = services.samples.points(worker.key)
    network = idle_facts.traffic(points, services.settings.now(), now)
    found = replace(found, network=network)
    if told is not None:
        found = idle_facts.with_activity(found, Activity(events=told), now)
    facts = idle_facts.gather(services.cache, services.settings, worker, found, now)
    return idle.judge(worker, facts, services.settings.now().idle, now)


def reading(
    services: ServiceContext, worker: Worker, told: tuple[ActivityEvent, ...] | None = None
) -> IdleReading:
    """Return the reading, with the leader's evidence where this process has none."""
    settings, now = services.settings.now().idle, services.clock.now()
    verdict = judged(services, worker, told)
    kept = {each.name: each for each in worker.status.idle.evidence}
    signals = tuple(
        kept.get(each.name, each) if each.verdict == "unknown" and each.name in _OUTSIDE else each
        for each in verdict.signals
    )
    words = {each.verdict for each in signals}
    uses = idle.USES
    unused = all(each.verdict == "quiet" for each in signals if each.name in uses)
    since = verdict.since
    return IdleReading(
        worker=worker.name,
        namespace=worker.namespace,
        verdict=_word(words) if _serves(worker) else "unknown",
        idle=unused,
        eligible=words == {"quiet"},
        told=_sentence(worker, verdict, signals, settings),
        # Of a worker that does not serve the other signals say nothing.
        kept_by=idle.keeps(signals) if _serves(worker) else ("phase",),
        signals=signals,
        since=since,
        idle_minutes=None if since is None else round((now - since).total_seconds() / 60, 1),
        timeout_minutes=settings.timeout_minutes,
        stop_at=verdict.stop_at,
        warned_at=worker.status.idle.warned_at,
        snoozed_until=verdict.snoozed_until,
        in_snooze=verdict.snoozed_until is not None and now < verdict.snoozed_until,
        checked_at=worker.status.idle.checked_at,
        last_activity_at=verdict.last_activity_at,
        recent=verdict.recent,
        auto_stopped=parking.auto_stopped(worker),
        status=msgspec.structs.replace(worker.status.idle, evidence=(), recent=()),
    )


def _serves(worker: Worker) -> bool:
    return worker.status.phase in worker_phases.HOSTING


def _word(words: Collection[str]) -> Literal["busy", "idle", "unknown"]:
    if "busy" in words or "held" in words:
        return "busy"
    return "unknown" if "unknown" in words else "idle"


def _sentence(
    worker: Worker, verdict: idle.IdleVerdict, signals: tuple[IdleSignal, ...], settings: Idle
) -> str:
    """Return in one sentence when it would be stopped, or what keeps it."""
    if parking.auto_stopped(worker):
        by = worker.status.idle.last_paused_reason
        return f"it was stopped by the idle rule ({by}) and starts again when somebody needs it"
    phase = worker.status.phase
    if phase in worker_phases.BOOTING:
        return f"it is not up yet ({phase}); it is judged once it serves"
    if not _serves(worker):
        return f"it does not serve any more ({phase}); only a worker that serves is judged"
    keeps = [each for each in signals if each.verdict != "quiet" and each.name != "quiet_time"]
    if keeps:
        return "it is kept: " + "; ".join(each.told for each in keeps[:4])
    if verdict.stop_at is None:
        return "it is in use"
    at = verdict.stop_at
    warned = worker.status.idle.warned_at
    if warned is not None:
        at = max(at, warned + timedelta(minutes=settings.warn_minutes))
    return f"if nobody uses it, it is stopped at {utc_text(at)}"
