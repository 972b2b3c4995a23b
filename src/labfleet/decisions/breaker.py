"""Circuit breaker: when a pool stops replacing workers that others end or that never come up. Pure.

If another tool terminates machines again and again (a tag policy, a clean-up job), a pool would
launch replacements for ever (facts/aws-bugs.md#case-35); so it would with an image that does not
boot or a licence that is refused. Several losses within a time window pause the pool until a
person resumes it; earlier losses do not count after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from labfleet.resources import conditions
from labfleet.resources.pool import LOSSES_KEPT, Loss
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

LOSSES = 3
WINDOW = timedelta(minutes=30)
BOOTS = 5
BOOT_WINDOW = timedelta(hours=6)
"""Bare-metal workers, one after the other, fail to boot at most every half hour."""
NEVER_UP = frozenset(
    {
        WorkerReason.BOOT_TIMEOUT, WorkerReason.LAUNCH_REFUSED, WorkerReason.LICENCE_REFUSED, WorkerReason.LICENCE_TIMEOUT, WorkerReason.NO_ADDRESS,
    }
)  # fmt: skip
"""Reasons for a failed start that the next worker of the template would meet too."""


def noted(before: tuple[Loss, ...], workers: Iterable[Worker], now: datetime) -> tuple[Loss, ...]:
    """Return the losses within the window: those recorded, and those that the workers show."""
    found = {(each.worker, each.at): each for each in before}
    for worker in workers:
        loss = _loss(worker)
        if loss is not None:
            found[loss.worker, loss.at] = loss
    recent = [
        each for each in found.values() if now - each.at <= (BOOT_WINDOW if each.why else WINDOW)
    ]
    return tuple(sorted(recent, key=_at)[-LOSSES_KEPT:])


def _loss(worker: Worker) -> Loss | None:
    at = worker.status.phase_since
    why = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
    if worker.status.phase is not WorkerPhase.FAILED or at is None or why is None:
        return None
    if why.status != "True":
        return None
    if why.reason == WorkerReason.INSTANCE_TERMINATED:
        return Loss(worker=worker.name, at=at)
    return Loss(worker=worker.name, at=at, why=why.reason) if why.reason in NEVER_UP else None


def trips(
    losses: Iterable[Loss], since: datetime | None, came_up: datetime | None = None
) -> tuple[Loss, ...]:
    """Return the losses that trip the breaker; none when too few since it last tripped.

    `came_up` is when a worker of the pool last became ready: boots that failed before that no
    longer say anything about the template (facts/aws.md#failed-boots).
    """
    fresh = [each for each in losses if since is None or each.at > since]
    ended = tuple(each for each in fresh if not each.why)
    if len(ended) >= LOSSES:
        return ended
    boots = tuple(each for each in fresh if each.why and (came_up is None or each.at > came_up))
    return boots if len(boots) >= BOOTS else ()


def _at(loss: Loss) -> tuple[datetime, str]:
    return loss.at, loss.worker
