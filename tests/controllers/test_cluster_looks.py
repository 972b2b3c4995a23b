"""Clusters that are looked at: safe mode comes and goes, and pods speak for runs that are silent."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_time import play
from world import ADMIN, World, world

from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.interfaces.cluster_view import ClusterView, NodeView, RunOver, RunPods
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_conditions import ClusterCondition, SimulationCondition
from labfleet.resources.history import Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Metadata
from labfleet.resources.simulation import Simulation
from labfleet.service.reads import explain
from labfleet.service.verbs import admission, objects

PROM = {"name": "prom", "url": "http://prom:9090"}
NODE = NodeView("n1", {"cpu_milli": 10_000, "memory_mib": 102_400})


class Seen:
    """A cluster whose nodes, pods and figures a test writes down; both sources can be away."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.nodes = [NODE]
        self.runs: dict[str, RunPods] = {}
        self.over: dict[str, RunOver] = {}
        self.requested: dict[str, int] = {}
        self.load: dict[str, float] = {"cpu_milli": 100.0, "memory_mib": 1000.0}
        self.others: dict[str, float] = {}
        self.used: dict[str, dict[str, Use]] = {}
        self.now: dict[str, dict[str, float]] = {}
        self.blind = self.unmeasured = False
        self.hangs = 0.0
        self.looks = 0

    async def view(self, cluster: Cluster) -> ClusterView | None:
        self.looks += 1
        if cluster.spec.kubernetes is None:
            return None
        if self.blind:
            raise errors.Unreachable("the API server is away")
        return ClusterView(
            self._clock.now(), tuple(self.nodes), dict(self.runs), dict(self.over), self.requested
        )

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        if not cluster.spec.metrics:
            return None
        await self._clock.sleep(self.hangs)
        if self.unmeasured:
            raise errors.Unreachable("the metrics are away")
        return ClusterUsage(
            self._clock.now(), self.load, self.used, now=self.now, others=self.others
        )


async def begun(w: World, **spec: object) -> Seen:
    """A fleet with one cluster that names its Kubernetes and a source of metrics."""
    seen = Seen(w.clock)
    w.meter = w.viewer = seen
    await w.start(run=("admission", "cluster", "upkeep"))
    await w.make("Cluster", "c1", {"kubernetes": {}, "metrics": [PROM], **spec})
    await w.until(lambda: _looked(w))
    return seen


def _looked(w: World) -> bool:
    found = w.cache.get(Cluster, "c1", "default")
    return found is not None and found.status.seen is not None


def cluster(w: World) -> Cluster:
    found = w.cache.get(Cluster, "c1", "default")
    assert found is not None
    return found


def safe(w: World) -> str:
    found = conditions.find(cluster(w).status.conditions, ClusterCondition.SAFE_MODE)
    return "" if found is None else f"{found.status} {found.reason}"


async def ask(w: World, cpu: int = 1, **more: object) -> Simulation:
    body = {"cluster": "c1", "cost": {"cpu": cpu, "memory": "1Gi"}, "durationSeconds": 3600, **more}
    assert w.process is not None
    return await admission.request_run(w.process.services, ADMIN, body, namespace="default")


def of(w: World, run: Simulation) -> Simulation:
    found = w.cache.get(Simulation, run.name, "default")
    assert found is not None
    return found


