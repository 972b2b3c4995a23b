"""What is due beside a worker's life cycle: console text of a failed boot or asked for, tags.

Chores wait while a call is open or decided, and their errors never delay the worker.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import TagChange
from labfleet.decisions.lifecycle.worker.draft import Draft, P, Step
from labfleet.kernel.clock import format_instant
from labfleet.resources import conditions
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

FAILED_BOOT = frozenset(
    {WorkerReason.BOOT_TIMEOUT, WorkerReason.LAUNCH_TIMEOUT, WorkerReason.NO_ADDRESS}
)
TAGGABLE = frozenset({"booting", "running", "stopping", "stopped"})


def add(draft: Draft, step: Step) -> Step:
    """Return the step with what is due; `step` is what the life cycle decided on this draft."""
    ended = draft.status.phase is P.TERMINATED
    if draft.status.machine.id is None or ended:
        return step
    reason = step.reason
    if draft.seen.console is not None:
        reason = reason or _keep_console(draft, draft.seen.console)
    step = msgspec.structs.replace(step, status=draft.status, reason=reason)
    # Reading harms nobody; tags of what is not ours are its owner's.
    if step.action is not None or phases.observed(draft.worker) or not _tags(draft):
        return msgspec.structs.replace(step, status=draft.status)
    return msgspec.structs.replace(step, status=draft.status, action="tags")


def _keep_console(draft: Draft, text: str) -> str:
    """Keep console text with when it was read; return why, for the event."""
    read = format_instant(draft.now, "seconds")
    asked = console_asked(draft.worker)
    draft.set(console=f"{_boot(draft.worker)}read {read}]\n{text}")
    if not asked:
        return "console text kept of a failed boot"
    draft.set(console_handled=draft.worker.spec.console_asked)
    return "console text kept as was asked"


def console_due(worker: Worker) -> bool:
    """Tell whether to read the console text now: when asked, and once for each boot that failed.

    It may help after a failed boot, and while a check fails.
    """
    shown = worker.status.machine
    if shown.id is not None and worker.status.phase is not P.TERMINATED and console_asked(worker):
        return True
    if shown.id is None or phases.observed(worker) or worker.status.phase is P.TERMINATED:
        return False
    if worker.status.console.startswith(_boot(worker)):
        return False
    if "impaired" in {shown.host_check, shown.machine_check} and shown.state == "running":
        return True
    found = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
    failed = worker.status.phase is P.FAILED and found is not None
    return failed and found is not None and found.reason in FAILED_BOOT


def console_asked(worker: Worker) -> bool:
    """Tell whether somebody asked for the console text and has no answer yet."""
    asked, handled = worker.spec.console_asked, worker.status.console_handled
    return asked is not None and (handled is None or handled < asked)


def _boot(worker: Worker) -> str:
    shown = worker.status.machine
    return f"[{shown.id}@{shown.launched} "


def tag_change(worker: Worker, listed: Mapping[str, str]) -> TagChange:
    """Return what is missing until the machine lists the tags of `spec.tags`.

    A key that is removed from the spec but is in the template gets the template's value again.
    """
    wanted, template = worker.spec.tags, worker.spec.machine
    given = {} if template is None else template.provider.tags
    dropped = [key for key in worker.status.machine.tags if key not in wanted]
    back = {key: given[key] for key in dropped if key in given}
    put = {key: value for key, value in {**back, **wanted}.items() if listed.get(key) != value}
    # Remove them even if the list lacks them: it may be older than the call that set them.
    return TagChange(put, tuple(key for key in dropped if key not in given))


def _tags(draft: Draft) -> bool:
    """Tell whether tags are to be changed, and note which keys we may remove later."""
    shown, wanted = draft.status.machine, draft.worker.spec.tags
    listed = draft.seen.tags
    if not (wanted or shown.tags) or shown.state not in TAGGABLE or listed is None:
        return False
    worker = msgspec.structs.replace(draft.worker, status=draft.status)
    change = tag_change(worker, listed)
    if not (change.put or change.gone):
        draft.set(machine=msgspec.structs.replace(shown, tags=tuple(sorted(wanted))))
        if wanted:
            draft.fact(WorkerCondition.TAGS_APPLIED, "True", WorkerReason.APPLIED)
        else:
            draft.forget(WorkerCondition.TAGS_APPLIED)
        return False
    if draft.seen.tags_refused == change:
        return False
    keys = tuple(sorted({*shown.tags, *wanted}))
    draft.set(machine=msgspec.structs.replace(shown, tags=keys))
    return True
