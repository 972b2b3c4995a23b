"""How many workers a pool should have: one decision from a snapshot, by the pool's policy.

Pure. Here is what holds for every policy: the minimum is kept, at all hours; the maximum is never
exceeded; a parked worker starts before a new one is made; failed and ill ones are replaced within the
maximum; cool-downs, hours and the disruption budget hold; nothing that hosts, is booked, or is
needed by a promise is taken away. What the policy adds or gives back is `pools.policies`. A decision
is a proposal: the caller must apply it in one commit with preconditions on the ledgers that it read
(facts/fleet-bugs.md#t16); otherwise a session placed meanwhile is lost.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from labfleet.decisions import disruption, parking, worker_names
from labfleet.decisions.pool_view import PoolDecision, PoolView, PoolWorker, Retirement
from labfleet.decisions.pools import groups as grouping
from labfleet.decisions.pools import need, policies, policy_kinds, windows
from labfleet.decisions.pools.groups import Groups, Look
from labfleet.kernel.quantity import count
from labfleet.resources.pool import PoolPhase, ScalingEvent
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.worker import WorkerPhase

__all__ = ["PoolDecision", "PoolView", "PoolWorker", "Retirement", "decide_pool"]

FIRST = 10
"""Waiting sessions of which it is told whether they find room, where the policy does nothing for them."""
PROMISED = "Promised"
"""The purpose of workers that are made for promised slots: what of them is not needed goes first."""
SLOT_OVER = timedelta(minutes=2)
"""How long a worker that was made for promised slots stays empty after them: the calendar says that
nothing comes, so it need not wait as one does that was made for what nobody could foresee."""


def decide_pool(view: PoolView, now: datetime) -> PoolDecision:
    """Return what the pool should change now; total, and empty when nothing is to be done."""
    groups = grouping.grouped(view.workers)
    ended = tuple(Retirement(name=each.name, reason="Terminated") for each in groups.ended)
    if view.deleting or view.spec.desired == "Terminated":
        return _terminate(view, groups, ended)
    if view.spec.desired == "Draining":
        names = tuple(each.name for each in (*groups.ready, *groups.booting))
        message = f"draining, {count(len(names) + len(groups.leaving), 'worker')} left"
        return _decision(view, groups, PoolPhase.DRAINING, message, drain=names, retire=ended)
    return _run(view, groups, ended, now)


def _run(
    view: PoolView, groups: Groups, ended: tuple[Retirement, ...], now: datetime
) -> PoolDecision:
    failed = tuple(
        Retirement(name=each.name, reason="Failed")
        for each in groups.failed
        if not each.leaving and (not each.reservations or grouping.stuck(each, now))
    )
    replaced = _replaced(view, groups)
    before = len(groups.ready) + len(groups.booting)
    start, started_why = _starts(view, groups, now)
    groups = grouping.with_started(groups, start)
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
            at=now, kind="scale_down", reason=each.reason, before=before - step,
            after=before - step - 1, worker=each.name,
        )
        for step, each in enumerate((*replaced, *surplus))
    ]  # fmt: skip
    if surplus and not message:
        more = f" and {len(surplus) - 1} more" if len(surplus) > 1 else ""
        message = f"removing {surplus[0].name}{more}: {surplus[0].reason}"
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
        purpose=why if create else "",
        unmet=why if isinstance(why, PoolReason) else None,
    )


def _terminate(view: PoolView, groups: Groups, ended: tuple[Retirement, ...]) -> PoolDecision:
    rest = tuple(
        Retirement(name=each.name, reason="PoolTerminating")
        for group in (groups.ready, groups.booting, groups.leaving, groups.failed, groups.parked)
        for each in group
    )
    phase = PoolPhase.TERMINATING if rest or ended else PoolPhase.TERMINATED
    message = f"terminating, {count(len(rest), 'worker')} left" if rest else "terminated"
    return _decision(view, groups, phase, message, retire=(*ended, *rest))


def _growth(view: PoolView, groups: Groups, now: datetime) -> tuple[int, str, str]:
    """Return how many workers to add, a one-word reason, and a sentence for the pool's status."""
    scaling, look = view.spec.scaling, Look(view, groups, now)
    serving = sum(not each.ill for each in groups.ready) + len(groups.booting)
    room = scaling.max_workers - grouping.places(groups, now)
    below, unkept = scaling.min_workers - serving, _unkept(look)
    missing, reason, need_told = max(below, unkept), "BelowMinimum", ""
    if missing <= 0:
        missing, reason, need_told = policies.of(scaling).grow(look)
        if missing <= 0:
            return _unserved(look)
    elif below <= 0:
        reason = PROMISED
    told = need_told or _lacking(serving, scaling.min_workers, missing)
    if view.shape is None:
        told = f"{told}; template {view.spec.template} is missing or disabled"
        return 0, PoolReason.NO_TEMPLATE, told
    if below <= 0 and not _in_hours(view, now):
        return (
            0,
            PoolReason.OUTSIDE_HOURS,
            f"{told}; outside of the hours in which the pool changes",
        )
    if room <= 0:
        told = f"{told}; at the maximum of {count(scaling.max_workers, 'worker')}"
        return 0, "" if _only_surer(look, below, reason) else PoolReason.AT_MAXIMUM, told
    least = scaling.cooldown_up_seconds
    if view.last_scale_up is not None and now - view.last_scale_up < timedelta(seconds=least):
        return 0, "", f"{told}; the last worker was added less than {least} s ago"
    return min(missing, room), reason, f"{told}; adding {count(min(missing, room), 'worker')}"