def test_silent_metrics_deny_and_their_return_admits() -> None:
    """Safe mode begins after its time, keeps those that wait, and ends by itself; runs go on."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            runs = await ask(w, 5)
            assert runs.status.phase == "APPROVED"
            seen.unmeasured = True
            await w.let_pass(60)
            assert safe(w) == "False Measured"
            assert (await ask(w)).status.phase == "APPROVED"
            await w.let_pass(120)
            assert safe(w) == "True MetricsOld"
            assert cluster(w).status.mode == "safe"
            denied = await ask(w)
            assert denied.status.decision is not None
            assert denied.status.decision.reason == "SafeMode"
            assert "the metrics are away" in denied.status.decision.message
            waits = await ask(w, queue="default")
            assert waits.status.phase == "QUEUED"
            await w.let_pass(300)
            assert of(w, waits).status.phase == "QUEUED"
            assert w.process is not None
            told = await explain.explain(
                w.process.services, ADMIN, KINDS["Simulation"], waits.name, "default"
            )
            said = "new figures of cluster c1, which is in safe mode (place 1 in its queue)"
            assert told.waiting_for == (said,)
            assert of(w, runs).status.phase == "APPROVED"
            seen.unmeasured = False
            await w.until(lambda: of(w, waits).status.phase == "APPROVED")
            assert safe(w) == "False Measured"
            assert (await ask(w)).status.phase == "APPROVED"

    play(story)


def test_looks_are_often_enough_for_the_shortest_time() -> None:
    """With 30 s, neither good looks nor one that fails are followed by safe mode."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, safeAfterSeconds=30)
            for second in range(90):
                seen.unmeasured = 40 <= second < 50
                found = await ask(w, cost={"cpu": 0, "memory": 0})
                assert found.status.phase == "APPROVED", (second, found.status.decision)
                await w.let_pass(1)

    play(story)


def test_a_source_that_hangs_makes_the_api_server_no_older() -> None:
    """Its view is heard at once: the denial names the metrics that hang."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, safeAfterSeconds=30)
            seen.hangs, seen.unmeasured = 20.0, True
            await w.let_pass(45)
            decision = (await ask(w)).status.decision
            assert decision is not None
            assert "the newest figures of its metrics are" in decision.message

    play(story)


def test_safe_mode_is_one_record_when_it_begins_and_one_when_it_ends() -> None:
    """An hour of it writes nothing more: an alert that repeats itself is read by nobody."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            await w.let_pass(60)
            before = len(await w.store.events_of(cluster(w).key))
            seen.unmeasured = True
            await w.let_pass(3600)
            assert len(await w.store.events_of(cluster(w).key)) == before + 1
            seen.unmeasured = False
            await w.let_pass(600)
            assert len(await w.store.events_of(cluster(w).key)) == before + 2

    play(story)


def test_a_silent_api_server_is_safe_mode_too_and_touches_no_run() -> None:
    """What runs is neither ended nor said to be gone while nobody sees it."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w)
            seen.runs = {run.name: RunPods(running=2)}
            await w.until(lambda: of(w, run).status.phase == "RUNNING")
            seen.blind = True
            seen.runs = {}
            await w.let_pass(1200)
            assert safe(w) == "True KubernetesSilent"
            found = conditions.find(cluster(w).status.conditions, ClusterCondition.SEEN)
            assert found is not None
            assert (found.status, found.message) == ("False", "the API server is away")
            assert of(w, run).status.phase == "RUNNING"

    play(story)


def test_figures_that_cannot_be_are_not_believed() -> None:
    """More use than all nodes have: nothing is counted by it, and after its time it is safe mode."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            before = cluster(w).status.overload
            seen.load = {"cpu_milli": 16_000.0}
            await w.let_pass(240)
            assert safe(w) == "True Contradicting"
            assert cluster(w).status.overload == before

    play(story)


@pytest.mark.parametrize("load", [{"cpu_milli": 1e9}, {"cpu_milli": 100.0}, {}])
def test_figures_are_checked_by_what_the_nodes_had_while_they_are_not_seen(
    load: dict[str, float],
) -> None:
    """With its API server silent too, what cannot be is not kept as what a run has used."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w, 5)
            seen.blind = True
            seen.load, seen.now = load, {run.name: {"cpu_milli": 1e9}}
            await w.let_pass(150)
            assert of(w, run).status.used == {}
            assert safe(w).startswith("True")

    play(story)


def test_declared_decides_in_safe_mode_where_that_is_asked_for() -> None:
    """By what callers state alone, and the decision says by which rule."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, whenBlind="declared")
            seen.unmeasured = True
            await w.let_pass(300)
            assert safe(w) == "True MetricsOld"
            run = await ask(w)
            assert run.status.phase == "APPROVED"
            assert run.status.decision is not None
            assert run.status.decision.rule == "declared"

    play(story)


