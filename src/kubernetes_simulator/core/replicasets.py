"""ReplicaSets: as many pods as are wanted."""

from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import DEPLOYMENTS, PODS, REPLICASETS
from kubernetes_simulator.core.making import (
    available,
    end_pod,
    is_active,
    is_ready,
    make_pod,
    owned,
    worst_first,
)
from kubernetes_simulator.core.world import World, controller_of

BURST = 500
"""Most pods that are made or ended in one go; the change of each lets the rest follow."""


def look(world: World, obj: Json) -> None:
    """Make or end pods, and say how many there are."""
    meta, spec = obj["metadata"], obj["spec"]
    pods = [pod for pod in owned(world, obj, PODS) if is_active(pod)]
    if not meta.get("deletionTimestamp"):
        more = spec["replicas"] - len(pods)
        for _ in range(min(more, BURST)):
            make_pod(world, obj, spec["template"])
        for pod in worst_first(pods)[: min(max(-more, 0), BURST)]:
            end_pod(world, pod, obj)
        if more:
            pods = [pod for pod in owned(world, obj, PODS) if is_active(pod)]
    ripe, due = available(world, pods, spec.get("minReadySeconds", 0))
    if due is not None:
        world.at(due, (REPLICASETS.path, meta["namespace"], meta["name"]))
    status: Json = {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods),
        "readyReplicas": sum(map(is_ready, pods)),
        "availableReplicas": ripe,
        "observedGeneration": meta["generation"],
    }
    kept = {key: value for key, value in status.items() if value or key == "replicas"}
    world.patch(REPLICASETS, obj, status=kept)
    above = controller_of(obj)
    if above.get("kind") == DEPLOYMENTS.kind:
        # Pods that are gone do not change the status, but a deployment may wait for that.
        world.look((DEPLOYMENTS.path, meta["namespace"], above["name"]))
