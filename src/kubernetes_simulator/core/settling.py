"""Time: lets happen, in order, what fell due; and a new cluster's first objects."""

import heapq
from collections.abc import Callable

from kubernetes_simulator.core import (
    deployments,
    happenings,
    jobs,
    kubelet,
    nodes,
    ownership,
    pressure,
    replicasets,
    statefulsets,
)
from kubernetes_simulator.core.access import Access
from kubernetes_simulator.core.inputs import Json, Rng, new_uid, stamp
from kubernetes_simulator.core.kinds import ACCOUNTS, NAMESPACES, RESOURCES
from kubernetes_simulator.core.making import make
from kubernetes_simulator.core.settings import Settings
from kubernetes_simulator.core.world import Task, World

LOOKS: dict[str, Callable[[World, Json], None]] = {
    "pods": kubelet.look,
    "nodes": nodes.look,
    "namespaces": ownership.end_namespace,
    "apps/replicasets": replicasets.look,
    "apps/deployments": deployments.look,
    "apps/statefulsets": statefulsets.look,
    "batch/jobs": jobs.look,
}
BY_STORE = {each.path: each for each in RESOURCES}
MOST_LOOKS = 2_000_000
"""More than this many looks in one settling is a defect: two controllers undo each other."""
FIRST_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def settle(world: World, now: float) -> None:
    """Let everything happen that fell due up to now, each at its time."""
    looks = 0
    while True:
        while world.dirty:
            task = next(iter(world.dirty))
            del world.dirty[task]
            _look(world, task)
            looks += 1
            if looks > MOST_LOOKS:
                raise RuntimeError(f"the controllers do not come to rest: {task}")
        if not world.timers or world.timers[0][0] > now:
            break
        due, _, task = heapq.heappop(world.timers)
        world.now = max(world.now, due)
        world.look(task)
    world.now = max(world.now, now)


def _look(world: World, task: Task) -> None:
    path, space, name = task
    match path:
        case "gone:":
            ownership.gone(world, name)
            return
        case "ended:":
            kubelet.over(world, name)
            return
        case "event:":
            happenings.expire(world, space, name)
            return
        case "pressure:":
            pressure.look(world, name)
            return
        case "silence:":
            nodes.notice(world, name)
            return
    obj = world.store.tables.get(path, {}).get((space, name))
    if obj is None:
        if path == "nodes":
            nodes.gone(world, name)
        return
    if path == "namespaces" and not obj["metadata"].get("deletionTimestamp"):
        _furnish(world, name)
        return
    look = LOOKS.get(path)
    if look is not None:
        look(world, obj)
    left = world.store.tables.get(path, {}).get((space, name))
    if left is not None:
        ownership.look(world, BY_STORE[path], left)


def _furnish(world: World, name: str) -> None:
    """Give a namespace the account that its pods run under."""
    if world.store.get(ACCOUNTS, name, "default") is None:
        make(world, ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})


def founded(
    settings: Settings, rng: Rng, access: Access, now: float, size: tuple[int, str, str]
) -> World:
    """Return a new cluster with its namespaces and so many nodes of a CPU and memory size."""
    world = World(rng, settings, access, now)
    # Versions of an earlier cluster are old to this one, so that its clients are told to list anew.
    world.store.revision = world.store.floor = max(world.store.revision, int(now))
    for name in FIRST_SPACES:
        labels = {"kubernetes.io/metadata.name": name}
        meta = {
            "name": name,
            "uid": new_uid(rng),
            "creationTimestamp": stamp(now),
            "labels": labels,
        }
        world.put(NAMESPACES, {
            "apiVersion": "v1", "kind": "Namespace", "metadata": meta,
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        })  # fmt: skip
    count, cpu, memory = size
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    for number in range(count):
        nodes.add(world, f"node-{number + 1}", room, {}, [])
    settle(world, now)
    return world
