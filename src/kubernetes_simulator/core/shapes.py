"""The shapes of bodies: a field that the cluster reads holds what it must, or the body is refused.

A shape is a word, a list of one shape, or fields with shapes; a field with `!` must be there. What
is not named may be anything.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import RBAC, Resource
from kubernetes_simulator.core.quantities import is_quantity

Shape = Any
T, N, F, ANY, STAMP = "text", "number", "flag", "object", "time"
TEXTS, AMOUNTS, BASE64, PART = "map of texts", "map of quantities", "map of base64", "part"
MOST = 2**31
_PART = re.compile(r"\d{1,9}%?")

META: Shape = {
    "name": T, "generateName": T, "namespace": T, "labels": TEXTS, "annotations": TEXTS,
    "finalizers": [T], "resourceVersion": T, "uid": T, "managedFields": [{
        "manager": T, "operation": T, "fieldsV1": ANY, "time": T,
    }],
    "ownerReferences": [{
        "!apiVersion": T, "!kind": T, "!name": T, "!uid": T, "controller": F,
        "blockOwnerDeletion": F,
    }],
}  # fmt: skip
RULE: Shape = {
    "!key": T, "values": [T],
    "!operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
}  # fmt: skip
CONTAINER: Shape = {
    "name": T, "image": T, "env": [{"!name": T}], "volumeMounts": [{"!mountPath": T}],
    "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    "ports": [{"!containerPort": N, "protocol": T, "name": T}],
}  # fmt: skip
TERM: Shape = {"matchExpressions": [RULE], "matchFields": [RULE]}
POD: Shape = {
    "containers": [CONTAINER], "initContainers": [CONTAINER], "restartPolicy": T, "nodeName": T,
    "nodeSelector": TEXTS, "terminationGracePeriodSeconds": N, "activeDeadlineSeconds": N,
    "volumes": [{"!name": T}], "serviceAccountName": T, "priorityClassName": T, "hostNetwork": F,
    "schedulerName": T, "hostname": T, "subdomain": T, "imagePullSecrets": [ANY],
    "tolerations": [{"key": T, "operator": T, "value": T, "effect": T, "tolerationSeconds": N}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [TERM]}}},
}  # fmt: skip
TEMPLATE: Shape = {"metadata": META, "spec": POD}
SELECTOR: Shape = {
    "matchLabels": TEXTS,
    "matchExpressions": [{**RULE, "!operator": ("In", "NotIn", "Exists", "DoesNotExist")}],
}
CONDITION: Shape = {"!type": T, "!status": T, "reason": T, "message": T,
                    "lastTransitionTime": STAMP, "lastUpdateTime": STAMP}  # fmt: skip
ENDED: Shape = {"terminated": {"finishedAt": STAMP, "reason": T}, "waiting": {"reason": T},
                "running": {"startedAt": STAMP}}  # fmt: skip
COUNTS: Shape = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas", "observedGeneration", "active", "succeeded", "failed", "ready"), N)  # fmt: skip
WORK: Shape = {
    "replicas": N, "selector": SELECTOR, "template": TEMPLATE, "minReadySeconds": N, "paused": F,
    "revisionHistoryLimit": N, "progressDeadlineSeconds": N,
    "strategy": {"type": ("RollingUpdate", "Recreate"),
                 "rollingUpdate": {"maxSurge": PART, "maxUnavailable": PART}},
    "updateStrategy": {"type": ("RollingUpdate", "OnDelete"), "rollingUpdate": {"partition": N}},
    "podManagementPolicy": ("OrderedReady", "Parallel"), "serviceName": T,
    "volumeClaimTemplates": [{"!metadata": META, "spec": ANY}], "ordinals": {"start": N},
    "parallelism": N, "completions": N, "backoffLimit": N, "activeDeadlineSeconds": N,
    "ttlSecondsAfterFinished": N, "completionMode": ("NonIndexed", "Indexed"), "suspend": F,
    "manualSelector": F,
}  # fmt: skip
WORK_STATUS: Shape = {**COUNTS, "conditions": [CONDITION], "startTime": STAMP,
                      "completionTime": STAMP}  # fmt: skip
TAINT: Shape = {"!key": T, "value": T, "timeAdded": STAMP,
                "!effect": ("NoSchedule", "PreferNoSchedule", "NoExecute")}  # fmt: skip
WHOLE: dict[str, Shape] = {
    "pods": {"spec": POD, "status": {
        "phase": T, "reason": T, "message": T, "startTime": STAMP, "conditions": [CONDITION],
        "hostIP": T, "podIP": T, "qosClass": T,
        "containerStatuses": [{"!name": T, "state": ENDED, "lastState": ENDED, "ready": F,
                               "restartCount": N, "image": T, "containerID": T}]}},
    "nodes": {"spec": {"unschedulable": F, "taints": [TAINT]}, "status": {
        "capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": [CONDITION],
        "addresses": [{"!type": T, "!address": T}], "nodeInfo": TEXTS}},
    "namespaces": {"spec": {"finalizers": [T]}, "status": {"phase": T}},
    "services": {"spec": {"ports": [{"!port": N, "protocol": T, "name": T}], "type": T,
                          "clusterIP": T, "selector": TEXTS}},
    "secrets": {"data": BASE64, "stringData": TEXTS, "type": T, "immutable": F},
    "configmaps": {"data": TEXTS, "binaryData": BASE64, "immutable": F},
    "serviceaccounts": {"secrets": [ANY]},
    "persistentvolumeclaims": {"spec": {"resources": {"requests": AMOUNTS}, "accessModes": [T],
                                        "storageClassName": T, "volumeName": T},
                               "status": {"capacity": AMOUNTS}},
    "events": {"involvedObject": ANY, "lastTimestamp": STAMP, "firstTimestamp": STAMP,
               "reason": T, "message": T, "type": T, "count": N, "source": ANY},
    "coordination.k8s.io/leases": {"spec": {"holderIdentity": T}},
    f"{RBAC}/rolebindings": {"roleRef": {"!kind": T, "!name": T}, "subjects": [ANY]},
    f"{RBAC}/clusterrolebindings": {"roleRef": {"!kind": T, "!name": T}, "subjects": [ANY]},
    **{
        path: {"spec": WORK, "status": WORK_STATUS}
        for path in ("apps/deployments", "apps/replicasets", "apps/statefulsets", "batch/jobs")
    },
}  # fmt: skip
USUAL: Shape = {"spec": ANY, "status": ANY}


def _is_stamp(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
WORDS: dict[str, Callable[[Any], Any]] = {
    T: lambda value: isinstance(value, str),
    N: _is_number,
    F: lambda value: isinstance(value, bool),
    ANY: lambda value: isinstance(value, dict),
    STAMP: _is_stamp,
    PART: lambda value: _is_number(value) or (isinstance(value, str) and _PART.fullmatch(value)),
    TEXTS: lambda value: (
        isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    ),
    AMOUNTS: lambda value: isinstance(value, dict) and all(map(is_quantity, value.values())),
    BASE64: lambda value: (
        isinstance(value, dict)
        and all(isinstance(each, str) and _BASE64.fullmatch(each) for each in value.values())
    ),
}


def _wrong(value: Any, shape: Shape, where: str) -> Iterator[str]:
    """Yield what is wrong with a value, as sentences with its path."""
    if isinstance(shape, str):
        if not WORDS[shape](value):
            yield f"{where}: a {shape} is expected, not {str(value)[:40]!r}"
    elif isinstance(shape, tuple):
        if value not in shape:
            yield f"{where}: Unsupported value: {str(value)[:40]!r}: supported values: {shape}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where}: a list is expected, not {str(value)[:40]!r}"
            return
        for place, each in enumerate(value):
            yield from _wrong(each, shape[0], f"{where}[{place}]")
    elif not isinstance(value, dict):
        yield f"{where}: an object is expected, not {str(value)[:40]!r}"
    else:
        for key, inner in shape.items():
            name = key.removeprefix("!")
            if name in value:
                yield from _wrong(value[name], inner, f"{where}.{name}" if where else name)
            elif key != name:
                yield f"{where}.{name}: Required value"


def misshapen(resource: Resource, obj: Json) -> list[str]:
    """Return what a body holds that is of another shape than it must be."""
    shape = {"metadata": META, **(WHOLE.get(resource.path) or USUAL)}
    found = []
    for each in _wrong(obj, shape, ""):
        found.append(each)
        if len(found) >= 20:
            break
    return found


def without_null(value: Any) -> Any:
    """Return a JSON value without fields that are null: they say nothing."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value
