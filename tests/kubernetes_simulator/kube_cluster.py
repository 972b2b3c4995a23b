"""A simulated cluster whose clock only tests move, asked without sockets."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kubernetes_simulator.app import App
from kubernetes_simulator.core.access import ADMIN, Access
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.settings import Settings
from kubernetes_simulator.core.settling import founded, settle
from kubernetes_simulator.core.world import World
from kubernetes_simulator.routes import control, dispatch
from kubernetes_simulator.routes.objects import Stream
from kubernetes_simulator.routes.web import Reply, Request

START = 1_800_000_000.0
TOKEN = "admin-token"


@dataclass
class Cluster:
    """A world, its time, and a caller with a token."""

    world: World
    now: float = START
    token: str = TOKEN

    def send(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json",
        accept: str = "application/json", **query: str,
    ) -> Reply | Stream:  # fmt: skip
        headers = {"authorization": f"Bearer {self.token}", "accept": accept, "content-type": kind}
        data = b"" if body is None else json.dumps(body).encode()
        asked = {key.replace("_", ""): value for key, value in query.items()}
        return dispatch.answer(self.world, Request(method, path, asked, headers, data), self.now)

    def ask(self, method: str, path: str, body: Any = None, *, want: int = 200, **more: Any) -> Any:
        reply = self.send(method, path, body, **more)
        assert isinstance(reply, Reply)
        assert reply.status == want, (reply.status, reply.body[:600])
        return json.loads(reply.body)

    def get(self, path: str, **more: Any) -> Any:
        return self.ask("GET", path, **more)

    def make(self, path: str, body: Json) -> Json:
        return self.ask("POST", path, body, want=201)

    def control(
        self, method: str, path: str, body: Any = None, *, want: int = 200, **query: str
    ) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, f"/_control/{path}", query, {}, data)
        reply = control.answer(self.world, request, self.now)
        assert reply.status == want, (reply.status, reply.body[:600])
        return json.loads(reply.body)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        settle(self.world, self.now)

    def pods(self, namespace: str = "default", **query: str) -> list[Json]:
        return self.get(f"/api/v1/namespaces/{namespace}/pods", **query)["items"]


def pod(name: str, *, cpu: str = "100m", memory: str = "64Mi", policy: str = "Never",
        node: str | None = None, limits: Json | None = None, **notes: str) -> Json:  # fmt: skip
    """Return a pod of one container; notes are the simulator's annotations."""
    spec: Json = {
        "restartPolicy": policy,
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits or {}},
            }
        ],
    }
    if node is not None:
        spec["nodeName"] = node
    said = {f"kubernetes-simulator/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {"metadata": {"name": name, "annotations": said, "labels": {"name": name}}, "spec": spec}


def template(**notes: str) -> Json:
    """Return a template of such a pod for workloads, labelled app=web."""
    made = pod("x", policy="Always", **notes)
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": made["metadata"]["annotations"]},
        "spec": made["spec"],
    }


def deployment(name: str, replicas: int, **more: Any) -> Json:
    """Return a deployment of such pods."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **more,
        },
    }


def job(name: str, *, notes: Json | None = None, **spec: Any) -> Json:
    """Return a job of such pods."""
    made = template(**(notes or {}))
    made["spec"]["restartPolicy"] = "Never"
    return {"metadata": {"name": name}, "spec": {**spec, "template": made}}


def cluster_of(
    nodes: int = 3, cpu: str = "4", memory: str = "16Gi", *, seed: int = 1, **settings: Any
) -> Cluster:
    """Return a new cluster."""
    access = Access()
    access.allow(TOKEN, ADMIN)
    made = Settings(seed=seed, **settings)
    world = founded(made, random.Random(seed), access, START, (nodes, cpu, memory))
    return Cluster(world)


@dataclass
class Wire:
    """An HTTP exchange with the application: what it sent, and how the caller leaves."""

    lines: asyncio.Queue[bytes]
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def event(self) -> tuple[str, Json]:
        row = json.loads(await self.lines.get())
        return row["type"], row["object"]


@asynccontextmanager
async def opened(app: App, path: str, query: str = "", method: str = "GET", body: bytes = b"",
                 token: str = TOKEN) -> AsyncIterator[Wire]:  # fmt: skip
    """Send a request to the application and yield its exchange while it lasts."""
    wire = Wire(asyncio.Queue())
    sent = False

    async def receive() -> Json:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await wire.gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            wire.status = message["status"]
            wire.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        elif message["body"]:
            await wire.lines.put(message["body"])

    def cut(*, flush: bool = False) -> None:
        wire.cut = True

    scope = {
        "type": "http", "method": method, "path": path, "query_string": query.encode(),
        "headers": [(b"authorization", f"Bearer {token}".encode()),
                    (b"accept", b"application/json"), (b"content-type", b"application/json")],
        "extensions": {"kubernetes_simulator.abort": {"cut": cut}},
    }  # fmt: skip

    async def play() -> None:
        await app(scope, receive, send)
        wire.over.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(play())
        yield wire
        wire.gone.set()
        await task
