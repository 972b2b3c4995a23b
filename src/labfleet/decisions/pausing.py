"""Removes automatic actions from a pool's decision while automation is paused.

Pure. What people asked for (draining or deleting a pool) goes on. The decision's text stays,
with the pause in front, so that people see what would happen without it.
"""

from __future__ import annotations

from dataclasses import replace

from labfleet.decisions.scaling import PoolDecision
from labfleet.resources.pool import PoolPhase

ASKED_FOR = frozenset({PoolPhase.DRAINING, PoolPhase.TERMINATING, PoolPhase.TERMINATED})


def held(
    decision: PoolDecision, paused: str | None, *, before: PoolPhase, made: int
) -> PoolDecision:
    """Return the decision with no worker made, started, retired or replaced while paused.

    `paused` says why; None changes nothing. `before` is the pool's present phase and `made` its
    present counter of names; they are kept instead of those that acting would lead to.
    """
    if paused is None or decision.phase in ASKED_FOR:
        return decision
    acts = decision.create or decision.start or decision.retire
    said = f"{paused[:1].upper()}{paused[1:]}. Without it: {decision.message}"
    return replace(
        decision,
        phase=before if acts else decision.phase,
        message=said,
        create=(),
        start=(),
        retire=(),
        events=(),
        created_workers=made,
    )
