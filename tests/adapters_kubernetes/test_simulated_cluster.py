"""The Kubernetes simulator over real HTTP and TLS: what it has is what is seen, whatever breaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_cluster import Kubeconfigs, cluster, looking

from kubernetes_simulator.shell.fixture import Running, running
from labfleet.adapters.kubernetes.calls import Bounds
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.app.system import SystemClock, SystemRng
from labfleet.interfaces.cluster_view import ClusterView
from labfleet.kernel import errors
from labfleet.resources.cluster_access import Figure, MetricsKind, MetricsSource

LABEL = "labfleet/simulation-id"
PODS = "/api/v1/namespaces/default/pods"
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE
QUICK = Bounds(spacing=0.01, first=30)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One simulator for all stories, a hundred times as fast as life."""
    with running(tmp_path_factory.mktemp("cluster"), "--seed", "5", speed=100.0) as found:
        yield found


def call(it: Running, method: str, path: str, body: Any = None) -> Any:
    """Ask the simulator as somebody else would."""
    data = None if body is None else json.dumps(body).encode()
    head = {"Authorization": f"Bearer {it.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(it.url + path, data, head, method=method)
    with urllib.request.urlopen(request, context=ANY, timeout=20) as reply:
        return json.load(reply)


def pod(name: str, run: str, kind: str = "Pod", **notes: str) -> dict[str, Any]:
    """Return a pod of a run; the notes say how it goes."""
    said = {f"kubernetes-simulator/{key.replace('_', '-')}": each for key, each in notes.items()}
    requests = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": said, "labels": {LABEL: run} if run else {}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1", "resources": requests}],
        },
    }


@contextlib.asynccontextmanager
async def seen(
    it: Running, secrets: Kubeconfigs | None = None
) -> AsyncIterator[tuple[KubernetesViewer, Callable[[], Awaitable[ClusterView]]]]:
    """Give a viewer of the simulator, and a look at it."""
    if secrets is None:
        secrets = Kubeconfigs()
        secrets.text = it.kubeconfig.read_text()
    viewer = KubernetesViewer(secrets, SystemClock(), SystemRng(), bounds=QUICK)

    async def look() -> ClusterView:
        found = await viewer.view(cluster())
        assert found is not None
        return found

    async with looking(viewer):
        yield viewer, look
        await connected()


async def connected() -> None:
    """Wait until no connection is being made.

    anyio, below httpx2, leaves one open that is made in the moment in which its task is cancelled.
    """
    quiet = 0
    while quiet < 5:
        making = any("try_connect" in str(each.get_coro()) for each in asyncio.all_tasks())
        quiet = 0 if making else quiet + 1
        await asyncio.sleep(0)


async def until(look: Callable[[], Awaitable[ClusterView]], holds: Any) -> ClusterView:
    """Look until it holds; how long that takes is pytest-timeout's business."""
    while not holds(found := await look()):
        await asyncio.sleep(0.02)
    return found


def test_nodes_and_their_use_are_what_the_simulator_has(simulated: Running) -> None:
    """Capacity by allocatable; a cordoned node takes no pods."""

    async def story() -> None:
        async with seen(simulated) as (_, look):
            nodes = {each.name: each for each in (await look()).nodes}
            has = call(simulated, "GET", "/api/v1/nodes")["items"]
            assert set(nodes) == {each["metadata"]["name"] for each in has}
            assert all(each.ready and each.schedulable for each in nodes.values())
            assert {each.allocatable["cpu_milli"] for each in nodes.values()} <= set(range(1, 8001))
            name = min(nodes)
            call(simulated, "POST", f"/_control/nodes/{name}/cordon", {})
            await until(look, lambda found: not found.nodes[0].schedulable)
            call(simulated, "POST", f"/_control/nodes/{name}/uncordon", {})
            await until(look, lambda found: found.nodes[0].schedulable)

    asyncio.run(story())


