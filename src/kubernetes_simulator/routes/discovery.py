"""What there is: groups, versions and resources, each in the old and the aggregated form."""

from typing import Any

from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import Resource, groups, of_group

VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.4",
    "gitCommit": "kubernetes-simulator",
    "gitTreeState": "clean",
    "buildDate": "2025-04-22T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
SUB_KINDS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "binding": ("", "v1", "Binding", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "finalize": ("", "v1", "Namespace", ("update",)),
    "log": ("", "v1", "Pod", ("get",)),
    "proxy": ("", "v1", "NodeProxyOptions", ("get",)),
}
"""Of what is under an object: group, version, kind and verbs; the rest is the object's own."""
STATUS_VERBS = ("get", "patch", "update")


def versions() -> Json:
    """Return the versions of the core group."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(name: str, found: list[str]) -> Json:
    rows = [{"groupVersion": f"{name}/{each}", "version": each} for each in found]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}


def group_list() -> Json:
    """Return the named groups."""
    rows = [_group(name, found) for name, found in groups().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}


def group(name: str) -> Json | None:
    """Return one group; None if there is none."""
    found = groups().get(name)
    if found is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found)}


def _row(each: Resource) -> Json:
    row: Json = {
        "name": each.plural,
        "singularName": each.singular if each.verbs != ("get", "list") else "",
        "namespaced": each.namespaced,
        "kind": each.kind,
        "verbs": list(each.verbs),
    }
    if each.short:
        row["shortNames"] = list(each.short)
    if each.categories:
        row["categories"] = list(each.categories)
    return row


def _below(each: Resource, sub: str) -> Json:
    own = (each.group, each.version, each.kind, STATUS_VERBS)
    name, version, kind, verbs = SUB_KINDS.get(sub, own)
    row: Json = {
        "name": f"{each.plural}/{sub}",
        "singularName": "",
        "namespaced": each.namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
    if (name, version) != (each.group, each.version):
        row |= {"group": name, "version": version}
    return row


def resources(name: str, version: str) -> Json | None:
    """Return the resources of a group's version; None if there are none."""
    rows: list[Json] = []
    for each in of_group(name, version):
        rows.append(_row(each))
        rows += [_below(each, sub) for sub in each.subresources]
    if not rows:
        return None
    full = f"{name}/{version}" if name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": rows}


def _whole(each: Resource) -> Json:
    """Return a resource in the aggregated form."""
    row: Json = {
        "resource": each.plural,
        "responseKind": {"group": each.group, "version": each.version, "kind": each.kind},
        "scope": "Namespaced" if each.namespaced else "Cluster",
        "singularResource": each.singular,
        "verbs": list(each.verbs),
    }
    if each.short:
        row["shortNames"] = list(each.short)
    if each.categories:
        row["categories"] = list(each.categories)
    if each.subresources:
        row["subresources"] = [_part(each, sub) for sub in each.subresources]
    return row


def _part(each: Resource, sub: str) -> Json:
    own = (each.group, each.version, each.kind, STATUS_VERBS)
    name, version, kind, verbs = SUB_KINDS.get(sub, own)
    response = {"group": name, "version": version, "kind": kind}
    return {"subresource": sub, "responseKind": response, "verbs": list(verbs)}


def aggregated(names: dict[str, list[str]], form: str) -> Json:
    """Return groups with their resources, in apidiscovery's version `form`."""
    items: list[Any] = []
    for name, found in names.items():
        versions_ = [
            {
                "version": version,
                "resources": [_whole(each) for each in of_group(name, version)],
                "freshness": "Current",
            }
            for version in found
        ]
        meta: Json = {"name": name, "creationTimestamp": None}
        items.append(
            {"metadata": meta if name else {"creationTimestamp": None}, "versions": versions_}
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": items,
    }
