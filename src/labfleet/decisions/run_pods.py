"""What the pods of a run make of it: that it lives, how it ended, and when that ends the run. Pure.

What pods said is kept as a condition, so that a process that has just begun knows that there were
some. A caller that goes on to report has not forgotten its run, though its pods are over.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from labfleet.resources import conditions
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.simulation import SimulationPhase, SimulationStatus

MESSAGE = 500
"""Characters of a condition's message."""
_REASONS = {
    "Completed": PodsReason.COMPLETED,
    "Failed": PodsReason.FAILED,
    "OOMKilled": PodsReason.OOM_KILLED,
    "Evicted": PodsReason.EVICTED,
}
"""How a view says that pods ended; all else is not known."""
_FAILED = frozenset({PodsReason.FAILED, PodsReason.OOM_KILLED, PodsReason.EVICTED})
_LIVE = SimulationCondition.PODS_LIVE


def were_seen(status: SimulationStatus) -> bool:
    """Tell whether pods of a run were ever seen."""
    return conditions.find(status.conditions, _LIVE) is not None


def lived(status: SimulationStatus) -> bool:
    """Tell whether a pod of a run was running when its pods were last seen."""
    found = conditions.find(status.conditions, _LIVE)
    return found is not None and found.status == "True"


def living(status: SimulationStatus, now: datetime) -> SimulationStatus:
    """Return the status once a pod of the run runs; the same one when that is known."""
    told = conditions.put(status.conditions, _LIVE, "True", PodsReason.RUNNING, now=now)
    return _with(status, told)


def over(status: SimulationStatus, how: str, message: str, now: datetime) -> SimulationStatus:
    """Return the status once all pods are over, as a view says how; the same when that is known."""
    reason = _REASONS.get(how, PodsReason.GONE)
    before = conditions.find(status.conditions, _LIVE)
    if reason is PodsReason.GONE and before is not None and before.status == "False":
        return status  # How they ended was seen before they were removed.
    told = conditions.put(status.conditions, _LIVE, "False", reason, message[:MESSAGE], now=now)
    return _with(status, told)


def ends_at(status: SimulationStatus, grace: timedelta) -> datetime | None:
    """Return when a run ends because its pods are over; None while none of that is known.

    Its caller has a grace to say so itself; one that reports that it lives, until it no longer does.
    """
    found = conditions.find(status.conditions, _LIVE)
    if found is None or found.status != "False":
        return None
    return status.lease_until or found.last_transition_time + grace


def end(status: SimulationStatus) -> tuple[SimulationPhase, str] | None:
    """Return phase and note of a run that ends without a report; None when its pods do not tell."""
    found = conditions.find(status.conditions, _LIVE)
    if found is None or found.status != "False":
        return None
    reason = next((each for each in PodsReason if each == found.reason), PodsReason.GONE)
    phase = SimulationPhase.FAILED if reason in _FAILED else SimulationPhase.COMPLETED
    return phase, f"{reason.sentence.rstrip('.')}; its caller did not report its end"


def _with(status: SimulationStatus, told: tuple[conditions.Condition, ...]) -> SimulationStatus:
    if told is status.conditions:
        return status
    return msgspec.structs.replace(status, conditions=told)
