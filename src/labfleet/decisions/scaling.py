"""How many workers a pool should have: the minimal NEED_BASED decision.

Pure. Keeps the minimum, adds one worker when a session waits for capacity that no starting
worker will bring, and at once as many as promised slots soon need; removes one that has been empty
for long enough, replaces failed ones, and never exceeds the maximum. A decision is a proposal from
a snapshot: the caller must apply it in one commit with preconditions on the ledgers that it read
(facts/fleet-bugs.md#t16); otherwise a session placed meanwhile is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import disruption, parking, placement, worker_names
from labfleet.decisions.claims import growth
from labfleet.decisions.pool_view import PoolDecision, PoolView, PoolWorker, Retirement
from labfleet.kernel.quantity import count
from labfleet.resources.pool import PoolPhase, ScalingEvent, ScalingPolicy
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.worker import WorkerPhase

__all__ = ["PoolDecision", "PoolView", "PoolWorker", "Retirement", "decide_pool"]

STUCK = timedelta(minutes=30)
"""After this long a failed worker no longer counts towards the maximum, and is removed even
with sessions bound to it: only its end releases them, since its server never answers."""
WAITING_LIMIT = 200
"""How many waiting sessions one decision considers; only one worker is added at a time."""
_READY = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.READY_UNLICENSED})


@dataclass(frozen=True, slots=True)
class _Groups:
    ready: tuple[PoolWorker, ...]
    booting: tuple[PoolWorker, ...]
    leaving: tuple[PoolWorker, ...]
    failed: tuple[PoolWorker, ...]
    ended: tuple[PoolWorker, ...]
    parked: tuple[PoolWorker, ...]


def decide_pool(view: PoolView, now: datetime) -> PoolDecision:
    """Return what the pool should change now; total, and empty when nothing is to be done."""
    groups = _group(view.workers)
    ended = tuple(Retirement(name=each.name, reason="Terminated") for each in groups.ended)
    if view.deleting or view.spec.desired == "Terminated":
        return _terminate(view, groups, ended)
    if view.spec.desired == "Draining":
        names = tuple(each.name for each in (*groups.ready, *groups.booting))
        message = f"draining, {count(len(names) + len(groups.leaving), 'worker')} left"
        return _decision(view, groups, PoolPhase.DRAINING, message, drain=names, retire=ended)
    return _run(view, groups, ended, now)


def _run(
    view: PoolView, groups: _Groups, ended: tuple[Retirement, ...], now: datetime
) -> PoolDecision:
    failed = tuple(
        Retirement(name=each.name, reason="Failed")
        for each in groups.failed
        if not each.leaving and (not each.reservations or _stuck(each, now))
    )
    replaced = _replaced(view, groups)
    before = len(groups.ready) + len(groups.booting)
    start, started_why = _starts(view, groups, now)
    groups = _with_started(groups, start)
    count, why, message = _growth(view, groups, now)
    mine = {each.name for each in view.workers}
    create, counter = worker_names.fresh(
        view.spec, count, last=view.created_workers, mine=mine, taken=view.taken
    )
    quiet = not (create or start or replaced)
    surplus = _surplus(view, groups, now) if quiet else ()
    retire = (*ended, *failed, *replaced, *surplus)
    ill = any(each.ill for each in groups.ready)
    lost = why == "BelowMinimum" and bool(groups.failed or groups.ended or ill)
    grown = [(name, "scale_up", started_why) for name in start]
    grown += [(name, "replace" if lost else "scale_up", why) for name in create]
    events = [
        ScalingEvent(
            at=now, kind="replace" if kind == "replace" else "scale_up", reason=reason,
            before=before + step, after=before + step + 1, worker=name,
        )
        for step, (name, kind, reason) in enumerate(grown)
    ]  # fmt: skip
    events += [
        ScalingEvent(
            at=now, kind="scale_down", reason=each.reason, before=before, after=before - 1,
            worker=each.name,
        )
        for each in (*replaced, *surplus)
    ]  # fmt: skip
    if surplus and not message:
        message = f"removing {surplus[0].name}: {surplus[0].reason}"
    elif start and not message:
        message = f"starting {', '.join(start)}"
    return _decision(
        view,
        groups,
        _phase(view, groups, growing=bool(create or start), shrinking=bool(surplus or failed)),
        message or f"{len(groups.ready)} ready",
        create=create,
        start=start,
        retire=retire,
        created_workers=counter,
        events=tuple(events),
        unmet=why if isinstance(why, PoolReason) else None,
    )


def _terminate(view: PoolView, groups: _Groups, ended: tuple[Retirement, ...]) -> PoolDecision:
    rest = tuple(
        Retirement(name=each.name, reason="PoolTerminating")
        for group in (groups.ready, groups.booting, groups.leaving, groups.failed, groups.parked)
        for each in group
    )
    phase = PoolPhase.TERMINATING if rest or ended else PoolPhase.TERMINATED
    message = f"terminating, {count(len(rest), 'worker')} left" if rest else "terminated"
    return _decision(view, groups, phase, message, retire=(*ended, *rest))


def _growth(view: PoolView, groups: _Groups, now: datetime) -> tuple[int, str, str]:
    """Return how many workers to add, a one-word reason, and a sentence for the pool's status."""
    scaling = view.spec.scaling
    serving = sum(not each.ill for each in groups.ready) + len(groups.booting)
    room = scaling.max_workers - _places(groups, now)
    missing = max(scaling.min_workers - serving, _unkept(view, groups))
    uncovered = 0
    if missing <= 0:
        if not scaling.enabled or scaling.policy is not ScalingPolicy.NEED_BASED:
            return 0, "", _policy_note(view)
        uncovered = len(_uncovered(view, groups, now))
        if not uncovered:
            return 0, "", ""
    need = (
        _lacking(serving, scaling.min_workers, missing)
        if missing > 0
        else f"{uncovered} {'session waits' if uncovered == 1 else 'sessions wait'} for capacity"
    )
    if view.shape is None:
        told = f"{need}; template {view.spec.template} is missing or disabled"
        return 0, PoolReason.NO_TEMPLATE, told
    if room <= 0:
        return (
            0,
            PoolReason.AT_MAXIMUM,
            f"{need}; at the maximum of {count(scaling.max_workers, 'worker')}",
        )
    least = scaling.cooldown_up_seconds
    if view.last_scale_up is not None and now - view.last_scale_up < timedelta(seconds=least):
        return 0, "", f"{need}; the last worker was added less than {least} s ago"
    if missing > 0:
        reason = "BelowMinimum" if serving < scaling.min_workers else "Promised"
        return min(missing, room), reason, f"{need}; adding {min(missing, room)}"
    return 1, "SessionsWaiting", f"{need}; adding a worker"


