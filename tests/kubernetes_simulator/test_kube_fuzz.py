"""Good objects with something wrong in them, written in every way: refused or taken, never an error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kube_cluster import cluster_of, deployment, job, pod, template

from kubernetes_simulator.core.inputs import copied
from kubernetes_simulator.routes.web import Reply

APPS = "/apis/apps/v1/namespaces/default"
STATEFUL = {
    "metadata": {"name": "a"},
    "spec": {
        "replicas": 1, "serviceName": "a", "template": template(),
        "selector": {"matchLabels": {"app": "web"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
    },
}  # fmt: skip
NODE = {
    "metadata": {"name": "a"},
    "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
}
BASES = [
    ("/api/v1/namespaces/default/pods", pod("a")),
    (f"{APPS}/deployments", deployment("a", 2)),
    (f"{APPS}/statefulsets", STATEFUL),
    ("/apis/batch/v1/namespaces/default/jobs", job("a", completions=2)),
    ("/api/v1/nodes", NODE),
    ("/api/v1/namespaces", {"metadata": {"name": "a"}, "spec": {"finalizers": ["x"]}}),
    ("/api/v1/namespaces/default/services", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
    ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "a"}, "stringData": {"a": "b"}}),
    ("/api/v1/namespaces/default/events", {"metadata": {"name": "a"}, "involvedObject": {}}),
]  # fmt: skip
JUNK = st.sampled_from([
    None, True, 0, -1, 10**20, 1.5, "", "a", [], {}, [1], ["a"], {"a": "b"}, {"name": "a"},
    [{"name": "a"}], [{}], [None], "2026-01-01T00:00:00Z", "25%", "1Gi", "-5", "é\x00",
])  # fmt: skip
KEYS = st.sampled_from([
    "", "replicas", "template", "labels", "annotations", "finalizers", "ownerReferences", "status",
    "conditions", "strategy", "selector", "phase", "containerStatuses", "taints", "tolerations",
    "affinity", "nodeName", "resources", "startTime", "suspend", "completions", "completionMode",
    "updateStrategy", "rollingUpdate", "ordinals", "activeDeadlineSeconds", "nodeSelector",
])  # fmt: skip
TYPES = {
    "merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}  # fmt: skip
breaks = st.lists(st.tuples(st.integers(0, 500), KEYS, JUNK), min_size=1, max_size=3)
hows = st.sampled_from(["post", "put", "status", "scale", "delete", *TYPES])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container of a value with each of its keys."""
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    found = [] if not isinstance(value, dict | list) else [(value, key) for key, _ in rows]
    if found:
        inner = value.values() if isinstance(value, dict) else value
        found += [
            place for each in inner if isinstance(each, dict | list) for place in places(each)
        ]
    return found


def broken(body: Any, wrong: list[tuple[int, str, Any]]) -> Any:
    """Return a body with other values, or fields that it had not, at some places."""
    body = copied(body)
    for at, key, junk in wrong:
        found = places(body)
        if found:
            holder, name = found[at % len(found)]
            inside = holder[name]
            if key and isinstance(inside, dict):
                inside[key] = copied(junk)
            else:
                holder[name] = copied(junk)
    return body


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(BASES), hows, breaks), min_size=1, max_size=6))
def test_nothing_that_is_written_is_an_error_of_the_server(turns):
    """Every reply is below 500, time goes on after it, and every page can still be made."""
    cluster = cluster_of(nodes=2)
    for (path, base), how, wrong in turns:
        name, body = f"{path}/a", broken(base, wrong)
        cluster.send("POST", path, base)
        match how:
            case "post":
                reply = cluster.send("POST", path, body)
            case "put":
                reply = cluster.send("PUT", name, body)
            case "status":
                held = json.loads(cluster.send("GET", name).body)
                held.get("metadata", {}).pop("resourceVersion", None)
                reply = cluster.send("PUT", f"{name}/status", broken(held, wrong))
            case "scale":
                reply = cluster.send("PATCH", f"{name}/scale", broken({"spec": {"replicas": 2}}, wrong),
                                     kind=TYPES["merge"])  # fmt: skip
            case "delete":
                reply = cluster.send("DELETE", name, broken({"gracePeriodSeconds": 1}, wrong))
            case _:
                more = {"fieldManager": "x", "force": "true"} if how == "apply" else {}
                reply = cluster.send("PATCH", name, body, kind=TYPES[how], **more)
        assert isinstance(reply, Reply)
        assert reply.status < 500, (how, path, body, reply.body)
        cluster.pass_time(20)
    assert shown(cluster) == set()


def shown(cluster) -> set[int]:
    """Make every page and table of what is there; return the statuses that are not 200."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    pages = ["/metrics/cadvisor", "/metrics/kube-state", "/apis/metrics.k8s.io/v1beta1/pods",
             "/apis/metrics.k8s.io/v1beta1/nodes"]  # fmt: skip
    replies = [cluster.send("GET", path) for path in pages]
    replies += [cluster.send("GET", path, accept=table) for path, _ in BASES]
    cluster.control("GET", "summary")
    cluster.control("GET", "use", window="10")
    return {each.status for each in replies} - {200}
