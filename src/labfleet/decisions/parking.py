"""Parked workers: those stopped by the idle rule and not by people, and which to start again.

Pure. A worker that the idle rule stopped is parked capacity: it is started before a new one is
launched (facts/aws-bugs.md#case-7, #case-48), and only for a session that fits it and no other
worker will take, or when its pool is below its minimum (facts/aws-bugs.md#case-18).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from labfleet.decisions import placement
from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.amounts import Reservation
from labfleet.resources.worker import Worker

STOPPED_BY = "labfleet.dev/stopped-by"
"""Annotation of a worker that the idle rule stopped: automation may start it again."""
CORDONED_BY = "labfleet.dev/cordoned-by"
"""Annotation of a worker that the idle rule cordoned and will itself uncordon."""
MARK = "idle"
Candidates = Sequence[placement.Candidate]
Requests = Sequence[placement.PlacementRequest]


def uncovered(
    serving: Candidates, waiting: Requests, *, now: datetime
) -> list[placement.PlacementRequest]:
    """Return the requests that no serving or booting worker will take, first come first served."""
    return packed(serving, waiting, now=now)[0]


def packed(
    serving: Candidates, waiting: Requests, *, now: datetime
) -> tuple[list[placement.PlacementRequest], frozenset[str]]:
    """Return the requests that no such worker will take, and the workers that take the others."""
    there = {each.name: each for each in serving}
    left, taken = list[placement.PlacementRequest](), set[str]()
    for request in waiting:
        found = placement.place(request, tuple(there.values()), now=now).chosen
        if found is None:
            left.append(request)
        else:
            there[found] = occupied(there[found], request)
            taken.add(found)
    return left, frozenset(taken)


def to_start(
    parked: Candidates, wanting: Requests, *, now: datetime, least: int = 0
) -> tuple[str, ...]:
    """Return the workers to start: `least` in any case, then those that take a request.

    `parked` are the workers as they will be once they serve, the quickest first.
    """
    started = {each.name: each for each in parked[:least]}
    rest = list(parked[least:])
    for request in wanting:
        found = placement.place(request, tuple(started.values()), now=now).chosen
        if found is None:
            fits = (each for each in rest if placement.place(request, (each,), now=now).chosen)
            taken = next(fits, None)
            if taken is None:
                continue
            rest.remove(taken)
            started[taken.name] = taken
            found = taken.name
        started[found] = occupied(started[found], request)
    return tuple(started)


def occupied(
    candidate: placement.Candidate, request: placement.PlacementRequest
) -> placement.Candidate:
    """Return the worker as it will be with the request placed on it."""
    held = Reservation(
        holder="waiting", amounts=request.amounts, start=request.start, end=request.end
    )
    return replace(candidate, reservations=(*candidate.reservations, held))


# --- what becomes of a worker ------------------------------------------------------------


def auto_stopped(worker: Worker) -> bool:
    """Tell whether the idle rule stopped it, so that automation may start it again."""
    marked = worker.metadata.annotations.get(STOPPED_BY) == MARK
    return marked and worker.spec.desired == "Stopped" and not worker.deleting


def ours(worker: Worker) -> bool:
    """Tell whether the worker's machine is ours to stop and start."""
    origin = worker.spec.origin
    if worker.spec.machine is None or phases.observed(worker):
        return False
    return origin is None or origin.kind == "imported"


def paused(worker: Worker, now: datetime, *, by: str, reason: str, auto: bool) -> Worker:
    """Return the worker with a stop requested and counted, and the idle rule's marks set."""
    idle = worker.status.idle
    name = "auto_pauses" if auto else "manual_pauses"
    told = msgspec.structs.replace(
        idle,
        warned_at=None,
        last_paused_at=now,
        last_paused_by=by[:256],
        last_paused_reason=reason[:256],
        **{name: getattr(idle, name) + 1},
    )
    marked = _marked(worker, {STOPPED_BY: MARK} if auto else {})
    return _with(marked, told, desired="Stopped")


def resumed(worker: Worker, now: datetime, *, auto: bool) -> Worker:
    """Return the worker with Ready requested and counted; its idle timeout starts anew.

    The idle rule's drain is removed too, even if a person stopped the worker.
    """
    idle = worker.status.idle
    name = "auto_resumes" if auto else "manual_resumes"
    told = msgspec.structs.replace(
        idle, warned_at=None, since=None, last_resumed_at=now, **{name: getattr(idle, name) + 1}
    )
    return _with(_marked(worker, {}), told, desired="Ready")


def _marked(worker: Worker, marks: dict[str, str]) -> Worker:
    """Return the worker with exactly these marks of the idle rule, and its cordon removed."""
    kept = dict(worker.metadata.annotations)
    ours = kept.pop(CORDONED_BY, None) == MARK
    kept.pop(STOPPED_BY, None)
    generation = worker.metadata.generation + 1
    metadata = msgspec.structs.replace(
        worker.metadata, generation=generation, annotations={**kept, **marks}
    )
    spec = worker.spec
    if ours:
        spec = msgspec.structs.replace(spec, cordoned=False)
    return msgspec.structs.replace(worker, metadata=metadata, spec=spec)


def _with(worker: Worker, idle: object, *, desired: str) -> Worker:
    status = msgspec.structs.replace(worker.status, idle=idle)
    spec = msgspec.structs.replace(worker.spec, desired=desired)
    return msgspec.structs.replace(worker, spec=spec, status=status)


def cordoned(worker: Worker) -> bool:
    """Tell whether the idle rule cordoned it."""
    return worker.metadata.annotations.get(CORDONED_BY) == MARK


def with_cordon(worker: Worker, *, closed: bool) -> Worker:
    """Return the worker cordoned by the idle rule, or with that cordon removed."""
    marks = {k: v for k, v in worker.metadata.annotations.items() if k != CORDONED_BY}
    if closed:
        marks[CORDONED_BY] = MARK
    generation = worker.metadata.generation + 1
    metadata = msgspec.structs.replace(worker.metadata, generation=generation, annotations=marks)
    spec = msgspec.structs.replace(worker.spec, cordoned=closed)
    return msgspec.structs.replace(worker, metadata=metadata, spec=spec)


def undrained(worker: Worker) -> Worker:
    """Return the worker without a drain; nothing else, or a failed one would launch again."""
    spec = msgspec.structs.replace(worker.spec, drain=None)
    return msgspec.structs.replace(worker, spec=spec)


def given_up(worker: Worker) -> Worker:
    """Return the worker with its end requested, without marks of the idle rule."""
    bare = _marked(undrained(worker), {})
    spec = msgspec.structs.replace(bare.spec, desired="Terminated", cordoned=True)
    return msgspec.structs.replace(bare, spec=spec)
