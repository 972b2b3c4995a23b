"""What of a worker's record not every reader sees: whose the labs of other people are.

Titles and owners of labs are for operators and admins; a program that reports needs neither.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.views import Sources

ALL, BARE = "all", "no names of labs"


def sight(sources: Sources, principal: Principal) -> str:
    """Return how much the caller sees of the labs on workers' servers."""
    del sources
    return ALL if access.reads_addresses(principal) else BARE


def view(sources: Sources, principal: Principal) -> Callable[[Worker], Worker] | None:
    """Return what shows a worker to the caller; None for who sees all."""
    del sources
    return private(principal)


def private(principal: Principal) -> Callable[[Worker], Worker] | None:
    """Return what leaves out what the caller never reads of a worker; None for who reads all."""
    return None if access.reads_addresses(principal) else without_names


def without_names(worker: Worker) -> Worker:
    """Return a worker without titles and owners of labs."""
    labs = worker.status.hosted_labs
    if not labs:
        return worker
    bare = tuple(msgspec.structs.replace(each, title="", owner="") for each in labs)
    status = msgspec.structs.replace(worker.status, hosted_labs=bare)
    return msgspec.structs.replace(worker, status=status)
