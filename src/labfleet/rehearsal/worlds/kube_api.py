"""The API servers of the rehearsal's clusters, without HTTP: what the Kubernetes adapter asks of one.

The product's own viewer keeps its lists and watches over it; only what carries them is left out. Objects
are those of the simulator, read as the adapter reads them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.inputs import Json, stamp
from kubernetes_simulator.core.kinds import NODES, PODS, RESOURCES
from kubernetes_simulator.core.node_use import node_takes
from labfleet.adapters.kubernetes.access import Reached
from labfleet.adapters.kubernetes.calls import Api, Bounds, Change, Listed, What
from labfleet.adapters.kubernetes.objects import (
    Measured,
    Meta,
    NodeFigures,
    NodeObject,
    OwnerObject,
    PodFigures,
    PodObject,
)
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.virtual_host import FixedSecrets
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.kube_cluster import NOTHING, TOO_LARGE, KubeCluster, Told
from labfleet.resources.cluster_access import RUN_LABEL
from labfleet.resources.meta import SecretRef

CALL_SECONDS = 0.02
BOOKMARK_SECONDS = 60.0
FIGURES_WINDOW = 15.0
"""Seconds over which metrics.k8s.io takes its rates."""
CONFIG = "KUBECONFIG_"
_KEPT = 4000
_TYPES: dict[What, Any] = {What.NODES: NodeObject, What.PODS: PodObject}
_BY_PLURAL = {each.plural: each for each in RESOURCES}


class ClusterSecrets(FixedSecrets):
    """Gives a kubeconfig for the variable that is named after a cluster."""

    def resolve(self, ref: SecretRef) -> str:
        """Return a kubeconfig, or what every other reference leads to."""
        if ref.env is None or not ref.env.startswith(CONFIG):
            return super().resolve(ref)
        name = ref.env.removeprefix(CONFIG).lower()
        made = {
            "clusters": [{"name": "c", "cluster": {"server": f"https://{name}"}}],
            "users": [{"name": "u", "user": {"token": super().resolve(ref)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return msgspec.json.encode(made).decode()


class ApiServers:
    """Connects one process to the API servers of all clusters."""

    def __init__(self, world: Clusters, injector: FaultInjector) -> None:
        self._world = world
        self._injector = injector

    def connect(self, reached: Reached, bounds: Bounds) -> Api:
        """Return a connection to the API server that a kubeconfig names."""
        name = str(reached.cluster["server"]).removeprefix("https://")
        return WorldApi(self._world.places[name], self._injector, bounds)


class WorldApi:
    """One process's connection to one API server."""

    def __init__(self, place: KubeCluster, injector: FaultInjector, bounds: Bounds) -> None:
        self._place = place
        self._injector = injector
        self._bounds = bounds

    async def listed(
        self,
        what: What,
        namespace: str | None,
        *,
        label: str | None = None,
        name: str | None = None,
    ) -> Listed:
        """Return all objects, as the interface says."""
        await self._call(f"list {what}")
        world = self._place.settle()
        version = str(world.store.revision)
        figures = what in {What.POD_FIGURES, What.NODE_FIGURES}
        self._place.asked = self._place.asked or figures
        if figures and self._place.clock_off:
            self._injector.holds("source_clock", self._place.name)
        if figures and self._injector.holds("metrics_stopped", self._place.name):
            raise errors.Unreachable(f"list {what}: no answer")
        if figures and self._place.lies:
            self._injector.holds("metrics_wrong", self._place.name)
            if self._place.lies == NOTHING:
                return Listed([], version)
        if what is What.POD_FIGURES:
            return Listed(_pod_figures(self._place), version)
        if what is What.NODE_FIGURES:
            return Listed(_node_figures(self._place), version)
        resource = _BY_PLURAL.get(str(what))
        if resource is None:
            raise errors.Gone(f"list {what}: the server has no such resource")
        found = [
            each
            for each in world.store.all(resource, namespace or "")
            if (label is None or label in (each["metadata"].get("labels") or {}))
            and (name is None or each["metadata"]["name"] == name)
        ]
        return Listed([_read(self._place, what, each) for each in found], version)

    async def watched(
        self, what: What, namespace: str | None, version: str
    ) -> AsyncGenerator[Change, None]:
        """Yield what changes, as the interface says."""
        await self._call(f"watch {what}")
        place, revision, path = self._place, int(version), _BY_PLURAL[str(what)].path
        heard, cuts = place.listener(), place.cuts
        while True:
            heard.clear()
            if place.silent_since is not None:
                await heard.wait()
                continue
            if place.cuts != cuts:
                raise errors.Unreachable(f"watch {what}: the connection was cut")
            try:
                changes = place.world.store.since(revision)
            except ApiError as old:
                raise errors.TooOld(old.message) from None
            revision = place.world.store.revision
            for change in changes:
                if change.path == path and namespace in {None, change.name[0]}:
                    yield change.kind, _read(place, what, change.obj)
            try:
                async with asyncio.timeout(BOOKMARK_SECONDS):
                    await heard.wait()
            except TimeoutError:
                yield "BOOKMARK", _TYPES[what](metadata=Meta(resourceVersion=str(revision)))

    async def close(self) -> None:
        """Nothing is held."""

    async def _call(self, what: str) -> None:
        """Make a call: it takes a moment, or gets no answer."""
        await asyncio.sleep(CALL_SECONDS)
        if self._injector.holds("api_silent", self._place.name):
            await asyncio.sleep(self._bounds.call)
            raise errors.Unreachable(f"{what}: no answer in time", reason="Timeout")