def test_the_mode_of_a_cluster_is_unknown_until_its_first_look() -> None:
    """No mode is told of a cluster that nobody has looked at; then each has its own."""
    spec = ClusterSpec(capacity=Amounts(cpu_milli=1000))
    assert Cluster(metadata=Metadata(name="c9"), spec=spec).status.mode is None

    async def story() -> None:
        async with world() as w:
            await begun(w, metrics=[])
            assert cluster(w).status.mode == "unmeasured"

    play(story)


def test_a_cluster_without_a_source_of_metrics_is_never_in_safe_mode() -> None:
    """It is decided by predictions and declared values, and says so."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, metrics=[])
            seen.blind = True
            await w.let_pass(3600)
            assert (await ask(w)).status.phase == "APPROVED"
            assert safe(w) == ""
            assert w.process is not None
            told = await explain.explain(
                w.process.services, ADMIN, KINDS["Cluster"], "c1", "default"
            )
            assert told.phase == "unmeasured"
            assert "predictions and declared values decide" in told.summary

    play(story)


def test_a_new_leader_believes_its_predecessor_until_its_first_look() -> None:
    """A restart denies nothing at once, though its first looks fail; a source that stays away does."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            await w.let_pass(60)
            seen.unmeasured = seen.blind = True
            await w.start(run=("admission", "cluster", "upkeep"))
            assert (await ask(w)).status.phase == "APPROVED"
            await w.let_pass(30)
            assert safe(w) == "True NotYet"
            assert (await ask(w)).status.phase == "DENIED"

    play(story)


def test_a_new_leader_does_not_end_the_safe_mode_of_its_predecessor() -> None:
    """What was unknown is not known because somebody else asks."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            seen.unmeasured = True
            await w.let_pass(240)
            await w.start(run=("admission", "cluster", "upkeep"))
            assert (await ask(w)).status.phase == "DENIED"

    play(story)


def test_capacity_is_what_nodes_have_and_others_leave() -> None:
    """10 CPUs, 80 % of them to be filled, 3 of them taken by others: no more than 5 are left."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            seen.others = {"cpu_milli": 2857.0}
            await w.until(lambda: cluster(w).status.seen.others.cpu_milli == 3000)  # type: ignore[union-attr]
            refused = await ask(w, 6)
            assert refused.status.phase == "DENIED"
            assert refused.status.decision is not None
            assert refused.status.decision.reason == "NoCapacityAvailable"
            assert (await ask(w, 5)).status.phase == "APPROVED"
            seen.nodes = [NODE, NodeView("n2", {"cpu_milli": 5000, "memory_mib": 99}, ready=False)]
            await w.until(lambda: cluster(w).status.seen.nodes == 2)  # type: ignore[union-attr]
            assert cluster(w).status.seen.usable == 1  # type: ignore[union-attr]
            assert (await ask(w, 1)).status.phase == "DENIED"

    play(story)


def test_pods_keep_a_run_whose_caller_is_silent() -> None:
    """Past its time and its lease it is extended with a note, as long as one of them runs."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w, ttlSeconds=60)
            seen.runs = {run.metadata.uid: RunPods(running=1)}
            await w.let_pass(6000)
            now = of(w, run)
            assert now.status.phase == "RUNNING"
            assert now.status.note == "runs longer than expected; its pods live"

    play(story)


def test_pods_that_are_over_end_a_run_whose_caller_forgot() -> None:
    """After the grace, for the reason that they ended with; it teaches what was measured."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w)
            seen.runs = {run.name: RunPods(running=1)}
            seen.used = {run.metadata.uid: {"memory_mib": Use(peak=900.0)}}
            await w.until(lambda: bool(of(w, run).status.used))
            seen.runs = {}
            seen.over = {run.name: RunOver("OOMKilled", "container node took more than 600Mi")}
            await w.let_pass(300)
            told = conditions.find(of(w, run).status.conditions, SimulationCondition.PODS_LIVE)
            assert told is not None
            assert (told.status, told.reason) == ("False", "OOMKilled")
            assert of(w, run).status.phase == "RUNNING"
            assert w.process is not None
            said = await explain.explain(
                w.process.services, ADMIN, KINDS["Simulation"], run.name, "default"
            )
            assert said.next_deadline is not None
            assert said.next_deadline.what == "it ends, since its pods are over"
            seen.over = {}
            await w.let_pass(600)
            now = of(w, run)
            assert now.status.phase == "FAILED"
            assert now.status.reservation is None
            (kept,) = await w.store.history(0)
            assert (kept.run.censored, kept.run.source) == ("OOMKilled", "measured")

    play(story)


