"""StatefulSets: numbered pods with claims of their own, started and ended in order."""

from kubernetes_simulator.core.inputs import Json, canonical, digest, pruned
from kubernetes_simulator.core.kinds import CLAIMS, PODS, STATEFULSETS
from kubernetes_simulator.core.making import (
    available,
    end_pod,
    is_ready,
    make,
    make_pod,
    owned,
)
from kubernetes_simulator.core.world import ENDED, World

HASH = "controller-revision-hash"
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


def _place(obj: Json, pod: Json) -> int:
    text = pod["metadata"]["name"].removeprefix(f"{obj['metadata']['name']}-")
    return int(text) if text.isdigit() else -1


def look(world: World, obj: Json) -> None:
    """Take the next step: make, end, or replace one pod, or all at once when told so."""
    meta, spec = obj["metadata"], obj["spec"]
    fresh = f"{meta['name']}-{digest(canonical(pruned(spec['template'])))}"
    if not meta.get("deletionTimestamp"):
        _step(world, obj, fresh)
    pods = owned(world, obj, PODS)
    live = [pod for pod in pods if pod["status"].get("phase") not in ENDED]
    ripe, due = available(world, live, spec.get("minReadySeconds", 0))
    if due is not None:
        world.at(due, (STATEFULSETS.path, meta["namespace"], meta["name"]))
    before = obj.get("status") or {}
    updated = [pod for pod in live if (pod["metadata"].get("labels") or {}).get(HASH) == fresh]
    current = before.get("currentRevision", fresh)
    if len(updated) == len(live) == spec["replicas"] and all(map(is_ready, live)):
        current = fresh
    held = [pod for pod in live if (pod["metadata"].get("labels") or {}).get(HASH) == current]
    status: Json = {
        "observedGeneration": meta["generation"],
        "replicas": len(live),
        "readyReplicas": sum(map(is_ready, live)),
        "availableReplicas": ripe,
        "currentReplicas": len(held),
        "updatedReplicas": len(updated),
        "currentRevision": current,
        "updateRevision": fresh,
        "collisionCount": 0,
    }
    world.patch(STATEFULSETS, obj, status=status)


def _step(world: World, obj: Json, fresh: str) -> None:
    spec = obj["spec"]
    start = (spec.get("ordinals") or {}).get("start", 0)
    wanted = range(start, start + spec["replicas"])
    parallel = spec["podManagementPolicy"] == "Parallel"
    held = {_place(obj, pod): pod for pod in owned(world, obj, PODS)}
    for number in wanted:
        pod = held.get(number)
        if pod is None:
            _make(world, obj, number, fresh)
            if not parallel:
                return
        elif pod["status"].get("phase") in ENDED:
            end_pod(world, pod, obj)
            if not parallel:
                return
        elif not parallel and (not is_ready(pod) or pod["metadata"].get("deletionTimestamp")):
            return
    over = sorted((number for number in held if number not in wanted), reverse=True)
    for number in over:
        end_pod(world, held[number], obj)
        if not parallel:
            return
    if not over:
        _replace(world, obj, fresh, held)


def _replace(world: World, obj: Json, fresh: str, held: dict[int, Json]) -> None:
    """End the last pod of an older template, when all are ready."""
    rules = obj["spec"]["updateStrategy"]
    if rules["type"] != "RollingUpdate":
        return
    least = (rules.get("rollingUpdate") or {}).get("partition", 0)
    for number in sorted(held, reverse=True):
        pod = held[number]
        if pod["metadata"].get("deletionTimestamp") or not is_ready(pod):
            stale = (pod["metadata"].get("labels") or {}).get(HASH) != fresh
            if not stale or pod["metadata"].get("deletionTimestamp"):
                return
        if number >= least and (pod["metadata"].get("labels") or {}).get(HASH) != fresh:
            end_pod(world, pod, obj)
            return


def _make(world: World, obj: Json, number: int, fresh: str) -> None:
    name = f"{obj['metadata']['name']}-{number}"
    template = obj["spec"]["template"]
    volumes = list((template.get("spec") or {}).get("volumes") or ())
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        held = claim.get("metadata") or {}
        label = held.get("name", "data")
        meta = {
            **held,
            "name": f"{label}-{name}",
            "namespace": obj["metadata"]["namespace"],
            "labels": {**((obj["spec"].get("selector") or {}).get("matchLabels") or {})},
        }
        make(world, CLAIMS, {"metadata": meta, "spec": claim.get("spec") or {}})
        volumes = [each for each in volumes if each.get("name") != label]
        volumes.append({"name": label, "persistentVolumeClaim": {"claimName": f"{label}-{name}"}})
    more: Json = {"hostname": name, "subdomain": obj["spec"].get("serviceName", "")}
    if volumes:
        more["volumes"] = volumes
    labels = {HASH: fresh, POD_NAME: name, POD_INDEX: str(number)}
    make_pod(world, obj, template, name=name, labels=labels, more=more)
