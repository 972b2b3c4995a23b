"""What kube-state-metrics exposes of the objects in the store, under its own names and labels."""

import re
from functools import lru_cache

from kubernetes_simulator.core.exposition import Families
from kubernetes_simulator.core.inputs import Json, seconds_of
from kubernetes_simulator.core.kinds import DEPLOYMENTS, JOBS, NODES, PODS
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.world import World, controller_of

PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "pods": "integer"}
GAUGES = {
    "kube_node_info": "Information about a cluster node.",
    "kube_node_labels": "Kubernetes labels converted to Prometheus labels.",
    "kube_node_status_allocatable": "The allocatable for different resources of a node.",
    "kube_node_status_capacity": "The total amount of resources available for a node.",
    "kube_node_status_condition": "The condition of a cluster node.",
    "kube_node_spec_unschedulable": "Whether a node can schedule new pods.",
    "kube_node_spec_taint": "The taint of a cluster node.",
    "kube_pod_info": "Information about pod.",
    "kube_pod_labels": "Kubernetes labels converted to Prometheus labels.",
    "kube_pod_owner": "Information about the Pod's owner.",
    "kube_pod_created": "Unix creation timestamp.",
    "kube_pod_start_time": "Start time in unix timestamp for a pod.",
    "kube_pod_completion_time": "Completion time in unix timestamp for a pod.",
    "kube_pod_status_phase": "The pods current phase.",
    "kube_pod_status_ready": "Whether the pod is ready to serve requests.",
    "kube_pod_status_reason": "The pod status reasons.",
    "kube_pod_container_info": "Information about a container in a pod.",
    "kube_pod_container_resource_requests": "The number of requested resources by a container.",
    "kube_pod_container_resource_limits": "The number of requested limit by a container.",
    "kube_pod_container_status_terminated_reason": "Why the container is in terminated state.",
    "kube_pod_container_status_last_terminated_reason": "Why it was last in terminated state.",
    "kube_pod_container_status_waiting_reason": "Why the container is in waiting state.",
    "kube_deployment_spec_replicas": "Number of desired pods for a deployment.",
    "kube_deployment_status_replicas_available": "Available replicas per deployment.",
    "kube_job_status_succeeded": "The number of pods which reached Phase Succeeded.",
    "kube_job_status_failed": "The number of pods which reached Phase Failed.",
}
RESTARTS = "kube_pod_container_status_restarts_total"


