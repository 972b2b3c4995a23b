"""Memory pressure: a node whose pods truly take more than it has evicts those that ask for least.

A node is looked at only while its pods could together take too much.
"""

from kubernetes_simulator.core import kubelet
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.node_use import EVERY, expect, memory_of, node_takes
from kubernetes_simulator.core.status import condition, with_conditions
from kubernetes_simulator.core.world import World, asked

KIND = "MemoryPressure"


def look(world: World, name: str) -> None:
    """Evict pods until a node has enough memory, and say whether it is under pressure."""
    world.pressed.discard(name)
    node = world.store.get(NODES, "", name)
    if node is None or name in world.silent:
        return
    over = node_takes(world, name, 0)[1] > memory_of(node)
    while node_takes(world, name, 0)[1] > memory_of(node):
        pod = _first(world, name)
        if pod is None:
            break
        kubelet.fail(world, pod, "Evicted", "The node was low on resource: memory.")
    why = "KubeletHasInsufficientMemory" if over else "KubeletHasSufficientMemory"
    said = condition(KIND, "True" if over else "False", world.now, why)
    node = world.store.get(NODES, "", name) or node
    world.patch(NODES, node, status=with_conditions(node["status"], said))
    if over:
        world.pressed.add(name)
        world.at(world.now + world.real(EVERY), ("pressure:", "", name))
    else:
        expect(world, name)


def _first(world: World, name: str) -> Json | None:
    """Return the pod that takes most beyond what it asks for."""
    found: list[tuple[float, str, Json]] = []
    for space, pod_name in world.on_node.get(name, {}):
        pod = world.store.get(PODS, space, pod_name)
        run = world.runs.get(pod["metadata"]["uid"]) if pod is not None else None
        if pod is not None and run is not None:
            beyond = run.takes("memory", world.now) - asked(pod)[1]
            found.append((beyond, pod_name, pod))
    return max(found, key=lambda row: row[:2])[2] if found else None
