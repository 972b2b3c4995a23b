"""What keeps a draining worker from being empty: one line for each blocker, with a way out.

Reads only what was recorded (facts/aws-bugs.md#case-41: a drain that never ends must say why).
"""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.decisions.lifecycle.session.phases import BOUND
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel.clock import format_instant
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.explanation import Blocker

SHOWN = 100
_RUN = "wait, `labfleet cancel session/{name}`, or `labfleet drain worker/{worker} --now`"
_NOT_BEGUN = "`labfleet drain worker/{worker} --now` places it on another worker"
_ENDING = "see `labfleet explain session/{name}`; on a dead server it ends with the machine"


def of(worker: Worker, sessions: Iterable[Session]) -> tuple[Blocker, ...]:
    """Return what keeps a worker from being empty; nothing when no drain is wanted."""
    if not phases.drain_wanted(worker):
        return ()
    live = [each for each in sessions if each.status.phase in BOUND]
    found = [_session(worker, each) for each in sorted(live, key=_soonest)[:SHOWN]]
    found += _worker(worker)
    return tuple(found)


def _soonest(session: Session) -> tuple[str, str]:
    end = session.status.end
    return ("~" if end is None else format_instant(end, "microseconds"), session.name)


def _session(worker: Worker, session: Session) -> Blocker:
    status = session.status
    if status.phase is SessionPhase.RUNNING:
        until, why, way = status.end, "runs until its time is over", _RUN
    elif status.phase in {SessionPhase.COLLECTING, SessionPhase.STOPPING}:
        until, why, way = None, status.message or "its lab is being taken down", _ENDING
    else:
        until, why, way = status.end, status.message or "has not begun", _NOT_BEGUN
    return Blocker(
        kind="Session",
        name=session.name,
        phase=status.phase,
        owner=session.spec.owner,
        since=status.phase_since,
        until=until,
        why=why,
        help=way.format(name=session.key.argument, worker=worker.key.argument),
    )


def _worker(worker: Worker) -> list[Blocker]:
    """Return the worker's own present step when the drain waits for that."""
    status = worker.status
    if status.phase not in {WorkerPhase.UNLICENSING, WorkerPhase.STOPPING}:
        return []
    way = (
        "a licence that is not back by the limit is recorded as leaked, and the worker goes on"
        if status.phase is WorkerPhase.UNLICENSING
        else "metal takes minutes to stop; nothing to do before its limit"
    )
    return [
        Blocker(
            kind="Worker",
            name=worker.name,
            phase=status.phase,
            since=status.phase_since,
            why=status.message,
            help=way,
        )
    ]
