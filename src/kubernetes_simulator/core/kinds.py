"""The table of resources: which there are, under which names, and what may be done with them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kubernetes_simulator.core.inputs import Json

VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource.

    group: "" for the core group. plural: its name in paths. short: names that kubectl takes too.
    subresources: what stands under an object. generation: its spec's changes are counted.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    generation: bool = False
    verbs: tuple[str, ...] = VERBS

    @property
    def singular(self) -> str:
        """Return the name for one."""
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """Return the text of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Return the key of its store."""
        return f"{self.group}/{self.plural}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Tell whether status is written apart from the rest."""
        return "status" in self.subresources


RBAC = "rbac.authorization.k8s.io"
ALL = ("all",)
RESOURCES: tuple[Resource, ...] = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",),
             subresources=("status", "finalize")),
    Resource("", "v1", "nodes", "Node", namespaced=False, short=("no",),
             subresources=("status", "proxy")),
    Resource("", "v1", "pods", "Pod", short=("po",), categories=ALL,
             subresources=("status", "log", "eviction", "binding")),
    Resource("", "v1", "services", "Service", short=("svc",), categories=ALL,
             subresources=("status",)),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",),
             subresources=("token",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",),
             subresources=("status",)),
    Resource("", "v1", "events", "Event", short=("ev",)),
    Resource("apps", "v1", "deployments", "Deployment", short=("deploy",), categories=ALL,
             subresources=("status", "scale"), generation=True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=ALL,
             subresources=("status", "scale"), generation=True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", short=("sts",), categories=ALL,
             subresources=("status", "scale"), generation=True),
    Resource("batch", "v1", "jobs", "Job", categories=ALL, subresources=("status",),
             generation=True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", short=("ing",), generation=True,
             subresources=("status",)),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",),
             generation=True),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",),
             generation=True, subresources=("status",)),
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)  # fmt: skip

READ = ("get", "list")
COMPUTED: tuple[Resource, ...] = (
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False, verbs=READ),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=READ),
)
"""Made when asked for, stored nowhere."""
ASKED: tuple[Resource, ...] = (
    Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview",
             namespaced=False, verbs=("create",)),
    Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview",
             namespaced=False, verbs=("create",)),
    Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview",
             namespaced=False, verbs=("create",)),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview",
             namespaced=False, verbs=("create",)),
)  # fmt: skip
"""Questions that are posted and answered."""
SERVED = (*RESOURCES, *COMPUTED, *ASKED)

BY_PATH = {(each.group, each.version, each.plural): each for each in SERVED}
BY_KIND = {(each.api_version, each.kind): each for each in RESOURCES}


def _named(plural: str, group: str = "") -> Resource:
    return next(each for each in RESOURCES if (each.group, each.plural) == (group, plural))


NAMESPACES = _named("namespaces")
NODES = _named("nodes")
PODS = _named("pods")
SERVICES = _named("services")
CLAIMS = _named("persistentvolumeclaims")
EVENTS = _named("events")
ACCOUNTS = _named("serviceaccounts")
DEPLOYMENTS = _named("deployments", "apps")
REPLICASETS = _named("replicasets", "apps")
STATEFULSETS = _named("statefulsets", "apps")
JOBS = _named("jobs", "batch")
LEASES = _named("leases", "coordination.k8s.io")


def groups() -> dict[str, list[str]]:
    """Return the named groups with their versions, in the table's order."""
    found: dict[str, list[str]] = {}
    for each in SERVED:
        if each.group and each.version not in found.setdefault(each.group, []):
            found[each.group].append(each.version)
    return found


def of_group(group: str, version: str) -> Iterable[Resource]:
    """Return the resources of a group's version."""
    return [each for each in SERVED if (each.group, each.version) == (group, version)]


def of_object(obj: Json) -> Resource | None:
    """Return the resource of an object that names its kind; None if there is none."""
    return BY_KIND.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
