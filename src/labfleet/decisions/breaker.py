"""When a pool stops replacing what others end, or what never comes up: pure.

Another tool that ends machines again and again (a tag policy, a clean-up job) would make a
pool launch into the same trouble for ever (facts/aws-bugs.md#case-35), and so would an image that
does not boot or a licence that is refused. Several losses within a while pause the pool until a
person resumes it; losses from before count no more after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from labfleet.resources import conditions
from labfleet.resources.pool import LOSSES_KEPT, Loss
from labfleet.resources.worker import Worker, WorkerPhase

LOSSES = 3
WINDOW = timedelta(minutes=30)
BOOTS = 5
BOOT_WINDOW = timedelta(hours=6)
"""Metal fails to boot no faster than every half hour, one after the other."""
NEVER_UP = frozenset(
    {
        "BootTimeout", "LaunchRefused", "LicenceRefused", "LicenceTimeout", "NoAddress",
    }
)  # fmt: skip
"""Reasons of a worker that never came up for which the next one of its template would too."""


def noted(before: tuple[Loss, ...], workers: Iterable[Worker], now: datetime) -> tuple[Loss, ...]:
    """Return the losses of the last while: those known, and those that the workers show."""
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
    why = conditions.find(worker.status.conditions, "Failed")
    if worker.status.phase is not WorkerPhase.FAILED or at is None or why is None:
        return None
    if why.status != "True":
        return None
    if why.reason == "InstanceTerminated":
        return Loss(worker=worker.name, at=at)
    return Loss(worker=worker.name, at=at, why=why.reason) if why.reason in NEVER_UP else None


def trips(
    losses: Iterable[Loss], since: datetime | None, came_up: datetime | None = None
) -> tuple[Loss, ...]:
    """Return the losses that trip the breaker, none when there are too few since it last did.

    `came_up` is when a worker of the pool last became ready: what failed to boot before that
    says nothing of the template any more (facts/aws.md#failed-boots).
    """
    fresh = [each for each in losses if since is None or each.at > since]
    ended = tuple(each for each in fresh if not each.why)
    if len(ended) >= LOSSES:
        return ended
    boots = tuple(each for each in fresh if each.why and (came_up is None or each.at > came_up))
    return boots if len(boots) >= BOOTS else ()


def _at(loss: Loss) -> tuple[datetime, str]:
    return loss.at, loss.worker