def _unserved(look: Look) -> tuple[int, str, str]:
    """Return nothing to add, and what waits although the policy makes nothing for it."""
    view = look.view
    scaling = view.spec.scaling
    if policy_kinds.demand(scaling) or policy_kinds.resting(scaling) or not view.waiting:
        return 0, "", ""
    first = replace(view, waiting=view.waiting[:FIRST])
    if not need.uncovered(first, look.groups, look.now):
        return 0, "", ""
    many = len(view.waiting)
    told = f"{many} {'session waits' if many == 1 else 'sessions wait'} for capacity"
    return 0, PoolReason.POLICY_RESTS, f"{told}; policy {scaling.policy} makes no worker for that"


def _only_surer(look: Look, below: int, reason: str) -> bool:
    """Tell whether the workers that are missing would only make what is promised surer."""
    if below > 0 or reason not in {PROMISED, "Spare"}:
        return False
    return reason == "Spare" or not need.certain(look)


def _in_hours(view: PoolView, now: datetime) -> bool:
    hours = view.spec.scaling.hours
    return not hours or windows.is_open(hours, view.zones, now)


def _lacking(serving: int, least: int, missing: int) -> str:
    if serving < least:
        return f"{serving} of at least {count(least, 'worker')}"
    return f"{count(missing, 'more worker')} needed for what is promised"


def _unkept(look: Look) -> int:
    """Return how many more workers the promises that are due soon need."""
    return need.promised(look) if policy_kinds.demand(look.view.spec.scaling) else 0


def _starts(view: PoolView, groups: Groups, now: datetime) -> tuple[tuple[str, ...], str]:
    """Return the parked workers to start before any launch, and a one-word reason."""
    parked = [each for each in (*groups.leaving, *groups.parked) if each.parked]
    if not parked:
        return (), ""
    scaling, look = view.spec.scaling, Look(view, groups, now)
    below = scaling.min_workers - groups.serving
    missing, wanting = max(below, 0), []
    if _in_hours(view, now):
        if policy_kinds.demand(scaling):
            missing, wanting = max(missing, _unkept(look)), need.uncovered(view, groups, now)
        else:
            missing = max(missing, policies.of(scaling).grow(look)[0])
    coming = [grouping.as_parked(each, view) for each in sorted(parked, key=_nearness)]
    start = parking.to_start(coming, wanting, now=now, least=missing)
    return start, "ParkedForMinimum" if below > 0 else "ParkedForSessions"


def _nearness(worker: PoolWorker) -> tuple[int, str]:
    """Order by how soon it can serve: not stopped yet, then stopped, then stopping."""
    order = {WorkerPhase.DRAINING: 0, WorkerPhase.STOPPED: 1}
    return order.get(worker.phase, 2), worker.name


# --- what goes ---------------------------------------------------------------------------


