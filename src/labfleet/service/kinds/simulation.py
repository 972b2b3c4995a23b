"""The rules of simulations, their explanation and events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from labfleet.decisions import ledger, run_pods, wording
from labfleet.decisions.admission.targets import targets
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import as_seen, others_of
from labfleet.resources.simulation import HOLDING, OPEN, Simulation, SimulationPhase
from labfleet.service.core.explanation import ClusterLoad, Deadline, Explanation, made
from labfleet.service.core.kind_table import Change, EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, machine_rules, outlook, simulation_view
from labfleet.service.kinds.cluster_mode import denies


class SimulationEvent(EventType):
    """What can happen to a simulation."""

    STATUS_CHANGED = (
        "simulation.status.changed",
        "a simulation was queued, approved, denied, or began or ended its run",
    )


async def _explain(services: ServiceContext, obj: Simulation) -> Explanation:
    """Return why a simulation was approved, denied or waits, and what comes next."""
    status = obj.status
    deadline, waits = None, []
    if status.phase is SimulationPhase.QUEUED:
        await services.fresh()
        found = await outlook.of(services, obj)
        cluster = services.cache.find(refs.cluster_of(obj))
        room = "room on its cluster" if status.decision else "its decision"
        if cluster is not None and denies(cluster):
            room = f"new figures of cluster {cluster.name}, which is in safe mode"
        waits.append(room if found is None else f"{room} ({outlook.words(found)})")
    elif status.take_up_by is not None:
        waits.append("its caller to take the approval up")
        deadline = Deadline(at=status.take_up_by, what="the approval is given back")
    elif status.phase in HOLDING:
        waits.append("the caller to report its end")
        if status.reservation is not None and status.reservation.end is not None:
            deadline = Deadline(at=status.reservation.end, what="the approval expires")
        grace = timedelta(seconds=services.settings.now().admission.grace_seconds)
        ends = run_pods.ends_at(status, grace)
        if ends is not None:
            deadline = Deadline(at=ends, what="it ends, since its pods are over")
    told = made(
        obj,
        phase=status.phase,
        since=status.completed_at or status.started_at or status.decided_at or status.asked_at,
        why=_why(obj),
        conditions=status.conditions,
        decision=status.decision,
        waits=waits,
        deadline=deadline,
        where=f" on cluster {obj.spec.cluster}",
    )
    rests = [f"{each[:1].upper()}{each[1:]}" for each in dict.fromkeys(status.evidence)]
    load = _load(services, obj)
    if load is not None:
        rests.append(_loaded(obj.spec.cluster, load))
    again = await outlook.again(services, obj) if status.phase is SimulationPhase.DENIED else ""
    if again:
        rests.append(f"Asked for again now, {again}.")
    return msgspec.structs.replace(
        told,
        prediction=status.prediction,
        evidence=status.evidence,
        load=load,
        again=again,
        lines=(*told.lines, *rests),
    )


def _load(services: ServiceContext, obj: Simulation) -> ClusterLoad | None:
    """Return what the cluster of a run holds now; None once the run has been let in and is over."""
    cluster = services.cache.find(refs.cluster_of(obj))
    if cluster is None or obj.status.phase not in {*OPEN, SimulationPhase.DENIED}:
        return None
    live = services.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
    held = ledger.total(r for each in live if (r := each.status.reservation) is not None)
    target = targets(as_seen(cluster))
    return ClusterLoad(held=held, others=others_of(cluster), target=target, runs=len(live))


def _loaded(cluster: str, load: ClusterLoad) -> str:
    others = f", pods of no run {wording.amounts(load.others)}" if load.others != Amounts() else ""
    runs = f"{count(load.runs, 'run')} may need {wording.amounts(load.held)} together"
    held = runs if load.runs else "nothing is held by runs"
    return (
        f"On cluster {cluster} {held}{others}; it may be filled to {wording.amounts(load.target)}."
    )


def _why(obj: Simulation) -> str:
    """Return the decision's sentence, and what was done since."""
    status = obj.status
    said = [] if status.decision is None else [status.decision.message]
    if status.phase is SimulationPhase.QUEUED and status.decision is not None:
        said = [f"as of {utc_text(status.decision.at)}: {status.decision.message}"]
    return "; ".join([*said, *([status.note] if status.note else [])])


def _changed(old: Simulation, new: Simulation) -> Iterator[Change]:
    if old.status.phase != new.status.phase:
        pair = {"old_status": old.status.phase, "new_status": new.status.phase}
        yield Change(SimulationEvent.STATUS_CHANGED, pair)


RULES = KindRules(
    name="Simulation",
    delete=machine_rules.delete_simulation,
    grants={Role.RUNNER: frozenset({"read", "admit"}), Role.SYSTEM: frozenset({"admit"})},
    owned=frozenset({Role.RUNNER}),
    explain=_explain,
    view=simulation_view.view,
    sight=simulation_view.sight,
    event_types=SimulationEvent,
    changed=_changed,
    indices=(
        indices.SIMULATIONS_HOLDING,
        indices.SIMULATIONS_QUEUED,
        indices.SIMULATIONS_ENDED,
        indices.SIMULATIONS_OF_QUEUE,
        indices.SIMULATIONS_UNDECIDED,
    ),
)
