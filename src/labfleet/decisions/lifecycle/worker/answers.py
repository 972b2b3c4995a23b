"""Whether the provider answers for this worker: the condition ProviderAnswers, and who waits.

The trouble is its region's, and stands on each worker that it holds up.
"""

from __future__ import annotations

from datetime import timedelta

from labfleet.decisions import provider
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import Draft, P
from labfleet.resources import conditions, providers
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

REASONS = {each: reason for each in Trouble for reason in WorkerReason if reason == each.value}


def note(draft: Draft) -> None:
    """Record what this look says of the provider; nothing when it was not asked."""
    machine, look = draft.worker.spec.machine, draft.seen.provider
    before = conditions.find(draft.status.conditions, WorkerCondition.PROVIDER_ANSWERS)
    unasked = draft.status.phase is P.TERMINATED or (
        draft.status.phase is P.FAILED and draft.status.machine.id is None
    )
    if unasked:
        draft.forget(WorkerCondition.PROVIDER_ANSWERS)
        return
    if machine is None or look is None or (look.trouble is None and _of_call(draft, before)):
        return
    asked = provider.Asked(providers.of(machine.provider).title, machine.provider.region, look.text)
    silent = timedelta(seconds=look.silent)
    if look.of_call and look.trouble is Trouble.FORBIDDEN:
        silent = max(silent, 2 * provider.PATIENCE)  # a call that is not allowed is no glitch
    found = provider.judge(before, look.trouble, asked, draft.now, silent=silent)
    if found is None:
        return
    reason = WorkerReason.ANSWERING if found.trouble is None else REASONS[found.trouble]
    draft.fact(WorkerCondition.PROVIDER_ANSWERS, found.status, reason, found.message)


def _of_call(draft: Draft, before: conditions.Condition | None) -> bool:
    """Tell whether a call that is due is not allowed: a look that is allowed does not end that."""
    look, limit = draft.seen.provider, draft.status.limit
    waits = phases.awaits_provider(draft.status) and not (limit is not None and limit.begun)
    forbidden = before is not None and before.reason == WorkerReason.NOT_ALLOWED
    return forbidden and waits and look is not None and not look.of_call
