"""The kind Session: how sessions are listed, filtered, shown and looked after."""

from __future__ import annotations

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
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition, SessionReason

_EXPLAIN = "labfleet explain session/NAME"
_RUNBOOK = runbook(
    "Session",
    (
        "PENDING",
        "its slot's start plus the grace; 24 h without a slot",
        "No worker has room for it in its slot, or none is licensed for it.",
        _EXPLAIN,
        (
            "The decision names what is short on each worker. Raise the pool's maxWorkers, ask "
            "for less in the definition, or free a worker."
        ),
    ),
    (
        "SCHEDULED",
        "its slot's start",
        "It has a place and waits for its slot.",
        _EXPLAIN,
        "Nothing; when its worker leaves it is placed again.",
    ),
    (
        "INSTANTIATING",
        "the definition's boot budget, anew with each node that is up",
        "The lab is imported, waits for its turn to start, boots, or its ports do not answer.",
        _EXPLAIN,
        (
            "Conditions StartTurn, LabStarted and PortsOpen say which. Nodes that stay QUEUED: "
            "see the worker's CmlHealthy and its licence's nodes."
        ),
    ),
    (
        "READY",
        "its slot's start",
        "The lab is up before its slot begins.",
        _EXPLAIN,
        "Nothing.",
    ),
    (
        "COLLECTING",
        "2 min",
        "What it used is observed once more, best effort.",
        _EXPLAIN,
        "Nothing: it goes on without.",
    ),
    (
        "STOPPING",
        "",
        (
            "Its lab is stopped, wiped and deleted; on a server that does not answer it waits, "
            "because its ports and capacity may still be in use, unless no import was ever begun."
        ),
        _EXPLAIN,
        "Mend the server, or delete the worker: with the machine the lab is gone too.",
    ),
    (
        "StartTurn",
        "",
        "False: other labs of the worker boot first, or stay there beyond their end (RoomHeld).",
        _EXPLAIN,
        (
            "Nothing: after 5 minutes of RoomHeld another worker is looked for. Or raise "
            "cml.startsAtOnce of the template."
        ),
    ),
    (
        "LabStarted",
        "",
        "False: nodes are not up yet, or stay queued.",
        _EXPLAIN,
        "See phase INSTANTIATING.",
    ),
    (
        "PortsOpen",
        "",
        "False: a port of the lab does not answer from here.",
        _EXPLAIN,
        "Open the ports 2000-7999 in the worker's security group; see the node's console.",
    ),
    (
        "HostReachable",
        "",
        "False: its worker failed; Unknown: CML was not seen.",
        _EXPLAIN,
        "See the worker.",
    ),
    (
        "Collected",
        "",
        "False: nothing could be observed before the teardown.",
        _EXPLAIN,
        "Nothing: it is best effort.",
    ),
)
_WAITS = State("waiting", 0, "wait", "○")
_STARTS = State("starting", 1, "busy", "◔")
_RUNS = State("running", 2, "good", "●")
_ENDS = State("ending", 3, "busy", "◑")
_OVER = State("ended", OVER, "calm", "■")
_DONE = State("ended", OVER, "calm", "✓")
_STATES: dict[str, State] = {
    SessionPhase.PENDING: _WAITS,
    SessionPhase.SCHEDULED: _STARTS,
    SessionPhase.INSTANTIATING: _STARTS,
    SessionPhase.READY: _RUNS,
    SessionPhase.RUNNING: _RUNS,
    SessionPhase.COLLECTING: _ENDS,
    SessionPhase.STOPPING: _ENDS,
    SessionPhase.FAILED: State("failed", OVER, "bad", "✕"),
    SessionPhase.EXPIRED: State("ended", OVER, "warn", "▲"),
    SessionPhase.CANCELLED: _OVER,
    SessionPhase.COMPLETED: _DONE,
}
_PAGE = Page(
    1,
    "Sessions",
    (
        PageColumn("Session", "name", wide=3),
        PageColumn("State", "state", "status.phase", wide=2),
        PageColumn("Definition", "link:definitions", "spec.definition", wide=2),
        PageColumn("Owner", "text", "spec.owner", "none given"),
        PageColumn("Worker", "link:workers", "status.worker", "not placed", wide=2),
        PageColumn("Since", "time", "status.phaseSince", "just now"),
        PageColumn("Ends", "time", "status.endedAt|status.end", "not set"),
        PageColumn(
            "Why", "why", "status.message|status.decision.message|status.reason", "", wide=5
        ),
    ),
    since="status.phaseSince",
    groups=("waiting", "starting", "running", "ending", "failed", "ended"),
    none="No sessions",
    hints=(
        (
            "A session runs one lab definition for one person. Ask for one:",
            "labfleet apply -f session.yaml",
        ),
        ("or see which definitions there are:", "labfleet get definitions"),
    ),
)
KIND = Kind(
    name="Session",
    plural="sessions",
    short=("s", "lablet", "l"),
    type=Session,
    summary="One person's use of one definition in a time slot.",
    columns=columns(
        "PHASE=status.phase",
        "DEFINITION=spec.definition",
        "OWNER=spec.owner",
        "WORKER=status.worker",
        "START=status.start",
        "END=status.end",
        "RETRIES=status.retryCount*",
        "REASON=status.reason*",
        "MESSAGE=status.message*",
        "HOST=status.access.host*",
        "PORTS=status.access.ports.url*",
        "LAB=status.access.labUrl*",
    ),
    filters=filters(
        "phase=status.phase",
        "owner=spec.owner",
        "worker=status.worker",
        "definition=spec.definition",
    ),
    frozen=("definition", "owner", "track", "reservation_id"),
    kept=("cancel", "observeRequested"),
    asked=("cancel", "observeRequested"),
    partial=("slot",),
    named_by="definition",
    conditions=SessionCondition,
    reasons=SessionReason,
    news=((SessionCondition.HOST_REACHABLE, "False"),),
    resting=(
        "CANCELLED",
        "COMPLETED",
        "EXPIRED",
        "FAILED",
        "RUNNING",
    ),
    runbook=_RUNBOOK,
    states=_STATES,
    page=_PAGE,
    followed=True,
    derived=("status.access",),
)
