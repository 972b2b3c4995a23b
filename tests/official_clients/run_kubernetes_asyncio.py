"""Runs kubernetes_asyncio's calls against a simulated cluster; exit 0 or 1.

Usage: python run_kubernetes_asyncio.py KUBECONFIG CONTROL_URL. Prints one JSON line for each group
of calls. Needs kubernetes-asyncio 36.1.0, nothing of Labfleet.
"""

import asyncio
import json
import ssl
import sys
import urllib.request
from importlib import metadata

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

VERSION = metadata.version("kubernetes_asyncio")
SPACE = "by-asyncio"
CHECKS = []
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


def check(function):
    """Add a group of calls; they run in the order of this file."""
    CHECKS.append(function)
    return function


def control(path, body=None, method="POST"):
    """Ask the simulator's control route."""
    data = json.dumps(body or {}).encode() if method == "POST" else None
    request = urllib.request.Request(f"{sys.argv[2]}/{path}", data, method=method)
    with urllib.request.urlopen(request, context=ANY) as answer:
        return json.load(answer)


def named(name, **labels):
    """Return metadata."""
    return client.V1ObjectMeta(name=name, labels=labels or None)


def pod(name, **notes):
    """Return a pod that ends by itself."""
    said = {f"kubernetes-simulator/{key}": value for key, value in notes.items()}
    meta = client.V1ObjectMeta(name=name, annotations=said)
    box = client.V1Container(name="c", image="busybox:1")
    return client.V1Pod(
        metadata=meta, spec=client.V1PodSpec(containers=[box], restart_policy="Never")
    )


async def status(call):
    """Return the status of the refusal of a call."""
    try:
        await call
    except ApiException as error:
        return error.status
    return None


@check
async def objects(api):
    """create, read, replace, patch (merge, strategic, JSON), list in pages, delete, collection."""
    core = client.CoreV1Api(api)
    await core.create_namespace(client.V1Namespace(metadata=named(SPACE)))
    body = client.V1ConfigMap(metadata=named("a"), data={"x": "1"})
    made = await core.create_namespaced_config_map(SPACE, body)
    assert await status(core.create_namespaced_config_map(SPACE, body)) == 409
    made.data["x"] = "2"
    await core.replace_namespaced_config_map("a", SPACE, made)
    assert await status(core.replace_namespaced_config_map("a", SPACE, made)) == 409
    for kind, patch in ((MERGE, {"data": {"y": "3"}}), (STRATEGIC, {"data": {"z": "4"}}),
                        ("application/json-patch+json", [{"op": "remove", "path": "/data/y"}])):  # fmt: skip
        found = await core.patch_namespaced_config_map("a", SPACE, patch, _content_type=kind)
    assert found.data == {"x": "2", "z": "4"}
    for number in range(5):
        body = client.V1ConfigMap(metadata=named(f"m{number}", n=str(number)))
        await core.create_namespaced_config_map(SPACE, body)
    page = await core.list_namespaced_config_map(SPACE, limit=4)
    # private _continue: the client's name of the query's `continue`
    rest = await core.list_namespaced_config_map(SPACE, limit=4, _continue=page.metadata._continue)
    assert (len(page.items), len(rest.items)) == (4, 2)
    await core.delete_namespaced_config_map("a", SPACE)
    assert await status(core.read_namespaced_config_map("a", SPACE)) == 404
    await core.delete_collection_namespaced_config_map(SPACE, label_selector="n in (0,1)")
    assert len((await core.list_namespaced_config_map(SPACE)).items) == 3


@check
async def run_a_pod(api):
    """create, watch until it has ended, log, delete."""
    core = client.CoreV1Api(api)
    await core.create_namespaced_pod(SPACE, pod("one", duration="5s"))
    async with watch.Watch().stream(core.list_namespaced_pod, SPACE, timeout_seconds=30) as stream:
        async for event in stream:
            if event["object"].status.phase == "Succeeded":
                break
    assert "ended" in await core.read_namespaced_pod_log("one", SPACE)
    await core.delete_namespaced_pod("one", SPACE)


