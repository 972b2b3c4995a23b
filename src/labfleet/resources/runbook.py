"""What to do about each phase that lasts and each condition that is not an alert.

Together with `alerts` the whole runbook: `docs/reference/runbook.md` is written from both, and
a test holds them against every phase and every condition that there is. NAME stands for the
object in a command.
"""

from __future__ import annotations

from labfleet.resources.meta import Record


class Entry(Record, frozen=True, kw_only=True):
    """One row: what it is about, why it may last or be so, how to see more, what helps."""

    kind: str
    subject: str
    limit: str = ""
    cause: str
    command: str
    fix: str


Row = tuple[str, str, str, str, str, str]


def _entry(row: Row) -> Entry:
    kind, subject, limit, cause, command, fix = row
    return Entry(
        kind=kind, subject=subject, limit=limit, cause=cause, command=command, fix=fix
    )  # fmt: skip


_EXPLAIN = "labfleet explain worker/NAME"
_SESSION = "labfleet explain session/NAME"
_POOL = "labfleet explain pool/NAME"

_PHASES: tuple[Row, ...] = (
    (
        "Worker", "PENDING", "seconds",
        "No worker controller leads, or it has much to do.",
        "labfleet events worker/NAME; GET /readyz of each server",
        "Start a server with the role worker-controller; look at its log for the lease.",
    ),
    (
        "Worker", "PROVISIONING_EC2", "limits.launch (30 min)",
        ("EC2 has no room (MachineProvisioned says OutOfCapacity and what was tried), a quota is "
        "reached, credentials fail, or the instance is pending: metal takes 5 to 20 minutes."),
        _EXPLAIN,
        ("Add instance types or subnets in other zones to the template; raise the quota "
        "L-1216C47A; mend the credentials. A template that EC2 refuses ends in FAILED at once."),
    ),
    (
        "Worker", "EC2_READY", "limits.boot (25 min)",
        "The instance runs and has no address that we could use.",
        "labfleet describe worker/NAME",
        "Set assignPublicIp, or run Labfleet where the private address is reached.",
    ),
    (
        "Worker", "STARTING", "limits.boot (25 min)",
        ("CML comes up: unreachable, refused, bad gateway, not ready, in this order. A wrong "
        "password, a security group without port 443, or an image that does not boot stays here."),
        "labfleet explain worker/NAME; labfleet logs worker/NAME",
        ("Unreachable: security group and route. LoginRefused: the template's adminPassword. "
        "Else read the console; raise limits.boot for slow images."),
    ),
    (
        "Worker", "LICENSING", "limits.licence (10 min)",
        "CML registers with the licence cloud.",
        _EXPLAIN,
        ("A refused token: make a new one in the Smart Account. Not in compliance: free a licence "
        "there. No way out on port 443: open it or set CML's proxy."),
    ),
    (
        "Worker", "DRAINING", "the drain's deadline, or limits.drain (4 h)",
        "Sessions still run on it.",
        _EXPLAIN,
        ("The explanation lists what is in the way and until when. Wait, `labfleet drain NAME "
        "--extend 1h`, `labfleet drain NAME --now`, or `labfleet drain NAME --undo`."),
    ),
    (
        "Worker", "UNLICENSING", "limits.unlicense (10 min)",
        "CML gives the licence back; it refuses while nodes run, so they are stopped first.",
        _EXPLAIN,
        "Nothing: at the limit the leak is recorded and the worker goes on (`labfleet get leaks`, `labfleet resolve LEAK`).",
    ),
    (
        "Worker", "STOPPING", "limits.stop (30 min)",
        "Metal takes 10 minutes and more to stop.",
        _EXPLAIN,
        ("Wait for the limit; then force the stop in the AWS console. It is never called stopped "
        "before EC2 says so."),
    ),
    (
        "Worker", "TERMINATING_EC2", "limits.terminate (30 min)",
        ("EC2 ends the instance, or refuses: termination protection, missing rights, our owner "
        "tag taken away."),
        _EXPLAIN,
        ("Take the protection off, give the right ec2:TerminateInstances, or put the tag "
        "`labfleet:owner` back."),
    ),
    (
        "Worker", "FAILED", "",
        ("It cannot go on by itself; condition Failed says why. A pool replaces it, once its "
        "sessions have left or after half an hour."),
        "labfleet explain worker/NAME; labfleet logs worker/NAME",
        "Mend the cause, then `labfleet start NAME` to try again, or `labfleet delete worker/NAME`.",
    ),
    (
        "Session", "PENDING", "its slot's start plus the grace; 24 h without a slot",
        "No worker has room for it in its slot, or none is licensed for it.",
        _SESSION,
        ("The decision names what is short on each worker. Raise the pool's maxWorkers, ask for "
        "less in the definition, or free a worker."),
    ),
    (
        "Session", "SCHEDULED", "its slot's start",
        "It has a place and waits for its slot.",
        _SESSION, "Nothing; when its worker leaves it is placed again.",
    ),
    (
        "Session", "INSTANTIATING", "the definition's boot budget, anew with each node that is up",
        "The lab is imported, waits for its turn to start, boots, or its ports do not answer.",
        _SESSION,
        ("Conditions StartTurn, LabStarted and PortsOpen say which. Nodes that stay QUEUED: see "
        "the worker's CmlHealthy and its licence's nodes."),
    ),
    (
        "Session", "READY", "its slot's start", "The lab is up before its slot begins.",
        _SESSION, "Nothing.",
    ),
    (
        "Session", "COLLECTING", "2 min", "What it used is observed once more, best effort.",
        _SESSION, "Nothing: it goes on without.",
    ),
    (
        "Session", "STOPPING", "",
        ("Its lab is stopped, wiped and deleted; on a server that does not answer it waits, because "
        "its ports and capacity may still be in use."),
        _SESSION,
        "Mend the server, or delete the worker: with the machine the lab is gone too.",
    ),
    (
        "Pool", "INITIALIZING", "", "Its first workers boot.", _POOL,
        "See the workers: `labfleet get workers`.",
    ),
    (
        "Pool", "SCALING_UP", "", "Workers boot for sessions that wait.", _POOL,
        "The message says what waits, and what holds it back: maximum, cool-down, pause, template.",
    ),
    (
        "Pool", "SCALING_DOWN", "", "Empty workers leave.", _POOL,
        "Nothing. The disruption budget lets few go at once.",
    ),
    (
        "Pool", "DRAINING", "", "Somebody asked for the pool to be emptied.", _POOL,
        "Its workers' explanations say what is in the way.",
    ),
    (
        "Pool", "TERMINATING", "", "Its workers end, then the pool goes.", _POOL,
        "See the workers that are left.",
    ),
    (
        "Pool", "FAILED", "", "It is short of workers and its template is missing or disabled.",
        _POOL, "Enable the template, or name another one.",
    ),
)  # fmt: skip

