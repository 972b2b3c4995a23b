"""What a pause leaves of a decision: nothing that the product would do by itself.

Pure. What people asked for (a pool to be drained or ended) goes on; what is said stays, with
the pause before it, so that everybody sees what would happen without it.
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

    `paused` says why; None changes nothing. `before` is the pool's phase so far and `made` its
    counter of names: both stay when the decision would have moved them.
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
