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

from labfleet.decisions import run_pods
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_view import ClusterView, RunOver, RunPods
from labfleet.resources.simulation import HOLDING, Simulation
from labfleet.service.core.service_context import Caller, ServiceContext, retried
from labfleet.service.verbs import admission


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
    if over is None and not run_pods.were_seen(run.status):
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
        return _with(new, run_pods.living(new.status, now))

    return await _changed(services, (caller, "PodsLive"), run, after, fence)


async def _over(
    services: ServiceContext,
    caller: Caller,
    run: Simulation,
    over: RunOver,
    fence: stores.Fence | None,
) -> Simulation:
    """Record how the pods of a run ended, and end it when its caller has not in time."""

    def after(old: Simulation) -> Simulation:
        now = services.clock.now()
        return _with(old, run_pods.over(old.status, over.reason, over.message, now))

    new = await _changed(services, (caller, "PodsOver"), run, after, fence)
    grace = timedelta(seconds=services.settings.now().admission.grace_seconds)
    at, end = run_pods.ends_at(new.status, grace), run_pods.end(new.status)
    if new.status.phase not in HOLDING or at is None or end is None or services.clock.now() < at:
        return new
    phase, note = end
    return await admission.ended(
        services, caller, new.name, new.namespace, phase, fence=fence, note=note, seen=True
    )


def _with(run: Simulation, status: object) -> Simulation:
    return run if status is run.status else msgspec.structs.replace(run, status=status)


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
