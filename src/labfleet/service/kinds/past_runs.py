"""Makes a row of the history of an object whose run is over: one function a kind.

Called where the end is recorded, so that the end and the row are one commit.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources import amounts, conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.definition import Definition
from labfleet.resources.definition import family_of as lab_family
from labfleet.resources.history import ENDED, Run, RunKind, Source, Use, compared, typed
from labfleet.resources.session import TERMINAL, Session, SessionPhase, SessionStatus
from labfleet.resources.simulation import (
    HOLDING,
    Simulation,
    SimulationPhase,
    SimulationStatus,
    family_of,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition

LONGEST_BOOT = timedelta(days=1)
"""What began earlier was no boot: a machine that was stopped and started again is one of those."""
_LAUNCHED = phases.BOOTING - {WorkerPhase.PENDING}


def of_session(
    before: Session, after: SessionStatus, definition: Definition | None, worker: Worker | None
) -> Run | None:
    """Return the run of a session that ends now; None while it does not, or when it never ran.

    Its use is what was measured of it: what a lab was given says nothing of it.
    """
    if after.phase not in TERMINAL or before.status.phase in TERMINAL:
        return None
    if after.started_at is None or after.ended_at is None or after.definition is None:
        return None
    held, name = before.status.reservation, after.definition.name
    asked = {"definition": name, "track": before.spec.track}
    if definition is not None:
        asked["track"] = before.spec.track or definition.spec.track
    nodes = {} if definition is None else {"nodes": float(definition.status.node_count)}
    family = name if definition is None else lab_family(definition)
    pool = None if worker is None else worker.spec.pool
    return Run(
        kind=RunKind.SESSION,
        uid=before.metadata.uid,
        name=before.name,
        namespace=before.namespace,
        family=family,
        owner=before.spec.owner,
        place=pool or after.worker or "",
        parameters=typed({**asked, **nodes}),
        allocation={} if held is None else _given(held.amounts),
        use=after.used,
        duration_seconds=(after.ended_at - after.started_at).total_seconds(),
        censored="" if after.phase is SessionPhase.COMPLETED else after.reason or after.phase,
        started_at=after.started_at,
        ended_at=after.ended_at,
    )


def of_simulation(before: Simulation, after: SimulationStatus, has: Amounts | None) -> Run | None:
    """Return the run of a simulation whose end is reported; None when nothing is known of it.

    `has` is what its cluster has: a caller's word beyond that is left out. Of a run whose approval
    had expired nobody knows when it ended, so its duration is unknown. What was measured
    wins over what its caller says.
    """
    status, phase = before.status, before.status.phase
    late = phase is SimulationPhase.EXPIRED
    if status.decided_at is None or after.completed_at is None or not (late or phase in HOLDING):
        return None
    since = status.started_at or status.decided_at
    told = {name: each for name, each in after.observed.items() if _possible(name, each, has)}
    use = after.used or told
    duration = None if late else (after.completed_at - since).total_seconds()
    if duration is None and not use:
        return None
    held = after.reservation or status.reservation
    cut_off = after.phase in {SimulationPhase.FAILED, SimulationPhase.CANCELLED}
    pods = _pods_ended(after)
    return Run(
        kind=RunKind.SIMULATION,
        uid=before.metadata.uid,
        name=before.name,
        namespace=before.namespace,
        family=family_of(before.spec),
        owner=before.spec.owner,
        place=before.spec.cluster,
        parameters=compared(before.spec.params),
        allocation={} if held is None else _given(held.amounts),
        use=use,
        duration_seconds=duration,
        censored=(pods or after.phase.capitalize()) if cut_off else "",
        # Its caller chose the instant of its end: that is no measurement either.
        source=Source.MEASURED if after.used else Source.REPORTED,
        started_at=since,
        ended_at=after.completed_at,
    )


def _pods_ended(after: SimulationStatus) -> str:
    """Return how the pods of a run were cut off, such as OOMKilled; empty when they were not."""
    found = conditions.find(after.conditions, SimulationCondition.PODS_LIVE)
    cut = found is not None and found.status == "False" and found.reason in _CUT_OFF
    return found.reason if found is not None and cut else ""


_CUT_OFF = frozenset({PodsReason.OOM_KILLED, PodsReason.EVICTED})


def _possible(figure: str, use: Use, has: Amounts | None) -> bool:
    """Tell whether a cluster could have given that much; what is not known does not forbid it."""
    name = "network_kbps" if figure.startswith("network") else figure
    most = 0 if has is None else getattr(has, name)
    return not most or max(use.peak or 0, use.mean or 0, use.median or 0, use.p95 or 0) <= most


def of_boot(before: Worker, after: WorkerStatus, now: datetime) -> Run | None:
    """Return the boot that is over now, ready or not; None while none is.

    One launch is one boot: what a machine does when it is started again is none.
    """
    since, machine = after.provisioning_started_at, after.machine
    if before.spec.origin is not None or before.spec.machine is None or since is None:
        return None
    over = before.status.phase in _LAUNCHED and after.phase not in phases.BOOTING
    if not over or now - since > LONGEST_BOOT:
        return None
    provider = before.spec.machine.provider
    asked = {
        "provider": provider.__struct_config__.tag,
        "region": provider.region,
        "type": machine.type,
        "zone": machine.zone,
        "image": machine.image,
    }
    return Run(
        kind=RunKind.BOOT,
        uid=f"{before.metadata.uid}/{after.attempt}",
        name=before.name,
        namespace=before.namespace,
        family=before.spec.template or machine.type or "none",
        place=before.spec.pool or "",
        parameters=typed(asked),
        duration_seconds=(now - since).total_seconds(),
        censored="" if after.phase in phases.HOSTING else _why(after),
        started_at=since,
        ended_at=now,
    )


def _why(status: WorkerStatus) -> str:
    """Return why a boot did not get to its end: the failure's word, or that somebody ended it."""
    failed = conditions.find(status.conditions, WorkerCondition.FAILED)
    told = status.phase is WorkerPhase.FAILED and failed is not None
    return str(failed.reason) if told and failed is not None else ENDED


def _given(held: Amounts) -> dict[str, int]:
    vector = zip(amounts.DIMENSIONS, amounts.vector(held), strict=True)
    return {name: amount for name, amount in vector if amount}