def _lacking(serving: int, least: int, missing: int) -> str:
    if serving < least:
        return f"{serving} of at least {count(least, 'worker')}"
    return f"{count(missing, 'more worker')} needed for what is promised"


def _unkept(view: PoolView, groups: _Groups, *, without: str = "") -> int:
    """Return how many more workers the promises that are due soon need; `without` is on its way out."""
    scaling = view.spec.scaling
    if not scaling.enabled or scaling.policy is not ScalingPolicy.NEED_BASED:
        return 0
    closed = (each.cordoned or each.unreachable or each.ill for each in groups.ready)
    ready = [each.name for each, shut in zip(groups.ready, closed, strict=True) if not shut]
    coming = [each.name for each in groups.booting]
    return growth.missing(view.promised, {*ready, *coming} - {without})


def _policy_note(view: PoolView) -> str:
    scaling = view.spec.scaling
    if not scaling.enabled or scaling.policy is ScalingPolicy.NONE:
        return ""
    return f"policy {scaling.policy} is not built yet; only the minimum is kept"


def _starts(view: PoolView, groups: _Groups, now: datetime) -> tuple[tuple[str, ...], str]:
    """Return the parked workers to start before any launch, and a one-word reason."""
    parked = [each for each in (*groups.leaving, *groups.parked) if each.parked]
    if not parked:
        return (), ""
    scaling = view.spec.scaling
    below = scaling.min_workers - len(groups.ready) - len(groups.booting)
    missing = max(below, _unkept(view, groups))
    need_based = scaling.enabled and scaling.policy is ScalingPolicy.NEED_BASED
    wanting = _uncovered(view, groups, now) if need_based else []
    coming = [_as_parked(each, view) for each in sorted(parked, key=_nearness)]
    start = parking.to_start(coming, wanting, now=now, least=max(missing, 0))
    return start, "ParkedForMinimum" if below > 0 else "ParkedForSessions"


def _nearness(worker: PoolWorker) -> tuple[int, str]:
    """Order by how soon it can serve: not stopped yet, then stopped, then stopping."""
    order = {WorkerPhase.DRAINING: 0, WorkerPhase.STOPPED: 1}
    return order.get(worker.phase, 2), worker.name


