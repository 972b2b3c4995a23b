"""One cluster over time: its objects, what is due when, and whom a change concerns.

Everything outside first calls `settling.settle(world, now)`, which does in order what fell due
since the last call. Nothing here waits or runs in the background.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from kubernetes_simulator.core.access import Access
from kubernetes_simulator.core.faults import Fault
from kubernetes_simulator.core.inputs import Json, Rng
from kubernetes_simulator.core.kinds import BY_KIND, NODES, PODS, Resource
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.runs import Figure, Run
from kubernetes_simulator.core.settings import Settings
from kubernetes_simulator.core.store import Change, Name, Store

Task = tuple[str, str, str]
"""What is to be looked at: a resource's path, or a word with a colon; namespace; name."""
ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Booked:
    """What the pods of one node ask for: cores, bytes, and how many they are."""

    cpu: float = 0.0
    memory: float = 0.0
    pods: int = 0


@dataclass(slots=True)
class World:
    """A cluster.

    now: the moment that is being lived; inside a settling it is when the thing fell due.
    timers: what is to be looked at, and when. dirty: what is to be looked at now, in order.
    waiting: pods that no node takes yet. booked, on_node: by node. runs: what each pod does, by
    uid; those of ended pods are `past`, the oldest forgotten. spent: what lives of containers that
    are over have taken in all, by node and figure. pressed: nodes whose memory is being looked at. silent: nodes whose kubelet says
    nothing, and since when. images: what each node has pulled.
    """

    rng: Rng
    settings: Settings
    access: Access
    now: float
    store: Store = field(init=False)
    timers: list[tuple[float, int, Task]] = field(default_factory=list)
    counted: int = 0
    dirty: dict[Task, None] = field(default_factory=dict)
    waiting: dict[Name, None] = field(default_factory=dict)
    booked: dict[str, Booked] = field(default_factory=dict)
    on_node: dict[str, dict[Name, None]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    past: "OrderedDict[str, Run]" = field(default_factory=OrderedDict)
    spent: dict[tuple[str, Figure], float] = field(default_factory=dict)
    silent: dict[str, float] = field(default_factory=dict)
    pressed: set[str] = field(default_factory=set)
    images: dict[str, dict[str, None]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    addresses: int = 0
    cut: int = 0

    def __post_init__(self) -> None:
        most = self.settings
        self.store = Store(most_objects=most.most_objects, most_changes=most.most_changes)

    # -------------------------------------------------------------- writing

    def put(self, resource: Resource, obj: Json) -> Json:
        """Write an object and return it as stored."""
        change = self.store.put(resource, obj)
        self._concern(resource, change)
        return change.obj

    def drop(self, resource: Resource, obj: Json) -> Json:
        """Remove an object for good and return what it was last."""
        meta = obj["metadata"]
        change = self.store.remove(resource, meta.get("namespace", ""), meta["name"])
        if change is None:
            return obj
        self._concern(resource, change)
        if meta["uid"] in self.store.owned:
            self.look(("gone:", "", meta["uid"]))
        return change.obj

    def patch(self, resource: Resource, obj: Json, **parts: Json) -> Json:
        """Write an object with other top-level parts; nothing is written if nothing differs."""
        if all(obj.get(key) == value for key, value in parts.items()):
            return obj
        return self.put(resource, {**obj, **parts})

    def _concern(self, resource: Resource, change: Change) -> None:
        self.look((resource.path, *change.name))
        for each in (change.obj, change.before):
            above = controller_of(each)
            owner = BY_KIND.get((above.get("apiVersion", ""), above.get("kind", "")))
            if owner is not None:
                space = change.name[0] if owner.namespaced else ""
                self.look((owner.path, space, above.get("name", "")))
        if resource is PODS:
            self._book(change)
        elif resource is NODES:
            self.wake()
        if change.kind != "ADDED" and change.name[0]:
            meta = change.obj["metadata"]
            if change.kind == "DELETED" or meta.get("deletionTimestamp"):
                self.look(("namespaces", "", change.name[0]))

    def _book(self, change: Change) -> None:
        before = change.before if _booked(change.before) else None
        after = change.obj if change.kind != "DELETED" and _booked(change.obj) else None
        for pod, sign in ((before, -1), (after, 1)):
            if pod is None:
                continue
            node = pod["spec"]["nodeName"]
            held = self.booked.setdefault(node, Booked())
            cpu, memory = asked(pod)
            held.cpu += sign * cpu
            held.memory += sign * memory
            held.pods += sign
            if sign > 0:
                self.on_node.setdefault(node, {})[change.name] = None
            else:
                self.on_node.get(node, {}).pop(change.name, None)
        if before is not None and after is None:
            self.wake()
        if change.kind == "DELETED":
            self.waiting.pop(change.name, None)
            self.look(("ended:", "", change.obj["metadata"]["uid"]))

    # -------------------------------------------------------------- what is due

    def look(self, task: Task) -> None:
        """Let something be looked at in this settling."""
        self.dirty[task] = None

    def wake(self) -> None:
        """Let every pod that waits for a node be looked at again."""
        for namespace, name in self.waiting:
            self.look(("pods", namespace, name))

    def at(self, when: float, task: Task) -> None:
        """Let something be looked at at a time in real seconds since 1970."""
        self.counted += 1
        heapq.heappush(self.timers, (when, self.counted, task))

    def real(self, seconds: float) -> float:
        """Return how many real seconds simulated ones last."""
        return seconds / self.settings.speed

    @property
    def next_due(self) -> float | None:
        """Return when something is due next; None if nothing is."""
        if self.dirty:
            return self.now
        return self.timers[0][0] if self.timers else None

    def ended(self, uid: str) -> Run | None:
        """Move a pod's run to those of ended pods, and return it."""
        run = self.runs.pop(uid, None)
        if run is not None:
            self.past[uid] = run
            while len(self.past) > self.settings.most_runs:
                self.past.popitem(last=False)
        return run

    def run_of(self, uid: str) -> Run | None:
        """Return the run of a pod that runs or is still remembered."""
        return self.runs.get(uid) or self.past.get(uid)


def controller_of(obj: Json | None) -> Json:
    """Return the owner reference of the object that steers this one; {} if none does."""
    for each in (obj or {}).get("metadata", {}).get("ownerReferences") or ():
        if each.get("controller"):
            return dict(each)
    return {}


def _booked(pod: Json | None) -> bool:
    if pod is None or not pod["spec"].get("nodeName"):
        return False
    return pod.get("status", {}).get("phase") not in ENDED


def amounts(container: Json, what: str) -> tuple[float | None, float | None]:
    """Return cores and bytes that a container requests or is limited to; None: not said."""
    found = (container.get("resources") or {}).get(what) or {}
    cpu, memory = found.get("cpu"), found.get("memory")
    return (None if cpu is None else read(cpu), None if memory is None else read(memory))


def asked(pod: Json) -> tuple[float, float]:
    """Return cores and bytes that a pod requests: the sum, or its largest init container."""
    spec = pod["spec"]
    sums = [0.0, 0.0]
    for each in spec.get("containers") or ():
        for place, amount in enumerate(amounts(each, "requests")):
            sums[place] += amount or 0.0
    for each in spec.get("initContainers") or ():
        for place, amount in enumerate(amounts(each, "requests")):
            sums[place] = max(sums[place], amount or 0.0)
    return sums[0], sums[1]
