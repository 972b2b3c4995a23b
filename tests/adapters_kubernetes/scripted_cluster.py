"""A small API server in this process: objects with versions, lists with pages, watches with faults.

It stands where the network would: httpx2 asks it, so that all of lightkube and all of our own runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Any

import httpx2
from virtual_time import play

from labfleet.adapters.kubernetes.access import Reached
from labfleet.adapters.kubernetes.calls import Bounds
from labfleet.adapters.kubernetes.client import LightkubeApi
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.interfaces.cluster_view import ClusterView
from labfleet.rehearsal.time.virtual_host import SeededRng, VirtualClock
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import KubernetesAccess
from labfleet.resources.meta import Metadata, SecretRef

LABEL = "labfleet/simulation-id"
Json = dict[str, Any]


def pod(name: str, run: str = "", **more: Any) -> Json:
    """Return a pod that runs on node n1 and requests a tenth of a CPU and 128 MiB."""
    made: Json = {
        "metadata": {"name": name, "namespace": more.pop("namespace", "default"), "labels": {}},
        "spec": {
            "nodeName": more.pop("node", "n1"),
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
            ],
        },
        "status": {"phase": more.pop("phase", "Running"), **more.pop("status", {})},
    }
    if run:
        made["metadata"]["labels"][LABEL] = run
    made["metadata"].update(more)
    return made


def ended(code: int, reason: str = "", at: str = "2026-11-27T00:00:05Z") -> Json:
    """Return the status of a pod whose container ended so."""
    word = reason or ("Completed" if code == 0 else "Error")
    state = {"terminated": {"exitCode": code, "reason": word, "finishedAt": at}}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "c", "state": state}],
    }


def node(name: str, **spec: Any) -> Json:
    """Return a node of 4 CPUs that is ready."""
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "16374588Ki", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class ScriptedCluster(httpx2.AsyncBaseTransport):
    """The server. What a test sets: `down`, `refuse`, `token`, `cut_after`, `twice`,
    `mute`, `short` (a watch ends in order at once), `bookmarks`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {"pods": {}, "nodes": {}}
        self.log: list[tuple[int, str, str, Json]] = []
        self.version, self.oldest = 100, 0
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.down = self.twice = self.mute = self.shuffled = self.short = False
        self.refuse: dict[str, tuple[int, bytes]] = {}
        self.token = ""
        self.cut_after: int | None = None
        self.bookmarks = 20.0
        self.raw: bytes | None = None
        self.open = self.cuts = 0
        self._news = asyncio.Event()

    # --- the world ------------------------------------------------------------------------

    def put(self, kind: str, made: Json) -> Json:
        """Make or change an object, as whoever owns it would."""
        here = self.objects.setdefault(kind, {})
        meta = made["metadata"]
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        old = here.get(key)
        self.version += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        made = deepcopy(made)
        made["metadata"].update({"uid": uid, "resourceVersion": str(self.version)})
        here[key] = made
        self._tell("MODIFIED" if old else "ADDED", kind, made)
        return made

    def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        """Remove an object."""
        made = deepcopy(self.objects[kind].pop(f"{namespace if kind != 'nodes' else ''}/{name}"))
        self.version += 1
        made["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", kind, made)

    def _tell(self, change: str, kind: str, made: Json) -> None:
        self.log.append((self.version, change, kind, deepcopy(made)))
        self._news.set()
        self._news = asyncio.Event()

    def forget(self) -> None:
        """Compact: no watch can go on from an earlier version; those open are ended."""
        self.version += 1
        self.oldest = self.version
        self._tell("COMPACTED", "", {})

    # --- the network ----------------------------------------------------------------------

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as an API server does."""
        path, params = request.url.path, dict(request.url.params)
        self.asked.append((path, params))
        await asyncio.sleep(0.01)
        if self.down:
            raise httpx2.ConnectError("refused")
        told = request.headers.get("Authorization", "")
        if self.token and told != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        parts = path.strip("/").split("/")
        kind = ("metrics/" if "metrics.k8s.io" in path else "") + parts[-1]
        if kind in self.refuse:
            code, body = self.refuse[kind]
            return httpx2.Response(code, content=body, headers={"Content-Type": "text/html"})
        place = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
        if params.get("watch") == "true":
            since = int(params["resourceVersion"])
            if since < self.oldest:
                return _status(410, "too old resource version")
            return httpx2.Response(
                200,
                headers={"Content-Type": "application/json"},
                stream=_Lines(self._events(kind, place, since)),
            )
        return self._list(kind, place, params)

    def _list(self, kind: str, place: str | None, params: dict[str, str]) -> httpx2.Response:
        if kind not in self.objects:
            return _status(404, "the server could not find the requested resource")
        items = [
            each
            for each in self.objects[kind].values()
            if place in {None, each["metadata"].get("namespace")}
            and params.get("labelSelector", "") in {"", *each["metadata"].get("labels", {})}
            and params.get("fieldSelector", "") in {"", f"metadata.name={each['metadata']['name']}"}
        ]
        start, limit = int(params.get("continue", 0)), int(params.get("limit", 500))
        meta: Json = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return httpx2.Response(200, json={"metadata": meta, "items": items[start : start + limit]})

    async def _events(self, kind: str, place: str | None, since: int) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            if self.raw is not None:
                while True:
                    yield self.raw
                    await asyncio.sleep(0)
            sent = 0
            while not self.short:
                news = self._news
                found = [
                    each
                    for each in self.log
                    if each[0] > since
                    and each[2] == kind
                    and place in {None, each[3]["metadata"].get("namespace")}
                ]
                for version, change, _, made in found[::-1] if self.shuffled else found:
                    line = json.dumps({"type": change, "object": made}).encode() + b"\n"
                    yield line * (2 if self.twice else 1)
                    since, sent = max(since, version), sent + 1
                    if self.cut_after is not None and sent >= self.cut_after:
                        self.cuts += 1
                        raise httpx2.RemoteProtocolError("peer closed connection without sending")
                try:
                    async with asyncio.timeout(self.bookmarks):
                        await news.wait()
                except TimeoutError:
                    if not self.mute:
                        yield _bookmark(self.version)
                if since < self.oldest:
                    gone = {
                        "kind": "Status",
                        "code": 410,
                        "message": "too old",
                        "reason": "Expired",
                    }
                    yield json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
                    return
        finally:
            self.open -= 1


class _Lines(httpx2.AsyncByteStream):
    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for line in self._lines:
            yield line

    async def aclose(self) -> None:
        await self._lines.aclose()  # type: ignore[attr-defined]


def _bookmark(version: int) -> bytes:
    """Return a bookmark as a real API server sends it: with what a pod must have, but empty."""
    made = {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
        "spec": {"containers": None}, "status": {},
    }  # fmt: skip
    return json.dumps({"type": "BOOKMARK", "object": made}).encode() + b"\n"


def _status(code: int, message: str) -> httpx2.Response:
    return httpx2.Response(code, json={"kind": "Status", "code": code, "message": message})


# --- what looks at it ----------------------------------------------------------------------

KUBECONFIG = """
current-context: lab
contexts: [{name: lab, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://cluster.test:6443"}}]
users: [{name: u, user: {token: "%s"}}]
"""


class Kubeconfigs:
    """Secrets that hold one kubeconfig, whose token a test replaces."""

    def __init__(self, token: str = "t1") -> None:
        self.token = token
        self.text: str | None = None
        self.read = 0

    def resolve(self, ref: SecretRef) -> str:
        del ref
        self.read += 1
        return KUBECONFIG % self.token if self.text is None else self.text


def cluster(**access: Any) -> Cluster:
    """Return a cluster that is reached by a kubeconfig."""
    kubernetes = KubernetesAccess(kubeconfig=SecretRef(env="LABFLEET_SECRET_KUBE"), **access)
    return Cluster(
        metadata=Metadata(name="c1", uid="cluster-1", generation=1),
        spec=ClusterSpec(kubernetes=kubernetes),
    )


def viewer(
    server: ScriptedCluster, secrets: Kubeconfigs | None = None, **bounds: Any
) -> KubernetesViewer:
    """Return a viewer whose network is the scripted server."""

    def connect(reached: Reached, limits: Bounds) -> LightkubeApi:
        return LightkubeApi(reached, limits, server)

    return KubernetesViewer(
        secrets or Kubeconfigs(),
        VirtualClock(),
        SeededRng("view"),
        connect=connect,
        bounds=Bounds(**bounds),
    )


@contextlib.asynccontextmanager
async def looking(seen: KubernetesViewer) -> AsyncIterator[None]:
    """Run a viewer's sessions for as long as a story lasts."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(seen.run())
        await asyncio.sleep(0.01)
        yield
        task.cancel()


def story(
    tell: Callable[[ScriptedCluster, Callable[[], Awaitable[ClusterView]]], Awaitable[None]],
    *,
    of: Cluster | None = None,
    secrets: Kubeconfigs | None = None,
    **bounds: Any,
) -> None:
    """Play a story with a server of one node and a function that looks at it, in virtual time."""

    async def played() -> None:
        server = ScriptedCluster()
        server.put("nodes", node("n1"))
        seen = viewer(server, secrets, **bounds)

        async def look() -> ClusterView:
            found = await seen.view(of or cluster())
            assert found is not None
            return found

        async with looking(seen):
            await tell(server, look)
        await asyncio.sleep(0)
        assert server.open == 0

    play(played)
