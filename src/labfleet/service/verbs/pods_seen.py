"""What the pods of a run tell of it: that it runs, that it lives on, that it is over.

A caller may forget to report. Pods that carry the run's name are seen by somebody else: while one
lives the run is not cut off, and once all are over, and its caller has had its grace to say so, it
is ended for the reason that its pods ended with. What they said is kept as a condition, so that a
process that has just begun knows that there were pods.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec

from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_view import ClusterView, RunOver, RunPods
from labfleet.resources import conditions
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase
from labfleet.service.core.service_context import Caller, ServiceContext, retried
from labfleet.service.verbs import admission

ENDED = {
    "Completed": PodsReason.COMPLETED,
    "Failed": PodsReason.FAILED,
    "OOMKilled": PodsReason.OOM_KILLED,
    "Evicted": PodsReason.EVICTED,
}
"""How a view says that pods ended, and the reason that is recorded; all else is not known."""
_PHASES = {
    PodsReason.FAILED: SimulationPhase.FAILED,
    PodsReason.OOM_KILLED: SimulationPhase.FAILED,
    PodsReason.EVICTED: SimulationPhase.FAILED,
}
_LIVE = SimulationCondition.PODS_LIVE


async def follow(
    services: ServiceContext,
    caller: Caller,
    run: Simulation,
    view: ClusterView,
    fence: stores.Fence | None = None,
) -> Simulation:
    """Record what a view says of a run that holds something; return the run as it is now."""
    for name in (run.metadata.uid, run.name):
        pods = view.runs.get(name)
        if pods is not None:
            return await _lives(services, caller, run, pods, fence)
    over = view.over.get(run.metadata.uid) or view.over.get(run.name)
    before = conditions.find(run.status.conditions, _LIVE)
    if over is None and before is None:
        return run  # Its pods never carried its name, as far as anybody knows.
    return await _over(services, caller, run, over or RunOver("Gone"), fence)


async def _lives(
    services: ServiceContext,
    caller: Caller,
    run: Simulation,
    pods: RunPods,
    fence: stores.Fence | None,
) -> Simulation:
    """Record that pods of a run live: like a report of its caller, once one of them runs."""

    def after(old: Simulation) -> Simulation:
        if not pods.running:
            return old
        now = services.clock.now()
        grace = services.settings.now().admission.grace_seconds
        new = admission.alive(old, now, grace, tells="its pods live")
        told = conditions.put(new.status.conditions, _LIVE, "True", PodsReason.RUNNING, now=now)
        if told is new.status.conditions:
            return new
        return msgspec.structs.replace(
            new, status=msgspec.structs.replace(new.status, conditions=told)
        )

    return await _changed(services, (caller, "PodsLive"), run, after, fence)


async def _over(
    services: ServiceContext,
    caller: Caller,
    run: Simulation,
    over: RunOver,
    fence: stores.Fence | None,
) -> Simulation:
    """Record how the pods of a run ended, and end it when its caller has not for its grace."""
    reason = ENDED.get(over.reason, PodsReason.GONE)

    def after(old: Simulation) -> Simulation:
        now = services.clock.now()
        before = conditions.find(old.status.conditions, _LIVE)
        if reason is PodsReason.GONE and before is not None and before.status == "False":
            return old  # How they ended was seen before they were removed.
        told = conditions.put(
            old.status.conditions, _LIVE, "False", reason, over.message[:500], now=now
        )
        if told is old.status.conditions:
            return old
        return msgspec.structs.replace(
            old, status=msgspec.structs.replace(old.status, conditions=told)
        )

    new = await _changed(services, (caller, "PodsOver"), run, after, fence)
    found = conditions.find(new.status.conditions, _LIVE)
    grace = timedelta(seconds=services.settings.now().admission.grace_seconds)
    if new.status.phase not in HOLDING or found is None or found.status != "False":
        return new
    if services.clock.now() < found.last_transition_time + grace:
        return new
    ended = next(each for each in PodsReason if each == found.reason)
    return await admission.ended(
        services,
        caller,
        new.name,
        new.namespace,
        _PHASES.get(ended, SimulationPhase.COMPLETED),
        fence=fence,
        note=f"{ended.sentence.rstrip('.')}; its caller did not report its end",
        seen=True,
    )


async def _changed(
    services: ServiceContext,
    who: tuple[Caller, str],
    run: Simulation,
    after: Callable[[Simulation], Simulation],
    fence: stores.Fence | None,
) -> Simulation:
    """Store a run as `after` makes it of what is stored now, while it holds something.

    `who` is the caller and the reason. Nothing is read where the known run would stay as it is.
    """
    if after(run) is run:
        return run

    async def attempt() -> Simulation:
        old = await services.objects.get(Simulation, run.name, run.namespace)
        same = old is not None and old.metadata.uid == run.metadata.uid
        if old is None or not same or old.status.phase not in HOLDING:
            return run if old is None else old
        new = after(old)
        if new is old:
            return old
        _, stored = await services.objects.save(new, cause=services.cause(*who), fence=fence)
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)
