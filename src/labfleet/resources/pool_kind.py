"""The kind Pool: how pools are listed, filtered, shown and looked after."""

from __future__ import annotations

from labfleet.resources.conditions import Measured
from labfleet.resources.declaration import Advice, Kind, Loud, State, columns, filters, runbook
from labfleet.resources.pool import Pool, PoolPhase
from labfleet.resources.pool_conditions import PoolCondition, PoolReason

_EXPLAIN = "labfleet explain pool/NAME"
_RUNBOOK = runbook(
    "Pool",
    (
        "INITIALIZING",
        "",
        "Its first workers boot.",
        _EXPLAIN,
        "See the workers: `labfleet get workers`.",
    ),
    (
        "SCALING_UP",
        "",
        "Workers boot for sessions that wait.",
        _EXPLAIN,
        (
            "Nothing while its workers boot: their own explanations say how far they are. When "
            "something keeps it from adding more, its message says what."
        ),
    ),
    (
        "SCALING_DOWN",
        "",
        "Empty workers leave.",
        _EXPLAIN,
        "Nothing. The disruption budget lets few go at once.",
    ),
    (
        "DRAINING",
        "",
        "Somebody asked for the pool to be emptied.",
        _EXPLAIN,
        "Its workers' explanations say what is in the way.",
    ),
    (
        "TERMINATING",
        "",
        "Its workers end, then the pool goes.",
        _EXPLAIN,
        "See the workers that are left.",
    ),
    (
        "FAILED",
        "",
        "It is short of workers and its template is missing or disabled.",
        _EXPLAIN,
        "Enable the template, or name another one.",
    ),
    (
        "Ready",
        "",
        "False: it is on its way to what its policy asks for.",
        _EXPLAIN,
        "See its phase and message.",
    ),
    (
        "LosingMachines",
        "",
        "True: its machines keep being ended from outside, or never come up.",
        "labfleet events pool/NAME",
        (
            "Find out who ends them (alert ExternalChange), or mend the template, image or "
            "licence that is named; then `labfleet resume --pool NAME`."
        ),
    ),
    (
        "DemandMet",
        "",
        "False: sessions wait, or workers are missing, and the pool may not add one.",
        _EXPLAIN,
        (
            "At its maximum: raise spec.scaling.maxWorkers, or let sessions end. Without its "
            "template: enable it, or name another."
        ),
    ),
    (
        "PromisesKept",
        "",
        "False: slots were promised that it can hold no more.",
        _EXPLAIN,
        (
            "Raise spec.scaling.maxWorkers, enable the template, or move the sessions that the "
            "message names. What finds another place moves there by itself."
        ),
    ),
    (
        "BudgetNear",
        "",
        "True: most of its budget is taken.",
        "labfleet cost --pool NAME",
        "See what is idle or waits for nobody; raise spec.budget if more is to run.",
    ),
    (
        "BudgetReached",
        "",
        "True: its budget lets no worker be started any more; what runs goes on.",
        "labfleet cost --pool NAME",
        (
            "Raise spec.budget, or let sessions end. Where a price is unknown: state "
            "hourlyPriceUsd in the template, or name the type in the price file."
        ),
    ),
    (
        "Paused",
        "",
        "True: somebody paused its automatic actions, or all.",
        _EXPLAIN,
        "`labfleet resume --pool NAME`.",
    ),
)
_ADVICE = (
    Advice(
        subject=PoolCondition.DEMAND_MET,
        reason=PoolReason.AT_MAXIMUM,
        cause="False: sessions wait, or workers are missing, and it has as many as it may have.",
        fix="Raise spec.scaling.maxWorkers, or let sessions end.",
    ),
    Advice(
        subject=PoolCondition.DEMAND_MET,
        reason=PoolReason.NO_TEMPLATE,
        cause="False: workers are needed, and its template is missing or disabled.",
        fix="Enable the template, or name another one.",
    ),
    Advice(
        subject=PoolCondition.DEMAND_MET,
        reason=PoolReason.BUDGET_REACHED,
        cause="False: workers are needed, and its budget lets none be started.",
        fix="Raise spec.budget, or let sessions end.",
    ),
    Advice(
        subject=PoolCondition.PROMISES_KEPT,
        reason=PoolReason.BOOTS_LATE,
        cause="False: workers for promised slots will be up too late, as measured boots tell.",
        fix=(
            "See which boot, failed, or found no room at the provider: `labfleet get workers -o "
            "wide`; resume the pool if it is paused."
        ),
    ),
    Advice(
        subject=PoolCondition.PROMISES_KEPT,
        reason=PoolReason.WORKERS_LATE,
        cause="False: the head start of promised slots has begun, and no worker hosts them.",
        fix="See why its workers do not come up: `labfleet get workers -o wide`.",
    ),
    Advice(
        subject=PoolCondition.PAUSED,
        reason=PoolReason.FLEET_PAUSED,
        cause="True: somebody paused all automatic actions.",
        fix="`labfleet resume`.",
    ),
)


