"""What a worker's record says of stray labs, and when the next one is removed."""

from __future__ import annotations

from typing import Final

import msgspec

from labfleet.decisions import stray_labs
from labfleet.decisions.lifecycle.worker.draft import Draft, Guard, Step
from labfleet.resources import conditions
from labfleet.resources.conditions import Measured
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

REMOVE: Final = "remove_lab"
SHOWN = 3
AGAIN = 10.0
"""Seconds between two calls of a removal: a lab is stopped, then wiped, then deleted."""


def note(draft: Draft) -> None:
    """Write that stray labs are there; a look that did not list the labs writes nothing."""
    if draft.seen.strays is None:
        return
    found = draft.status.stray_labs
    if not stray_labs.heeded(found):
        if conditions.find(draft.status.conditions, WorkerCondition.STRAY_LABS) is not None:
            draft.fact(WorkerCondition.STRAY_LABS, "False", WorkerReason.NO_STRAYS)
        return
    rules = draft.seen.stray_rules
    reason = WorkerReason.SHARED_SERVER if rules.shared else WorkerReason.LEFT_BEHIND
    draft.fact(
        WorkerCondition.STRAY_LABS, "True", reason, _told(draft, rules),
        measured=Measured(value=_count(draft), unit="labs"),
    )  # fmt: skip


def _count(draft: Draft) -> int:
    """Return how many stray labs nobody said are left alone, of all: a record names only some."""
    ignored = {each.id for each in draft.worker.spec.ignored_labs}
    return sum(each.id not in ignored for each in draft.seen.strays or ())


def _told(draft: Draft, rules: stray_labs.Rules) -> str:
    found = stray_labs.heeded(draft.status.stray_labs)
    number = _count(draft)
    ids = sorted(lab.id for lab in found)
    more = f" and {number - SHOWN} more" if number > SHOWN else ""
    labs = "a lab" if number == 1 else f"{number} labs"
    told = f"{labs} of no session: {', '.join(ids[:SHOWN])}{more}"
    if rules.shared:
        return f"{told}; never removed on a server that others may use"
    if rules.hold:
        return f"{told}; nothing is removed: {rules.hold}"
    refused = next((lab.refused for lab in found if lab.refused), "")
    last = f"; the last try failed: {refused}" if refused else ""
    return f"{told}; removed after a grace of {rules.grace:.0f} s{last}"


def removable(draft: Draft) -> bool:
    """Tell whether a stray lab that this look saw is to be removed now."""
    seen = draft.seen
    if seen.strays is None:
        return False
    lab = stray_labs.due(draft.status.stray_labs, seen.stray_rules, draft.now, seen.watched_since)
    return lab is not None


def guarded(step: Step) -> Step:
    """Return the step; a removal is recorded only if automatic actions are not paused by then."""
    lab = stray_labs.next_lab(step.status.stray_labs)
    if step.action != REMOVE or lab is None:
        return step
    told = f"removing lab {lab.id}: its session {lab.uid} is not in this store, or has ended"
    return msgspec.structs.replace(step, guard=Guard(), reason=told)
