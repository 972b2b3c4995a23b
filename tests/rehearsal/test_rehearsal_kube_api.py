"""API servers of a rehearsal: the product's own viewer over the simulator's core, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubernetes_simulator.core import nodes
from labfleet.adapters.kubernetes.calls import Bounds, What
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SeededRng, VirtualClock
from labfleet.rehearsal.worlds.cluster_looks import NotedMeter, NotedViewer
from labfleet.rehearsal.worlds.clusters import Clusters, Script, Shape
from labfleet.rehearsal.worlds.kube_api import ApiServers, ClusterSecrets, WorldApi
from labfleet.rehearsal.worlds.kube_cluster import LARGE, NOTHING
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import Figure, KubernetesAccess, MetricsKind, MetricsSource
from labfleet.resources.meta import Metadata, SecretRef

KUBELETS = MetricsSource(name="kubelets", kind=MetricsKind.KUBERNETES)
CLUSTER = Cluster(
    metadata=Metadata(name="a", uid="uid-a"),
    spec=ClusterSpec(
        kubernetes=KubernetesAccess(kubeconfig=SecretRef(env="KUBECONFIG_A")), metrics=(KUBELETS,)
    ),
)


class Fleet:
    """Cluster `a` with one run of two pods, and a viewer of one process."""

    def __init__(self, loop: loops.Loop) -> None:
        self.loop = loop
        self.injector = faults.FaultInjector(faults.FaultPlan(), SeededRng("luck"))
        self.world = Clusters(loop, SeededRng("world"), self.spawn)
        self.place = self.world.found("a", (32_000.0, 49_152.0, 300_000.0))
        self.script = Script(1.0, "a", "waku", keyed=True)
        servers = ApiServers(self.world, self.injector)
        self.viewer = NotedViewer(
            ClusterSecrets(), VirtualClock(), SeededRng("viewer"), connect=servers.connect
        )
        self.viewer.world = self.world
        self.spawn("viewer", self.viewer.run())

    def spawn(self, name: str, coro: Any) -> None:
        """Run a task of the world."""
        del name
        self.loop.create_task(coro)

    def begin(self, seconds: float = 1000.0) -> None:
        """Let the run start, as two pods."""
        need = Shape((4000.0, 4096.0, 9000.0), seconds)
        rng = next(r for n in range(9) if (r := SeededRng(str(n))).stream("x").below(2))
        self.world.begin(self.script, "sim", need, rng.stream("x"))


def played(story: Callable[[Fleet], Awaitable[None]]) -> None:
    """Play a story in virtual time, ten seconds after its cluster was founded."""

    async def main(loop: loops.Loop) -> None:
        fleet = Fleet(loop)
        await asyncio.sleep(10)
        await story(fleet)

    loops.run(1, main)


def test_a_view_follows_a_run_from_its_first_pod_to_its_end() -> None:
    """Pending, running and over are seen as they come, by watches; nodes say what they have."""

    async def story(fleet: Fleet) -> None:
        empty = await fleet.viewer.view(CLUSTER)
        assert empty is not None
        assert [each.allocatable["cpu_milli"] for each in empty.nodes] == [24_000, 24_000]
        assert not empty.runs
        fleet.begin()
        await asyncio.sleep(1)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert (found.runs["sim"].pending, found.runs["sim"].running) == (2, 0)
        await asyncio.sleep(30)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert (found.runs["sim"].pending, found.runs["sim"].running) == (0, 2)
        assert len(fleet.place.views["sim"]) == 1
        await asyncio.sleep(1000)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert found.over["sim"].reason == fleet.world.how(fleet.script) == "Completed"

    played(story)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_cut_watch_loses_nothing(forgets: bool) -> None:
    """What changed while nobody watched is seen, also when the server has forgotten it."""

    async def story(fleet: Fleet) -> None:
        await fleet.viewer.view(CLUSTER)
        fleet.begin()
        await asyncio.sleep(30)
        assert fleet.place.cut()
        fleet.world.end(fleet.script)
        await asyncio.sleep(3)
        if forgets:
            fleet.place.settle().store.compact()
        await asyncio.sleep(30)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert not found.runs
        assert found.over["sim"].reason == "Gone"

    played(story)


def test_a_silent_server_is_an_error_in_time_and_is_heard_again() -> None:
    """Within its bounds a view goes on being told, then it is none, and comes back by itself."""

    async def story(fleet: Fleet) -> None:
        await fleet.viewer.view(CLUSTER)
        end = fleet.injector.begin("api_silent", "a")
        fleet.place.silent(on=True)
        await asyncio.sleep(Bounds().old + 60)
        with pytest.raises(errors.Temporary):
            await fleet.viewer.view(CLUSTER)
        assert fleet.place.blind_since("Kubernetes") is not None
        assert fleet.injector.counts["api_silent"] == 1
        fleet.place.silent(on=False)
        end()
        await asyncio.sleep(120)
        assert await fleet.viewer.view(CLUSTER) is not None
        assert fleet.place.blind_since("Kubernetes") is None

    played(story)


def test_a_node_that_is_cut_off_is_seen_not_to_be_ready() -> None:
    """It is there still, and takes no pods until it is back."""

    async def story(fleet: Fleet) -> None:
        await fleet.viewer.view(CLUSTER)
        nodes.silence(fleet.place.settle(), "node-1")
        fleet.place.settle()
        await asyncio.sleep(120)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert [each.ready for each in found.nodes] == [False, True]
        assert fleet.world.short("a")
        nodes.wake(fleet.place.settle(), "node-1")
        fleet.place.settle()
        await asyncio.sleep(5)
        found = await fleet.viewer.view(CLUSTER)
        assert found is not None
        assert [each.ready for each in found.nodes] == [True, True]

    played(story)


def test_metrics_of_the_api_are_of_running_pods_and_lie_by_the_fault() -> None:
    """A clock that is a little wrong is nothing; what lies is not kept as told; stopped is an error."""

    async def story(fleet: Fleet) -> None:
        await fleet.viewer.view(CLUSTER)
        fleet.begin()
        await asyncio.sleep(300)
        wanted = (Figure.RUN_CPU, Figure.NODE_CPU)
        true = await fleet.viewer.read(CLUSTER, KUBELETS, wanted)
        truth = fleet.world.load("a")[0]
        assert true.values[Figure.RUN_CPU]["sim"] == pytest.approx(truth, rel=0.1)
        told = fleet.place.told["sim"]["cpu_milli"].most
        fleet.place.clock_off = -40.0
        assert (await fleet.viewer.read(CLUSTER, KUBELETS, wanted)).values == true.values
        fleet.place.clock_off = 3600.0
        assert not (await fleet.viewer.read(CLUSTER, KUBELETS, wanted)).values
        fleet.place.clock_off = 0.0
        fleet.place.lies = LARGE
        wrong = await fleet.viewer.read(CLUSTER, KUBELETS, wanted)
        assert wrong.values[Figure.RUN_CPU]["sim"] > 1000 * truth
        assert fleet.place.told["sim"]["cpu_milli"].most == told
        fleet.place.lies = NOTHING
        none = await fleet.viewer.read(CLUSTER, KUBELETS, wanted)
        assert not none.values
        fleet.place.lies = ""
        fleet.injector.begin("metrics_stopped", "a")
        with pytest.raises(errors.Unreachable):
            await fleet.viewer.read(CLUSTER, KUBELETS, wanted)

    played(story)


class Says:
    """A meter that says this."""

    def __init__(self, load: dict[str, float]) -> None:
        self._load = load

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return the load, or raise when there is none to be told."""
        if not self._load:
            raise errors.Unreachable(f"{cluster.name} is away")
        return ClusterUsage(VirtualClock().now(), self._load)


