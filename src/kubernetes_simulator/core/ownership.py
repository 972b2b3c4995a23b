"""The garbage collector and the end of namespaces: what is owned goes with its owners."""

from kubernetes_simulator.core.deleting import FOREGROUND, ORPHAN, Wishes, begin
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NAMESPACES, RESOURCES, Resource
from kubernetes_simulator.core.world import World

BY_STORE = {each.path: each for each in RESOURCES}
BATCH = 500
"""Most objects of a namespace that are ended in one go."""


def gone(world: World, uid: str) -> None:
    """Delete what an owner that is gone leaves, unless another owner is still there."""
    for path, name in world.store.dependents(uid):
        resource = BY_STORE[path]
        obj = world.store.tables[path][name]
        refs = obj["metadata"].get("ownerReferences") or []
        left = [each for each in refs if each.get("uid") != uid]
        if any(_exists(world, each, name[0]) for each in left):
            meta = {**obj["metadata"], "ownerReferences": left}
            world.put(resource, {**obj, "metadata": meta})
        elif not obj["metadata"].get("deletionTimestamp"):
            begin(world, resource, obj, Wishes(policy="Background"))


def _exists(world: World, ref: Json, namespace: str) -> bool:
    for resource in RESOURCES:
        if (resource.api_version, resource.kind) == (ref.get("apiVersion"), ref.get("kind")):
            space = namespace if resource.namespaced else ""
            found = world.store.get(resource, space, ref.get("name", ""))
            return found is not None and found["metadata"]["uid"] == ref.get("uid")
    return False


def look(world: World, resource: Resource, obj: Json) -> None:
    """Carry out the policies that hold an object whose end has begun."""
    meta = obj["metadata"]
    held = meta.get("finalizers") or ()
    if not meta.get("deletionTimestamp") or not {FOREGROUND, ORPHAN} & set(held):
        return
    dependents = world.store.dependents(meta["uid"])
    if ORPHAN in held:
        for path, name in dependents:
            each = world.store.tables[path][name]
            refs = each["metadata"].get("ownerReferences") or []
            left = [ref for ref in refs if ref.get("uid") != meta["uid"]]
            world.put(
                BY_STORE[path], {**each, "metadata": {**each["metadata"], "ownerReferences": left}}
            )
        dependents = []
    for path, name in dependents:
        held_one = world.store.tables[path].get(name)
        if held_one is not None and not held_one["metadata"].get("deletionTimestamp"):
            begin(world, BY_STORE[path], held_one, Wishes(policy="Foreground"))
    if world.store.dependents(meta["uid"]):
        # Its dependents' removal marks this one through their owner reference.
        return
    left = [each for each in held if each not in {FOREGROUND, ORPHAN}]
    if left:
        world.put(resource, {**obj, "metadata": {**meta, "finalizers": left}})
    else:
        world.drop(resource, obj)


def end_namespace(world: World, obj: Json) -> None:
    """Delete what is in a namespace whose end has begun; it goes when nothing is left."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        return
    begun = 0
    for resource in RESOURCES:
        for each in world.store.all(resource, meta["name"]) if resource.namespaced else ():
            if begun < BATCH and not each["metadata"].get("deletionTimestamp"):
                begin(world, resource, each, Wishes(policy="Background"))
                begun += 1
    # The removal of each lets the namespace be looked at again.
    if any(name[0] == meta["name"] for table in world.store.tables.values() for name in table):
        return
    if not meta.get("finalizers"):
        world.drop(NAMESPACES, obj)
