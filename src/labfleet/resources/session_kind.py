"""The kind Session: how sessions are listed, filtered, shown and looked after."""

from __future__ import annotations

from labfleet.resources.declaration import (
    OVER,
    Advice,
    Kind,
    Page,
    PageColumn,
    State,
    columns,
    filters,
    runbook,
)
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import (
    Holdup,
    SessionCondition,
    SessionReason,
    WaitReason,
)

_EXPLAIN = "labfleet explain session/NAME"
_RUNBOOK = runbook(
    "Session",
    (
        "PENDING",
        "its slot's start plus the grace; 24 h without a slot",
        "No place was found for it yet; its decision's reason says why.",
        _EXPLAIN,
        "See the decision's reason, and what it says of each worker.",
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
        "WorkerAssigned",
        "",
        "False: no worker was found for it, or it has left its worker; its decision says why.",
        _EXPLAIN,
        "What its phase and its decision's reason say: the explanation names both.",
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
        "PromiseKept",
        "",
        "False: it began later than its grace, or never; the reason says what kept it from that.",
        _EXPLAIN,
        (
            "See the reason: the pool, its workers and its provider tell the rest. NotExplained is a "
            "fault of Labfleet: report it with the session's events."
        ),
    ),
    (
        "LabStarted",
        "",
        "False: nodes are not up yet, or stay queued; or it is off, as somebody ordered.",
        _EXPLAIN,
        "See phase INSTANTIATING. What is off as ordered: `labfleet lab start NAME`.",
    ),
    (
        "LabChanged",
        "",
        (
            "True: its lab was stopped, wiped or edited in CML, and nobody ordered that here; the message "
            "says how. The session goes on, and nothing is put back by itself."
        ),
        _EXPLAIN,
        "`labfleet lab start NAME` starts it again; put back in CML what was edited, or leave it.",
    ),
    (
        "PortsTagged",
        "",
        (
            "False: the tags of its nodes are not those of its ports. TagsMissing: they were written again "
            "three times, and CML does not keep them. TagsAdded: somebody edited further ports into the lab."
        ),
        _EXPLAIN,
        (
            "Add what the message names to the node's tags in CML; a port without its tag does not exist. "
            "Ports that somebody added are given to nobody else; take their tags away when nobody needs them."
        ),
    ),
    (
        "PortDrift",
        "",
        (
            "True: nodes of its lab name other ports than it was given. The message names what was added, "
            "removed and changed; added numbers are given to nobody else on its worker."
        ),
        _EXPLAIN,
        (
            "Mend the nodes' tags in CML; a removed port answers again with its tag. It clears by itself "
            "within observation.portsSeconds; `labfleet observe NAME` looks at once."
        ),
    ),
    (
        "PortsOpen",
        "",
        "False: a port of the lab does not answer from here. Unknown: nobody tries (monitoring.portProbe).",
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
        "EndsSoon",
        "",
        "True: its time is over soon.",
        _EXPLAIN,
        "Save the work, or `labfleet extend NAME --by 30m`.",
    ),
    (
        "PromiseSafe",
        "",
        "False: its pool cannot hold what it promised to it, or is late with its worker.",
        _EXPLAIN,
        "See the pool: `labfleet explain pool/...`; raise its maximum, or cancel what can wait.",
    ),
    (
        "WorkKept",
        "",
        (
            "False: what was configured in its lab was to be kept before its teardown, and was not; the "
            "message says why. Unknown: it is being kept."
        ),
        _EXPLAIN,
        (
            "NoRoom: delete what is kept of older sessions (`labfleet kept NAME --delete`), or raise "
            "keeping.ownerMib or keeping.allMib. NoTime: raise keeping.timeoutSeconds, and the "
            "definition's teardownMinutes with it. What is lost cannot be had again."
        ),
    ),
    (
        "Collected",
        "",
        "False: the newest look at what it uses saw nothing; what was known before stays.",
        _EXPLAIN,
        "Nothing before its teardown: it is best effort. While it runs: `labfleet observe NAME`.",
    ),
)
_ASK = "ask whoever runs the fleet"
_ADDED = (
    "its pool adds one unless its message says what holds it back: `labfleet get pools -o wide`."
)


def _waits(reason: WaitReason | Holdup, waits: str, fix: str, others: str) -> Advice:
    return Advice(
        subject=SessionPhase.PENDING,
        reason=reason,
        cause=reason.sentence,
        fix=fix,
        waits=waits,
        others=others,
    )


