"""Switches idle detection, and does the check that programs request with a server's events.

The controller stops workers; a check only records use and asks the controller to look at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from labfleet.resources.idle import ActivityEvent, event_of
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.admitted import Admitted, with_spec
from labfleet.service.reads import idle
from labfleet.service.verbs import lifecycle

EVENTS_LIMIT = 10_000
CHECK_ASKED = "labfleet.dev/idle-check-asked"
"""Annotation that makes the idle controller check at once; its value is the request's time."""


class Detection(Record, frozen=True, kw_only=True):
    """What the check of the compatible internal route found (facts/upstream.md#idle)."""

    worker: str
    checked_at: datetime
    telemetry_fetched: bool
    activity_updated: bool
    reading: idle.IdleReading
    error: str | None = None


async def switch(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, enabled: bool
) -> Worker:
    """Turn idle detection of one worker on or off."""

    async def change(old: Worker) -> Admitted:
        return Admitted(with_spec(old, idle_detection=enabled))

    reason = "IdleDetectionEnabled" if enabled else "IdleDetectionDisabled"
    where = (name, namespace)
    return await lifecycle.changed(
        services, caller, Worker, where, action="drain", reason=reason, change=change
    )


async def detect(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    force: bool = False,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Detection:
    """Store events of use, judge, and with `force` have the controller check at once.

    `events` are CML's own (category, timestamp, data); the settings decide which count.
    A call without events never counts as "no activity".
    """
    access.demand(caller.principal, "record", "Worker")
    told = None if events is None else tuple(event_of(each) for each in events[:EVENTS_LIMIT])
    updated = False

    async def change(old: Worker) -> Admitted:
        nonlocal updated
        new, updated = _with_events(services, old, told)
        if force:
            marks = {**new.metadata.annotations, CHECK_ASKED: services.clock.now().isoformat()}
            generation = old.metadata.generation + 1
            metadata = msgspec.structs.replace(
                new.metadata, annotations=marks, generation=generation
            )
            new = msgspec.structs.replace(new, metadata=metadata)
        return Admitted(new)

    where = (name, namespace)
    worker = await lifecycle.changed(
        services, caller, Worker, where, action="record", reason="IdleCheckAsked", change=change
    )
    await services.fresh()
    return Detection(
        worker=worker.name,
        checked_at=services.clock.now(),
        telemetry_fetched=told is not None,
        activity_updated=updated,
        reading=idle.reading(services, worker, told),
    )


def _with_events(
    services: ServiceContext, worker: Worker, told: tuple[ActivityEvent, ...] | None
) -> tuple[Worker, bool]:
    """Return the worker with newer use on record, and whether there was any."""
    if told is None:
        return worker, False
    before = worker.status.idle
    found = idle.judged(services, worker, told)
    last = found.last_activity_at
    if last is None or (before.last_activity_at is not None and last <= before.last_activity_at):
        return worker, False
    noted = msgspec.structs.replace(before, last_activity_at=last, recent=found.recent)
    status = msgspec.structs.replace(worker.status, idle=noted)
    return msgspec.structs.replace(worker, status=status), True
