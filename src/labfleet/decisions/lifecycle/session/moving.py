"""How a session leaves its worker before it began: placed again, or failed, and when it waits.

What was never imported can leave at once, since nothing of it is there: it does when nothing would
start on its worker, or its CML does not answer. A lab that is imported, or may be, has to be
looked up first: its session waits for the worker, as long as a boot may take without an answer,
then moves by its definition's word, while it may. Time without an answer is no boot time.
"""

from __future__ import annotations

import msgspec

from labfleet.decisions import port_drift
from labfleet.decisions.lifecycle.session.draft import (
    ANSWERS,
    PLACEMENTS,
    PRESENT,
    AnyReason,
    Draft,
    S,
    Step,
)
from labfleet.resources import conditions
from labfleet.resources.session import FINALIZER_LAB
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason

# --- a worker that does not answer -------------------------------------------------------


def note_answer(draft: Draft) -> None:
    """Record whether CML could be asked about the lab, and stop the boot's clock meanwhile."""
    seen = draft.seen
    if draft.status.phase is S.RUNNING and seen.host_lost:
        draft.fact(ANSWERS, "False", SessionReason.WORKER_FAILED, seen.host_detail)
    elif seen.looked:
        _go_on(draft)
        draft.fact(ANSWERS, "True", SessionReason.ANSWERING)
    elif seen.trouble:
        draft.fact(ANSWERS, "Unknown", SessionReason.NOT_SEEN, seen.trouble)


def _go_on(draft: Draft) -> None:
    """Move a booting lab's last progress by the time in which nobody could ask for more."""
    lasted, lab = draft.silence, draft.status.lab
    if not lasted or lab is None or draft.status.phase is not S.INSTANTIATING:
        return
    since = lab.progress_at or draft.status.phase_since or draft.now
    moved = min(since + lasted, draft.now)
    draft.set(lab=msgspec.structs.replace(lab, progress_at=moved))


def unanswered(draft: Draft) -> Step:
    """Wait for a worker whose CML cannot be asked, for as long as the lab's boot may take.

    Then what was never imported is placed again. A lab that is there, or may be, moves once it was
    seen gone; when its definition forbids that, or it has moved too often, the session waits on
    until its deadline: to give it up frees nothing, and its worker may come back.
    """
    if draft.silence.total_seconds() < draft.budget.boot:
        return draft.stay(f"waiting for the worker: {draft.seen.trouble}")
    minutes = int(draft.silence.total_seconds() // 60)
    told = f"no answer for {minutes} min: {draft.seen.trouble}"
    if draft.never_imported:
        return place_again(draft, PhaseReason.WORKER_SILENT, told)
    if draft.movable:
        return lose_worker(draft, PhaseReason.WORKER_SILENT, told)
    expired = draft.expired
    if expired:
        return draft.teardown(
            S.EXPIRED, PhaseReason.NEVER_STARTED, f"{expired}: {draft.seen.trouble}"
        )
    return draft.stay(f"waiting for the worker: {draft.seen.trouble}")


# --- leaving a worker --------------------------------------------------------------------


def move(draft: Draft, reason: PhaseReason, told: str) -> Step:
    """Look for another worker for what is only booked.

    No worker was lost and nothing has begun, so `onWorkerLoss` does not ask for its failure and
    the move is not counted among its placements; its deadline ends the search.
    """
    draft.set(placements=max(0, draft.status.placements - 1))
    return _queue_again(draft, reason, told)


def place_again(
    draft: Draft, reason: AnyReason = PhaseReason.WORKER_LOST, detail: str = ""
) -> Step:
    """Give the worker up and queue again, a bounded number of times; no lab of ours is left."""
    detail = detail or draft.seen.host_detail
    draft.drop(FINALIZER_LAB)
    scheduled = draft.status.phase is S.SCHEDULED
    if not draft.movable and not (scheduled and draft.status.placements < PLACEMENTS):
        draft.set(lab=None)
        if scheduled:
            return draft.go(S.FAILED, reason, detail, release=True)
        return draft.teardown(S.FAILED, reason, detail)
    return _queue_again(draft, reason, detail)


def _queue_again(draft: Draft, reason: AnyReason, detail: str) -> Step:
    """Release the worker and wait for another; nothing of the session is on it."""
    draft.drop(FINALIZER_LAB)
    for name in PRESENT:
        draft.set(conditions=conditions.drop(draft.status.conditions, name))
    draft.status = port_drift.forgotten(draft.status)
    draft.set(lab=None, ports=(), worker=None, ready_at=None, outcome=None, outcome_message="")
    draft.fact(SessionCondition.WORKER_ASSIGNED, "False", SessionReason.TAKEN_BACK, str(reason))
    return draft.go(S.PENDING, reason, f"placed again: {detail}", release=True)


def lose_worker(draft: Draft, reason: AnyReason, detail: str) -> Step:
    """Leave a worker before the session began: to be placed again, or failed.

    Its lab may still be there, so capacity is given back only once it was seen gone.
    """
    return draft.teardown(S.PENDING if draft.movable else S.FAILED, reason, detail)