def _shortage(pool: Pool) -> Measured:
    """Return how many sessions wait, of a pool at which none waits how many workers it has."""
    status, scaling = pool.status, pool.spec.scaling
    if status.waiting_sessions:
        return Measured(value=status.waiting_sessions, unit="waiting sessions")
    serving = status.ready + status.booting
    return Measured(value=serving, unit="serving workers", limit=scaling.min_workers)


def _endangered(pool: Pool) -> Measured:
    """Return how many promised sessions are in danger."""
    return Measured(value=pool.status.endangered, unit="promised sessions")


def _losses(pool: Pool) -> Measured:
    """Return how many workers were lost lately."""
    return Measured(value=len(pool.status.losses), unit="lost workers")


_GROWS = State("starting", 1, "busy", "◔")
_SHRINKS = State("ending", 3, "warn", "◑")
# Even a pool that is terminated is not over: the next step removes it, and no list leaves it out.
_STATES: dict[str, State] = {
    PoolPhase.PENDING: State("waiting", 0, "wait", "○"),
    PoolPhase.INITIALIZING: _GROWS,
    PoolPhase.READY: State("running", 2, "good", "●"),
    PoolPhase.SCALING_UP: _GROWS,
    PoolPhase.SCALING_DOWN: State("running", 2, "good", "●"),
    PoolPhase.DRAINING: _SHRINKS,
    PoolPhase.TERMINATING: _SHRINKS,
    PoolPhase.TERMINATED: State("ended", 5, "calm", "■"),
    PoolPhase.FAILED: State("failed", 4, "bad", "✕"),
}
KIND = Kind(
    name="Pool",
    plural="pools",
    navigable=True,
    short=("p",),
    type=Pool,
    summary="The workers of one lab track, with a scaling policy.",
    columns=columns(
        "PHASE=status.phase",
        "TRACK=spec.track",
        "MIN=spec.scaling.minWorkers",
        "MAX=spec.scaling.maxWorkers",
        "WORKERS=status.workers",
        "READY=status.ready",
        "STOPPED=status.stopped",
        "WAITING=status.waitingSessions",
        "PAUSED=spec.paused*",
        "LEAD(s)=status.lead.seconds*",
        "TEMPLATE=spec.template*",
        "POLICY=spec.scaling.policy*",
        "STRATEGY=spec.strategy?the fleet's*",
        "USD/HOUR=spec.budget.usdPerHour*",
        "USD/MONTH=spec.budget.usdPerMonth*",
        "MESSAGE=status.message*",
    ),
    filters=filters("phase=status.phase"),
    states=_STATES,
    frozen=("track", "name_prefix"),
    kept=("paused",),
    followed=True,
    conditions=PoolCondition,
    reasons=PoolReason,
    news=(
        (PoolCondition.LOSING_MACHINES, "True"),
        (PoolCondition.DEMAND_MET, "False"),
        (PoolCondition.PROMISES_KEPT, "False"),
        (PoolCondition.PAUSED, "True"),
        (PoolCondition.BUDGET_REACHED, "True"),
    ),
    loud=(
        Loud(PoolCondition.LOSING_MACHINES, "True", "critical", _losses),
        Loud(PoolCondition.PROMISES_KEPT, "False", "critical", _endangered),
        Loud(PoolCondition.DEMAND_MET, "False", "warning", _shortage),
        Loud(PoolCondition.PAUSED, "True", "info"),
        Loud(PoolCondition.BUDGET_REACHED, "True", "critical"),
        Loud(PoolCondition.BUDGET_NEAR, "True", "warning"),
    ),
    resting=(
        "PENDING",
        "READY",
        "TERMINATED",
    ),
    runbook=_RUNBOOK,
    advice=_ADVICE,
)
