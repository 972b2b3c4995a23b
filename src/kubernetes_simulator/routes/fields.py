"""Which fields the built kinds have, for `fieldValidation=Strict`: a typing error is refused.

Only what is named here is looked into; the fields of all else are taken as they are.
"""

from typing import Any

from kubernetes_simulator.core.kinds import Resource

TOP = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
META = frozenset({
    "name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences",
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
})  # fmt: skip
POD = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig",
    "dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC",
    "hostNetwork", "hostPID", "hostUsers", "hostname", "imagePullSecrets", "initContainers",
    "nodeName", "nodeSelector", "os", "overhead", "preemptionPolicy", "priority",
    "priorityClassName", "readinessGates", "resourceClaims", "resources", "restartPolicy",
    "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes",
})  # fmt: skip
CONTAINER = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe",
    "name", "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy",
    "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath",
    "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir",
})  # fmt: skip
SPECS: dict[str, frozenset[str]] = {
    "pods": POD,
    "apps/deployments": frozenset({
        "minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit",
        "selector", "strategy", "template",
    }),
    "apps/replicasets": frozenset({"minReadySeconds", "replicas", "selector", "template"}),
    "apps/statefulsets": frozenset({
        "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy",
        "podManagementPolicy", "replicas", "revisionHistoryLimit", "selector", "serviceName",
        "template", "updateStrategy", "volumeClaimTemplates",
    }),
    "batch/jobs": frozenset({
        "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode",
        "completions", "managedBy", "manualSelector", "maxFailedIndexes", "parallelism",
        "podFailurePolicy", "podReplacementPolicy", "selector", "successPolicy", "suspend",
        "template", "ttlSecondsAfterFinished",
    }),
}  # fmt: skip
SKIPPED = frozenset({"$patch", "$retainKeys"})


def _over(value: Any, known: frozenset[str], where: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [
        f"{where}{key}"
        for key in value
        if key not in known and key not in SKIPPED and not key.startswith("$")
    ]


def _pod(spec: Any, where: str) -> list[str]:
    found = _over(spec, POD, where)
    for key in ("containers", "initContainers"):
        rows = spec.get(key) if isinstance(spec, dict) else None
        for place, each in enumerate(rows if isinstance(rows, list) else ()):
            found += _over(each, CONTAINER, f"{where}{key}[{place}].")
    return found


def unknown(resource: Resource, body: Any) -> list[str]:
    """Return the fields of a body that its kind has not, as paths."""
    if not isinstance(body, dict):
        return []
    found = _over(body.get("metadata"), META, "metadata.")
    known = SPECS.get(resource.path)
    if known is None:
        return found
    found += _over(body, TOP, "")
    spec = body.get("spec")
    found += _over(spec, known, "spec.")
    if resource.plural == "pods":
        return found + _pod(spec, "spec.")[len(_over(spec, POD, "spec.")) :]
    template = spec.get("template") if isinstance(spec, dict) else None
    if isinstance(template, dict):
        found += _over(template, frozenset({"metadata", "spec"}), "spec.template.")
        found += _over(template.get("metadata"), META, "spec.template.metadata.")
        found += _pod(template.get("spec"), "spec.template.spec.")
    return found