_ADVICE = (
    _waits(
        WaitReason.NO_CAPACITY,
        "capacity (NoCapacityAvailable)",
        (
            f"The decision names what is short on each worker; {_ADDED} Or ask for less in the "
            "definition, or end a session."
        ),
        (
            "It starts as soon as a session ends or a worker is added. Or ask for another slot, or a "
            "definition that needs less."
        ),
    ),
    _waits(
        WaitReason.NO_WORKERS,
        "a worker (NoWorkersAvailable)",
        f"Nothing: {_ADDED}",
        "Nothing: it starts when a worker is there.",
    ),
    _waits(
        WaitReason.NO_TRACK,
        "a worker of its track (NoMatchingTrack)",
        f"Nothing: {_ADDED}",
        "Nothing: it starts when a worker of its track is there.",
    ),
    _waits(
        WaitReason.NOT_READY,
        "a worker that takes sessions (WorkerNotReady)",
        (
            "The decision says why each worker takes none. `labfleet uncordon` opens a cordoned one; of "
            "the others see `labfleet get workers -o wide` and their own explanations."
        ),
        "Nothing: it starts when a worker takes sessions again.",
    ),
    _waits(
        WaitReason.NOT_LICENSED,
        "a worker that is licensed for it (WorkerNotLicensed)",
        (
            "Register a licence that its definition allows (`labfleet license register`), or correct "
            "spec.licenceAffinity of the definition."
        ),
        f"No worker has a licence for it: {_ASK}.",
    ),
    _waits(
        WaitReason.MISSING_DEFINITIONS,
        "a worker that has its node and image definitions (MissingDefinitions)",
        (
            "Install what the decision names on the workers' machine image, or correct "
            "node_definition and image_definition in the topology."
        ),
        (
            "Use a definition whose topology names what workers have, or "
            f"{_ASK} to install what the decision names."
        ),
    ),
    _waits(
        WaitReason.NO_VERSION,
        "a worker whose CML is of a version that its definition allows (NoMatchingVersion)",
        (
            "Give the pool a template whose image has such a version, or make a definition with other "
            "cmlVersionMin and cmlVersionMax."
        ),
        f"Use a definition for the version that workers have, or {_ASK} to add such workers.",
    ),
    _waits(
        WaitReason.PORTS_SHORT,
        "free ports on the worker (PortsShort)",
        "Nothing: ports come free as sessions of that worker end. Or ask for fewer in the definition.",
        "Nothing: ports come free as other sessions end.",
    ),
    _waits(
        WaitReason.PROMISED,
        "room that is promised to nobody (PromisedToOthers)",
        f"Nothing while its pool may grow: {_ADDED} Or raise its maxWorkers.",
        "It starts when there is room beside what is promised. A shorter session may start sooner.",
    ),
    _waits(
        WaitReason.SLOT_AHEAD,
        "",
        "Nothing: a worker is looked for in time.",
        "",
    ),
    _waits(
        Holdup.IN_DANGER,
        "",
        (
            "`labfleet explain pool/POOL` says what it lacks: raise its maxWorkers, mend its template, "
            "or cancel what can wait."
        ),
        f"Ask for another slot, or {_ASK} whether its place comes back.",
    ),
    _waits(
        Holdup.FIRST_LOOK,
        "the scheduler's first look",
        "It takes seconds. If it takes longer: `labfleet leaders` shows whether a scheduler runs.",
        f"It takes seconds. If it takes longer, {_ASK}.",
    ),
    _waits(
        Holdup.FLEET_PAUSED,
        "automatic actions to be resumed",
        "`labfleet resume`: until then no worker is added. It starts where room comes free.",
        f"It starts where room comes free. For more workers {_ASK} to resume automatic actions.",
    ),
    _waits(
        Holdup.POOL_PAUSED,
        "its pool to be resumed",
        "`labfleet resume --pool POOL`: until then no worker is added. It starts where room comes free.",
        f"It starts where room comes free. For more workers {_ASK} to resume the pool.",
    ),
    _waits(
        Holdup.AT_MAXIMUM,
        "a session to end, since its pool is at its maximum",
        (
            "Raise spec.scaling.maxWorkers of pool POOL, ask for less in the definition, or end a "
            "session."
        ),
        (
            "It starts when sessions end. Or ask for another slot or a definition that needs less, or "
            f"{_ASK} for more workers."
        ),
    ),
    _waits(
        Holdup.NO_POOL,
        "a pool of its track that adds workers",
        (
            "Make a pool of its track that scales by need, add a worker of that track, or end a "
            "session there."
        ),
        f"No pool adds workers of its track: {_ASK}.",
    ),
    _waits(
        Holdup.NO_TEMPLATE,
        "its pool's template",
        "Enable the template that pool POOL names, or let it name another one.",
        f"No worker can be added: {_ASK}.",
    ),
    _waits(
        Holdup.PROVIDER_TROUBLE,
        "the provider of its workers",
        "`labfleet alerts` says what is the matter with the provider, and what helps.",
        f"Its workers' provider is in trouble: {_ASK}.",
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
        PageColumn("Starts", "time", "status.outlook.latest|status.start", "not known"),
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
        "STARTS=status.outlook.words*",
        "RETRIES=status.retryCount*",
        "GROUP=status.seat.group*",
        "SEAT=status.seat.seat*",
        "KEPT UNTIL=status.kept.until*",
        "DRIFT=status.portDriftDetected*",
        "LAB-STATE=status.lab.state*",
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
        "group=status.seat.group",
    ),
    frozen=(
        "definition",
        "family",
        "owner",
        "track",
        "reservation_id",
        "duration_minutes",
        "environment",
        "limits",
        "continue_from",
    ),
    amounts=(("limits", True),),
    kept=("cancel", "labOrder", "observeRequested", "observeRequestedBy"),
    asked=("cancel", "labOrder", "observeRequested", "observeRequestedBy"),
    partial=("slot",),
    named_by="definition",
    conditions=SessionCondition,
    reasons=SessionReason,
    news=(
        (SessionCondition.HOST_REACHABLE, "False"),
        (SessionCondition.ENDS_SOON, "True"),
        (SessionCondition.WORK_KEPT, "False"),
        (SessionCondition.PORT_DRIFT, "True"),
        (SessionCondition.LAB_CHANGED, "True"),
    ),
    resting=(
        "CANCELLED",
        "COMPLETED",
        "EXPIRED",
        "FAILED",
        "RUNNING",
    ),
    runbook=_RUNBOOK,
    advice=_ADVICE,
    states=_STATES,
    page=_PAGE,
    followed=True,
    derived=("status.access", "status.outlook"),
)
