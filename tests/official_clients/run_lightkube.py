"""Runs lightkube's calls against a simulated cluster; exit 0 or 1.

Usage: python run_lightkube.py KUBECONFIG CONTROL_URL. Prints one JSON line for each group of calls.
Needs lightkube 1.0.1, nothing of Labfleet.
"""

import asyncio
import json
import ssl
import sys
import threading
import urllib.request
from importlib import metadata

from lightkube import AsyncClient, Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod
from lightkube.types import CascadeType, PatchType, on_error_retry

VERSION = metadata.version("lightkube")
SPACE = "by-lightkube"
CHECKS = []
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE
CONTROL = ""


def check(function):
    """Add a group of calls; they run in the order of this file."""
    CHECKS.append(function)
    return function


def control(path, body=None, method="POST"):
    """Ask the simulator's control route."""
    data = json.dumps(body or {}).encode() if method == "POST" else None
    request = urllib.request.Request(f"{CONTROL}/{path}", data, method=method)
    with urllib.request.urlopen(request, context=ANY) as answer:
        return json.load(answer)


def pod(name, **notes):
    """Return a pod that ends by itself."""
    said = {f"kubernetes-simulator/{key}": value for key, value in notes.items()}
    box = Container(name="c", image="busybox:1", resources=ResourceRequirements(
        requests={"cpu": "100m", "memory": "32Mi"}))  # fmt: skip
    meta = ObjectMeta(name=name, namespace=SPACE, labels={"app": "x"}, annotations=said)
    return Pod(metadata=meta, spec=PodSpec(containers=[box], restartPolicy="Never"))


def code(call):
    """Return the status of the refusal of a call."""
    try:
        call()
    except ApiError as error:
        return error.status.code
    return None


@check
def objects(client):
    """create, get, list, replace, patch (merge, strategic, JSON), delete, deletecollection."""
    client.create(Namespace(metadata=ObjectMeta(name=SPACE)))
    made = client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=SPACE), data={"x": "1"}))
    assert made.metadata.uid
    assert code(lambda: client.create(made.__class__(
        metadata=ObjectMeta(name="a", namespace=SPACE)))) == 409  # fmt: skip
    made.data["x"] = "2"
    assert client.replace(made).data == {"x": "2"}
    assert code(lambda: client.replace(made)) == 409
    client.patch(ConfigMap, "a", {"data": {"y": "3"}}, namespace=SPACE, patch_type=PatchType.MERGE)
    client.patch(ConfigMap, "a", {"metadata": {"labels": {"k": "v"}}}, namespace=SPACE)
    steps = [{"op": "remove", "path": "/data/y"}]
    found = client.patch(ConfigMap, "a", steps, namespace=SPACE, patch_type=PatchType.JSON)
    assert (found.data, found.metadata.labels) == ({"x": "2"}, {"k": "v"})
    for number in range(5):
        client.create(ConfigMap(metadata=ObjectMeta(name=f"m{number}", namespace=SPACE,
                                                    labels={"n": str(number)})))  # fmt: skip
    listed = client.list(ConfigMap, namespace=SPACE, chunk_size=2, labels={"n": ["1", "2", "3"]})
    assert [each.metadata.name for each in listed] == ["m1", "m2", "m3"]
    client.delete(ConfigMap, "a", namespace=SPACE)
    assert code(lambda: client.get(ConfigMap, "a", namespace=SPACE)) == 404
    client.deletecollection(ConfigMap, namespace=SPACE)
    assert not list(client.list(ConfigMap, namespace=SPACE))


@check
def apply(client):
    """apply (server-side), conflict with another applier, force."""

    def wanted(value):
        meta = ObjectMeta(name="applied", namespace=SPACE)
        return ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=meta, data={"x": value})

    client.apply(wanted("1"), field_manager="one")
    assert code(lambda: client.apply(wanted("2"), field_manager="two")) == 409
    assert client.apply(wanted("2"), field_manager="two", force=True).data == {"x": "2"}


@check
def run_a_pod(client):
    """create, wait, log, get of a pod that ends."""
    client.create(pod("one", duration="5s"))
    for _, seen in client.watch(Pod, namespace=SPACE, fields={"metadata.name": "one"}):
        if seen.status.phase == "Succeeded":
            break
    assert any("ended" in line for line in client.log("one", namespace=SPACE))
    assert client.get(Pod, "one", namespace=SPACE).status.containerStatuses[0].state.terminated