def _with_started(groups: _Groups, start: tuple[str, ...]) -> _Groups:
    """Return the groups with started workers counted as coming up (facts/aws.md#scaling)."""
    if not start:
        return groups
    moved = tuple(each for each in (*groups.leaving, *groups.parked) if each.name in start)
    return replace(
        groups,
        booting=(*groups.booting, *moved),
        leaving=tuple(each for each in groups.leaving if each.name not in start),
        parked=tuple(each for each in groups.parked if each.name not in start),
    )


def _uncovered(view: PoolView, groups: _Groups, now: datetime) -> list[placement.PlacementRequest]:
    """Return the waiting sessions that no present or starting worker will take.

    Sessions that do not fit an empty worker are left out: adding one would not help them.
    """
    horizon = now + view.lead
    due = [each for each in view.waiting if each.start <= horizon][:WAITING_LIMIT]
    if not due or _plenty(due, view, groups):
        return []
    workers = [_as_ready(each, view) for each in (*groups.ready, *groups.booting)]
    left = parking.uncovered(workers, due, now=now)
    shape = view.shape
    return [each for each in left if shape is None or placement.fits_empty(each, shape)]


def _as_parked(worker: PoolWorker, view: PoolView) -> placement.Candidate:
    """Return a parked worker as it will serve: of its earlier size, with the template's licence."""
    ready = _as_ready(worker, view)
    real, made = worker.capacity, view.shape
    if real is not None and made is not None:
        nodes = max(real.nodes, made.capacity.nodes)
        real = msgspec.structs.replace(real, nodes=nodes)
    return replace(ready, capacity=real or ready.capacity)


def _plenty(due: Sequence[placement.PlacementRequest], view: PoolView, groups: _Groups) -> bool:
    """Tell whether each request has an empty ready worker, so that no search is needed."""
    spare = [
        (each.capacity, each.has)
        for each in groups.ready
        if each.capacity is not None
        and not each.reservations
        and not (each.cordoned or each.unreachable)
        and each.phase is WorkerPhase.READY
    ]
    if len(spare) < len(due) or view.shape is None:
        return False
    empty = (replace(view.shape, capacity=size, has=known) for size, known in spare)
    return all(
        placement.fits_empty(request, room) for request, room in zip(due, empty, strict=False)
    )


def _as_ready(worker: PoolWorker, view: PoolView) -> placement.Candidate:
    """Return the worker as placement will see it once it has booted and is licensed."""
    capacity = worker.capacity
    settled = worker.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}
    if view.shape is not None and (capacity is None or not settled):
        capacity = view.shape.capacity
    return placement.Candidate(
        name=worker.name,
        track=view.spec.track,
        closed="Cordoned" if worker.cordoned or worker.unreachable else None,
        licensed=True,
        product=view.shape.product if view.shape else None,
        capacity=capacity,
        reservations=worker.reservations,
        has=worker.has,
    )


def _surplus(view: PoolView, groups: _Groups, now: datetime) -> tuple[Retirement, ...]:
    """Return the one ready worker to remove, if there is one.

    Empty means: hosts nothing, no node runs there, and nothing is booked on it, now or later.
    A lab that somebody started by hand keeps its worker (facts/aws-bugs.md#case-23).
    """
    scaling = view.spec.scaling
    automatic = scaling.enabled and scaling.policy is ScalingPolicy.NEED_BASED
    waits = [each.name for each in groups.booting if each.unlaunched and not each.reservations]
    spare = len(groups.ready) + len(groups.booting) > scaling.min_workers
    needed = _wanted(view, now) or _unkept(view, groups, without=waits[-1] if waits else "")
    if waits and spare and automatic and not needed:
        return (Retirement(name=waits[-1], reason="Empty"),)  # it would boot for nobody
    if len(groups.ready) <= scaling.min_workers:
        return ()
    empty = [
        (each.empty_since, each.name)
        for each in groups.ready
        if each.empty_since is not None and not each.reservations
        and each.phase is not WorkerPhase.ACTIVE and not each.in_use
    ]  # fmt: skip
    if not empty:
        return ()
    since, name = min(empty)
    if not _budget(view, groups).left:
        return ()
    if len(groups.ready) + len(groups.booting) > scaling.max_workers:
        return (Retirement(name=name, reason="AboveMaximum"),)
    if not automatic:
        return ()
    pause = timedelta(seconds=scaling.cooldown_down_seconds)
    if view.last_scale_down is not None and now - view.last_scale_down < pause:
        return ()
    if now - since < timedelta(seconds=scaling.empty_seconds) or _wanted(view, now):
        return ()
    if _unkept(view, groups, without=name):
        return ()
    return (Retirement(name=name, reason="Empty"),)


