"""Whether what was promised to a session began in time, and what kept it from that.

Pure. The causes are a closed list of what lies outside: people, the provider, workers, licences, the
lab itself. What none of them explains is said to be so (NotExplained), for then the promise failed
by our own doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.resources import conditions
from labfleet.resources.conditions import Status
from labfleet.resources.session import Session, SessionPhase, SessionStatus
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason

S, R = SessionPhase, SessionReason
_LOST = frozenset({S.EXPIRED, S.FAILED})

_OF_PHASE: dict[str, SessionReason] = {
    PhaseReason.BOOT_TIMEOUT: R.LAB_FAILED,
    PhaseReason.DRAINED: R.WORKER_CLOSED,
    PhaseReason.LAB_DELETED_OUTSIDE: R.LAB_FAILED,
    PhaseReason.LICENCE_RETURNED: R.NOT_LICENSED,
    PhaseReason.PORTS_SILENT: R.LAB_FAILED,
    PhaseReason.REFUSED: R.LAB_FAILED,
    PhaseReason.WORKER_LOST: R.WORKER_LOST,
    PhaseReason.WORKER_SILENT: R.SERVER_SILENT,
    PhaseReason.WORKER_UNFIT: R.SERVER_SILENT,
}
"""What an end's own reason says already."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What was the matter around a promise, since the head start of its pool until now.

    Each is True when it is so, or was so and changed within that time.

    paused: Its pool, or every automatic action, was paused.
    ended: Its pool is gone, or is being emptied.
    lowered: Its place is beyond what its pool may have.
    without_template: Its pool's template cannot be used.
    without_machine: The provider had no room for a worker of its pool, or did not answer.
    closed: A worker of its pool was stopped, drained or closed.
    unlicensed: A worker of its pool had no licence.
    lost: A worker of its pool was lost, or did not come up.
    silent: CML of a worker of its pool did not answer, or was not well.
    held: Labs past their end held the room on its worker.
    short: It was asked for later than a worker takes to boot.
    """

    paused: bool = False
    ended: bool = False
    lowered: bool = False
    without_template: bool = False
    without_machine: bool = False
    closed: bool = False
    unlicensed: bool = False
    lost: bool = False
    silent: bool = False
    held: bool = False
    short: bool = False


def outcome(
    before: Session, status: SessionStatus, grace: timedelta, now: datetime
) -> Literal["kept", "missed"] | None:
    """Return what became of a promise with this change of status; None: nothing yet, or none stood.

    Who gave it back themselves was not let down.
    """
    start, was = before.spec.slot.start, before.status
    if was.claim is None or start is None or was.started_at is not None:
        return None
    if status.phase is S.RUNNING:
        return "kept" if now <= start + grace else "missed"
    lost = {status.outcome, status.phase} & _LOST
    return "missed" if lost and not {was.outcome, was.phase} & _LOST else None


def judged(status: SessionStatus, why: SessionReason, now: datetime) -> SessionStatus:
    """Return the status with what became of the promise: kept in time, or missed for this cause."""
    kept: Status = "True" if why is R.IN_TIME else "False"
    facts = conditions.put(status.conditions, SessionCondition.PROMISE_KEPT, kept, why, now=now)
    return msgspec.structs.replace(status, conditions=facts)


def cause(reason: str, around: Circumstances) -> SessionReason:
    """Return what kept a promise from being kept; `reason` is that of the session's phase.

    What people did comes first, then what others failed at, then what follows from that.
    """
    said = _OF_PHASE.get(reason)
    found = (
        (said is not None, said),
        (around.ended, R.POOL_ENDED),
        (around.lowered, R.MAXIMUM_LOWERED),
        (around.without_template, R.TEMPLATE_MISSING),
        (around.paused, R.AUTOMATION_PAUSED),
        (around.without_machine, R.NO_MACHINE),
        (around.lost, R.WORKER_LOST),
        (around.unlicensed, R.NOT_LICENSED),
        (around.closed, R.WORKER_CLOSED),
        (around.silent, R.SERVER_SILENT),
        (around.held, R.ROOM_HELD),
        (around.short, R.SHORT_NOTICE),
    )
    return next((why for holds, why in found if holds and why is not None), R.NOT_EXPLAINED)
