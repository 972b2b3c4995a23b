"""Idle detection for people and programs: the explained verdict, the switch, the seeds' check.

Works in a process that only answers: what the server itself told comes from the samples when
this process has them, else from the record of the leader's last check. Stops nothing: that is
the idle controller's, which looks at the server once more before it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from labfleet.decisions import idle, parking
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.idle import Activity, ActivityEvent, IdleSignal, event_of
from labfleet.resources.meta import Record
from labfleet.resources.worker import IdleStatus, Worker, WorkerPhase
from labfleet.service.core import access
from labfleet.service.core.parts import Caller, Parts
from labfleet.service.kinds.ruled import Ruled, with_spec
from labfleet.service.reads import idle_facts
from labfleet.service.verbs import lifecycle as verbs

EVENTS_LIMIT = 10_000
LISTED = 1000
CHECK_ASKED = "labfleet.dev/idle-check-asked"
"""Annotation that makes the idle controller look at once; its value is when it was asked for."""
_OUTSIDE = frozenset({"nodes", "console", "telemetry", "cpu", "network", "health"})


class IdleReading(Record, frozen=True, kw_only=True):
    """Whether a worker is idle, and why.

    `idle`: no sign of use for the whole timeout; `eligible`: and nothing holds it.
    `kept_by` names what keeps it; `stop_at` is when it would be stopped if nothing changes,
    null while something is in use. `checked_at` is the leader's last recorded check. Times in
    minutes; `recent` holds at most ten events of use, newest first.
    """

    worker: str
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


class Detection(Record, frozen=True, kw_only=True):
    """What the check of the seeds' internal route found (upstream.md 2.4)."""

    worker: str
    checked_at: datetime
    telemetry_fetched: bool
    activity_updated: bool
    reading: IdleReading
    error: str | None = None


async def read(parts: Parts, caller: Caller, name: str, namespace: str = "default") -> IdleReading:
    """Return the verdict on a worker as it stands now; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    worker = await verbs.found(parts, caller, Worker, name, namespace)
    await parts.fresh()
    return reading(parts, worker)


async def overview(parts: Parts, caller: Caller) -> tuple[tuple[IdleReading, ...], int]:
    """Return the verdict on every living worker, by name, without the signals.

    At most `LISTED`, and how many were left out.

    Those that the rule has stopped are among them: they start again when they are needed.
    """
    access.demand(caller.principal, "read", "Worker")
    await parts.fresh()
    ended = WorkerPhase.TERMINATED
    living = [each for each in parts.cache.all(Worker) if each.status.phase is not ended]
    found: list[IdleReading] = []
    for each in sorted(living, key=lambda worker: worker.name)[:LISTED]:
        found.append(msgspec.structs.replace(reading(parts, each), signals=(), recent=()))
        await asyncio.sleep(0)  # a reading looks at all who wait; others must not wait for it
    return tuple(found), len(living) - len(found)


async def switch(
    parts: Parts, caller: Caller, name: str, namespace: str = "default", *, enabled: bool
) -> Worker:
    """Turn idle detection of one worker on or off."""

    async def change(old: Worker) -> Ruled:
        return Ruled(with_spec(old, idle_detection=enabled))

    reason = "IdleDetectionEnabled" if enabled else "IdleDetectionDisabled"
    where = (name, namespace)
    return await verbs.changed(
        parts, caller, Worker, where, action="drain", reason=reason, change=change
    )


async def detect(
    parts: Parts,
    caller: Caller,
    name: str,
    namespace: str = "default",
    *,
    force: bool = False,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Detection:
    """Take events of use over, judge, and with `force` have the controller look at once.

    `events` are CML's own (category, timestamp, data); what counts is decided by the settings.
    Nothing given never counts as nothing done.
    """
    access.demand(caller.principal, "record", "Worker")
    told = None if events is None else tuple(event_of(each) for each in events[:EVENTS_LIMIT])
    updated = False

    async def change(old: Worker) -> Ruled:
        nonlocal updated
        new, updated = _with_events(parts, old, told)
        if force:
            marks = {**new.metadata.annotations, CHECK_ASKED: parts.clock.now().isoformat()}
            generation = old.metadata.generation + 1
            metadata = msgspec.structs.replace(
                new.metadata, annotations=marks, generation=generation
            )
            new = msgspec.structs.replace(new, metadata=metadata)
        return Ruled(new)

    where = (name, namespace)
    worker = await verbs.changed(
        parts, caller, Worker, where, action="record", reason="IdleCheckAsked", change=change
    )
    await parts.fresh()
    return Detection(
        worker=worker.name,
        checked_at=parts.clock.now(),
        telemetry_fetched=told is not None,
        activity_updated=updated,
        reading=reading(parts, worker, told),
    )


def _with_events(
    parts: Parts, worker: Worker, told: tuple[ActivityEvent, ...] | None
) -> tuple[Worker, bool]:
    """Return the worker with newer use on record, and whether there was any."""
    if told is None:
        return worker, False
    before = worker.status.idle
    found = _judged(parts, worker, told)
    last = found.last_activity_at
    if last is None or (before.last_activity_at is not None and last <= before.last_activity_at):
        return worker, False
    noted = msgspec.structs.replace(before, last_activity_at=last, recent=found.recent)
    status = msgspec.structs.replace(worker.status, idle=noted)
    return msgspec.structs.replace(worker, status=status), True


def _judged(parts: Parts, worker: Worker, told: tuple[ActivityEvent, ...] | None) -> idle.Verdict:
    now = parts.clock.now()
    found = idle_facts.of_sample(worker, parts.samples.newest(worker.name))
    points = parts.samples.points(worker.name)
    network = idle_facts.traffic(points, parts.settings.now(), now)
    found = replace(found, network=network)
    if told is not None:
        found = idle_facts.with_activity(found, Activity(events=told), now)
    facts = idle_facts.gather(parts.cache, parts.settings, worker, found, now)
    return idle.judge(worker, facts, parts.settings.now().idle, now)


def reading(
    parts: Parts, worker: Worker, told: tuple[ActivityEvent, ...] | None = None
) -> IdleReading:
    """Return the verdict with the leader's evidence where this process has none of its own."""
    settings, now = parts.settings.now().idle, parts.clock.now()
    verdict = _judged(parts, worker, told)
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
        verdict="busy" if words & {"busy", "held"} else "unknown" if "unknown" in words else "idle",
        idle=unused,
        eligible=words == {"quiet"},
        told=_sentence(worker, verdict, signals, settings),
        kept_by=idle.keeps(signals),
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


def _sentence(
    worker: Worker, verdict: idle.Verdict, signals: tuple[IdleSignal, ...], settings: Idle
) -> str:
    """Return in one sentence when it would be stopped, or what keeps it."""
    if parking.auto_stopped(worker):
        by = worker.status.idle.last_paused_reason
        return f"it was stopped by the idle rule ({by}) and starts again when somebody needs it"
    if worker.status.phase not in worker_phases.HOSTING:
        return f"it is {worker.status.phase}; only a worker that serves is judged"
    keeps = [each for each in signals if each.verdict != "quiet" and each.name != "quiet_time"]
    if keeps:
        return "it is kept: " + "; ".join(each.told for each in keeps[:4])
    if verdict.stop_at is None:
        return "it is in use"
    at = verdict.stop_at
    warned = worker.status.idle.warned_at
    if warned is not None:
        at = max(at, warned + timedelta(minutes=settings.warn_minutes))
    return f"if nobody uses it, it is stopped at {at:%Y-%m-%d %H:%M}Z"
