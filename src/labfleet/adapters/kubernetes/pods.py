"""Folds lists and watches into the state that the server means, whatever comes twice or late. Pure.

An object is known by its uid: a name is given again. Of one uid the greatest resourceVersion holds,
what is removed stays so, and what is older than the last list was in it already.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from labfleet.adapters.kubernetes.ends import Fate, fate
from labfleet.adapters.kubernetes.objects import (
    Meta,
    NodeObject,
    OwnerRef,
    PodObject,
    PodSpec,
    Quantities,
)
from labfleet.interfaces.cluster_view import NodeView
from labfleet.kernel import quantity

REMOVED_KEPT = 20000
"""Uids of removed objects that are remembered until the next list."""
_SIDECAR = "Always"
_OVER = frozenset({"Succeeded", "Failed"})


class _HasMeta(Protocol):
    @property
    def metadata(self) -> Meta: ...


R = TypeVar("R", bound=_HasMeta)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class PodSeen:
    """What is kept of a pod.

    own: Value of the run's label on the pod itself; empty when it has none.
    owner: Kind and name of what made it, for a ReplicaSet its Deployment; None of a bare pod.
    job: Uid of the Job that made it; empty when none did.
    """

    namespace: str
    name: str
    own: str
    owner: tuple[str, str] | None
    job: str
    node: str
    phase: str
    deleting: bool
    requested: Mapping[str, int]
    waits: str
    source: PodObject
    fate: Fate | None = None

    @property
    def over(self) -> bool:
        """Tell whether it has ended."""
        return self.fate is not None


class Book(Generic[R, S]):
    """The objects of one stream: what its list said, and all changes since.

    `made` turns an object into what is kept, given what was kept of it before; `removed` is told of
    each that is gone.
    """

    def __init__(
        self, made: Callable[[R, S | None], S], removed: Callable[[S], None] = lambda _: None
    ) -> None:
        self._made = made
        self._removed = removed
        self._kept: dict[str, tuple[int, S]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._listed = 0

    def __len__(self) -> int:
        """Count what is there."""
        return len(self._kept)

    def all(self) -> Iterable[S]:
        """Return what is there."""
        return [kept for _, kept in self._kept.values()]

    def listed(self, objects: Iterable[R], version: str) -> None:
        """Take a whole list; what it does not name is gone, and what has not changed is not read."""
        before, self._kept = self._kept, {}
        self._gone.clear()
        self._listed = number(version)
        for each in objects:
            uid, at = each.metadata.uid, number(each.metadata.resourceVersion)
            old = before.pop(uid, None)
            if old is None or not at or at != old[0]:
                old = (at, self._made(each, None if old is None else old[1]))
            self._kept[uid] = old
        for _, lost in before.values():
            self._removed(lost)

    def changed(self, change: str, each: R) -> None:
        """Take one event of a watch; ADDED and MODIFIED are one, bookmarks change nothing."""
        uid, version = each.metadata.uid, number(each.metadata.resourceVersion)
        if change not in {"ADDED", "MODIFIED", "DELETED"} or not uid or uid in self._gone:
            return
        old = self._kept.get(uid)
        late = version > 0 and (version <= self._listed or (old is not None and version < old[0]))
        if change != "DELETED":
            if not late:
                self._kept[uid] = (version, self._made(each, None if old is None else old[1]))
            return
        # Holds whatever its version: a uid never comes back.
        self._kept.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > REMOVED_KEPT:
            self._gone.popitem(last=False)
        if old is not None:
            self._removed(old[1] if late else self._made(each, old[1]))
        elif not late:
            self._removed(self._made(each, None))


def number(version: str) -> int:
    """Return a resourceVersion as a number; 0, which orders nothing, when it is none."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0


# --- pods ------------------------------------------------------------------------------------


def pod_seen(
    label: str, now: Callable[[], datetime], *, scaled: bool = False
) -> Callable[[PodObject, PodSeen | None], PodSeen]:
    """Return what turns a pod into what is kept of it, by this label; ValueError of odd amounts.

    `scaled` says that our time is not the cluster's (a demo): its instants say nothing then.
    """

    def made(pod: PodObject, before: PodSeen | None) -> PodSeen:
        meta, spec = pod.metadata, pod.spec or PodSpec()
        labels = meta.labels or {}
        controller = _controller(meta.ownerReferences or ())
        phase = (pod.status.phase if pod.status is not None else None) or "Pending"
        deleting = meta.deletionTimestamp is not None
        job = controller.uid if controller is not None and controller.kind == "Job" else ""
        ended = None if before is None else before.fate
        if ended is None and phase in _OVER:
            # Asked to go before it was over: its end says nothing of the run.
            ended = fate(pod, now(), job, deleted=deleting)
            ended = replace(ended, at=None) if scaled else ended
        return PodSeen(
            namespace=meta.namespace,
            name=meta.name,
            own=labels.get(label, ""),
            owner=_owner(controller, labels),
            job=job,
            node=spec.node_name or "",
            phase=phase,
            deleting=deleting,
            requested=requested(spec),
            waits=_waits(pod) if phase == "Pending" else "",
            source=_slim(pod),
            fate=ended,
        )

    return made


