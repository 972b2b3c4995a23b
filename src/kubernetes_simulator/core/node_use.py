"""What whole nodes take: the sum of their pods, ended ones too, and a little of their own."""

from kubernetes_simulator.core.inputs import seconds_of
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.runs import Run
from kubernetes_simulator.core.world import World

OWN_CORES, OWN_BYTES = 0.05, 400 * 2.0**20
"""What a node takes without any pod."""


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


def node_spent(world: World, node: str) -> float:
    """Return the core-seconds of a node since it joined; it never falls."""
    joined = world.store.get(NODES, "", node)
    if joined is None:
        return 0.0
    own = OWN_CORES * max(0.0, world.now - seconds_of(joined["metadata"]["creationTimestamp"]))
    open_ = sum(run.attempt.total("cpu", world.now) for run in runs_on(world, node) if run.attempt)
    return own + world.spent.get(node, 0.0) + open_