def _surplus(view: PoolView, groups: Groups, now: datetime) -> tuple[Retirement, ...]:
    """Return the workers to remove that nothing needs, those first that nobody has used yet."""
    scaling = view.spec.scaling
    look, open_now = Look(view, groups, now), _in_hours(view, now)
    automatic = open_now and not policy_kinds.resting(scaling)
    unused = _unused(look) if automatic and policy_kinds.demand(scaling) else ()
    if unused:
        return tuple(Retirement(name=each, reason="NotNeeded") for each in unused)
    if len(groups.ready) <= scaling.min_workers:
        return ()
    empty = sorted((each for each in groups.ready if grouping.empty(each)), key=_longest)
    if not empty or not _calm(view, groups):
        return ()
    if groups.serving > scaling.max_workers:
        return (Retirement(name=empty[0].name, reason="AboveMaximum"),)
    if not automatic:
        return ()
    over = [each for each in empty if each.for_promises and _since(each, now) >= SLOT_OVER]
    if over and policy_kinds.demand(scaling):
        going = _going(look, over)
        if going:
            return tuple(Retirement(name=each, reason="SlotOver") for each in going)
    pause = timedelta(seconds=scaling.cooldown_down_seconds)
    if view.last_scale_down is not None and now - view.last_scale_down < pause:
        return ()
    least = timedelta(seconds=scaling.empty_seconds)
    going = _going(look, [each for each in empty if _since(each, now) >= least])
    return tuple(Retirement(name=each, reason="Empty") for each in going)


def _going(look: Look, empty: list[PoolWorker]) -> tuple[str, ...]:
    """Return which of the empty workers go now: half of them at most, should the look be wrong."""
    scaling = look.view.spec.scaling
    many = min(
        policies.of(scaling).shrink(look, empty),
        len(look.groups.ready) - scaling.min_workers,
        -(-len(empty) // 2),
    )
    names = [each.name for each in empty[: max(many, 0)]]
    return tuple(names[: need.spared(look, names)])


def _unused(look: Look) -> tuple[str, ...]:
    """Return the workers made for promised slots, or never launched, that nothing needs after all.

    They go at once: nothing was ever hosted there, and a booting one would come up for nobody.
    """
    view, groups = look.view, look.groups
    spare = groups.serving - view.spec.scaling.min_workers
    waits = [each for each in groups.booting if each.unlaunched and not each.reservations]
    made = [
        each
        for each in (*groups.booting, *groups.ready)
        if each.unused and not each.reservations and not each.in_use and not each.unlaunched
    ]
    found = (*waits[::-1], *made[::-1])[: max(spare, 0)]
    if not found or need.wanted(view, look.now):
        return ()
    extra = max(0, need.free(look) - need.spares(look))
    names = [each.name for each in found[:extra]]
    return tuple(names[: need.spared(look, names)])


def _since(worker: PoolWorker, now: datetime) -> timedelta:
    return timedelta(0) if worker.empty_since is None else now - worker.empty_since


def _longest(worker: PoolWorker) -> tuple[datetime, str]:
    if worker.empty_since is None:
        raise AssertionError(f"{worker.name} is not empty")
    return worker.empty_since, worker.name


def _calm(view: PoolView, groups: Groups) -> bool:
    """Tell whether the pool is known well enough to shrink.

    While workers are silent or failed, nobody knows what is left, so the disruption budget counts
    them. Empty workers that go are none of its business: nobody is disrupted.
    """
    sick = sum(each.unreachable for each in groups.ready)
    lost = sick + len(groups.failed)
    serving = len(groups.ready) - sick
    return disruption.room(view.spec.disruption, serving=serving, away=lost).left > 0


def _replaced(view: PoolView, groups: Groups) -> tuple[Retirement, ...]:
    """Return the workers on an impaired host that may go now (facts/aws.md#status-checks).

    What runs there stays until its end, unless the provider retires the machine. Of several, as
    many go at once as the disruption budget allows: the check may be what is wrong.
    """
    ill = [
        each
        for each in groups.ready
        if each.ill and (each.retired or not (each.reservations or each.in_use))
    ]
    away = grouping.away(groups)
    left = disruption.allowance(view.spec.disruption, len(groups.ready) + away) - away
    return tuple(Retirement(name=each.name, reason="Impaired") for each in ill[: max(left, 0)])


def _phase(view: PoolView, groups: Groups, *, growing: bool, shrinking: bool) -> PoolPhase:
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
    groups: Groups,
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
    purpose: str = "",
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
        purpose=purpose,
        ready=len(groups.ready),
        booting=len(groups.booting),
        draining=len(groups.leaving),
        failed=len(groups.failed),
        stopped=len(groups.parked),
    )