def test_what_was_told_is_noted_by_whether_it_is_true() -> None:
    """Good figures clear what was noted; an error, and what cannot be, begin to be noted."""

    async def story(fleet: Fleet) -> None:
        fleet.begin()
        await asyncio.sleep(60)
        held = list[str]()
        good = NotedMeter(Says({"cpu_milli": 5.0}), fleet.world, lambda: held)
        away = NotedMeter(Says({}), fleet.world, lambda: held)
        await good.usage(CLUSTER)
        assert fleet.place.blind_since("metrics") is None
        with pytest.raises(errors.Unreachable):
            await away.usage(CLUSTER)
        begun = fleet.place.blind_since("metrics")
        assert begun == pytest.approx(70, abs=1)
        fleet.place.lies = LARGE
        await good.usage(CLUSTER)
        assert fleet.place.blind_since("metrics") == begun
        fleet.place.lies = NOTHING
        await good.usage(CLUSTER)
        assert fleet.place.blind_since("metrics") is None, "nobody can know: no run holds anything"
        await fleet.viewer.view(CLUSTER)
        held.append("sim")
        await good.usage(CLUSTER)
        assert fleet.place.blind_since("metrics") is not None

    played(story)


def test_an_api_without_a_resource_says_so() -> None:
    """Its simulator has no DaemonSets, as a server may have no metrics."""

    async def story(fleet: Fleet) -> None:
        api = WorldApi(fleet.place, fleet.injector, Bounds())
        with pytest.raises(errors.Gone):
            await api.listed(What.DAEMON_SETS, None)

    played(story)
