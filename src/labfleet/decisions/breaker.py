"""When a pool stops replacing what others end: pure.

Another tool that ends machines again and again (a tag policy, a clean-up job) would make a
pool launch into the same trouble for ever (aws.md 5, case 35). Several unexpected ends within
a while pause the pool until a person resumes it; ends from before count no more after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from labfleet.resources import conditions
from labfleet.resources.pool import LOSSES_KEPT, Loss
from labfleet.resources.worker import Worker, WorkerPhase

LOSSES = 3
WINDOW = timedelta(minutes=30)


def noted(before: tuple[Loss, ...], workers: Iterable[Worker], now: datetime) -> tuple[Loss, ...]:
    """Return the losses of the last while: those known, and workers whose machine was ended."""
    found = {(each.worker, each.at): each for each in before}
    for worker in workers:
        if worker.status.phase is not WorkerPhase.FAILED:
            continue
        why = conditions.find(worker.status.conditions, "Failed")
        at = worker.status.phase_since
        ended = why is not None and why.status == "True" and why.reason == "InstanceTerminated"
        if ended and at is not None:
            found[worker.name, at] = Loss(worker=worker.name, at=at)
    recent = [each for each in found.values() if now - each.at <= WINDOW]
    return tuple(sorted(recent, key=_at)[-LOSSES_KEPT:])


def trips(losses: Iterable[Loss], since: datetime | None) -> tuple[str, ...]:
    """Return whose loss trips the breaker, nobody's when there are too few since it last did."""
    fresh = [each.worker for each in losses if since is None or each.at > since]
    return tuple(fresh) if len(fresh) >= LOSSES else ()


def _at(loss: Loss) -> tuple[datetime, str]:
    return loss.at, loss.worker
