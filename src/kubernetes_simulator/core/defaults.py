"""What the API server fills in: values that a body leaves out, and the status of a new object."""

from base64 import b64encode
from collections.abc import Callable

from kubernetes_simulator.core.inputs import Json, share
from kubernetes_simulator.core.kinds import Resource
from kubernetes_simulator.core.pod_status import quality

LEAVING = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
     "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]  # fmt: skip


def _with(spec: Json | None, **usual: object) -> Json:
    return {**usual, **{key: value for key, value in (spec or {}).items() if value is not None}}


def container(each: Json) -> Json:
    """Return a container with what is usual; limits stand for requests that are not said."""
    image = str(each.get("image", ""))
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    found = _with(
        each,
        imagePullPolicy="Always" if latest else "IfNotPresent",
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        resources={},
    )
    amounts = found["resources"]
    if amounts.get("limits"):
        requests = {**amounts["limits"], **(amounts.get("requests") or {})}
        found["resources"] = {**amounts, "requests": requests}
    if found.get("ports"):
        found["ports"] = [_with(port, protocol="TCP") for port in found["ports"]]
    return found


def pod_spec(spec: Json | None) -> Json:
    """Return the spec of a pod, or of a template of pods, with what is usual."""
    found = _with(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    for key in ("containers", "initContainers"):
        if isinstance(found.get(key), list):
            found[key] = [container(each) for each in found[key]]
    if found.get("serviceAccountName"):
        found.setdefault("serviceAccount", found["serviceAccountName"])
    return found


def _template(spec: Json) -> Json:
    held = spec.get("template") or {}
    return {**spec, "template": {**held, "spec": pod_spec(held.get("spec"))}}


def _pod(obj: Json) -> Json:
    spec = _with(pod_spec(obj.get("spec")), serviceAccountName="default", priority=0,
                 preemptionPolicy="PreemptLowerPriority", enableServiceLinks=True)  # fmt: skip
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    held = spec.get("tolerations") or []
    keys = {each.get("key") for each in held if each.get("effect") in {None, "", "NoExecute"}}
    blanket = any(not each.get("key") and each.get("operator") == "Exists" for each in held)
    more = [] if blanket else [each for each in LEAVING if each["key"] not in keys]
    spec["tolerations"] = [*held, *more]
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": quality(spec)}}


def _deployment(obj: Json) -> Json:
    spec = _with(obj.get("spec"), replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _with(spec.get("strategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rules = _with(strategy.get("rollingUpdate"), maxSurge="25%", maxUnavailable="25%")
        strategy["rollingUpdate"] = rules
    spec["strategy"] = strategy
    return {**obj, "spec": _template(spec)}


def _replicaset(obj: Json) -> Json:
    return {**obj, "spec": _template(_with(obj.get("spec"), replicas=1))}


def _statefulset(obj: Json) -> Json:
    spec = _with(obj.get("spec"), replicas=1, podManagementPolicy="OrderedReady",
                 revisionHistoryLimit=10)  # fmt: skip
    rules = _with(spec.get("updateStrategy"), type="RollingUpdate")
    if rules["type"] == "RollingUpdate":
        rules["rollingUpdate"] = _with(rules.get("rollingUpdate"), partition=0)
    spec["updateStrategy"] = rules
    return {**obj, "spec": _template(spec)}


def _job(obj: Json) -> Json:
    spec = _with(obj.get("spec"), backoffLimit=6, parallelism=1, completionMode="NonIndexed",
                 suspend=False, manualSelector=False)  # fmt: skip
    if "completions" not in spec and "parallelism" not in (obj.get("spec") or {}):
        spec["completions"] = 1
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec = _template(spec)
    if uid and not spec["manualSelector"]:
        held = spec["template"].get("metadata") or {}
        inner = {**held, "labels": {**(held.get("labels") or {}), **labels}}
        spec["template"] = {**spec["template"], "metadata": inner}
        first = "batch.kubernetes.io/controller-uid"
        spec.setdefault("selector", {"matchLabels": {first: uid}})
    return {**obj, "spec": spec}


def _namespace(obj: Json) -> Json:
    name = obj["metadata"].get("name", "")
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {
        **obj,
        "metadata": {**obj["metadata"], "labels": labels},
        "spec": obj.get("spec") or {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active", **(obj.get("status") or {})},
    }


def _service(obj: Json) -> Json:
    spec = _with(obj.get("spec"), type="ClusterIP", sessionAffinity="None")
    ports = [_with(each, protocol="TCP") for each in spec.get("ports") or ()]
    for each in ports:
        each.setdefault("targetPort", each.get("port"))
    if ports:
        spec["ports"] = ports
    if spec["type"] != "ExternalName" and "clusterIP" not in spec:
        number = int(share("service", obj["metadata"].get("uid", "")) * 65_000) + 10
        spec["clusterIP"] = f"10.96.{number // 256}.{number % 256}"
    if "clusterIP" in spec:
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    return {**obj, "spec": spec, "status": {"loadBalancer": {}}}


def _secret(obj: Json) -> Json:
    plain = obj.get("stringData") or {}
    found = {key: value for key, value in obj.items() if key != "stringData"}
    if plain:
        coded = {key: b64encode(str(value).encode()).decode() for key, value in plain.items()}
        found["data"] = {**(obj.get("data") or {}), **coded}
    return {"type": "Opaque", **found}


def _claim(obj: Json) -> Json:
    asked = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
    spec = _with(obj.get("spec"), volumeMode="Filesystem")
    spec["volumeName"] = spec.get("volumeName") or f"pvc-{obj['metadata'].get('uid', '')}"
    status = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": asked}
    return {**obj, "spec": spec, "status": status}


FILLERS: dict[str, Callable[[Json], Json]] = {
    "pods": _pod,
    "namespaces": _namespace,
    "services": _service,
    "secrets": _secret,
    "persistentvolumeclaims": _claim,
    "apps/deployments": _deployment,
    "apps/replicasets": _replicaset,
    "apps/statefulsets": _statefulset,
    "batch/jobs": _job,
}


def filled(resource: Resource, obj: Json) -> Json:
    """Return a new object as the server stores it."""
    found = obj
    if resource.has_status and resource.plural != "nodes":
        found = {key: value for key, value in obj.items() if key != "status"}
    fill = FILLERS.get(resource.path)
    return found if fill is None else fill(found)


def refilled(resource: Resource, obj: Json) -> Json:
    """Return a changed object with what is usual; its status is left alone."""
    fill = FILLERS.get(resource.path)
    if fill is None or resource.plural in {"pods", "persistentvolumeclaims"}:
        return obj
    found = fill(obj)
    if "status" in obj:
        return {**found, "status": obj["status"]}
    return {key: value for key, value in found.items() if key != "status"}
