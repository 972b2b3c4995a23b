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
    """How many requests wait, how many runs hold something, and what they hold."""

    waiting: int = 0
    running: int = 0
    held: Amounts = Amounts()


def waiting(services: ServiceContext, queue: Queue) -> int:
    """Return how many requests wait in a queue, without reading them."""
    return services.cache.count(indices.SIMULATIONS_OF_QUEUE, (queue.key.path, False))


def names(services: ServiceContext, queue: Queue) -> list[str]:
    """Return the names of all requests that wait in a queue."""
    found = services.cache.by(indices.SIMULATIONS_OF_QUEUE, (queue.key.path, False))
    return [each.name for each in found]


def of(services: ServiceContext, queue: Queue) -> Users:
    """Return who uses a queue."""
    path, cache = queue.key.path, services.cache
    running = cache.by(indices.SIMULATIONS_OF_QUEUE, (path, True))
    held = [each.status.reservation for each in running]
    return Users(
        waiting(services, queue),
        len(running),
        ledger.total(each for each in held if each is not None),
    )
