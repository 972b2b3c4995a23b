"""Which node takes a pod: requests against what is allocatable, taints, cordons, selectors."""

from collections.abc import Sequence
from typing import Any

from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.selectors import HOW, holds
from kubernetes_simulator.core.status import condition, with_conditions
from kubernetes_simulator.core.world import Booked, World, asked

NAME = "default-scheduler"
EXACT = 1e-6
"""Sums of floating numbers differ by less than this from what they stand for."""


def tolerated(taint: Json, tolerations: Sequence[Json]) -> bool:
    """Tell whether a pod's tolerations cover a taint."""
    return any(
        (not each.get("effect") or each["effect"] == taint.get("effect"))
        and (not each.get("key") or each["key"] == taint["key"])
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in tolerations
        if each.get("key") or each.get("operator") == "Exists"
    )


def _term(labels: dict[str, str], name: str, term: Json) -> bool:
    rules = term.get("matchExpressions") or ()
    more = {"Gt": ">", "Lt": "<"}
    for each in rules:
        how = HOW.get(each["operator"]) or more.get(each["operator"], "in")
        if not holds(labels, each["key"], how, tuple(each.get("values") or ())):
            return False
    return all(name in (each.get("values") or ()) for each in term.get("matchFields") or ())


def _wanted(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity: Any = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    must = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not must:
        return True
    terms = must.get("nodeSelectorTerms") or ()
    return any(_term(labels, node["metadata"]["name"], term) for term in terms)


def why_not(world: World, pod: Json, node: Json) -> str | None:
    """Return why a node does not take a pod, in the scheduler's words; None if it does."""
    spec, state = pod["spec"], node.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    hard = [each for each in state.get("taints") or () if each.get("effect") != "PreferNoSchedule"]
    if state.get("unschedulable"):
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not tolerated(cordon, tolerations):
            return "node(s) were unschedulable"
    for taint in hard:
        if not tolerated(taint, tolerations):
            value = f": {taint['value']}" if taint.get("value") else ""
            return f"node(s) had untolerated taint {{{taint['key']}{value or ': '}}}"
    if not _wanted(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    room = (node.get("status") or {}).get("allocatable") or {}
    held = world.booked.get(node["metadata"]["name"], Booked())
    cpu, memory = asked(pod)
    if held.pods + 1 > read(room.get("pods", "110")):
        return "Too many pods"
    if cpu > 0 and held.cpu + cpu > read(room.get("cpu", "0")) + EXACT:
        return "Insufficient cpu"
    if memory > 0 and held.memory + memory > read(room.get("memory", "0")) + EXACT:
        return "Insufficient memory"
    return None


def _free(world: World, node: Json) -> tuple[float, str]:
    room = (node.get("status") or {}).get("allocatable") or {}
    held = world.booked.get(node["metadata"]["name"], Booked())
    cpu, memory = read(room.get("cpu", "1")), read(room.get("memory", "1"))
    used = held.cpu / max(cpu, EXACT) + held.memory / max(memory, EXACT) + held.pods * 1e-6
    return used, node["metadata"]["name"]


def place(world: World, pod: Json) -> Json:
    """Bind a pod to the emptiest node that takes it, or say why it waits; return it as stored."""
    meta = pod["metadata"]
    name = (meta["namespace"], meta["name"])
    nodes = world.store.all(NODES)
    reasons = [(node, why_not(world, pod, node)) for node in nodes]
    good = [node for node, why in reasons if why is None]
    if not good:
        return _wait(world, pod, [why for _, why in reasons if why])
    world.waiting.pop(name, None)
    chosen = min(good, key=lambda node: _free(world, node))["metadata"]["name"]
    return bind(world, pod, chosen)


def bind(world: World, pod: Json, node: str) -> Json:
    """Bind a pod to a node."""
    meta = pod["metadata"]
    world.waiting.pop((meta["namespace"], meta["name"]), None)
    said = condition("PodScheduled", "True", world.now)
    status = with_conditions(pod.get("status") or {}, said)
    spec = {**pod["spec"], "nodeName": node}
    tell(world, pod, "Scheduled",
         f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}", NAME)  # fmt: skip
    return world.put(PODS, {**pod, "spec": spec, "status": status})


def _wait(world: World, pod: Json, reasons: list[str]) -> Json:
    meta = pod["metadata"]
    first = (meta["namespace"], meta["name"]) not in world.waiting
    world.waiting[meta["namespace"], meta["name"]] = None
    counts: dict[str, int] = {}
    for why in reasons:
        counts[why] = counts.get(why, 0) + 1
    told = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
    if reasons:
        text = f"0/{len(reasons)} nodes are available: {told}."
    else:
        text = "no nodes available to schedule pods"
    said = condition("PodScheduled", "False", world.now, "Unschedulable", text)
    status = with_conditions(pod.get("status") or {}, said)
    if status == pod.get("status") and not first:
        return pod
    tell(world, pod, "FailedScheduling", text, NAME, warning=True)
    return world.patch(PODS, pod, status=status)
