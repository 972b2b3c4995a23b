"""What `kubectl get` shows: columns and rows made by the server."""

from collections.abc import Callable
from typing import Any

from kubernetes_simulator.core.inputs import Json, seconds_of
from kubernetes_simulator.core.kinds import RBAC, Resource
from kubernetes_simulator.core.status import holds

Cell = Callable[[Json, float], Any]
Column = tuple[str, str, int, Cell]
"""Heading, type, 1 when only `-o wide` shows it, and what stands in it."""


def human(seconds: float) -> str:
    """Return a duration as kubectl writes ages."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y"


def _age(obj: Json, now: float) -> str:
    born = obj["metadata"].get("creationTimestamp")
    return human(now - seconds_of(born)) if born else "<unknown>"


def _since(text: str | None, now: float) -> str:
    return human(now - seconds_of(text)) if text else "<unknown>"


def _status(obj: Json) -> Json:
    return obj.get("status") or {}


def _spec(obj: Json) -> Json:
    return obj.get("spec") or {}


def pod_word(pod: Json) -> str:
    """Return the word of STATUS: what holds a container, or the phase."""
    status = _status(pod)
    word = str(status.get("reason") or status.get("phase") or "")
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        held = state.get("waiting") or state.get("terminated") or {}
        if held.get("reason"):
            word = str(held["reason"])
        elif "terminated" in state:
            word = f"ExitCode:{held.get('exitCode')}"
    if status.get("reason"):
        word = str(status["reason"])
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else word


def _pod_ready(pod: Json, _: float) -> str:
    rows = _status(pod).get("containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in rows)}/{len(_spec(pod)['containers'])}"


def _restarts(pod: Json, now: float) -> str:
    rows = _status(pod).get("containerStatuses") or ()
    count = sum(int(each.get("restartCount", 0)) for each in rows)
    ends = [(each.get("lastState") or {}).get("terminated", {}).get("finishedAt") for each in rows]
    last = max((each for each in ends if each), default=None)
    return f"{count} ({_since(last, now)} ago)" if count and last else str(count)


def _node_word(node: Json, _: float) -> str:
    word = "Ready" if holds(node, "Ready") else "NotReady"
    return f"{word},SchedulingDisabled" if _spec(node).get("unschedulable") else word


def _address(node: Json, _: float) -> str:
    rows = _status(node).get("addresses") or ()
    return next((each["address"] for each in rows if each["type"] == "InternalIP"), "<none>")


def _job_word(job: Json, _: float) -> str:
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if holds(job, kind):
            return word
    return "Terminating" if job["metadata"].get("deletionTimestamp") else "Running"


def _job_lasts(job: Json, now: float) -> str:
    status = _status(job)
    if not status.get("startTime"):
        return ""
    end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
    return human(end - seconds_of(status["startTime"]))


def _completions(job: Json, _: float) -> str:
    done, spec = _status(job).get("succeeded", 0), _spec(job)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    return f"{done}/1 of {spec.get('parallelism', 1)}"


def _ports(service: Json, _: float) -> str:
    rows = _spec(service).get("ports") or ()
    return ",".join(f"{each['port']}/{each['protocol']}" for each in rows) or "<none>"


def _labels(field: Callable[[Json], Json]) -> Cell:
    def shown(obj: Json, _: float) -> str:
        rows = (field(obj) or {}).get("matchLabels") or {}
        return ",".join(f"{key}={value}" for key, value in rows.items()) or "<none>"

    return shown


def _containers(what: str) -> Cell:
    def shown(obj: Json, _: float) -> str:
        rows = _spec(_spec(obj).get("template") or {}).get("containers") or ()
        return ",".join(str(each.get(what, "")) for each in rows)

    return shown


def _of(part: Callable[[Json], Json], key: str, default: object = 0) -> Cell:
    return lambda obj, _: part(obj).get(key, default)


def _counted(key: str) -> Cell:
    return lambda obj, _: len(obj.get(key) or ())


def _replicas(obj: Json, _: float) -> str:
    return f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"


def _involved(obj: Json, _: float) -> str:
    held = obj.get("involvedObject") or {}
    return f"{str(held.get('kind', '')).lower()}/{held.get('name', '')}"


def _last_seen(obj: Json, now: float) -> str:
    return _since(obj.get("lastTimestamp") or obj["metadata"].get("creationTimestamp"), now)


def _node_info(key: str) -> Cell:
    return lambda obj, _: (_status(obj).get("nodeInfo") or {}).get(key, "")


def _role(obj: Json, _: float) -> str:
    held = obj.get("roleRef") or {}
    return f"{held.get('kind')}/{held.get('name')}"


NAME: Column = ("Name", "string", 0, lambda obj, _: obj["metadata"]["name"])
AGE: Column = ("Age", "string", 0, _age)
WIDE: tuple[Column, ...] = (
    ("Containers", "string", 1, _containers("name")),
    ("Images", "string", 1, _containers("image")),
)
SELECTOR: Column = ("Selector", "string", 1, _labels(lambda obj: _spec(obj).get("selector") or {}))
COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        NAME, ("Ready", "string", 0, _pod_ready), ("Status", "string", 0, lambda o, _: pod_word(o)),
        ("Restarts", "string", 0, _restarts), AGE,
        ("IP", "string", 1, _of(_status, "podIP", "<none>")),
        ("Node", "string", 1, _of(_spec, "nodeName", "<none>")),
        ("Nominated Node", "string", 1, lambda *_: "<none>"),
        ("Readiness Gates", "string", 1, lambda *_: "<none>"),
    ),
    "nodes": (
        NAME, ("Status", "string", 0, _node_word), ("Roles", "string", 0, lambda *_: "<none>"),
        AGE, ("Version", "string", 0, _node_info("kubeletVersion")),
        ("Internal-IP", "string", 1, _address), ("External-IP", "string", 1, lambda *_: "<none>"),
        ("OS-Image", "string", 1, _node_info("osImage")),
        ("Kernel-Version", "string", 1, _node_info("kernelVersion")),
        ("Container-Runtime", "string", 1, _node_info("containerRuntimeVersion")),
    ),
    "namespaces": (NAME, ("Status", "string", 0, _of(_status, "phase", "")), AGE),
    "services": (
        NAME, ("Type", "string", 0, _of(_spec, "type", "")),
        ("Cluster-IP", "string", 0, _of(_spec, "clusterIP", "<none>")),
        ("External-IP", "string", 0, lambda *_: "<none>"), ("Port(s)", "string", 0, _ports), AGE,
    ),
    "configmaps": (NAME, ("Data", "string", 0, _counted("data")), AGE),
    "secrets": (
        NAME, ("Type", "string", 0, lambda o, _: o.get("type", "")),
        ("Data", "string", 0, _counted("data")), AGE,
    ),
    "serviceaccounts": (NAME, ("Secrets", "string", 0, _counted("secrets")), AGE),
    "persistentvolumeclaims": (
        NAME, ("Status", "string", 0, _of(_status, "phase", "")),
        ("Volume", "string", 0, _of(_spec, "volumeName", "")),
        ("Capacity", "string", 0, lambda o, _: (_status(o).get("capacity") or {}).get("storage", "")),
        ("Access Modes", "string", 0, lambda o, _: ",".join(_spec(o).get("accessModes") or ())),
        ("StorageClass", "string", 0, _of(_spec, "storageClassName", "")), AGE,
    ),
    "events": (
        ("Last Seen", "string", 0, _last_seen),
        ("Type", "string", 0, lambda o, _: o.get("type", "")),
        ("Reason", "string", 0, lambda o, _: o.get("reason", "")),
        ("Object", "string", 0, _involved),
        ("Message", "string", 0, lambda o, _: o.get("message", "")),
    ),
    "apps/deployments": (
        NAME, ("Ready", "string", 0, _replicas),
        ("Up-to-date", "string", 0, _of(_status, "updatedReplicas")),
        ("Available", "string", 0, _of(_status, "availableReplicas")), AGE, *WIDE, SELECTOR,
    ),
    "apps/replicasets": (
        NAME, ("Desired", "integer", 0, _of(_spec, "replicas")),
        ("Current", "integer", 0, _of(_status, "replicas")),
        ("Ready", "integer", 0, _of(_status, "readyReplicas")), AGE, *WIDE, SELECTOR,
    ),
    "apps/statefulsets": (NAME, ("Ready", "string", 0, _replicas), AGE, *WIDE),
    "batch/jobs": (
        NAME, ("Status", "string", 0, _job_word), ("Completions", "string", 0, _completions),
        ("Duration", "string", 0, _job_lasts), AGE, *WIDE, SELECTOR,
    ),
    f"{RBAC}/rolebindings": (NAME, ("Role", "string", 0, _role), AGE),
    f"{RBAC}/clusterrolebindings": (NAME, ("Role", "string", 0, _role), AGE),
    "coordination.k8s.io/leases": (
        NAME, ("Holder", "string", 0, _of(_spec, "holderIdentity", "")), AGE,
    ),
}  # fmt: skip
USUAL: tuple[Column, ...] = (NAME, AGE)


def _definition(column: Column) -> Json:
    heading, kind, priority, _ = column
    form = "name" if heading == "Name" else ""
    return {
        "name": heading, "type": kind, "format": form, "description": heading,
        "priority": priority,
    }  # fmt: skip


def table(
    resource: Resource,
    items: list[Json],
    meta: Json,
    now: float,
    include: str,
    *,
    head: bool = True,
) -> Json:
    """Return objects as a Table; include: None, Metadata or Object of each."""
    columns = COLUMNS.get(resource.path, USUAL)
    rows = []
    for obj in items:
        row: Json = {"cells": [cell(obj, now) for _, _, _, cell in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = partial(obj)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [_definition(each) for each in columns] if head else [],
        "rows": rows,
    }


def partial(obj: Json) -> Json:
    """Return an object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
