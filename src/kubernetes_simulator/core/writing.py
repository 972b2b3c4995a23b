"""Create, update, patch and delete as the API server does them, before the store is written."""

from dataclasses import dataclass
from typing import Any

from kubernetes_simulator.core import applying, nodes, patches, strategic
from kubernetes_simulator.core.defaults import filled, refilled
from kubernetes_simulator.core.deleting import Wishes, begin, freed
from kubernetes_simulator.core.errors import (
    STALE,
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
)
from kubernetes_simulator.core.inputs import Json, new_uid, stamp, suffix
from kubernetes_simulator.core.kinds import NAMESPACES, NODES, Resource
from kubernetes_simulator.core.shapes import misshapen, without_null
from kubernetes_simulator.core.validation import REQUIRED, changes, problems, refuse
from kubernetes_simulator.core.world import World

SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
          "generation", "selfLink")  # fmt: skip
KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a write goes: a resource, a namespace, a name, and what stands under the object."""

    resource: Resource
    namespace: str
    name: str = ""
    sub: str = ""


def found(world: World, place: Place) -> Json:
    """Return an object; 404 if there is none."""
    obj = world.store.get(place.resource, place.namespace, place.name)
    if obj is None:
        raise not_found(place.resource.group, place.resource.plural, place.name)
    return obj


def _own(place: Place, body: Any) -> Json:
    """Return a body that is one of this resource, in this namespace."""
    resource = place.resource
    if not isinstance(body, dict):
        raise bad_request("the object provided is no JSON object")
    said = body.get("apiVersion", resource.api_version), body.get("kind", resource.kind)
    if said != (resource.api_version, resource.kind):
        raise bad_request(
            f"the API version and kind in the data ({said[0]}, {said[1]}) do not match those "
            f"expected ({resource.api_version}, {resource.kind})"
        )
    held = body.get("metadata") or {}
    if not isinstance(held, dict):
        raise bad_request("metadata: an object is expected")
    meta = dict(held)
    inside = meta.get("namespace") or place.namespace
    if inside != place.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if resource.namespaced:
        meta["namespace"] = place.namespace
    else:
        meta.pop("namespace", None)
    kept = {key: value for key, value in meta.items() if value is not None}
    made: Json = without_null(
        {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": kept}
    )
    wrong = misshapen(resource, made)
    if wrong:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled: {"; ".join(wrong)}'
        )
    return made


def _room(world: World, place: Place) -> None:
    """Raise if nothing can be made in the namespace."""
    if not place.resource.namespaced:
        return
    space = world.store.get(NAMESPACES, "", place.namespace)
    if space is None:
        raise not_found("", "namespaces", place.namespace)
    if space["metadata"].get("deletionTimestamp"):
        raise forbidden(
            f"unable to create new content in namespace {place.namespace} because it is being "
            "terminated",
            {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
        )


def create(world: World, place: Place, body: Any, *, dry: bool = False) -> Json:
    """Make an object; 409 if its name is taken."""
    resource = place.resource
    obj = _own(place, body)
    meta = obj["metadata"]
    if meta.pop("resourceVersion", None):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not meta.get("name"):
        start = meta.get("generateName")
        if not start:
            text = "Required value: name or generateName is required"
            raise refuse(resource, obj, [("metadata.name", REQUIRED, text)])
        meta["name"] = f"{start[:58]}{suffix(world.rng)}"
    for key in SYSTEM:
        meta.pop(key, None)
    _room(world, place)
    meta |= {"uid": new_uid(world.rng), "creationTimestamp": stamp(world.now)}
    if resource.generation:
        meta["generation"] = 1
    wrong = problems(resource, obj)
    if wrong:
        raise refuse(resource, obj, wrong)
    obj = filled(resource, obj)
    if resource is NODES:
        obj = nodes.completed(world, obj)
    if world.store.get(resource, place.namespace, meta["name"]) is not None:
        raise already_exists(resource.group, resource.plural, meta["name"])
    if dry:
        return obj
    return world.put(resource, obj)


def _checked(place: Place, old: Json, meta: Json) -> None:
    """Raise if a write rests on another version, or on another object of the name."""
    resource, held = place.resource, old["metadata"]
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if uid and uid != held["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held['uid']}"
        raise conflict(resource.group, resource.plural, place.name, why)
    if version and str(version) != held["resourceVersion"]:
        raise conflict(resource.group, resource.plural, place.name, STALE)


def _kept(old: Json, meta: Json) -> Json:
    """Return the metadata of a write, with what only the server sets as it was."""
    held = old["metadata"]
    new = {
        key: value
        for key, value in meta.items()
        if key not in SYSTEM and value not in (None, {}, [])
    }
    new |= {key: held[key] for key in SYSTEM if key in held}
    if "managedFields" in held:
        new.setdefault("managedFields", held["managedFields"])
    return {**new, "resourceVersion": held["resourceVersion"]}


def update(world: World, place: Place, body: Any, *, dry: bool = False) -> Json:
    """Write an object in place of the one of its name; 409 if it rests on an old version."""
    resource, old = place.resource, found(world, place)
    obj = _own(place, body)
    if obj["metadata"].get("name", place.name) != place.name:
        raise bad_request("the name of the object does not match the name on the URL")
    obj["metadata"]["name"] = place.name
    _checked(place, old, obj["metadata"])
    meta = _kept(old, obj["metadata"])
    if place.sub == "status":
        new = {**old, "status": obj.get("status") or {}}
        return new if dry else _written(world, resource, old, new)
    if resource.has_status:
        obj = {key: value for key, value in obj.items() if key != "status"}
        if "status" in old:
            obj["status"] = old["status"]
    if resource is NODES:
        obj.setdefault("spec", {})
    new = refilled(resource, {**obj, "metadata": meta})
    wrong = [*problems(resource, new), *changes(resource, old, new)]
    if wrong:
        raise refuse(resource, new, wrong)
    if resource.generation and new.get("spec") != old.get("spec"):
        new["metadata"] = {**meta, "generation": meta.get("generation", 1) + 1}
    return new if dry else _written(world, resource, old, new)


def _written(world: World, resource: Resource, old: Json, new: Json) -> Json:
    """Write what differs; an object whose end has begun goes with its last finalizer."""
    if new == old:
        return old
    held = world.put(resource, new)
    freed(world, resource, held)
    return held


APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def patch(
    world: World, place: Place, kind: str, body: Any, *, owner: str = "", force: bool = False,
    dry: bool = False,
) -> tuple[Json, bool]:  # fmt: skip
    """Change an object by a patch; return it and whether it was made by an apply."""
    if kind == APPLY:
        return _apply(world, place, body, owner, force=force, dry=dry)
    old = found(world, place)
    match kind:
        case "application/json-patch+json":
            new = patches.stepped(old, body)
        case "application/merge-patch+json":
            new = patches.merged(old, body)
        case "application/strategic-merge-patch+json":
            new = strategic.patched(old, body)
        case _:
            raise ApiError(
                415, "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                f"{JSON_PATCH}, {MERGE}, {STRATEGIC}, {APPLY}",
            )  # fmt: skip
    if not isinstance(new, dict):
        raise bad_request("the patch leaves no object")
    return update(world, place, new, dry=dry), False


def _apply(
    world: World, place: Place, body: Any, owner: str, *, force: bool, dry: bool
) -> tuple[Json, bool]:
    if not owner:
        raise bad_request("fieldManager is required for apply patch")
    wanted = _own(place, body)
    wanted["metadata"]["name"] = place.name
    if wanted["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    old = world.store.get(place.resource, place.namespace, place.name)
    if old is None:
        if place.sub or wanted["metadata"].get("resourceVersion"):
            raise not_found(place.resource.group, place.resource.plural, place.name)
        first: Json = {"metadata": {}}
        new = applying.applied(first, wanted, owner, world.now, force=force)
        rows = new["metadata"]["managedFields"]
        meta = {**wanted["metadata"], "managedFields": rows}
        return create(world, place, {**wanted, "metadata": meta}, dry=dry), True
    _checked(place, old, wanted["metadata"])
    new = applying.applied(old, wanted, owner, world.now, force=force)
    return update(world, place, new, dry=dry), False


def delete(
    world: World, place: Place, wishes: Wishes, preconditions: Json | None, *, dry: bool = False
) -> Json:
    """Delete an object, or let its end begin; return what it is now."""
    old = found(world, place)
    _checked(place, old, preconditions or {})
    if place.resource is NAMESPACES and place.name in KEPT_NAMESPACES:
        raise forbidden(
            f'namespaces "{place.name}" is forbidden: this namespace may not be deleted',
            {"name": place.name, "kind": "namespaces"},
        )
    return old if dry else begin(world, place.resource, old, wishes)


def scale_of(obj: Json) -> Json:
    """Return the Scale of a workload."""
    meta = obj["metadata"]
    selector = obj["spec"].get("selector") or {}
    labels = selector.get("matchLabels") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": obj["spec"]["replicas"]},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        },
    }


def scale(world: World, place: Place, body: Any, *, dry: bool = False) -> Json:
    """Let a workload want another number of pods; return its Scale."""
    old = found(world, place)
    if not isinstance(body, dict) or not isinstance(body.get("spec", {}), dict):
        raise bad_request("a Scale is an object")
    _checked(place, old, body.get("metadata") or {})
    wanted = (body.get("spec") or {}).get("replicas", 0)
    new = {**old, "spec": {**old["spec"], "replicas": wanted}}
    return scale_of(update(world, Place(place.resource, place.namespace, place.name), new, dry=dry))
