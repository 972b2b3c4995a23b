"""Which lists of objects are maps or sets, by which keys their entries are told apart.

The keys are those of Kubernetes' own types (`patchMergeKey`, `listMapKeys`); a list that is not
named here is one value. Strategic merge patches and server-side apply both go by this table.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListRule:
    """keys: what tells entries apart in an apply; () for a set. merge: the one key of a patch."""

    keys: tuple[str, ...]
    merge: str = ""


_NAMED = ListRule(("name",), "name")
_SET = ListRule(())
_PORTS = ListRule(("containerPort", "protocol"), "containerPort")
_BY_PARENT: dict[tuple[str, str], ListRule] = {
    ("spec", "ports"): ListRule(("port", "protocol"), "port"),
    ("metadata", "ownerReferences"): ListRule(("uid",), "uid"),
    ("metadata", "finalizers"): _SET,
    ("status", "conditions"): ListRule(("type",), "type"),
    ("status", "addresses"): ListRule(("type",), "type"),
    ("spec", "podCIDRs"): _SET,
}
_ANYWHERE: dict[str, ListRule] = {
    "containers": _NAMED,
    "initContainers": _NAMED,
    "ephemeralContainers": _NAMED,
    "env": _NAMED,
    "volumes": _NAMED,
    "imagePullSecrets": _NAMED,
    "secrets": _NAMED,
    "volumeMounts": ListRule(("mountPath",), "mountPath"),
    "volumeDevices": ListRule(("devicePath",), "devicePath"),
    "hostAliases": ListRule(("ip",), "ip"),
    "topologySpreadConstraints": ListRule(("topologyKey", "whenUnsatisfiable"), "topologyKey"),
}


def rule_of(parent: str, key: str) -> ListRule | None:
    """Return how the list under a key is told apart; None if it is one value.

    parent: the key above it, of a container's list that of the list.
    """
    if key == "ports" and parent in {"containers", "initContainers", "ephemeralContainers"}:
        return _PORTS
    return _BY_PARENT.get((parent, key)) or _ANYWHERE.get(key)