def test_a_watch_cut_fifty_times_loses_no_pod(simulated: Running) -> None:
    """And none that it never had is seen: pods come and go between the cuts."""

    async def story() -> None:
        async with seen(simulated) as (_, look):
            await look()
            for number in range(50):
                call(simulated, "POST", PODS, pod(f"cut-{number}", f"run-{number}", duration="2h"))
                if number % 3 == 0:
                    call(simulated, "DELETE", f"{PODS}/cut-{number}?gracePeriodSeconds=0")
                call(simulated, "POST", "/_control/watches/cut", {})
                await asyncio.sleep(0.02)
            there = {f"run-{number}" for number in range(50) if number % 3}

            def whole(found: ClusterView) -> bool:
                return {each for each in found.runs if each.startswith("run-")} == there

            found = await until(look, whole)
            assert sum(each.pending + each.running for each in found.runs.values()) == len(there)
            for name in there:
                call(
                    simulated,
                    "DELETE",
                    f"{PODS}/cut-{name.removeprefix('run-')}?gracePeriodSeconds=0",
                )
            await until(look, lambda found: not found.runs)

    asyncio.run(story())


ENDS = [
    ({"duration": "20s"}, "Completed"),
    ({"duration": "20s", "exit_code": "3"}, "Failed"),
    ({"duration": "600s", "memory": "200Mi"}, "OOMKilled"),
]


@pytest.mark.parametrize(("notes", "reason"), ENDS)
def test_a_run_ends_as_its_pod_does(simulated: Running, notes: dict[str, str], reason: str) -> None:
    """Completed, failed by its code, killed for its memory, as the simulator's kubelet says it."""
    name = f"ends-{reason.lower()}"

    async def story() -> None:
        async with seen(simulated) as (_, look):
            await look()
            call(simulated, "POST", PODS, pod(name, name, **notes))
            found = await until(look, lambda found: name in found.over)
            assert found.over[name].reason == reason
            assert found.over[name].at is not None
            call(simulated, "DELETE", f"{PODS}/{name}")

    asyncio.run(story())


def test_a_job_that_gave_up_is_over_at_once(simulated: Running) -> None:
    """Its own conditions say so, long before the longest back-off has passed."""
    template = pod("", "gave-up", duration="10s", exit_code="7")
    body = {
        "metadata": {"name": "gave-up"},
        "spec": {"backoffLimit": 0, "template": {**template, "kind": None, "apiVersion": None}},
    }
    for part in ("kind", "apiVersion"):
        body["spec"]["template"].pop(part)
    body["spec"]["template"]["metadata"].pop("name")

    async def story() -> None:
        async with seen(simulated) as (_, look):
            await look()
            call(simulated, "POST", "/apis/batch/v1/namespaces/default/jobs", body)
            found = await until(look, lambda found: "gave-up" in found.over)
            assert found.over["gave-up"].reason == "Failed"
            assert "ended with 7" in found.over["gave-up"].message

    asyncio.run(story())


def test_an_evicted_pod_and_one_that_was_removed_are_told_apart(simulated: Running) -> None:
    """The first one's node was short of memory, of the second nobody says why."""

    async def story() -> None:
        async with seen(simulated) as (_, look):
            await look()
            for name in ("pushed", "taken"):
                call(simulated, "POST", PODS, pod(name, name, duration="2h"))
            await until(look, lambda found: {"pushed", "taken"} <= set(found.runs))
            call(simulated, "POST", "/_control/pods/default/pushed/evict", {})
            call(simulated, "DELETE", f"{PODS}/taken")
            found = await until(look, lambda found: {"pushed", "taken"} <= set(found.over))
            assert found.over["pushed"].reason == "Evicted"
            assert "memory" in found.over["pushed"].message
            assert found.over["taken"].reason == "Gone"
            call(simulated, "DELETE", f"{PODS}/pushed")

    asyncio.run(story())