@check
def workloads(client):
    """Deployment: create, wait Available, scale; Job: create, wait Complete, cascading delete."""
    labels = {"app": "web"}
    box = Container(name="c", image="nginx:1")
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[box]))
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(matchLabels=labels), template=template)
    client.create(Deployment(metadata=ObjectMeta(name="web", namespace=SPACE), spec=spec))
    client.wait(Deployment, "web", for_conditions=["Available"], namespace=SPACE)
    obj = Deployment.Scale(
        metadata=ObjectMeta(name="web", namespace=SPACE), spec=ScaleSpec(replicas=3)
    )
    assert client.replace(obj).spec.replicas == 3
    ended = PodTemplateSpec(spec=PodSpec(containers=[box], restartPolicy="Never"))
    client.create(
        Job(metadata=ObjectMeta(name="job", namespace=SPACE), spec=JobSpec(template=ended))
    )
    client.wait(Job, "job", for_conditions=["Complete"], namespace=SPACE)
    client.delete(Job, "job", namespace=SPACE, cascade=CascadeType.FOREGROUND)


@check
def nodes_and_metrics(client):
    """list of nodes, patch (cordon), a generic resource of metrics.k8s.io."""
    assert len(list(client.list(Node))) == 3
    client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
    client.patch(Node, "node-1", {"spec": {"unschedulable": None}})
    figures = create_global_resource("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes")
    assert len(list(client.list(figures))) == 3


@check
def expired_watch(client):
    """watch from a version that is compacted: on_error_retry starts anew and recovers."""
    made = client.create(ConfigMap(metadata=ObjectMeta(name="w1", namespace=SPACE)))
    old = made.metadata.resourceVersion
    client.create(ConfigMap(metadata=ObjectMeta(name="w2", namespace=SPACE)))
    control("compact")
    errors = []

    def again(error, count):
        errors.append(error)
        return on_error_retry(error, count)

    seen = []
    found = client.watch(ConfigMap, namespace=SPACE, resource_version=old, on_error=again)
    for _, each in found:
        seen.append(each.metadata.name)
        if {"w1", "w2"} <= set(seen):
            break
    assert errors


@check
def cut_watch(client):
    """watch that is cut: lightkube goes on from the last version and loses nothing."""
    control("faults", {"kind": "watch_cut", "path": "configmaps", "events": 1, "times": 5})
    seen = set()
    started = threading.Timer(0.5, lambda: [
        client.create(ConfigMap(metadata=ObjectMeta(name=f"c{n}", namespace=SPACE)))
        for n in range(5)])  # fmt: skip
    started.start()
    for _, each in client.watch(ConfigMap, namespace=SPACE, on_error=on_error_retry):
        seen.add(each.metadata.name)
        if {f"c{n}" for n in range(5)} <= seen:
            break
    control("faults", method="DELETE")


@check
def asynchronous(client):
    """AsyncClient: create, list, watch, delete."""

    async def play():
        other = AsyncClient(config=client_config())
        await other.create(pod("asked", duration="3s"))
        async for _, each in other.watch(Pod, namespace=SPACE, fields={"metadata.name": "asked"}):
            if each.status.phase == "Succeeded":
                break
        names = [each.metadata.name async for each in other.list(Pod, namespace=SPACE)]
        assert "asked" in names
        await other.delete(Pod, "asked", namespace=SPACE)
        await other.close()

    asyncio.run(play())


@check
def no_token(client):
    """A wrong token is 401, one that reads only is 403 for a write."""
    config = client_config()
    fresh = control("tokens", {"user": "reader", "reads_only": True})["token"]
    for token, want in (("wrong", 401), (fresh, 403)):
        config = KubeConfig.from_dict(altered(token))
        other = Client(config=config)
        name = ConfigMap(metadata=ObjectMeta(name="no", namespace=SPACE))
        assert code(lambda other=other, name=name: other.create(name)) == want


@check
def tidy(client):
    """delete of a namespace, and the watch that sees it go."""
    client.delete(Namespace, SPACE)
    version = None
    for _ in range(50):
        if code(lambda: client.get(Namespace, SPACE)) == 404:
            version = "gone"
            break
        threading.Event().wait(0.1)
    assert version == "gone"


def altered(token):
    """Return the kubeconfig with another token."""
    import yaml

    with open(sys.argv[1]) as opened:
        config = yaml.safe_load(opened)
    config["users"][0]["user"]["token"] = token
    return config


def client_config():
    """Return the kubeconfig's own configuration."""
    return KubeConfig.from_file(sys.argv[1])


def main():
    """Run everything; return whether all passed."""
    client = Client(config=client_config(), namespace=SPACE)
    bad = 0
    for each in CHECKS:
        said = {"client": f"lightkube {VERSION}", "group": each.__name__, "calls": each.__doc__}
        try:
            each(client)
        except Exception as error:
            bad += 1
            said["error"] = f"{type(error).__name__}: {error}"[:600]
        print(json.dumps({**said, "ok": "error" not in said}), flush=True)
    return bad == 0


if __name__ == "__main__":
    CONTROL = sys.argv[2]
    raise SystemExit(0 if main() else 1)
