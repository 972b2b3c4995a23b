"""Objects by resource, namespace and name, and one bounded log of what changed.

Every write takes the next number of one sequence for the whole cluster, as etcd's revisions are.
The log answers watches and lists at an earlier version; what it no longer holds is `Expired`.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from kubernetes_simulator.core.errors import expired, too_large
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import Resource

Kind = Literal["ADDED", "MODIFIED", "DELETED"]
Name = tuple[str, str]
"""Namespace ("" for what has none) and name."""
FIRST = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """One write: which object became what, and what it was before."""

    revision: int
    kind: Kind
    path: str
    name: Name
    obj: Json
    before: Json | None


@dataclass(slots=True)
class Store:
    """What the cluster holds.

    most_objects, most_changes: bounds; a create beyond the first is refused, the log forgets its
    oldest beyond the second. floor: the last version of which the log no longer knows what came.
    """

    most_objects: int = 50_000
    most_changes: int = 10_000
    revision: int = FIRST
    floor: int = FIRST
    tables: dict[str, dict[Name, Json]] = field(default_factory=dict)
    log: deque[Change] = field(default_factory=deque)
    owned: dict[str, dict[tuple[str, Name], None]] = field(default_factory=dict)
    count: int = 0

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return an object; None if there is none."""
        return self.tables.get(resource.path, {}).get((namespace, name))

    def all(self, resource: Resource, namespace: str = "") -> list[Json]:
        """Return objects in the order of namespace and name; "" means of every namespace."""
        table = self.tables.get(resource.path, {})
        return [table[name] for name in sorted(table) if not namespace or name[0] == namespace]

    def put(self, resource: Resource, obj: Json) -> Change:
        """Write an object, new or not; its metadata gets the next version."""
        meta = obj["metadata"]
        name = (meta.get("namespace", ""), meta["name"])
        table = self.tables.setdefault(resource.path, {})
        before = table.get(name)
        if before is None:
            if self.count >= self.most_objects:
                raise too_large("the number of objects", self.most_objects)
            self.count += 1
        written = {**obj, "metadata": {**meta, "resourceVersion": str(self.revision + 1)}}
        table[name] = written
        self._own(resource.path, name, before, written)
        return self._logged("MODIFIED" if before else "ADDED", resource.path, name, written, before)

    def remove(self, resource: Resource, namespace: str, name: str) -> Change | None:
        """Remove an object; None if there is none."""
        before = self.tables.get(resource.path, {}).pop((namespace, name), None)
        if before is None:
            return None
        self.count -= 1
        meta = {**before["metadata"], "resourceVersion": str(self.revision + 1)}
        last = {**before, "metadata": meta}
        self._own(resource.path, (namespace, name), before, None)
        return self._logged("DELETED", resource.path, (namespace, name), last, before)

    def _own(self, path: str, name: Name, before: Json | None, after: Json | None) -> None:
        was, now = owners(before), owners(after)
        for uid in was - now:
            held = self.owned[uid]
            held.pop((path, name), None)
            if not held:
                del self.owned[uid]
        for uid in now - was:
            self.owned.setdefault(uid, {})[path, name] = None

    def _logged(self, kind: Kind, path: str, name: Name, obj: Json, before: Json | None) -> Change:
        self.revision += 1
        change = Change(self.revision, kind, path, name, obj, before)
        self.log.append(change)
        if len(self.log) > self.most_changes:
            self.floor = self.log.popleft().revision
        return change

    def compact(self, revision: int | None = None) -> int:
        """Forget the changes up to a version (all when None); return the floor."""
        most = self.revision if revision is None else min(revision, self.revision)
        while self.log and self.log[0].revision <= most:
            self.log.popleft()
        self.floor = max(self.floor, most)
        return self.floor

    def since(self, revision: int) -> list[Change]:
        """Return what changed after a version; `Expired` if the log no longer knows."""
        if revision < self.floor:
            raise expired(revision, self.floor)
        behind = self.revision - revision
        return list(islice(reversed(self.log), behind))[::-1] if behind > 0 else []

    def at(self, resource: Resource, revision: int) -> dict[Name, Json]:
        """Return the objects of a resource as they were at a version."""
        if revision == self.revision:
            return self.tables.get(resource.path, {})
        table = dict(self.tables.get(resource.path, {}))
        for change in reversed(self.since(revision)):
            if change.path != resource.path:
                continue
            if change.before is None:
                table.pop(change.name, None)
            else:
                table[change.name] = change.before
        return table

    def dependents(self, uid: str) -> list[tuple[str, Name]]:
        """Return path and name of what names this uid as an owner."""
        return list(self.owned.get(uid, ()))


def owners(obj: Json | None) -> set[str]:
    """Return the uids of an object's owners."""
    if obj is None:
        return set()
    return {each.get("uid", "") for each in obj["metadata"].get("ownerReferences") or ()}
