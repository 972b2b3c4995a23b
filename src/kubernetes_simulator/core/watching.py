"""A watch: which changes its caller sees, and as what, by what was selected before and after."""

from dataclasses import dataclass

from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.listing import Query
from kubernetes_simulator.core.store import Change, Store

Event = tuple[str, Json]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""


def seen(change: Change, query: Query) -> Event | None:
    """Return what a watch is told of a change; None if it is not concerned.

    An object that comes to be selected is ADDED, one that is no longer is DELETED.
    """
    if change.path != query.resource.path:
        return None
    test = query.test()
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

    def news(self, store: Store) -> list[Event]:
        """Return what is new since it was asked last; `Expired` if that is compacted."""
        changes = store.since(self.revision)
        self.revision = store.revision
        found = (seen(change, self.query) for change in changes)
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