RESTING = frozenset({
    ("Worker", "READY"), ("Worker", "READY_UNLICENSED"), ("Worker", "ACTIVE"),
    ("Worker", "STOPPED"), ("Worker", "TERMINATED"), ("Session", "RUNNING"),
    ("Session", "COMPLETED"), ("Session", "EXPIRED"), ("Session", "FAILED"),
    ("Session", "CANCELLED"), ("Pool", "PENDING"), ("Pool", "READY"), ("Pool", "TERMINATED"),
})  # fmt: skip
"""Phases in which an object may stay for ever, so that none of them is ever stuck."""

_CONDITIONS: tuple[Row, ...] = (
    (
        "Worker", "MachineProvisioned", "", "False: there is no instance yet; the reason is EC2's.",
        _EXPLAIN, "See phase PROVISIONING_EC2.",
    ),
    (
        "Worker", "TagsApplied", "", "False: EC2 refused a tag of spec.tags.", _EXPLAIN,
        "Use other characters or fewer tags; the message names the one.",
    ),
    (
        "Worker", "CMLReady", "", "False: CML does not answer as ready.", _EXPLAIN,
        "See phase STARTING.",
    ),
    (
        "Worker", "Licensed", "", "False: not registered, or not in compliance.", _EXPLAIN,
        "See phase LICENSING. Unlicensed workers host five nodes.",
    ),
    (
        "Worker", "TelemetrySet", "", "False: this CML cannot be opted in or out.", _EXPLAIN,
        "Switch it by hand in CML, or leave it: nothing depends on it.",
    ),
    (
        "Worker", "HealthCheckPassed", "", "False: three checks in a row failed.", _EXPLAIN,
        "See alert Silent. Labs on it are left alone.",
    ),
    (
        "Worker", "AcceptingLabs", "", "False: the message says what closes it.", _EXPLAIN,
        "Uncordon it, end the drain, or mend the condition that is named.",
    ),
    (
        "Worker", "Drained", "", "False: sessions are left, or the drain is late.", _EXPLAIN,
        "See phase DRAINING.",
    ),
    (
        "Worker", "Adopted", "", "False: found by discovery, only observed.", _EXPLAIN,
        "`labfleet adopt worker/NAME` makes it ours; `labfleet delete worker/NAME` forgets it.",
    ),
    (
        "Worker", "IdleWarning", "", "True: nobody uses it, and it will be stopped.",
        "labfleet explain worker/NAME --idle",
        "Use it, or `labfleet idle disable worker/NAME`.",
    ),
    (
        "Pool", "Ready", "", "False: it is on its way to what its policy asks for.", _POOL,
        "See its phase and message.",
    ),
    (
        "Pool", "LosingMachines", "", "True: its machines keep being ended from outside, or never come up.",
        "labfleet events pool/NAME",
        "Find out who ends them (alert ExternalChange), or mend the template, image or licence that is named; then `labfleet resume --pool NAME`.",
    ),
    (
        "Pool", "Paused", "", "True: somebody paused its automatic actions.", _POOL,
        "`labfleet resume --pool NAME`.",
    ),
    (
        "Region", "Scanned", "", ("False: the last scan of the region failed; nothing was judged "
        "by it."), "labfleet explain region/NAME",
        "Mend credentials, rights or the region's name; disable regions that are not used.",
    ),
    (
        "Definition", "NodesKnown", "", ("False: a node definition is unknown, so its demand is "
        "too."), "labfleet explain definition/NAME",
        "Give `resources` in the definition.",
    ),
    (
        "Webhook", "Delivering", "", "False: the receiver does not take events.",
        "labfleet explain webhook/NAME",
        "Mend the receiver or its URL; events wait for a day.",
    ),
    (
        "Session", "StartTurn", "",
        "False: other labs of the worker boot first, or stay there beyond their end (RoomHeld).",
        _SESSION,
        ("Nothing: after 5 minutes of RoomHeld another worker is looked for. Or raise "
         "cml.startsAtOnce of the template."),
    ),
    (
        "Session", "LabStarted", "", "False: nodes are not up yet, or stay queued.", _SESSION,
        "See phase INSTANTIATING.",
    ),
    (
        "Session", "PortsOpen", "", "False: a port of the lab does not answer from here.", _SESSION,
        "Open the ports 2000-7999 in the worker's security group; see the node's console.",
    ),
    (
        "Session", "HostReachable", "", "False: its worker failed; Unknown: CML was not seen.",
        _SESSION, "See the worker.",
    ),
    (
        "Session", "Collected", "", "False: nothing could be observed before the teardown.",
        _SESSION, "Nothing: it is best effort.",
    ),
)  # fmt: skip

PHASES: tuple[Entry, ...] = tuple(_entry(row) for row in _PHASES)
CONDITIONS: tuple[Entry, ...] = tuple(_entry(row) for row in _CONDITIONS)


def of_phase(kind: str, phase: str) -> Entry | None:
    """Return the row of a phase, None for one in which an object may stay."""
    return _BY_PHASE.get((kind, phase))


_BY_PHASE = {(each.kind, each.subject): each for each in PHASES}