def _read(place: KubeCluster, what: What, obj: Json) -> Any:
    """Return an object as the adapter decodes it; each version of one is read once."""
    key = (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
    found = place.decoded.get(key)
    if found is None:
        if len(place.decoded) >= _KEPT:
            place.decoded.clear()
        found = place.decoded[key] = msgspec.convert(obj, _TYPES.get(what, OwnerObject))
    return found


def _pod_figures(place: KubeCluster) -> list[PodFigures]:
    """Return what metrics.k8s.io says of the pods that run, and note what is told of each run."""
    world, found = place.world, []
    sums: dict[str, list[tuple[float, float]]] = {}
    for pod in world.store.all(PODS):
        meta = pod["metadata"]
        run = world.runs.get(meta["uid"])
        attempt = None if run is None else run.attempt
        if run is None or attempt is None or run.node in world.silent:
            continue
        age = min(FIGURES_WINDOW, max(world.now - attempt.began, 1e-3))
        cores, held = run.mean("cpu", world.now, age), run.takes("memory", world.now)
        usage = _usage(place, cores, held)
        found.append(
            PodFigures(
                metadata=Meta(name=meta["name"], namespace=meta["namespace"]),
                timestamp=stamp(world.now + place.clock_off),
                containers=[Measured(usage=usage)],
            )
        )
        label = (meta.get("labels") or {}).get(RUN_LABEL)
        if label is not None:
            # The adapter rounds up what pods take.
            row = (math.ceil(cores * 1000), math.ceil(held / 2**20))
            sums.setdefault(label, []).append(row)
    for label, rows in sums.items() if not place.lies else ():
        told = place.told.setdefault(label, {})
        for at, figure in enumerate(("cpu_milli", "memory_mib")):
            values = [row[at] for row in rows]
            one = told.setdefault(figure, Told())
            one.add(min(values))
            one.add(sum(values))
    return found


def _usage(place: KubeCluster, cores: float, held: float) -> dict[str, str | int | float]:
    """Return an amount as metrics.k8s.io writes it, or far too much of it while it lies."""
    many = TOO_LARGE if place.lies else 1.0
    return {"cpu": f"{cores * many * 1e9:.0f}n", "memory": f"{held * many / 1024:.0f}Ki"}


def _node_figures(place: KubeCluster) -> list[NodeFigures]:
    found = []
    for _, name in sorted(place.world.store.tables[NODES.path]):
        if name in place.world.silent:
            continue
        cores, held = node_takes(place.world, name, FIGURES_WINDOW)
        usage = _usage(place, cores, held)
        meta = Meta(name=name)
        found.append(
            NodeFigures(
                metadata=meta, timestamp=stamp(place.world.now + place.clock_off), usage=usage
            )
        )
    return found
