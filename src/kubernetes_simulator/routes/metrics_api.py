"""metrics.k8s.io: what nodes and pods took over the last seconds, as metrics-server says it."""

from kubernetes_simulator.core import writing
from kubernetes_simulator.core.errors import not_found
from kubernetes_simulator.core.inputs import Json, stamp
from kubernetes_simulator.core.kinds import NODES, PODS, Resource
from kubernetes_simulator.core.listing import Query
from kubernetes_simulator.core.node_use import node_takes
from kubernetes_simulator.core.quantities import kibi, nano
from kubernetes_simulator.core.world import World
from kubernetes_simulator.core.writing import Place
from kubernetes_simulator.routes.forms import Form
from kubernetes_simulator.routes.objects import Call
from kubernetes_simulator.routes.web import Reply, json_reply

WINDOW = 15.0
"""Real seconds that a figure is the mean of."""


def _head(kind: str, obj: Json, now: float) -> Json:
    held = obj["metadata"]
    meta = {key: held[key] for key in ("name", "namespace", "labels") if key in held}
    meta["creationTimestamp"] = stamp(now)
    return {
        "kind": kind,
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": meta,
        "timestamp": stamp(now),
        "window": f"{WINDOW:g}s",
    }


def _pod(world: World, pod: Json) -> Json | None:
    """Return a pod's figures; None while nothing of it runs."""
    run = world.runs.get(pod["metadata"]["uid"])
    attempt = run.attempt if run is not None else None
    if attempt is None:
        return None
    age = min(WINDOW, max(world.now - attempt.began, 1e-3))
    rows = []
    for each in attempt.containers:
        late, early = attempt.age(world.now), attempt.age(world.now - age)
        cores = (each.cpu.total(late) - each.cpu.total(early)) / age
        held = each.memory.amount(late)
        rows.append({"name": each.name, "usage": {"cpu": nano(cores), "memory": kibi(held)}})
    return {**_head("PodMetrics", pod, world.now), "containers": rows}


def _node(world: World, node: Json) -> Json | None:
    """Return a node's figures; None while its kubelet is silent."""
    name = node["metadata"]["name"]
    if name in world.silent:
        return None
    cores, held = node_takes(world, name, WINDOW)
    usage = {"cpu": nano(cores), "memory": kibi(held)}
    return {**_head("NodeMetrics", node, world.now), "usage": usage}


def _stored(resource: Resource) -> Resource:
    return NODES if resource.plural == "nodes" else PODS


def answer(call: Call) -> Reply:
    """Return the figures of one object, or of all that are selected."""
    world, place = call.world, call.place
    stored = _stored(place.resource)
    make = _node if stored is NODES else _pod
    if place.name:
        obj = writing.found(world, Place(stored, place.namespace, place.name))
        found = make(world, obj)
        if found is None:
            raise not_found("metrics.k8s.io", place.resource.plural, place.name)
        return json_reply(found)
    asked = call.request.query
    query = Query(stored, place.namespace, asked.get("labelSelector", ""),
                  asked.get("fieldSelector", ""))  # fmt: skip
    test = query.test()
    held = [obj for obj in world.store.all(stored, place.namespace) if test(obj)]
    rows = [row for row in (make(world, obj) for obj in held) if row is not None]
    meta = {"resourceVersion": ""}
    return json_reply(Form().many(place.resource, rows, meta, world.now))
