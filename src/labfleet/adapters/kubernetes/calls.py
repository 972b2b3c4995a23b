"""What a session asks of an API server, whichever client carries it: lists and watches, bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from labfleet.kernel import errors


class What(StrEnum):
    """What is listed and watched, by its plural in the API; the last ones are only listed."""

    NODES = "nodes"
    PODS = "pods"
    DEPLOYMENTS = "deployments"
    STATEFUL_SETS = "statefulsets"
    DAEMON_SETS = "daemonsets"
    REPLICA_SETS = "replicasets"
    JOBS = "jobs"
    POD_FIGURES = "pod figures"
    NODE_FIGURES = "node figures"


OWNERS = {
    What.DEPLOYMENTS: "Deployment",
    What.STATEFUL_SETS: "StatefulSet",
    What.DAEMON_SETS: "DaemonSet",
    What.REPLICA_SETS: "ReplicaSet",
    What.JOBS: "Job",
}
"""What makes pods, by the kind that a pod's owner reference names."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """All bounds of the adapter in one place: machine seconds, bytes and counts.

    connect: For a connection with TLS.
    call: For one reply, from its request on.
    list: For all pages of a list.
    page: Objects asked for at once.
    page_bytes: Most bytes of one page.
    event_bytes: Most bytes of one event of a watch; etcd holds objects of 1.5 MiB.
    objects: Most objects of one list.
    silent: A watch that says nothing for so long, not even a bookmark, is ended.
    watch: After so long the server is asked to end a watch by itself.
    spacing: Watches of one stream begin at least so far apart.
    relist: A list is made at least so often.
    down: A view whose watch is down may be so old.
    old: A view whose watch only says nothing may be so old.
    first: How long the first view waits for the first list.
    unused: A session that nobody asks for so long is closed.
    """

    connect: float = 5.0
    call: float = 20.0
    list: float = 60.0
    page: int = 500
    page_bytes: int = 32 * 1024 * 1024
    event_bytes: int = 4 * 1024 * 1024
    objects: int = 10_000
    silent: float = 90.0
    watch: int = 290
    spacing: float = 1.0
    relist: float = 300.0
    down: float = 60.0
    old: float = 180.0
    first: float = 15.0
    unused: float = 300.0


@dataclass(frozen=True, slots=True)
class Listed:
    """A whole list, and the version from which a watch goes on."""

    objects: Sequence[Any]
    version: str


Change = tuple[str, Any]
"""ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""


def too_many(what: What, most: int) -> errors.Invalid:
    """Return the error of a cluster that holds more than is looked at."""
    message = (
        f"more than {most} {what} are there, which is more than is looked at: name the namespaces of "
        "runs in spec.kubernetes.namespaces"
    )
    return errors.Invalid(message, reason="TooManyObjects")


class Api(Protocol):
    """One API server and one way to be known there."""

    async def listed(
        self,
        what: What,
        namespace: str | None,
        *,
        label: str | None = None,
        name: str | None = None,
    ) -> Listed:
        """Return all objects of a namespace, or of all with None; those with a label, or of a name.

        Raises errors of the kernel: Denied, Temporary, Protocol, Gone, Invalid of too many.
        """
        ...

    def watched(
        self, what: What, namespace: str | None, version: str
    ) -> AsyncGenerator[Change, None]:
        """Yield what changes from a version on, with bookmarks, until the server ends it.

        Raises as `listed`, and TooOld when the server does not know the version any more.
        """
        ...

    async def close(self) -> None:
        """Make no call any more; what is on its way goes on, and the connections end with the last."""
        ...