def _replaced(view: PoolView, groups: _Groups) -> tuple[Retirement, ...]:
    """Return the workers on an impaired host that may go now (facts/aws.md#status-checks).

    What runs there stays until its end, unless the provider retires the machine. Of several, as
    many go at once as the disruption budget allows: the check may be what is wrong.
    """
    ill = [
        each
        for each in groups.ready
        if each.ill and (each.retired or not (each.reservations or each.in_use))
    ]
    away = _away(groups)
    left = disruption.allowance(view.spec.disruption, len(groups.ready) + away) - away
    return tuple(Retirement(name=each.name, reason="Impaired") for each in ill[: max(left, 0)])


def _budget(view: PoolView, groups: _Groups) -> disruption.Room:
    """Return how many serving workers may be taken out while others already are."""
    sick = sum(each.unreachable for each in groups.ready)
    away = sick + _away(groups)
    return disruption.room(view.spec.disruption, serving=len(groups.ready) - sick, away=away)


def _away(groups: _Groups) -> int:
    ending = sum(each.phase is WorkerPhase.TERMINATING_EC2 for each in groups.leaving)
    return len(groups.failed) + len(groups.leaving) - ending


def _wanted(view: PoolView, now: datetime) -> bool:
    """Tell whether a waiting session could still need an empty worker within the lead time."""
    horizon = now + view.lead
    return any(
        each.start <= horizon and (view.shape is None or placement.fits_empty(each, view.shape))
        for each in view.waiting[:WAITING_LIMIT]
    )


def _places(groups: _Groups, now: datetime) -> int:
    """Return how many workers count towards the maximum.

    Every worker that may still have an instance counts, except one that failed long ago: it
    must not block its own replacement for ever.
    """
    gone = sum(_stuck(each, now) for each in groups.failed)
    counted = (groups.ready, groups.booting, groups.leaving, groups.failed, groups.parked)
    return sum(len(each) for each in counted) - gone


def _stuck(worker: PoolWorker, now: datetime) -> bool:
    return worker.phase_since is not None and now - worker.phase_since >= STUCK


def _group(workers: Sequence[PoolWorker]) -> _Groups:
    made: dict[str, list[PoolWorker]] = {
        word: [] for word in ("ready", "booting", "leaving", "failed", "ended", "parked")
    }
    for each in sorted(workers, key=_by_name):
        made[_kind(each)].append(each)
    return _Groups(**{word: tuple(each) for word, each in made.items()})


def _kind(worker: PoolWorker) -> str:
    if worker.phase is WorkerPhase.TERMINATED:
        return "ended"
    if worker.phase is WorkerPhase.FAILED:
        return "failed"
    if worker.leaving or worker.phase is WorkerPhase.TERMINATING_EC2:
        return "parked" if worker.phase is WorkerPhase.STOPPED else "leaving"
    if worker.phase in _READY:
        return "ready"
    # Stopping or STOPPED although it shall be Ready: it is about to come back.
    return "booting"


def _by_name(worker: PoolWorker) -> str:
    return worker.name


def _phase(view: PoolView, groups: _Groups, *, growing: bool, shrinking: bool) -> PoolPhase:
    early = view.phase in {PoolPhase.PENDING, PoolPhase.INITIALIZING}
    if growing or groups.booting:
        return PoolPhase.INITIALIZING if early and not groups.ready else PoolPhase.SCALING_UP
    short = len(groups.ready) < view.spec.scaling.min_workers
    if short and view.shape is None:
        return PoolPhase.FAILED
    if short:
        return PoolPhase.INITIALIZING if early else PoolPhase.SCALING_UP
    return PoolPhase.SCALING_DOWN if shrinking or groups.leaving else PoolPhase.READY


def _decision(
    view: PoolView,
    groups: _Groups,
    phase: PoolPhase,
    message: str,
    *,
    create: tuple[str, ...] = (),
    retire: tuple[Retirement, ...] = (),
    drain: tuple[str, ...] = (),
    start: tuple[str, ...] = (),
    created_workers: int | None = None,
    events: tuple[ScalingEvent, ...] = (),
    unmet: PoolReason | None = None,
) -> PoolDecision:
    return PoolDecision(
        phase=phase,
        message=message,
        create=create,
        retire=retire,
        drain=drain,
        start=start,
        created_workers=view.created_workers if created_workers is None else created_workers,
        events=events,
        unmet=unmet,
        ready=len(groups.ready),
        booting=len(groups.booting),
        draining=len(groups.leaving),
        failed=len(groups.failed),
        stopped=len(groups.parked),
    )
