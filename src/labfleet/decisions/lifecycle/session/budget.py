"""The time a session may take: to boot, before its slot, in its slot, after its deadline."""

from __future__ import annotations

import math
from datetime import timedelta

import msgspec

from labfleet.decisions import demand
from labfleet.resources.definition import Definition
from labfleet.resources.session import Session, SessionSpec

HEAD_START_SECONDS = 300
"""Added to a definition's boot time: imports, turns and looks take some of it too."""


class TimeBudget(msgspec.Struct, frozen=True):
    """Seconds that a session has; the defaults stand in for a definition that is gone.

    `boot` without progress fails the start, `lead` before its slot its start begins, `duration`
    is its slot's length, `grace` after the slot's begin it expires when it has not started.
    """

    boot: int = 600
    lead: int = 900
    duration: int = 3600
    grace: int = 1800


def length(spec: SessionSpec, definition: Definition) -> timedelta:
    """Return how long a slot is that names no end: what was asked, times its person's factor."""
    minutes = spec.duration_minutes or definition.spec.default_duration_minutes
    return scaled(timedelta(minutes=minutes), spec.time_factor)


def scaled(span: timedelta, factor: float) -> timedelta:
    """Return a span times a person's factor, in whole seconds, never rounded down."""
    return timedelta(seconds=math.ceil(span.total_seconds() * factor))


def of(session: Session, definition: Definition | None, ahead: int = 0) -> TimeBudget:
    """Return the budget; `ahead` labs of its worker start before or beside this one."""
    if definition is None:
        return TimeBudget()
    slot = session.spec.slot
    duration = int(length(session.spec, definition).total_seconds())
    if slot.start is not None and slot.end is not None:
        duration = int((slot.end - slot.start).total_seconds())
    boot = definition.status.boot_seconds
    return TimeBudget(
        boot=demand.start_budget(boot, ahead=ahead) + HEAD_START_SECONDS,
        lead=boot + HEAD_START_SECONDS,
        duration=duration,
        grace=definition.spec.grace_minutes * 60,
    )
