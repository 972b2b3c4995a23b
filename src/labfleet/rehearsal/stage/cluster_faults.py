"""Makes the scheduled faults of clusters happen: sources of metrics, API servers, pods and nodes.

`scheduled_faults.ACTS` has them by their words. All strike one cluster that somebody looks at, and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubernetes_simulator.core import kubelet, nodes
from kubernetes_simulator.core.deleting import begin
from kubernetes_simulator.core.kinds import NODES, PODS
from labfleet.rehearsal.faults import ScheduledFault, Window
from labfleet.rehearsal.stage import fault_targets
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.worlds.kube_cluster import LARGE, NOTHING, SPACE, KubeCluster


def _place(stage: Stage, fault: ScheduledFault) -> KubeCluster | None:
    """Return one of the clusters that were looked at."""
    looked = [each for each in stage.clusters.places.values() if each.good]
    return fault_targets.picked(looked, fault)


async def _held(stage: Stage, fault: ScheduledFault, place: KubeCluster) -> None:
    """Let a fault hold for its span, counted at its first hit."""
    end: Callable[[], None] = stage.injector.begin(fault.word, place.name, Window(fault.word))
    await asyncio.sleep(fault.span)
    end()


async def metrics_stopped(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a cluster's source of metrics answer nothing."""
    place = _place(stage, fault)
    if place is not None:
        await _held(stage, fault, place)
    return False


async def metrics_wrong(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a source say what cannot be: far too much, or nothing at all while pods run."""
    place = _place(stage, fault)
    if place is None or place.lies:
        return False
    place.lies = NOTHING if fault.number % 2 else LARGE
    await _held(stage, fault, place)
    place.lies = ""
    return False


async def source_clock(stage: Stage, fault: ScheduledFault) -> bool:
    """Let the clock behind metrics.k8s.io be wrong: a little, which is nothing, or by hours."""
    asked = [each for each in stage.clusters.places.values() if each.asked]
    place = fault_targets.picked(asked, fault)
    if place is None or place.clock_off:
        return False
    far = 3600.0 if fault.number % 2 else 40.0
    place.clock_off = far if fault.pick < 0.5 else -far
    await _held(stage, fault, place)
    place.clock_off = 0.0
    return False


async def api_silent(stage: Stage, fault: ScheduledFault) -> bool:
    """Let an API server answer nothing, and its watches say nothing."""
    place = _place(stage, fault)
    if place is None or place.silent_since is not None:
        return False
    place.silent(on=True)
    await _held(stage, fault, place)
    place.silent(on=False)
    return False


async def watch_lost(stage: Stage, fault: ScheduledFault) -> bool:
    """Cut all watches of a cluster; half of the time its server has forgotten what was before."""
    place = _place(stage, fault)
    if place is None:
        return False
    if fault.number % 2:
        place.settle().store.compact()
    return place.cut()


async def pod_ended(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a pod of a run be evicted, or be deleted by somebody who knows nothing of runs."""
    running = [
        (place, pod)
        for place in stage.clusters.places.values()
        for pod in place.settle().store.all(PODS, SPACE)
        if pod["status"].get("phase") == "Running"
    ]
    found = fault_targets.picked(running, fault)
    if found is None:
        return False
    place, pod = found
    if fault.number % 2:
        kubelet.fail(place.world, pod, "Evicted", "The node was low on resource: memory.")
    else:
        begin(place.world, PODS, pod, None)
    place.settle()
    return True


async def node_lost(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a node be cut off: its kubelet says nothing, and what runs there runs on."""
    place = _place(stage, fault)
    if place is None or place.world.silent:
        return False
    name = sorted(place.world.store.tables[NODES.path])[fault.number % 2][1]
    nodes.silence(place.settle(), name)
    place.settle()
    await asyncio.sleep(fault.span)
    nodes.wake(place.settle(), name)
    place.settle()
    return True
