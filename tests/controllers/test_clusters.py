"""What clusters really use corrects what is counted, and tightens a promise that is broken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import play
from world import ADMIN, World, world

from labfleet.controllers.clusters import above
from labfleet.decisions.run_use import grown
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.history import Use
from labfleet.resources.meta import Metadata
from labfleet.resources.simulation import Simulation
from labfleet.service.verbs import admission


class Meter:
    """Says of one cluster what a test wrote down; None is that nobody measures."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.load: dict[str, float] | None = None
        self.runs: dict[str, dict[str, Use]] = {}
        self.away = False

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        assert cluster.name == "c1"
        if self.away:
            raise errors.Unreachable("the metrics are away")
        if self.load is None:
            return None
        return ClusterUsage(self._clock.now(), self.load, self.runs)


async def begun(w: World) -> Meter:
    """A fleet with one cluster of 10 CPUs, 8 of them to be filled, and a meter."""
    meter = w.meter = Meter(w.clock)
    await w.start(run=("admission", "cluster", "upkeep"))
    await w.make("Cluster", "c1", {"capacity": {"cpu": 10, "memory": "100Gi"}})
    return meter


async def ask(w: World, cpu: int) -> Simulation:
    body = {"cluster": "c1", "cost": {"cpu": cpu, "memory": "1Gi"}, "durationSeconds": 86400}
    assert w.process is not None
    return await admission.request_run(w.process.services, ADMIN, body, namespace="default")


def of(w: World, name: str) -> Simulation:
    found = w.cache.get(Simulation, name, "default")
    assert found is not None
    return found


def test_a_run_that_uses_more_than_it_said_counts_for_what_it_uses() -> None:
    """Once, not twice: it asked for 2 CPUs and uses 5, so of 8 there are 3 left."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            heavy = await ask(w, 2)
            meter.load = {"cpu_milli": 5000.0}
            meter.runs = {heavy.metadata.uid: {"cpu_milli": Use(peak=5000.0)}}
            await w.until(lambda: bool(of(w, heavy.name).status.used))
            assert (await ask(w, 4)).status.phase == "DENIED"
            light = await ask(w, 3)
            assert light.status.phase == "APPROVED"
            events = await w.store.events_of(heavy.key)
            meter.runs = {heavy.metadata.uid: {"cpu_milli": Use(peak=5100.0)}}
            await w.let_pass(300)
            assert await w.store.events_of(heavy.key) == events

    play(story)


def test_a_promise_that_is_broken_is_told_and_tightens_the_rule() -> None:
    """Above the target for minutes: the share stands in the status, and bounds are added up."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            await w.let_pass(120)
            found = w.cache.get(Cluster, "c1", "default")
            assert found is not None
            assert found.status.overload.realised is None
            meter.load = {"cpu_milli": 8001.0}
            await w.let_pass(2400)
            found = w.cache.get(Cluster, "c1", "default")
            assert found is not None
            assert found.status.overload.realised == pytest.approx(1.0)
            assert found.status.overload.slack < 0
            decision = (await ask(w, 1)).status.decision
            assert decision is not None
            assert decision.rule == "bounds"
            before = found.status.overload
            meter.away = True
            await w.let_pass(2400)
            found = w.cache.get(Cluster, "c1", "default")
            assert found is not None
            assert found.status.overload == before

    play(story)


def test_the_end_of_a_measured_run_teaches_what_was_measured() -> None:
    """Measured wins over what its caller says."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w, 2)
            meter.load = {}
            meter.runs = {run.metadata.uid: {"memory_mib": Use(peak=700.0, mean=600.0)}}
            await w.until(lambda: bool(of(w, run.name).status.used))
            assert w.process is not None
            await admission.simulation_complete(
                w.process.services, ADMIN, run.name, "default", observed={"memoryMib": 5}
            )
            (kept,) = await w.store.history(0)
            assert kept.run.source == "measured"
            assert kept.run.use["memory_mib"].peak == 700.0

    play(story)


def cluster(**capacity: int) -> Cluster:
    return Cluster(metadata=Metadata(name="c"), spec=ClusterSpec(capacity=Amounts(**capacity)))


def usage(**load: float) -> ClusterUsage:
    return ClusterUsage(None, load)  # type: ignore[arg-type]  # the instant is not looked at


def test_what_nobody_measured_is_neither_above_nor_within() -> None:
    """A load that is absent, or of a dimension that the cluster does not state, says nothing."""
    assert above(cluster(cpu_milli=1000), usage()) is None
    assert above(cluster(cpu_milli=1000), usage(network_kbps=5)) is None
    assert above(cluster(cpu_milli=1000), usage(cpu_milli=800)) is False
    assert above(cluster(cpu_milli=1000), usage(cpu_milli=801)) is True


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_a_growing_peak_is_recorded_by_twentieths(peaks) -> None:
    """However often a run is measured, each record is a twentieth above: 450 for nine decades."""
    kept, records, top = dict[str, Use](), 0, 0.0
    for peak in sorted(peaks):
        top = peak
        if grown(kept, {"cpu_milli": Use(peak=peak)}):
            kept, records = {"cpu_milli": Use(peak=peak)}, records + 1
    assert records <= 450
    held = kept["cpu_milli"].peak
    assert held is not None
    assert top <= max(held * 1.05, held + 1)