@lru_cache(maxsize=8192)
def label_name(key: str) -> str:
    """Return the name under which an object's label is exposed."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain).lower()


def _labels(obj: Json) -> dict[str, str]:
    """Return labels under their exposed names; all of several that clash are numbered."""
    rows = sorted((obj["metadata"].get("labels") or {}).items())
    groups: dict[str, list[str]] = {}
    for key, value in rows:
        groups.setdefault(label_name(key), []).append(str(value))
    found: dict[str, str] = {}
    for name, values in groups.items():
        if len(values) == 1:
            found[name] = values[0]
        else:
            found |= {f"{name}_conflict{n}": value for n, value in enumerate(values, start=1)}
    return found


def kube_state(world: World) -> str:
    """Return the page."""
    page = Families()
    for name, text in GAUGES.items():
        page.family(name, "gauge", text)
    page.family(RESTARTS, "counter", "The number of container restarts per container.")
    for node in world.store.all(NODES):
        _node(page, node)
    for pod in world.store.all(PODS):
        _pod(page, pod)
    for obj in world.store.all(DEPLOYMENTS):
        meta, status = obj["metadata"], obj.get("status") or {}
        said = {"namespace": meta["namespace"], "deployment": meta["name"]}
        page.add("kube_deployment_spec_replicas", said, obj["spec"]["replicas"])
        ripe = status.get("availableReplicas", 0)
        page.add("kube_deployment_status_replicas_available", said, ripe)
    for obj in world.store.all(JOBS):
        meta, status = obj["metadata"], obj.get("status") or {}
        said = {"namespace": meta["namespace"], "job_name": meta["name"]}
        page.add("kube_job_status_succeeded", said, status.get("succeeded", 0))
        page.add("kube_job_status_failed", said, status.get("failed", 0))
    return page.text()


def _node(page: Families, node: Json) -> None:
    meta, status, spec = node["metadata"], node["status"], node.get("spec") or {}
    said = {"node": meta["name"]}
    info = status.get("nodeInfo") or {}
    page.add("kube_node_info", {**said, "kubelet_version": info.get("kubeletVersion", "")}, 1)
    page.add("kube_node_labels", {**said, **_labels(node)}, 1)
    for part in ("allocatable", "capacity"):
        for name, value in (status.get(part) or {}).items():
            row = {**said, "resource": name.replace("-", "_"), "unit": UNITS.get(name, "integer")}
            page.add(f"kube_node_status_{part}", row, read(value))
    for each in status.get("conditions") or ():
        for flag in ("true", "false", "unknown"):
            row = {**said, "condition": each["type"], "status": flag}
            page.add("kube_node_status_condition", row, float(each["status"].lower() == flag))
    page.add("kube_node_spec_unschedulable", said, float(bool(spec.get("unschedulable"))))
    for each in spec.get("taints") or ():
        row = {**said, "key": each["key"], "value": each.get("value", ""),
               "effect": each.get("effect", "")}  # fmt: skip
        page.add("kube_node_spec_taint", row, 1)


def _pod(page: Families, pod: Json) -> None:
    meta, status, spec = pod["metadata"], pod["status"], pod["spec"]
    said = {"namespace": meta["namespace"], "pod": meta["name"], "uid": meta["uid"]}
    above = controller_of(pod)
    made = {"kind": above.get("kind", "<none>"), "name": above.get("name", "<none>")}
    page.add("kube_pod_info", {
        **said, "host_ip": status.get("hostIP", ""), "pod_ip": status.get("podIP", ""),
        "node": spec.get("nodeName", ""), "created_by_kind": made["kind"],
        "created_by_name": made["name"], "priority_class": spec.get("priorityClassName", ""),
        "host_network": str(bool(spec.get("hostNetwork"))).lower(),
    }, 1)  # fmt: skip
    page.add("kube_pod_labels", {**said, **_labels(pod)}, 1)
    page.add("kube_pod_owner", {
        **said, "owner_kind": made["kind"], "owner_name": made["name"],
        "owner_is_controller": "true" if above else "<none>",
    }, 1)  # fmt: skip
    page.add("kube_pod_created", said, seconds_of(meta["creationTimestamp"]))
    if status.get("startTime"):
        page.add("kube_pod_start_time", said, seconds_of(status["startTime"]))
    for phase in PHASES:
        page.add(
            "kube_pod_status_phase", {**said, "phase": phase}, float(status.get("phase") == phase)
        )
    for reason in REASONS:
        told = float(status.get("reason") == reason)
        page.add("kube_pod_status_reason", {**said, "reason": reason}, told)
    ready = next((e["status"] for e in status.get("conditions") or () if e["type"] == "Ready"), "")
    for flag in ("true", "false", "unknown"):
        row = {**said, "condition": flag}
        page.add("kube_pod_status_ready", row, float(ready.lower() == flag))
    _containers(page, pod, said)


def _containers(page: Families, pod: Json, said: dict[str, str]) -> None:
    node = pod["spec"].get("nodeName", "")
    for each in pod["spec"]["containers"]:
        for part in ("requests", "limits"):
            for name, value in ((each.get("resources") or {}).get(part) or {}).items():
                row = {**said, "container": each["name"], "node": node,
                       "resource": name.replace("-", "_"), "unit": UNITS.get(name, "integer")}  # fmt: skip
                page.add(f"kube_pod_container_resource_{part}", row, read(value))
    ends = []
    for each in pod["status"].get("containerStatuses") or ():
        row = {**said, "container": each["name"]}
        page.add("kube_pod_container_info", {
            **row, "image": each.get("image", ""), "container_id": each.get("containerID", ""),
        }, 1)  # fmt: skip
        page.add(RESTARTS, row, each.get("restartCount", 0))
        state, last = each.get("state") or {}, each.get("lastState") or {}
        for kind, held in (("terminated", state), ("last_terminated", last), ("waiting", state)):
            reason = (held.get(kind.removeprefix("last_")) or {}).get("reason")
            if reason:
                name = f"kube_pod_container_status_{kind}_reason"
                page.add(name, {**row, "reason": reason}, 1)
        if state.get("terminated", {}).get("finishedAt"):
            ends.append(seconds_of(state["terminated"]["finishedAt"]))
    if ends and pod["status"].get("phase") in {"Succeeded", "Failed"}:
        page.add("kube_pod_completion_time", said, max(ends))
