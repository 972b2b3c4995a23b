"""Every reader of figures tells the same of one world: PromQL, and metrics.k8s.io."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

for folder in ("adapters_kubernetes", "adapters_metrics", "controllers"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import scripted_cluster
import scripted_promql
from scripted_cluster import ScriptedCluster
from scripted_promql import ScriptedPromql
from virtual_time import play

from labfleet.adapters.metrics.promql import PromqlReader
from labfleet.interfaces.cluster_meter import FigureReader, Reading
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import VirtualClock
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure, MetricsKind, MetricsSource

MIB = 2**20
BOTH = (Figure.RUN_CPU, Figure.RUN_MEMORY, Figure.NODE_CPU, Figure.NODE_MEMORY)
WORLD = {"run-a": (1500, 200), "": (250, 100)}
"""By run its milli-CPU and MiB; node n1 has 1750 and 300."""


class World(Protocol):
    """One world that a reader reads, and what a test does to it."""

    reader: FigureReader
    cluster: Cluster
    source: MetricsSource

    def age(self, seconds: float) -> None:
        """Make all that is measured of run-a so old."""

    def fail(self, how: str) -> None:
        """Be `down`, or `refuse` who asks."""

    def lose(self) -> None:
        """Have no figure of run-a any more."""


@dataclass
class OfPromql:
    reader: FigureReader
    server: ScriptedPromql
    cluster: Cluster
    source: MetricsSource

    def age(self, seconds: float) -> None:
        self.server.ages["run-a"] = seconds

    def fail(self, how: str) -> None:
        self.server.down = how == "down"
        if how == "refuse":
            self.server.answers[""] = (403, b"")

    def lose(self) -> None:
        for figure in (Figure.RUN_CPU, Figure.RUN_MEMORY):
            self.server.rows[figure] = {"": self.server.rows[figure][""]}


@dataclass
class OfKubernetes:
    reader: FigureReader
    server: ScriptedCluster
    cluster: Cluster
    source: MetricsSource

    def age(self, seconds: float) -> None:
        for key, each in self.server.objects["metrics/pods"].items():
            if "a-" in key:
                each["timestamp"] = f"2026-11-26T23:{59 - int(seconds // 60)}:00Z"

    def fail(self, how: str) -> None:
        self.server.down = how == "down"
        if how == "refuse":
            self.server.refuse = {"metrics/pods": (403, b""), "metrics/nodes": (403, b"")}

    def lose(self) -> None:
        del self.server.objects["metrics/pods"]["default/a-1"]


@contextlib.asynccontextmanager
async def promql() -> AsyncIterator[World]:
    """The world as a PromQL server tells it."""
    server = ScriptedPromql()
    server.rows = {
        Figure.RUN_CPU: {run: cpu / 1000 for run, (cpu, _) in WORLD.items()},
        Figure.RUN_MEMORY: {run: mib * MIB for run, (_, mib) in WORLD.items()},
        Figure.NODE_CPU: {"n1": 1.75},
        Figure.NODE_MEMORY: {"n1": 300 * MIB},
    }
    reader = PromqlReader(
        scripted_promql.Named(), VirtualClock(), connect=lambda *_: server
    )  # fmt: skip
    source = scripted_promql.source()
    yield OfPromql(reader, server, scripted_promql.cluster(source), source)


def figures(name: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    use = {"usage": {"cpu": cpu, "memory": memory}}
    meta = {"name": name, **({} if more else {"namespace": "default"})}
    inside = use if more else {"containers": [use]}
    return {"metadata": meta, "timestamp": "2026-11-27T00:00:00Z", **inside}


@contextlib.asynccontextmanager
async def kubernetes() -> AsyncIterator[World]:
    """The world as metrics.k8s.io tells it."""
    server = ScriptedCluster()
    server.put("nodes", scripted_cluster.node("n1"))
    for name, run in (("a-0", "run-a"), ("a-1", "run-a"), ("x-0", "")):
        server.put("pods", scripted_cluster.pod(name, run))
    server.put("metrics/pods", figures("a-0", "1000000000n", "102400Ki"))
    server.put("metrics/pods", figures("a-1", "500m", "100Mi"))
    server.put("metrics/pods", figures("x-0", "250m", "100Mi"))
    server.put("metrics/nodes", figures("n1", "1750m", "300Mi", node=True))
    seen = scripted_cluster.viewer(server)
    source = MetricsSource(name="k8s", kind=MetricsKind.KUBERNETES)
    of = scripted_cluster.cluster()
    spec = msgspec.structs.replace(of.spec, metrics=(source,))
    async with scripted_cluster.looking(seen):
        yield OfKubernetes(seen, server, msgspec.structs.replace(of, spec=spec), source)


WORLDS = [pytest.param(promql, id="promql"), pytest.param(kubernetes, id="metrics.k8s.io")]


def read(world: Any, then: Any = lambda _: None, wanted: Any = BOTH) -> Reading:
    """Return what a reader says after something was done to its world; its error is raised."""
    found: list[Reading] = []
    failed: list[errors.LabfleetError] = []

    async def story() -> None:
        async with world() as it:
            then(it)
            try:
                found.append(await it.reader.read(it.cluster, it.source, wanted))
            except errors.LabfleetError as problem:
                failed.append(problem)
        await asyncio.sleep(0)

    play(story)
    if failed:
        raise failed[0]
    return found[0]


@pytest.mark.parametrize("world", WORLDS)
def test_runs_others_and_nodes_are_told_in_our_units(world: Any) -> None:
    """By run and node; what is of no run is one sum of its own."""
    found = read(world)
    assert found.values[Figure.RUN_CPU] == {run: cpu for run, (cpu, _) in WORLD.items()}
    assert found.values[Figure.RUN_MEMORY] == {run: mib for run, (_, mib) in WORLD.items()}
    assert found.values[Figure.NODE_CPU] == {"n1": 1750}
    assert found.values[Figure.NODE_MEMORY] == {"n1": 300}
    assert found.gaps == {}


@pytest.mark.parametrize("world", WORLDS)
def test_only_what_is_asked_for_is_told(world: Any) -> None:
    """A figure that somebody else knows already costs nothing."""
    found = read(world, wanted=(Figure.NODE_CPU,))
    assert set(found.values) == {Figure.NODE_CPU}


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_not_measured_is_absent_and_a_gap(world: Any) -> None:
    """Network of metrics.k8s.io, storage of a PromQL server without it: never 0."""
    found = read(world, wanted=(Figure.RUN_NETWORK_IN, Figure.NODE_STORAGE))
    assert found.values == {}
    assert set(found.gaps) == {Figure.RUN_NETWORK_IN, Figure.NODE_STORAGE}


@pytest.mark.parametrize("world", WORLDS)
def test_a_run_of_which_a_part_is_not_known_is_not_known(world: Any) -> None:
    """The rest of it would look like all of it."""
    found = read(world, lambda it: it.lose())
    assert "run-a" not in found.values[Figure.RUN_CPU]
    assert found.values[Figure.RUN_CPU][""] == 250


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_older_than_its_source_allows_is_not_told(world: Any) -> None:
    """Two minutes by default; the gap names what is old."""
    found = read(world, lambda it: it.age(180))
    assert "run-a" not in found.values[Figure.RUN_MEMORY]
    assert found.gaps[Figure.RUN_MEMORY]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("how", "kind"), [("down", errors.Temporary), ("refuse", errors.Denied)])
def test_a_source_that_cannot_be_asked_is_an_error(
    world: Any, how: str, kind: type[errors.LabfleetError]
) -> None:
    """Which is not a source that knows nothing; it names its cluster."""
    with pytest.raises(kind, match="cluster c1: "):
        read(world, lambda it: it.fail(how))


def test_without_metrics_server_the_error_says_what_to_install() -> None:
    """A 404 of the whole API; a cluster that names no API server is told to."""

    def without(it: Any) -> None:
        del it.server.objects["metrics/pods"]

    with pytest.raises(errors.Temporary, match="install metrics-server"):
        read(kubernetes, without)

    async def story() -> None:
        async with kubernetes() as it:
            bare = scripted_promql.cluster(it.source)
            with pytest.raises(errors.Invalid, match=r"say in spec\.kubernetes"):
                await it.reader.read(bare, it.source, BOTH)

    play(story)