def test_pods_that_are_gone_end_a_run_and_pods_never_seen_do_not() -> None:
    """Also for a process that never saw them: that there were some is recorded."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run, other = await ask(w), await ask(w)
            seen.runs = {run.name: RunPods(running=1)}
            await w.until(lambda: of(w, run).status.phase == "RUNNING")
            seen.runs = {}
            await w.start(run=("admission", "cluster", "upkeep"))
            await w.let_pass(900)
            assert of(w, run).status.phase == "COMPLETED"
            assert "caller did not report" in of(w, run).status.note
            assert of(w, other).status.phase == "APPROVED"

    play(story)


def test_a_caller_that_reports_has_not_forgotten_a_run_whose_pods_are_over() -> None:
    """It goes on while reports come, and ends as its pods did once they do not, not as expired."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w, ttlSeconds=60)
            seen.runs = {run.name: RunPods(running=1)}
            await w.until(lambda: of(w, run).status.phase == "RUNNING")
            seen.runs, seen.over = {}, {run.name: RunOver("Failed", "container c ended with 3")}
            assert w.process is not None
            for _ in range(20):
                await w.let_pass(60)
                await admission.simulation_heartbeat(w.process.services, ADMIN, run.name, "default")
            assert of(w, run).status.phase == "RUNNING"
            await w.let_pass(300)
            assert of(w, run).status.phase == "FAILED"
            assert "caller did not report" in of(w, run).status.note

    play(story)


def test_pods_of_runs_that_hold_nothing_count_with_the_others() -> None:
    """A cancelled run whose pods stay, and a label that names no run, take room all the same."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run, gone = await ask(w, 2), await ask(w, 2)
            seen.others = {"cpu_milli": 1000.0}
            use = {"cpu_milli": 2000.0, "network_in_kbps": 5.0}
            seen.now = {run.name: use, gone.name: use, "nobody": use}
            assert w.process is not None
            await admission.simulation_complete(
                w.process.services, ADMIN, gone.name, "default", status="cancelled"
            )
            await w.until(lambda: cluster(w).status.seen.others.cpu_milli == 5250)  # type: ignore[union-attr]
            assert (await ask(w, 1)).status.phase == "DENIED"

    play(story)


def test_a_change_of_targets_forgets_nothing_that_was_heard() -> None:
    """Only a source or an access that is described anew has yet to be heard."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            seen.unmeasured = True
            for percent in (70, 75):
                await w.let_pass(20)
                body = {"spec": {"cpuPercent": percent}}
                await objects.patch(
                    w.services, ADMIN, KINDS["Cluster"], "c1", body, namespace="default"
                )
                await w.let_pass(10)
                assert safe(w) == "False Measured"
                assert (await ask(w)).status.phase == "APPROVED"

    play(story)


def test_a_look_that_shows_nothing_new_reads_and_writes_nothing() -> None:
    """Forty looks at a run that lives on: no event, no read of it in the store."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            run = await ask(w)
            seen.runs = {run.name: RunPods(running=1)}
            await w.until(lambda: of(w, run).status.phase == "RUNNING")
            await w.let_pass(60)
            head, looks = (await w.store.head()).revision, seen.looks
            await w.let_pass(1200)
            assert seen.looks >= looks + 30
            events = await w.store.events_of(run.key)
            assert [each for each in events if each.revision > head] == []

    play(story)
