"""What whole nodes take: the sum of their pods, ended ones too, and a little of their own."""

from kubernetes_simulator.core.inputs import Json, seconds_of
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.runs import Figure, Run
from kubernetes_simulator.core.world import World

OWN_CORES, OWN_BYTES, OWN_DISK, OWN_BYTES_PER_SECOND = 0.05, 400 * 2.0**20, 4 * 2.0**30, 2_000.0
"""What a node takes without any pod: cores, bytes of memory and disk, and of network each way."""


def runs_on(world: World, node: str) -> list[Run]:
    """Return the runs of the pods on a node that are not over."""
    found = []
    for space, name in world.on_node.get(node, {}):
        pod = world.store.get(PODS, space, name)
        run = world.runs.get(pod["metadata"]["uid"]) if pod is not None else None
        if run is not None:
            found.append(run)
    return found


def node_takes(world: World, node: str, window: float) -> tuple[float, float]:
    """Return cores over a window, and bytes now, of what runs on a node."""
    runs = runs_on(world, node)
    cores = OWN_CORES + sum(run.mean("cpu", world.now, window) for run in runs)
    return cores, OWN_BYTES + sum(run.takes("memory", world.now) for run in runs)


def node_spent(world: World, node: str, figure: Figure) -> float:
    """Return what a node has taken in all since it joined: core-seconds or bytes; it never falls."""
    joined = world.store.get(NODES, "", node)
    if joined is None:
        return 0.0
    age = max(0.0, world.now - seconds_of(joined["metadata"]["creationTimestamp"]))
    own = OWN_CORES * age if figure == "cpu" else OWN_BYTES_PER_SECOND * age
    lives = (run.attempt for run in runs_on(world, node))
    now = sum(life.total(figure, world.now) for life in lives if life is not None)
    return own + world.spent.get((node, figure), 0.0) + now


def node_holds(world: World, node: str) -> float:
    """Return the bytes on a node's disk."""
    return OWN_DISK + sum(run.takes("disk", world.now) for run in runs_on(world, node))


EVERY = 5.0
"""Simulated seconds between two looks at a node whose memory may not be enough."""


def memory_of(node: Json) -> float:
    """Return the bytes of memory that a node has."""
    return read((node["status"].get("capacity") or {}).get("memory", "0"))


def expect(world: World, name: str) -> None:
    """Have a node looked at while what its pods may come to take is more than it has."""
    node = world.store.get(NODES, "", name)
    if node is None or name in world.pressed:
        return
    lives = (run.attempt for run in runs_on(world, name))
    most = sum(
        max(each.memory.values) for life in lives if life is not None for each in life.containers
    )
    if most + OWN_BYTES > memory_of(node):
        world.pressed.add(name)
        world.at(world.now + world.real(EVERY), ("pressure:", "", name))