def ended(pod: PodSeen, now: datetime, *, scaled: bool = False) -> Fate:
    """Return how a pod ended that is not there any more."""
    found = pod.fate or fate(pod.source, now, pod.job, deleted=True)
    return replace(found, at=None) if scaled else found


def _slim(pod: PodObject) -> PodObject:
    """Return what is needed to say later how it ended."""
    return PodObject(metadata=Meta(name=pod.metadata.name), status=pod.status)


def _controller(owners: Iterable[OwnerRef]) -> OwnerRef | None:
    return next((each for each in owners if each.controller), None)


def _owner(controller: OwnerRef | None, labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what made a pod; a ReplicaSet's name is its Deployment's and the hash of its template."""
    if controller is None:
        return None
    tail = f"-{labels.get('pod-template-hash', '')}"
    if controller.kind == "ReplicaSet" and len(tail) > 1 and controller.name.endswith(tail):
        return "Deployment", controller.name.removesuffix(tail)
    return controller.kind, controller.name


def _waits(pod: PodObject) -> str:
    """Return why a pod does not run, in the cluster's words; empty when it does not say."""
    if pod.status is None:
        return ""
    for each in pod.status.container_statuses or ():
        waiting = each.state.waiting if each.state is not None else None
        if waiting is not None and waiting.reason not in {None, "ContainerCreating"}:
            return ": ".join(filter(None, (waiting.reason, waiting.message)))[:300]
    for fact in pod.status.conditions or ():
        if fact.type == "PodScheduled" and fact.status == "False":
            return ": ".join(filter(None, (fact.reason, fact.message)))[:300]
    return ""


_PARSED = {
    "cpu": ("cpu_milli", quantity.kubernetes_cpu),
    "memory": ("memory_mib", quantity.kubernetes_memory),
    "ephemeral-storage": ("storage_mib", quantity.kubernetes_memory),
}


def amounts(found: Quantities | None, *, supply: bool = False) -> dict[str, int]:
    """Return quantities by dimension: demand up, supply down; ValueError names an odd one."""
    return {
        name: parse(found[word], supply=supply)
        for word, (name, parse) in _PARSED.items()
        if found is not None and word in found
    }


def requested(spec: PodSpec) -> dict[str, int]:
    """Return what the scheduler counts for a pod.

    The sum of its containers, or what one of those that run before them needs beside the sidecars
    started by then, whichever is more; what is requested for the pod as a whole stands for both.
    """
    total: dict[str, int] = {}
    for each in spec.containers or ():
        _add(total, _of(each.resources))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for each in spec.init_containers or ():
        needs = _of(each.resources)
        if each.restart_policy == _SIDECAR:
            _add(sidecars, needs)
            _raise(peak, sidecars)
        else:
            both = dict(sidecars)
            _add(both, needs)
            _raise(peak, both)
    _add(total, sidecars)
    _raise(total, peak)
    total.update(_of(spec.resources))
    _add(total, amounts(spec.overhead))
    return total


def _of(resources: object) -> dict[str, int]:
    return amounts(getattr(resources, "requests", None))


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0) + value


def _raise(to: dict[str, int], least: Mapping[str, int]) -> None:
    for name, value in least.items():
        to[name] = max(to.get(name, 0), value)


# --- nodes -----------------------------------------------------------------------------------


def node_seen(node: NodeObject, before: NodeView | None = None) -> NodeView:
    """Return what is kept of a node; ValueError of odd amounts."""
    del before
    spec, status = node.spec, node.status
    facts = () if status is None else status.conditions or ()
    taints = () if spec is None else spec.taints or ()
    cordoned = spec is not None and bool(spec.unschedulable)
    return NodeView(
        name=node.metadata.name,
        allocatable=amounts(None if status is None else status.allocatable, supply=True),
        ready=any(each.type == "Ready" and each.status == "True" for each in facts),
        schedulable=not cordoned
        and not any(each.effect in {"NoSchedule", "NoExecute"} for each in taints),
    )
