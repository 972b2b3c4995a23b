"""The cluster's own Event objects: what controllers, scheduler and kubelets tell."""

from kubernetes_simulator.core.inputs import Json, digest, micro_stamp, seconds_of, stamp
from kubernetes_simulator.core.kinds import EVENTS, of_object
from kubernetes_simulator.core.world import World

KEPT_SECONDS = 3600.0
"""Real seconds that an Event lives after it was told last."""
MOST = 5_000


def tell(world: World, obj: Json, reason: str, message: str, component: str, *,
         warning: bool = False) -> None:  # fmt: skip
    """Record an Event of an object; the same one told again is counted."""
    meta = obj["metadata"]
    resource = of_object(obj)
    if resource is None:
        return
    space = meta.get("namespace") or "default"
    name = f"{meta['name']}.{digest(meta['uid'], reason, message, component, length=16)}"
    known = world.store.get(EVENTS, space, name)
    when = stamp(world.now)
    if known is not None:
        world.put(EVENTS, {**known, "lastTimestamp": when, "count": known["count"] + 1})
        return
    held = world.store.tables.get(EVENTS.path, {})
    if len(held) >= MOST:
        world.drop(EVENTS, next(iter(held.values())))
    involved = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    if resource.namespaced:
        involved["namespace"] = space
    world.put(
        EVENTS,
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": space,
                "uid": f"{digest('event', name, when, length=12)}",
                "creationTimestamp": when,
            },
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": when,
            "lastTimestamp": when,
            "eventTime": micro_stamp(world.now),
            "count": 1,
        },
    )
    world.at(world.now + KEPT_SECONDS, ("event:", space, name))


def expire(world: World, space: str, name: str) -> None:
    """Remove an Event whose time is over, or look again later."""
    event = world.store.get(EVENTS, space, name)
    if event is None:
        return
    told = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    due = seconds_of(told) + KEPT_SECONDS
    if due <= world.now:
        world.drop(EVENTS, event)
    else:
        world.at(due, ("event:", space, name))
