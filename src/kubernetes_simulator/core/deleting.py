"""The end of objects: grace, finalizers, and what becomes of what they own."""

from dataclasses import dataclass

from kubernetes_simulator.core.inputs import Json, stamp
from kubernetes_simulator.core.kinds import JOBS, NAMESPACES, PODS, Resource
from kubernetes_simulator.core.world import ENDED, World

LONGEST = 2**31 - 1
"""Seconds of grace; more is no time that can be written."""
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How an object is to be deleted.

    grace: seconds; None: the object's own. policy: Background, Foreground or Orphan; "": the
    resource's own.
    """

    grace: int | None = None
    policy: str = ""


def begin(world: World, resource: Resource, obj: Json, wishes: Wishes | None) -> Json:
    """Delete an object, or let its end begin; return what it is now."""
    wishes = wishes or Wishes(policy="Background")
    if resource is PODS:
        return _pod(world, obj, wishes)
    policy = wishes.policy or ("Orphan" if resource is JOBS else "Background")
    meta = obj["metadata"]
    finalizers = [each for each in meta.get("finalizers") or () if each not in {FOREGROUND, ORPHAN}]
    if world.store.dependents(meta["uid"]):
        extra = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        finalizers += [extra] if extra else []
    if resource is NAMESPACES:
        status = {**(obj.get("status") or {}), "phase": "Terminating"}
        return _marked(world, resource, {**obj, "status": status}, finalizers, None)
    if finalizers:
        return _marked(world, resource, obj, finalizers, None)
    return world.drop(resource, obj)


def _marked(
    world: World, resource: Resource, obj: Json, finalizers: list[str], grace: int | None
) -> Json:
    meta = {**obj["metadata"]}
    meta.setdefault("deletionTimestamp", stamp(world.now + (grace or 0)))
    meta["deletionGracePeriodSeconds"] = grace or 0
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if resource.generation:
        meta["generation"] = meta.get("generation", 1) + 1
    return world.put(resource, {**obj, "metadata": meta})


def _pod(world: World, pod: Json, wishes: Wishes) -> Json:
    """Let a pod be stopped by its node; one that has none, or is over, goes at once."""
    meta = pod["metadata"]
    own = pod["spec"].get("terminationGracePeriodSeconds", 30)
    grace = own if wishes.grace is None else wishes.grace
    grace = max(0, min(grace, LONGEST))
    started = pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED
    if not started:
        grace = 0
    finalizers = list(meta.get("finalizers") or ())
    if grace > 0:
        if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds", 0) <= grace:
            return pod
        meta = {key: value for key, value in meta.items() if key != "deletionTimestamp"}
        return _marked(world, PODS, {**pod, "metadata": meta}, finalizers, grace)
    if finalizers:
        return _marked(world, PODS, pod, finalizers, 0)
    # Gone at once: what runs of it is stopped when the removal is looked at.
    return world.drop(PODS, pod)


def freed(world: World, resource: Resource, obj: Json) -> bool:
    """Remove an object whose end has begun and that nothing holds any more; tell whether it was."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if resource is NAMESPACES:
        return False
    if resource is PODS and meta.get("deletionGracePeriodSeconds", 0) > 0:
        return False
    world.drop(resource, obj)
    return True
