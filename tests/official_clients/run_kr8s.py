"""Runs kr8s' calls against a simulated cluster; exit 0 or 1.

Usage: python run_kr8s.py KUBECONFIG CONTROL_URL. Prints one JSON line for each group of calls.
Needs kr8s 0.20.15, nothing of Labfleet.
"""

import json
import sys
import time
from importlib import metadata

import kr8s
from kr8s.objects import ConfigMap, Deployment, Job, Namespace, Node, Pod

VERSION = metadata.version("kr8s")
SPACE = "by-kr8s"
CHECKS = []
BOX = {"name": "c", "image": "busybox:1"}


def check(function):
    """Add a group of calls; they run in the order of this file."""
    CHECKS.append(function)
    return function


def meta(name, **labels):
    """Return metadata."""
    return {"name": name, "namespace": SPACE, "labels": labels}


@check
def objects(api):
    """create, refresh, exists, patch, label, annotate, get by selector, delete."""
    Namespace({"metadata": {"name": SPACE}}, api=api).create()
    made = ConfigMap({"metadata": meta("a", k="v"), "data": {"x": "1"}}, api=api)
    made.create()
    assert made.exists()
    made.patch({"data": {"y": "2"}})
    made.label({"more": "1"})
    made.annotate({"note": "1"})
    made.refresh()
    assert dict(made.raw["data"]) == {"x": "1", "y": "2"}
    found = list(api.get("configmaps", namespace=SPACE, label_selector={"k": "v"}))
    assert [each.name for each in found] == ["a"]
    made.delete()
    assert not made.exists()


@check
def run_a_pod(api):
    """create, wait, ready, logs, watch, delete of a pod that ends."""
    notes = {"kubernetes-simulator/duration": "5s"}
    body = {"metadata": {**meta("one"), "annotations": notes},
            "spec": {"containers": [BOX], "restartPolicy": "Never"}}  # fmt: skip
    made = Pod(body, api=api)
    made.create()
    made.wait("jsonpath='{.status.phase}'=Succeeded", timeout=30)
    assert any("ended" in line for line in made.logs())
    for _, each in api.watch("pods", namespace=SPACE):
        assert each.name == "one"
        break
    made.delete()


@check
def workloads(api):
    """Deployment: create, wait Available, scale, pods; Job: create, wait Complete, delete."""
    labels = {"app": "web"}
    body = {"metadata": meta("web"), "spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [BOX]}}}}  # fmt: skip
    made = Deployment(body, api=api)
    made.create()
    made.wait("condition=Available", timeout=30)
    made.scale(2)
    made.refresh()
    assert made.replicas == 2
    assert len(list(made.pods())) == 2
    spec = {"template": {"spec": {"containers": [BOX], "restartPolicy": "Never"}}}
    job = Job({"metadata": meta("job"), "spec": spec}, api=api)
    job.create()
    job.wait("condition=Complete", timeout=30)
    job.delete()


@check
def nodes_and_metrics(api):
    """get of nodes, cordon, uncordon, get of nodes.metrics.k8s.io, version, api_resources."""
    nodes = list(api.get("nodes"))
    assert len(nodes) == 3
    node = Node.get("node-1", api=api)
    node.cordon()
    assert node.unschedulable
    node.uncordon()
    assert api.version()["minor"] == "32"
    assert {"pods", "jobs"} <= {each["name"] for each in api.api_resources()}
    assert len(list(api.get("nodes.metrics.k8s.io"))) == 3


@check
def who_am_i(api):
    """whoami: TokenReview."""
    assert api.whoami() == "kubernetes-admin"


@check
def tidy(api):
    """delete of a namespace with all that is in it."""
    space = Namespace.get(SPACE, api=api)
    space.delete()
    for _ in range(100):
        if not space.exists():
            return
        time.sleep(0.1)
    raise AssertionError("the namespace is still there")


def main():
    """Run everything; return whether all passed."""
    api = kr8s.api(kubeconfig=sys.argv[1])
    bad = 0
    for each in CHECKS:
        said = {"client": f"kr8s {VERSION}", "group": each.__name__, "calls": each.__doc__}
        try:
            each(api)
        except Exception as error:
            bad += 1
            said["error"] = f"{type(error).__name__}: {error}"[:600]
        print(json.dumps({**said, "ok": "error" not in said}), flush=True)
    return bad == 0


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
