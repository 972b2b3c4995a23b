"""What others do to our machines: the condition ExternalChange, with a hint who did it.

Only writes conditions; consequences are decided elsewhere (facts/aws-bugs.md#case-33 to
#case-35).
"""

from __future__ import annotations

from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import Draft
from labfleet.resources import conditions
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


def stopped(draft: Draft) -> None:
    """Say that somebody else stopped the machine."""
    draft.fact(
        WorkerCondition.EXTERNAL_CHANGE, "True", WorkerReason.STOPPED, _told(draft, "stopped")
    )


def terminated(draft: Draft) -> None:
    """Say that somebody else ended the machine."""
    draft.fact(
        WorkerCondition.EXTERNAL_CHANGE, "True", WorkerReason.TERMINATED, _told(draft, "ended")
    )


def started(draft: Draft) -> None:
    """Say that somebody else started a machine that shall be stopped."""
    draft.fact(
        WorkerCondition.EXTERNAL_CHANGE, "True", WorkerReason.STARTED, _told(draft, "started")
    )


def settled(draft: Draft) -> None:
    """Withdraw the condition once the machine is again in the wanted state."""
    if conditions.is_true(draft.status.conditions, WorkerCondition.EXTERNAL_CHANGE):
        draft.fact(WorkerCondition.EXTERNAL_CHANGE, "False", WorkerReason.SETTLED)


def _told(draft: Draft, what: str) -> str:
    reason = draft.seen.state_reason or "no reason told"
    known = draft.status.machine.id
    hint = phases.words(draft.worker).hint(draft.seen.state_reason or "")
    return f"{known} was {what} from outside ({reason}): {hint}"
