"""Who uses a queue: what waits in it, and what its runs hold.

The one place that counts them: the rule that keeps a queue which is used, its status, its words.
"""

from __future__ import annotations

from typing import NamedTuple

from labfleet.resources.amounts import Amounts
from labfleet.resources.queue import Queue
from labfleet.service.core.service_context import ServiceContext


class Users(NamedTuple):
    """Names of the requests that wait, how many runs hold something, and what they hold."""

    waiting: tuple[str, ...] = ()
    running: int = 0
    held: Amounts = Amounts()


def of(services: ServiceContext, queue: Queue) -> Users:
    """Return who uses a queue: nobody yet, since no request can name one."""
    del services, queue
    return Users()
