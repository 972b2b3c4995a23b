"""Queue: how requests that wait share a cluster, and in which order they are tried.

The words are Kueue's: queues of one cohort lend each other what they do not use of their quotas.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.conditions import Condition
from labfleet.resources.declaration import Kind, Page, PageColumn, columns, filters
from labfleet.resources.meta import Record, Resource, Text

DEFAULT_QUEUE = "default"
"""The queue of requests that may wait and name none; it needs no object."""
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class QueueOrder(StrEnum):
    """In which order the requests of one queue are tried; both mind priority and waiting time.

    FIFO: the one that waits longest goes first. SHORTEST_FIRST: each is set back in proportion to
    the bound of its duration, so short ones wait less on the mean and long ones still get through.
    """

    FIFO = "FIFO"
    SHORTEST_FIRST = "SHORTEST_FIRST"


class QueueSpec(Record, frozen=True, kw_only=True):
    """What the runs of a queue may hold, and how it stands beside the other queues of its cluster.

    A dimension in which no queue of the cohort has a quota is not divided: there the cluster alone
    is the limit. Without a cohort a queue has its quota and can borrow nothing. Whoever may ask for
    runs at all may use the queue, unless `roles` or `owners` name who may: being in one is enough.

    cluster: Name of the cluster that its requests ask for.
    cohort: Queues of one cluster that lend each other what they do not use; null means none.
    quota: What its runs may always hold together; 0 in a dimension means that all is borrowed.
    borrowing_limit: What its runs may hold beyond the quota; null means whatever the cohort has.
    weight: Its share of what is borrowed, beside the weights of the other queues.
    order: In which order its requests are tried.
    max_waiting: How many requests may wait in it; further ones are refused.
    roles: Roles that may use it.
    owners: Owners of runs that may use it.
    description: What it is for, for people.
    """

    cluster: Text = "default"
    cohort: Text | None = None
    quota: Amounts = Amounts()
    borrowing_limit: Amounts | None = None
    weight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    order: QueueOrder = QueueOrder.FIFO
    max_waiting: Annotated[int, msgspec.Meta(ge=1, le=100000)] = 10000
    roles: Annotated[tuple[Word, ...], msgspec.Meta(max_length=10)] = ()
    owners: Annotated[tuple[Word, ...], msgspec.Meta(max_length=200)] = ()
    description: str = ""


class QueueStatus(Record, frozen=True, kw_only=True):
    """Who uses a queue; counted when it is read, null where nobody has counted, as in a stream.

    waiting: How many requests wait in it.
    running: How many of its runs hold something.
    held: What its runs hold together.
    conditions: Facts about it, each with its reason.
    observed_generation: Generation of the spec that this status is about.
    """

    waiting: int | None = None
    running: int | None = None
    held: Amounts | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class Queue(Resource, frozen=True, kw_only=True):
    """Where requests for a cluster wait, with a share of what it has."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
    kind: str = "Queue"


_PAGE = Page(
    4,
    "Queues",
    (
        PageColumn("Queue", "name", wide=3),
        PageColumn("Cluster", "link:clusters", "spec.cluster", wide=2),
        PageColumn("Cohort", "text", "spec.cohort", "none", wide=2),
        PageColumn("Weight", "text", "spec.weight"),
        PageColumn("Order", "text", "spec.order", wide=2),
        PageColumn("About", "text", "spec.description", "", wide=6),
    ),
    none="No queues",
    hints=(
        (
            "A queue is where requests wait for a cluster, with a share of it. Describe one:",
            "labfleet apply -f queue.yaml",
        ),
    ),
)
KIND = Kind(
    name="Queue",
    plural="queues",
    type=Queue,
    summary="Where requests for a cluster wait, with a share of what it has.",
    columns=columns(
        "CLUSTER=spec.cluster",
        "COHORT=spec.cohort",
        "WEIGHT=spec.weight",
        "ORDER=spec.order",
        "WAITING=status.waiting",
        "RUNNING=status.running",
        "CPU(m)=spec.quota.cpuMilli*",
        "MEMORY(MiB)=spec.quota.memoryMib*",
    ),
    filters=filters("cluster=spec.cluster", "cohort=spec.cohort"),
    frozen=("cluster",),
    amounts=(("quota", True), ("borrowingLimit", True)),
    page=_PAGE,
    followed=True,
    derived=("status.waiting", "status.running", "status.held"),
)
