"""All that is shown of simulations: columns, states, page."""

from __future__ import annotations

from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.declaration import (
    OVER,
    Kind,
    Page,
    PageColumn,
    State,
    columns,
    filters,
    runbook,
)
from labfleet.resources.simulation import Simulation, SimulationPhase

_DONE = State("ended", OVER, "calm", "✓")
_STATES: dict[str, State] = {
    SimulationPhase.QUEUED: State("waiting", 0, "wait", "○"),
    SimulationPhase.APPROVED: State("approved", 1, "busy", "◔"),
    SimulationPhase.RUNNING: State("running", 2, "good", "●"),
    SimulationPhase.DENIED: State("denied", OVER, "warn", "▲"),
    SimulationPhase.EXPIRED: State("ended", OVER, "warn", "▲"),
    SimulationPhase.FAILED: State("failed", OVER, "bad", "✕"),
    SimulationPhase.CANCELLED: State("ended", OVER, "calm", "■"),
    SimulationPhase.COMPLETED: _DONE,
}
_PAGE = Page(
    3,
    "Simulations",
    (
        PageColumn("Simulation", "name", wide=3),
        PageColumn("State", "state", "status.phase", wide=2),
        PageColumn("Cluster", "link:clusters", "spec.cluster", wide=2),
        PageColumn("Owner", "text", "spec.owner", "none given"),
        PageColumn("Decided", "time", "status.decidedAt", "waits"),
        PageColumn("Ends", "time", "status.completedAt|status.reservation.end", "has not run"),
        PageColumn("Why", "why", "status.note|status.decision.message", "", wide=5),
    ),
    since="status.decidedAt",
    groups=("waiting", "approved", "running", "denied", "failed", "ended"),
    none="No simulations have asked yet",
    hints=(
        (
            "A runner asks before it starts:",
            (
                "curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json'"
                ' -d \'{"chart": "waku", "nodecount": 50}\' BASE/request_run'
            ),
        ),
    ),
)
_RUNBOOK = runbook(
    "Simulation",
    (
        "PodsLive",
        "settings.admission.graceSeconds (600 s)",
        "False: its pods are over or gone, and its caller has not reported its end.",
        "labfleet explain sim/NAME",
        "It ends by itself after the grace; have the runner report the end (labfleet admit does).",
    ),
)
KIND = Kind(
    name="Simulation",
    plural="simulations",
    short=("sim",),
    type=Simulation,
    summary="One run that asked for admission to a cluster.",
    columns=columns(
        "PHASE=status.phase",
        "CLUSTER=spec.cluster",
        "FAMILY=status.prediction.family*",
        "CPU(m)=status.decision.requested.cpuMilli",
        "MEMORY(MiB)=status.decision.requested.memoryMib",
        "RISK=status.decision.risk*",
        "REASON=status.decision.reason*",
        "OWNER=spec.owner",
        "DECIDED=status.decidedAt*",
        "ENDED=status.completedAt*",
        "QUEUE=spec.queue*",
    ),
    filters=filters(
        "phase=status.phase", "owner=spec.owner", "cluster=spec.cluster", "queue=spec.queue"
    ),
    frozen=(
        "cluster", "params", "family", "cost", "duration_seconds", "owner", "queue", "priority",
        "ttl_seconds",
    ),
    amounts=(("cost", False),),
    conditions=SimulationCondition,
    reasons=PodsReason,
    runbook=_RUNBOOK,
    creatable=False,
    waiting=(SimulationPhase.QUEUED,),
    states=_STATES,
    page=_PAGE,
    followed=True,
)  # fmt: skip
