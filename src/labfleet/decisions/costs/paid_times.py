"""Follows what is paid for a machine, from one look at it to the next.

A provider tells when a machine was launched or last started, and when it left off running, to the
second; it does not tell when a start has become running. Both ends of a look therefore bound that:
it lies after the last look that found it not running, and after its launch. Nothing here is lost
with a process: all that counts is in the worker's record, or told by the provider again.

Paid is what AWS calls running: from when it runs until it leaves that state, per second
(docs/decisions/0042-what-is-paid.md). A disk is paid from its launch until the machine is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.resources.machine import MachineStatus
from labfleet.resources.paid_time import PaidTime

CLOSE = timedelta(minutes=1)
"""When the look before is no older, a start counts from the look that saw it; else from the
earliest instant that is possible, so that nothing that was paid is left out."""
LONGEST_START = timedelta(minutes=30)
"""A machine that says nothing of its start is taken to have run from its launch at most so late."""
What = Literal["running", "disk"]


@dataclass(frozen=True, slots=True)
class Over:
    """A stretch of paid time that is over.

    `uncertain` are the seconds by which it may be wrong, `ready` is when the machine could host sessions for the first time in it.
    """

    what: What
    machine: str
    start: datetime
    end: datetime
    uncertain: float = 0.0
    ready: datetime | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """When a machine is looked at, and when it was before that (None: not by this process).

    `gone`: it has ended, whatever the record of it still says. `ready`: since when it can host
    sessions, as far as it can.
    """

    now: datetime
    before: datetime | None = None
    gone: bool = False
    ready: datetime | None = None


def follow(
    known: PaidTime | None, machine: MachineStatus, look: Look
) -> tuple[PaidTime | None, tuple[Over, ...]]:
    """Return what is paid from now on, and what is over, once a machine was looked at."""
    over: list[Over] = []
    look = replace(look, now=look.now.replace(microsecond=0))
    machine = msgspec.structs.replace(
        machine, launched=_whole(machine.launched), stopped_at=_whole(machine.stopped_at)
    )
    there = machine.id is not None and machine.state != "gone" and not look.gone
    if known is not None and _run_ended(known, machine, there=there):
        end, wrong = _end(known, machine, look)
        since = known.running_since or end
        total = wrong + known.uncertain_seconds
        over.append(Over("running", known.machine, since, max(end, since), total, known.ready_at))
        known = msgspec.structs.replace(
            known, running_since=None, uncertain_seconds=0.0, ready_at=None, until=max(end, since)
        )
    if known is not None:
        known, missed = _missed(known, machine, look)
        over += missed
    if known is not None and (machine.id != known.machine or not there):
        gone = max(look.now, known.disk_since)
        over.append(Over("disk", known.machine, known.disk_since, gone))
        known = None
    if not there or machine.id is None:
        return known, tuple(over)
    if known is None:
        since = min(machine.launched or look.now, look.now)
        known = PaidTime(machine=machine.id, disk_since=since, launched=machine.launched)
    # What EC2 shows of a state may be older than what was seen before: one start is paid once.
    fresh = known.until is None or machine.launched is None or _again(known, machine)
    if machine.state == "running" and known.running_since is None and fresh:
        known = _begun(known, machine, look)
    begun, ready = known.running_since, look.ready
    if begun is not None and known.ready_at is None and ready is not None and ready >= begun:
        known = msgspec.structs.replace(known, ready_at=ready)
    return known, tuple(over)


def _whole(at: datetime | None) -> datetime | None:
    """Return an instant in whole seconds, as bills count."""
    return None if at is None else at.replace(microsecond=0)


def _run_ended(known: PaidTime, machine: MachineStatus, *, there: bool) -> bool:
    if known.running_since is None:
        return False
    if not there or machine.id != known.machine or machine.state == "stopped":
        return True
    if machine.state in {"stopping", "ending"}:
        # Between the answer to a stop and the provider's list, the instant is not told yet.
        return machine.stopped_at is not None
    return _again(known, machine)  # it was stopped and started since the look before


def _missed(
    known: PaidTime, machine: MachineStatus, look: Look
) -> tuple[PaidTime, tuple[Over, ...]]:
    """Return the run that began and ended since the look before, if there was one."""
    launched, stopped = machine.launched, machine.stopped_at
    off = known.machine == machine.id and machine.state in {"stopping", "stopped", "ending", "gone"}
    if not off or launched is None or stopped is None or known.running_since is not None:
        return known, ()
    if known.until is not None and known.until >= launched:
        return known, ()
    start = max(launched, look.before or launched)
    if look.before is not None and stopped - start <= CLOSE:
        return known, ()  # it was ended while it started
    wrong = min(stopped - start, LONGEST_START).total_seconds()
    if stopped <= start:
        return known, ()
    over = Over("running", known.machine, start, stopped, wrong)
    return msgspec.structs.replace(known, launched=launched, until=stopped), (over,)


def _again(known: PaidTime, machine: MachineStatus) -> bool:
    """Tell whether the provider tells of a later start than the record knows of."""
    if machine.launched is None or known.launched is None:
        return False
    return machine.launched > known.launched


def _end(known: PaidTime, machine: MachineStatus, look: Look) -> tuple[datetime, float]:
    """Return when running ended, and by how many seconds that may be wrong."""
    since = known.running_since or look.now
    same = machine.id == known.machine
    latest, again = look.now, same and _again(known, machine)
    if again and machine.launched is not None:
        latest = _within(machine.launched, since, look.now)
    elif same and machine.stopped_at is not None and machine.state not in {"running", "booting"}:
        return _within(machine.stopped_at, since, look.now), 0.0
    elif same and machine.absent_since is not None:
        latest = _within(machine.absent_since, since, look.now)
    earliest = max(since, min(look.before or since, latest))
    return latest, (latest - earliest).total_seconds()


def _begun(known: PaidTime, machine: MachineStatus, look: Look) -> PaidTime:
    launched = machine.launched
    floor = max(known.until or known.disk_since, launched or known.disk_since)
    earliest = _within(max(look.before or floor, floor), known.disk_since, look.now)
    wrong = look.now - earliest
    if wrong <= CLOSE:
        since = look.now
    else:
        since, wrong = earliest, min(wrong, LONGEST_START)
    return msgspec.structs.replace(
        known,
        launched=launched,
        running_since=since,
        uncertain_seconds=wrong.total_seconds(),
    )


def _within(at: datetime, low: datetime, high: datetime) -> datetime:
    return max(low, min(at, high))
