"""Who uses a queue: what waits in it, and what its runs hold.

The one place that counts them: the rule that keeps a queue which is used, its status, its words.
"""

from __future__ import annotations

from typing import NamedTuple

from labfleet.decisions import ledger
from labfleet.resources.amounts import Amounts
from labfleet.resources.queue import Queue
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices


class Users(NamedTuple):
    """Names of the requests that wait, how many runs hold something, and what they hold."""

    waiting: tuple[str, ...] = ()
    running: int = 0
    held: Amounts = Amounts()


def of(services: ServiceContext, queue: Queue) -> Users:
    """Return who uses a queue."""
    path, cache = queue.key.path, services.cache
    waiting = cache.by(indices.SIMULATIONS_OF_QUEUE, (path, False))
    running = cache.by(indices.SIMULATIONS_OF_QUEUE, (path, True))
    held = [each.status.reservation for each in running]
    return Users(
        tuple(each.name for each in waiting),
        len(running),
        ledger.total(each for each in held if each is not None),
    )