FAULTS = ["watch_duplicate", "watch_gone", "truncated", "html", "500", "close_after", "refuse"]


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_end_and_what_is_there_is_seen(simulated: Running, kind: str) -> None:
    """Doubled events, 410 inside a watch, broken replies: each three times, none costs a pod."""
    run = f"fault-{kind.replace('_', '-')}"

    async def story() -> None:
        async with seen(simulated) as (_, look):
            await look()
            fault = {"kind": kind, "method": "GET", "path": "pods|nodes", "times": 3}
            call(simulated, "POST", "/_control/faults", fault)
            call(simulated, "POST", "/_control/watches/cut", {})
            call(simulated, "POST", PODS, pod(run, run, duration="2h"))
            await until(look, lambda found: run in found.runs)
            call(simulated, "DELETE", f"{PODS}/{run}?gracePeriodSeconds=0")
            await until(look, lambda found: run not in found.runs)
            hits = call(simulated, "GET", "/_control/faults")[0]["hits"]
            call(simulated, "DELETE", "/_control/faults")
            assert hits > 0

    asyncio.run(story())


def test_a_token_that_is_replaced_costs_nothing(simulated: Running) -> None:
    """The old one is refused from now on; the new one stands in the kubeconfig."""
    made = call(simulated, "POST", "/_control/tokens", {"user": "viewer", "reads_only": True})
    secrets = Kubeconfigs()
    text = simulated.kubeconfig.read_text()
    secrets.text = text.replace(simulated.token, made["token"])

    async def story() -> None:
        async with seen(simulated, secrets) as (_, look):
            await look()
            fresh = call(simulated, "POST", "/_control/tokens/rotate", {"token": made["token"]})
            secrets.text = text.replace(simulated.token, fresh["token"])
            call(simulated, "POST", "/_control/watches/cut", {})
            call(simulated, "POST", PODS, pod("rotated", "rotated", duration="2h"))
            await until(look, lambda found: "rotated" in found.runs)
            call(simulated, "DELETE", f"{PODS}/rotated?gracePeriodSeconds=0")

    asyncio.run(story())


def test_another_authority_is_not_trusted(simulated: Running, tmp_path: Path) -> None:
    """Nothing is sent to a server whose certificate is of somebody else."""
    with running(tmp_path) as other:
        secrets = Kubeconfigs()
        secrets.text = other.kubeconfig.read_text().replace(other.url, simulated.url)

        async def story() -> None:
            async with seen(simulated, secrets) as (_, look):
                with pytest.raises(errors.Denied, match="certificate is not trusted"):
                    await look()

        asyncio.run(story())


def test_figures_of_metrics_k8s_io_are_the_truth(simulated: Running) -> None:
    """CPU and memory of a run and of the nodes, within what a few seconds change."""
    source = MetricsSource(name="k8s", kind=MetricsKind.KUBERNETES)
    body = pod("steady", "steady", duration="20h", memory="48Mi", cpu="800m", ramp="0")

    async def story() -> None:
        async with seen(simulated) as (viewer, look):
            call(simulated, "POST", PODS, body)
            await until(
                look, lambda found: found.runs.get("steady") and found.runs["steady"].running
            )
            wanted = (Figure.RUN_CPU, Figure.RUN_MEMORY, Figure.NODE_CPU)
            while True:
                found = await viewer.read(cluster(), source, wanted)
                if "steady" in found.values.get(Figure.RUN_CPU, {}):
                    break
                await asyncio.sleep(0.1)
            truth = call(simulated, "GET", "/_control/pods/default/steady/use?window=30")
            told = found.values[Figure.RUN_MEMORY]["steady"] * 2**20
            assert told == pytest.approx(truth["memory"]["now"], rel=0.1, abs=2**20)
            assert 0 < found.values[Figure.RUN_CPU]["steady"] < 900
            assert len(found.values[Figure.NODE_CPU]) == 3
            call(simulated, "DELETE", f"{PODS}/steady?gracePeriodSeconds=0")

    asyncio.run(story())
