"""The protobuf messages that are read: by field number its JSON name and what it holds.

A `?` behind a kind: the field may be absent, so that zero and empty say something. The numbers are
held by a test to what kubectl sends.
"""

Rows = dict[int, tuple[str, str]]


def _listed(*names: str, first: int = 1) -> Rows:
    """Return fields in the order of their numbers, each as `name kind`; `-` leaves one out."""
    found: Rows = {}
    for number, each in enumerate(names, start=first):
        if each != "-":
            name, _, kind = each.partition(" ")
            found[number] = (name, kind or "text")
    return found


TABLE: dict[str, Rows] = {
    "Nothing": {},
    "ObjectMeta": {
        **_listed(
            "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion",
            "generation number", "creationTimestamp time", "deletionTimestamp time",
            "deletionGracePeriodSeconds number?", "labels map text", "annotations map text",
            "ownerReferences list OwnerReference", "finalizers list text",
        ),
    },
    "OwnerReference": {
        1: ("kind", "text"), 3: ("name", "text"), 4: ("uid", "text"), 5: ("apiVersion", "text"),
        6: ("controller", "flag?"), 7: ("blockOwnerDeletion", "flag?"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", "NamespaceSpec"),
                  3: ("status", "NamespaceStatus")},
    "NamespaceSpec": _listed("finalizers list text"),
    "NamespaceStatus": _listed("phase"),
    "ConfigMap": _listed("metadata ObjectMeta", "data map text", "binaryData map bytes",
                         "immutable flag?"),
    "Secret": _listed("metadata ObjectMeta", "data map bytes", "type", "stringData map text",
                      "immutable flag?"),
    "ServiceAccount": _listed("metadata ObjectMeta", "secrets list ObjectReference",
                              "imagePullSecrets list LocalReference",
                              "automountServiceAccountToken flag?"),
    "ObjectReference": _listed("kind", "namespace", "name", "uid", "apiVersion",
                               "resourceVersion", "fieldPath"),
    "LocalReference": _listed("name"),
    "Deployment": {1: ("metadata", "ObjectMeta"), 2: ("spec", "DeploymentSpec"),
                   3: ("status", "DeploymentStatus")},
    "DeploymentSpec": _listed(
        "replicas number?", "selector LabelSelector?", "template PodTemplateSpec",
        "strategy DeploymentStrategy", "minReadySeconds number", "revisionHistoryLimit number?",
        "paused flag", "-", "progressDeadlineSeconds number?",
    ),
    "DeploymentStrategy": _listed("type", "rollingUpdate RollingUpdate?"),
    "RollingUpdate": _listed("maxUnavailable int-or-text", "maxSurge int-or-text"),
    "DeploymentStatus": _listed(
        "observedGeneration number", "replicas number", "updatedReplicas number",
        "availableReplicas number", "unavailableReplicas number", "-", "readyReplicas number",
    ),
    "LabelSelector": _listed("matchLabels map text", "matchExpressions list Requirement"),
    "Requirement": _listed("key", "operator", "values list text"),
    "PodTemplateSpec": _listed("metadata ObjectMeta", "spec PodSpec"),
    "PodSpec": _listed(
        "-", "containers list Container", "restartPolicy", "terminationGracePeriodSeconds number?",
        "activeDeadlineSeconds number?", "dnsPolicy", "nodeSelector map text",
        "serviceAccountName", "serviceAccount", "nodeName", "hostNetwork flag", "hostPID flag",
        "hostIPC flag", "securityContext Nothing?", "imagePullSecrets list LocalReference",
        "hostname", "subdomain", "-", "schedulerName", "initContainers list Container",
        "automountServiceAccountToken flag?", "tolerations list Toleration", "-",
        "priorityClassName", "priority number?",
    ),
    "Toleration": _listed("key", "operator", "value", "effect", "tolerationSeconds number?"),
    "Container": _listed(
        "name", "image", "command list text", "args list text", "workingDir",
        "ports list ContainerPort", "env list EnvVar", "resources Resources", "-", "-", "-", "-",
        "terminationMessagePath", "imagePullPolicy", "-", "stdin flag", "stdinOnce flag",
        "tty flag", "-", "terminationMessagePolicy",
    ),
    "ContainerPort": _listed("name", "hostPort number", "containerPort number", "protocol",
                             "hostIP"),
    "EnvVar": _listed("name", "value"),
    "Resources": _listed("limits map quantity", "requests map quantity"),
    "Job": {1: ("metadata", "ObjectMeta"), 2: ("spec", "JobSpec"), 3: ("status", "JobStatus")},
    "JobSpec": _listed(
        "parallelism number?", "completions number?", "activeDeadlineSeconds number?",
        "selector LabelSelector?", "manualSelector flag?", "template PodTemplateSpec",
        "backoffLimit number?", "ttlSecondsAfterFinished number?", "completionMode text?",
        "suspend flag?",
    ),
    "JobStatus": {4: ("active", "number"), 5: ("succeeded", "number"), 6: ("failed", "number"),
                  7: ("completedIndexes", "text"), 10: ("failedIndexes", "text")},
    "Role": _listed("metadata ObjectMeta", "rules list PolicyRule"),
    "ClusterRole": _listed("metadata ObjectMeta", "rules list PolicyRule",
                           "aggregationRule AggregationRule?"),
    "AggregationRule": _listed("clusterRoleSelectors list LabelSelector"),
    "PolicyRule": _listed("verbs list text", "apiGroups list text", "resources list text",
                          "resourceNames list text", "nonResourceURLs list text"),
    "RoleBinding": _listed("metadata ObjectMeta", "subjects list Subject", "roleRef RoleRef"),
    "Subject": _listed("kind", "apiGroup", "name", "namespace"),
    "RoleRef": _listed("apiGroup", "kind", "name"),
    "Service": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ServiceSpec"),
                3: ("status", "ServiceStatus")},
    "ServiceSpec": {
        **_listed("ports list ServicePort", "selector map text", "clusterIP", "type",
                  "externalIPs list text", "-", "sessionAffinity", "loadBalancerIP",
                  "loadBalancerSourceRanges list text", "externalName", "externalTrafficPolicy",
                  "healthCheckNodePort number", "publishNotReadyAddresses flag"),
        18: ("clusterIPs", "list text"),
    },
    "ServicePort": _listed("name", "protocol", "port number", "targetPort int-or-text",
                           "nodePort number"),
    "ServiceStatus": {1: ("loadBalancer", "Nothing")},
    "PodDisruptionBudget": {1: ("metadata", "ObjectMeta"), 2: ("spec", "BudgetSpec"),
                            3: ("status", "BudgetStatus")},
    "BudgetSpec": _listed("minAvailable int-or-text", "selector LabelSelector?",
                          "maxUnavailable int-or-text"),
    "BudgetStatus": {1: ("observedGeneration", "number"), 3: ("disruptionsAllowed", "number"),
                     4: ("currentHealthy", "number"), 5: ("desiredHealthy", "number"),
                     6: ("expectedPods", "number")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenSpec"),
                     3: ("status", "TokenStatus")},
    "TokenSpec": {1: ("audiences", "list text"), 3: ("boundObjectRef", "ObjectReference?"),
                  4: ("expirationSeconds", "number?")},
    "TokenStatus": {1: ("token", "text"), 2: ("expirationTimestamp", "time")},
    "AccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "AccessSpec"),
                     3: ("status", "AccessStatus")},
    "AccessSpec": _listed("resourceAttributes ResourceAttributes?",
                          "nonResourceAttributes PathAttributes?"),
    "ResourceAttributes": _listed("namespace", "verb", "group", "version", "resource",
                                  "subresource", "name"),
    "PathAttributes": _listed("path", "verb"),
    "AccessStatus": _listed("allowed flag", "reason", "evaluationError", "denied flag"),
    "RulesReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "RulesSpec"),
                    3: ("status", "RulesStatus")},
    "RulesSpec": _listed("namespace"),
    "RulesStatus": {3: ("incomplete", "flag"), 4: ("evaluationError", "text")},
}  # fmt: skip
RBAC = "rbac.authorization.k8s.io/v1"
ENVELOPES: dict[tuple[str, str], str] = {
    **{("v1", name): name for name in ("Namespace", "ConfigMap", "Secret", "ServiceAccount",
                                       "Service")},
    ("apps/v1", "Deployment"): "Deployment",
    ("batch/v1", "Job"): "Job",
    (RBAC, "Role"): "Role",
    (RBAC, "ClusterRole"): "ClusterRole",
    (RBAC, "RoleBinding"): "RoleBinding",
    (RBAC, "ClusterRoleBinding"): "RoleBinding",
    ("policy/v1", "PodDisruptionBudget"): "PodDisruptionBudget",
    ("authentication.k8s.io/v1", "TokenRequest"): "TokenRequest",
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "AccessReview",
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): "RulesReview",
}  # fmt: skip
"""Which message a body's apiVersion and kind stand for."""
