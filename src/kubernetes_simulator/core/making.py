"""What controllers make: pods of a template, with an owner; and which of theirs there are."""

from collections.abc import Iterable

from kubernetes_simulator.core.defaults import filled
from kubernetes_simulator.core.deleting import begin
from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json, new_uid, seconds_of, stamp, suffix
from kubernetes_simulator.core.kinds import NAMESPACES, PODS, Resource, of_object
from kubernetes_simulator.core.status import holds
from kubernetes_simulator.core.world import ENDED, World


def owner_of(obj: Json) -> Json:
    """Return the owner reference to an object that steers others."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def make(world: World, resource: Resource, obj: Json) -> Json | None:
    """Write a new object with the metadata of one; None if the name is taken or nobody may."""
    meta = obj["metadata"]
    space = world.store.get(NAMESPACES, "", meta.get("namespace", ""))
    if space is None or space["metadata"].get("deletionTimestamp"):
        return None
    if "name" not in meta:
        meta = {**meta, "name": f"{meta['generateName'][:58]}{suffix(world.rng)}"}
    if world.store.get(resource, meta["namespace"], meta["name"]) is not None:
        return None
    meta = {**meta, "uid": new_uid(world.rng), "creationTimestamp": stamp(world.now)}
    if resource.generation:
        meta["generation"] = 1
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj, "metadata": meta}
    return world.put(resource, filled(resource, whole))


def make_pod(
    world: World, above: Json, template: Json, *, name: str = "", labels: Json | None = None,
    annotations: Json | None = None, more: Json | None = None,
) -> Json | None:  # fmt: skip
    """Make a pod of a template for the object that steers it."""
    held = template.get("metadata") or {}
    meta: Json = {
        "namespace": above["metadata"]["namespace"],
        "labels": {**(held.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_of(above)],
    }
    notes = {**(held.get("annotations") or {}), **(annotations or {})}
    if notes:
        meta["annotations"] = notes
    if name:
        meta["name"] = name
    else:
        meta["generateName"] = f"{above['metadata']['name']}-"
    if held.get("finalizers"):
        meta["finalizers"] = held["finalizers"]
    spec = {**(template.get("spec") or {}), **(more or {})}
    pod = make(world, PODS, {"metadata": meta, "spec": spec})
    if pod is not None:
        told = f"Created pod: {pod['metadata']['name']}"
        tell(world, above, "SuccessfulCreate", told, f"{above['kind'].lower()}-controller")
    return pod


def end_pod(world: World, pod: Json, above: Json) -> None:
    """Ask for the end of a pod, once."""
    if not pod["metadata"].get("deletionTimestamp"):
        told = f"Deleted pod: {pod['metadata']['name']}"
        tell(world, above, "SuccessfulDelete", told, f"{above['kind'].lower()}-controller")
        begin(world, PODS, pod, None)


def owned(world: World, above: Json, resource: Resource) -> list[Json]:
    """Return the objects of a resource that an object steers, in the order of their names."""
    found = []
    for path, name in world.store.dependents(above["metadata"]["uid"]):
        if path == resource.path:
            obj = world.store.tables[path][name]
            found.append(obj)
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def is_active(pod: Json) -> bool:
    """Tell whether a pod counts: it is neither over nor being deleted."""
    return pod["status"].get("phase") not in ENDED and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Json) -> bool:
    """Tell whether a pod is ready."""
    return holds(pod, "Ready")


def worst_first(pods: Iterable[Json]) -> list[Json]:
    """Return pods in the order in which they are given up: unplaced, not ready, youngest."""

    def rank(pod: Json) -> tuple[bool, bool, float, str]:
        meta = pod["metadata"]
        born = seconds_of(meta["creationTimestamp"])
        return bool(pod["spec"].get("nodeName")), is_ready(pod), -born, meta["name"]

    return sorted(pods, key=rank)


def available(world: World, pods: Iterable[Json], least: float) -> tuple[int, float | None]:
    """Return how many pods have been ready long enough, and when the next one will have been."""
    count, due = 0, None
    for pod in pods:
        if not is_ready(pod):
            continue
        rows = pod["status"]["conditions"]
        since = next(each["lastTransitionTime"] for each in rows if each["type"] == "Ready")
        ripe = seconds_of(since) + world.real(least)
        if least <= 0 or ripe <= world.now:
            count += 1
        else:
            due = ripe if due is None else min(due, ripe)
    return count, due


def resource_of(obj: Json) -> Resource:
    """Return the resource of a stored object."""
    found = of_object(obj)
    if found is None:
        raise LookupError(obj.get("kind"))
    return found