@check
async def workloads(api):
    """Deployment: create, scale (patch of the subresource), status; Job: create, status, delete."""
    apps, batch = client.AppsV1Api(api), client.BatchV1Api(api)
    box = client.V1Container(name="c", image="nginx:1")
    template = client.V1PodTemplateSpec(metadata=named(None, app="web"),
                                        spec=client.V1PodSpec(containers=[box]))  # fmt: skip
    spec = client.V1DeploymentSpec(replicas=1, template=template,
                                   selector=client.V1LabelSelector(match_labels={"app": "web"}))  # fmt: skip
    await apps.create_namespaced_deployment(
        SPACE, client.V1Deployment(metadata=named("web"), spec=spec)
    )
    patch = {"spec": {"replicas": 2}}
    found = await apps.patch_namespaced_deployment_scale("web", SPACE, patch, _content_type=MERGE)
    assert found.spec.replicas == 2
    for _ in range(100):
        told = await apps.read_namespaced_deployment_status("web", SPACE)
        if told.status.available_replicas == 2:
            break
        await asyncio.sleep(0.1)
    assert told.status.available_replicas == 2
    ended = client.V1PodTemplateSpec(
        spec=client.V1PodSpec(containers=[box], restart_policy="Never")
    )
    job = client.V1Job(metadata=named("job"), spec=client.V1JobSpec(template=ended))
    await batch.create_namespaced_job(SPACE, job)
    await batch.delete_namespaced_job("job", SPACE, propagation_policy="Background")


@check
async def nodes_and_metrics(api):
    """list of nodes, patch (cordon), custom objects of metrics.k8s.io, version, API groups."""
    core = client.CoreV1Api(api)
    assert len((await core.list_node()).items) == 3
    await core.patch_node("node-1", {"spec": {"unschedulable": True}}, _content_type=MERGE)
    await core.patch_node("node-1", {"spec": {"unschedulable": None}}, _content_type=MERGE)
    custom = client.CustomObjectsApi(api)
    found = await custom.list_cluster_custom_object("metrics.k8s.io", "v1beta1", "nodes")
    assert len(found["items"]) == 3
    assert (await client.VersionApi(api).get_code()).minor == "32"
    assert {each.name for each in (await client.ApisApi(api).get_api_versions()).groups} >= {"apps"}


@check
async def expired_watch(api):
    """watch from a version that is compacted: asks once more with it, then raises 410."""
    core = client.CoreV1Api(api)
    made = await core.create_namespaced_config_map(SPACE, client.V1ConfigMap(metadata=named("w1")))
    await core.create_namespaced_config_map(SPACE, client.V1ConfigMap(metadata=named("w2")))
    control("compact")
    old, told = made.metadata.resource_version, None
    try:
        async with watch.Watch().stream(core.list_namespaced_config_map, SPACE,
                                        resource_version=old, timeout_seconds=5) as stream:  # fmt: skip
            async for _ in stream:
                pass
    except ApiException as error:
        told = error.status
    assert told == 410


@check
async def reviews(api):
    """SelfSubjectAccessReview and a service account's token."""
    asked = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="create", resource="pods")))  # fmt: skip
    found = await client.AuthorizationV1Api(api).create_self_subject_access_review(asked)
    assert found.status.allowed
    body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=["x"]))
    core = client.CoreV1Api(api)
    told = await core.create_namespaced_service_account_token("default", SPACE, body)
    assert told.status.token


@check
async def tidy(api):
    """delete of a namespace with all that is in it."""
    core = client.CoreV1Api(api)
    await core.delete_namespace(SPACE)
    for _ in range(100):
        if await status(core.read_namespace(SPACE)) == 404:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the namespace is still there")


async def main():
    """Run everything; return whether all passed."""
    await config.load_kube_config(sys.argv[1])
    bad = 0
    async with client.ApiClient() as api:
        for each in CHECKS:
            said = {"client": f"kubernetes_asyncio {VERSION}", "group": each.__name__,
                    "calls": each.__doc__}  # fmt: skip
            try:
                await each(api)
            except Exception as error:
                bad += 1
                said["error"] = f"{type(error).__name__}: {error}"[:600]
            print(json.dumps({**said, "ok": "error" not in said}), flush=True)
    return bad == 0


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main()) else 1)
