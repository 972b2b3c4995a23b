"""A watch: which changes its caller sees, and as what, by what was selected before and after."""

from dataclasses import dataclass, field

from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.listing import Query
from kubernetes_simulator.core.selectors import Test
from kubernetes_simulator.core.store import Change, Store

Event = tuple[str, Json]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""


def seen(change: Change, path: str, test: Test) -> Event | None:
    """Return what a watch of a resource is told of a change; None if it is not concerned.

    An object that comes to be selected is ADDED, one that is no longer is DELETED.
    """
    if change.path != path:
        return None
    now = change.kind != "DELETED" and test(change.obj)
    was = change.before is not None and test(change.before)
    if now:
        return ("MODIFIED" if was else "ADDED"), change.obj
    if was:
        return "DELETED", change.obj
    return None


@dataclass(slots=True)
class Watch:
    """What one caller has been told: up to which version."""

    query: Query
    revision: int
    _test: Test = field(init=False)

    def __post_init__(self) -> None:
        self._test = self.query.test()

    def news(self, store: Store) -> list[Event]:
        """Return what is new since it was asked last; `Expired` if that is compacted."""
        changes = store.since(self.revision)
        self.revision = store.revision
        found = (seen(change, self.query.resource.path, self._test) for change in changes)
        return [each for each in found if each is not None]

    def bookmark(self) -> Event:
        """Return the event that says how far the watch is."""
        resource = self.query.resource
        meta = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        return "BOOKMARK", {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": meta,
        }
