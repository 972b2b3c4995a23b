"""Decides whether a simulation may start on a cluster now, by upstream 004's sum rule.

Pure. Whole amounts, integer targets, one answer with named shortages.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.decisions import wording
from labfleet.resources.amounts import DIMENSIONS, Amounts, Shortage
from labfleet.resources.cluster import ClusterSpec
from labfleet.resources.decision import Decision, Verdict

FITS, NEVER_FITS, NO_ROOM = "Fits", "NeverFits", "NoCapacityAvailable"


def targets(spec: ClusterSpec) -> Amounts:
    """Return how far the cluster may be filled: floor(capacity x percent / 100).

    Only CPU, memory and network have a target; other dimensions may be filled completely.
    """
    percents = {
        "cpu_milli": spec.cpu_percent,
        "memory_mib": spec.memory_percent,
        "network_kbps": spec.network_percent,
    }
    return Amounts(
        **{
            name: getattr(spec.capacity, name) * percents.get(name, 100) // 100
            for name in DIMENSIONS
        }
    )


def admit(
    cost: Amounts,
    *,
    cluster: str,
    target: Amounts,
    current: Amounts,
    now: datetime,
    revision: int = 0,
) -> Decision:
    """Return approved iff current + cost <= target in every dimension, else denied.

    Current is what all runs hold that were not seen to end (facts/upstream.md#gate).
    Dimensions without a target are checked only if the cost names them.
    """
    short = _short(cost, target, current)
    needs = f"needs {wording.amounts(cost)}"
    if not short:
        reason, message = FITS, f"{needs}; approved on {cluster}"
    elif _short(cost, target, Amounts()):
        reason = NEVER_FITS
        lack = wording.short(_short(cost, target, Amounts()))
        message = f"{needs}; {cluster} is short {lack} even when nothing runs on it"
    else:
        reason = NO_ROOM
        message = f"{needs}; {cluster} is short {wording.short(short)}; ask again later"
    return Decision(
        outcome="denied" if short else "approved",
        reason=reason,
        message=message,
        at=now,
        revision=revision,
        requested=cost,
        chosen=None if short else cluster,
        candidates=(
            Verdict(
                name=cluster,
                fits=not short,
                reasons=tuple(f"Over{_WORDS[each.dimension]}Target" for each in short),
                shortages=short,
            ),
        ),
        evaluated=1,
        rejected_by_reason={reason: 1} if short else {},
    )


_WORDS = {
    "cpu_milli": "Cpu", "memory_mib": "Memory", "storage_mib": "Storage", "nodes": "Nodes",
    "labs": "Labs", "ports": "Ports", "network_kbps": "Network",
}  # fmt: skip
_STRICT = frozenset({"cpu_milli", "memory_mib", "network_kbps"})


def _short(cost: Amounts, target: Amounts, current: Amounts) -> tuple[Shortage, ...]:
    """Return where current + cost exceeds the target; `free` is negative if current does."""
    found = []
    for name in DIMENSIONS:
        need = getattr(cost, name)
        free = getattr(target, name) - getattr(current, name)
        # The rule is about the sum: above a target even a cost of 0 is denied.
        if need > free and (need or name in _STRICT):
            found.append(Shortage(dimension=name, wanted=need, free=free))
    return tuple(found)
