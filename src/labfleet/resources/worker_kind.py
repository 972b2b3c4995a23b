"""The kind Worker: how workers are listed, filtered, shown and looked after."""

from __future__ import annotations

from labfleet.resources.alerts import ALERTS
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
from labfleet.resources.worker import Health, Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

_EXPLAIN = "labfleet explain worker/NAME"
_RUNBOOK = runbook(
    "Worker",
    (
        "PENDING",
        "seconds",
        "No worker controller leads, or it has much to do.",
        "labfleet events worker/NAME; GET /readyz of each server",
        "Start a server with the role worker-controller; look at its log for the lease.",
    ),
    (
        "PROVISIONING_EC2",
        "limits.launch (30 min)",
        (
            "EC2 has no room (MachineProvisioned says OutOfCapacity and what was tried), a quota is "
            "reached, credentials fail, or the instance is pending: metal takes 5 to 20 minutes."
        ),
        _EXPLAIN,
        (
            "Add instance types or subnets in other zones to the template; raise the quota "
            "L-1216C47A; mend the credentials. A template that EC2 refuses ends in FAILED at "
            "once."
        ),
    ),
    (
        "EC2_READY",
        "limits.boot (25 min)",
        "The instance runs and has no address that we could use.",
        "labfleet describe worker/NAME",
        "Set assignPublicIp, or run Labfleet where the private address is reached.",
    ),
    (
        "STARTING",
        "limits.boot (25 min)",
        (
            "CML comes up: unreachable, refused, bad gateway, not ready, in this order. A wrong "
            "password, a security group without port 443, or an image that does not boot stays "
            "here."
        ),
        "labfleet explain worker/NAME; labfleet logs worker/NAME",
        (
            "Unreachable: security group and route. LoginRefused: the template's adminPassword. "
            "Else read the console; raise limits.boot for slow images."
        ),
    ),
    (
        "LICENSING",
        "limits.licence (10 min)",
        "CML registers with the licence cloud.",
        _EXPLAIN,
        (
            "A refused token: make a new one in the Smart Account. Not in compliance: free a "
            "licence there. No way out on port 443: open it or set CML's proxy."
        ),
    ),
    (
        "DRAINING",
        "the drain's deadline, or limits.drain (4 h)",
        "Sessions still run on it.",
        _EXPLAIN,
        (
            "The explanation lists what is in the way and until when. Wait, `labfleet drain "
            "NAME --extend 1h`, `labfleet drain NAME --now`, or `labfleet drain NAME --undo`."
        ),
    ),
    (
        "UNLICENSING",
        "limits.unlicense (10 min)",
        "CML gives the licence back; it refuses while nodes run, so they are stopped first.",
        _EXPLAIN,
        (
            "Nothing: at the limit the leak is recorded and the worker goes on (`labfleet get "
            "leaks`, `labfleet resolve LEAK`)."
        ),
    ),
    (
        "STOPPING",
        "limits.stop (30 min)",
        "Metal takes 10 minutes and more to stop.",
        _EXPLAIN,
        (
            "Wait for the limit; then force the stop in the AWS console. It is never called "
            "stopped before the provider says so."
        ),
    ),
    (
        "TERMINATING_EC2",
        "limits.terminate (30 min)",
        (
            "EC2 ends the instance, or refuses: termination protection, missing rights, our "
            "owner tag taken away."
        ),
        _EXPLAIN,
        (
            "Take the protection off, give the right ec2:TerminateInstances, or put the tag "
            "`labfleet:owner` back."
        ),
    ),
    (
        "FAILED",
        "",
        (
            "It cannot go on by itself; condition Failed says why. A pool replaces it, once its "
            "sessions have left or after half an hour."
        ),
        "labfleet explain worker/NAME; labfleet logs worker/NAME",
        (
            "Mend the cause, then `labfleet start NAME` to try again, or `labfleet delete "
            "worker/NAME`."
        ),
    ),
    (
        "MachineProvisioned",
        "",
        "False: there is no instance yet; the reason is the provider's.",
        _EXPLAIN,
        "See phase PROVISIONING_EC2.",
    ),
    (
        "TagsApplied",
        "",
        "False: the provider refused a tag of spec.tags.",
        _EXPLAIN,
        "Use other characters or fewer tags; the message names the one.",
    ),
    (
        "CMLReady",
        "",
        "False: CML does not answer as ready.",
        _EXPLAIN,
        "See phase STARTING.",
    ),
    (
        "Licensed",
        "",
        "False: not registered, or not in compliance.",
        _EXPLAIN,
        "See phase LICENSING. Unlicensed workers host five nodes.",
    ),
    (
        "LicenceOrdered",
        "limits.licence or limits.unlicense (10 min), from its call",
        "False: what was asked of its licence waits, is under way, or was refused.",
        "labfleet license status NAME",
        "Waiting: start the worker, or end its sessions. Refused: see the reason, and ask anew.",
    ),
    (
        "TelemetrySet",
        "",
        "False: this CML cannot be opted in or out.",
        _EXPLAIN,
        "Switch it by hand in CML, or leave it: nothing depends on it.",
    ),
    (
        "HealthCheckPassed",
        "",
        "False: three checks in a row failed.",
        _EXPLAIN,
        "See alert Silent. Labs on it are left alone.",
    ),
    (
        "AcceptingLabs",
        "",
        "False: the message says what closes it.",
        _EXPLAIN,
        "Uncordon it, end the drain, or mend the condition that is named.",
    ),
    (
        "Drained",
        "",
        "False: sessions are left, or the drain is late.",
        _EXPLAIN,
        "See phase DRAINING.",
    ),
    (
        "Adopted",
        "",
        "False: found by discovery, only observed.",
        _EXPLAIN,
        "`labfleet adopt worker/NAME` makes it ours; `labfleet delete worker/NAME` forgets it.",
    ),
    (
        "IdleWarning",
        "",
        "True: nobody uses it, and it will be stopped.",
        "labfleet explain worker/NAME --idle",
        "Use it, or `labfleet idle disable worker/NAME`.",
    ),
)
_WAITS = State("waiting", 0, "wait", "○")
_STARTS = State("starting", 1, "busy", "◔")
_RUNS = State("running", 2, "good", "●")
_ENDS = State("ending", 3, "busy", "◑")
_FAILED = State("failed", 4, "bad", "✕")
_STOPPED = State("stopped", 5, "calm", "■")
_OVER = State("ended", OVER, "calm", "■")
_STATES: dict[str, State] = {
    WorkerPhase.PENDING: _WAITS,
    WorkerPhase.PROVISIONING_EC2: _STARTS,
    WorkerPhase.EC2_READY: _STARTS,
    WorkerPhase.STARTING: _STARTS,
    # It is up, and may stay so: found servers and those of others have no licence of ours.
    WorkerPhase.READY_UNLICENSED: State("running", 2, "warn", "●"),
    WorkerPhase.LICENSING: _STARTS,
    WorkerPhase.READY: _RUNS,
    WorkerPhase.ACTIVE: _RUNS,
    WorkerPhase.DRAINING: State("ending", 3, "warn", "◑"),
    WorkerPhase.UNLICENSING: _ENDS,
    WorkerPhase.STOPPING: _ENDS,
    WorkerPhase.TERMINATING_EC2: _ENDS,
    WorkerPhase.FAILED: _FAILED,
    WorkerPhase.STOPPED: _STOPPED,
    WorkerPhase.TERMINATED: _OVER,
}
_HEALTH: dict[str, State] = {
    Health.HEALTHY: State("healthy", 0, "good", "●"),
    Health.DEGRADED: State("degraded", 0, "warn", "▲"),
    Health.UNREACHABLE: State("unreachable", 0, "bad", "✕"),
    Health.UNKNOWN: State("unknown", 0, "calm", "○"),
}
_PAGE = Page(
    0,
    "Workers",
    (
        PageColumn("Worker", "name", wide=3),
        PageColumn("State", "state", "status.phase", wide=3),
        PageColumn("Health", "health", "status.health", "unknown: never checked", wide=2),
        PageColumn("Sessions", "live"),
        PageColumn("CPU", "load", "cpuMilli", "unknown: not seen yet", wide=3, measured="cpu"),
        PageColumn(
            "Memory GiB", "load", "memoryMib", "unknown: not seen yet", wide=3, measured="memory"
        ),
        PageColumn("Nodes", "load", "nodes", "unknown: not seen yet", wide=2),
        PageColumn("Licence", "flag", "status.licence.licensed", "unknown: not asked", wide=2),
        PageColumn("Since", "time", "status.phaseSince", "just now"),
        PageColumn("What it does", "text", "status.message", "", wide=2),
    ),
    groups=("waiting", "starting", "running", "ending", "stopped", "failed"),
    none="No workers",
    hints=(
        (
            (
                "A worker is one CML server. A pool starts one as soon as a session waits; give the "
                "pool and its template:"
            ),
            "labfleet apply -f template.yaml -f pool.yaml",
        ),
        (
            "or try everything on this machine, without AWS and without a CML licence:",
            "labfleet demo",
        ),
        ("What a pool decided, and why:", "labfleet describe pools"),
    ),
)
KIND = Kind(
    name="Worker",
    plural="workers",
    short=("w",),
    type=Worker,
    summary="One CML server on one machine.",
    columns=columns(
        "PHASE=status.phase",
        "HEALTH=status.health",
        "POOL=spec.pool",
        "LICENSED=status.licence.licensed",
        "ADDRESS=status.machine.publicAddress|status.machine.privateAddress|spec.origin.url",
        "CPU-RESERVED%=status.allocation.percent.cpu*",
        "MEMORY-RESERVED%=status.allocation.percent.memory*",
        "LABS=status.cml.labs*",
        "LABS-FREE=status.allocation.available.labs*",
        "PORTS-USED=status.ports.tcp.used*",
        "PORTS-HELD=status.ports.tcp.held*",
        "PORTS-FREE=status.ports.tcp.free*",
        "MACHINE=status.machine.id*",
        "TYPE=status.machine.type*",
        "ZONE=status.machine.zone*",
        "VERSION=status.cml.version*",
        "PROVISIONING=status.provisioningStartedAt*",
        "PROVISIONED=status.provisioningEndedAt*",
        "CHECKED=status.lastHealthCheckAt*",
        "MESSAGE=status.message*",
    ),
    filters=filters("phase=status.phase", "pool=spec.pool"),
    tags="status.machine.tagsSeen",
    frozen=("track", "pool", "template", "machine", "origin"),
    kept=("licence", "consoleAsked", "ignoredLabs", "labOrder"),
    asked=("licence", "consoleAsked", "ignoredLabs", "labOrder"),
    amounts=(("machine.capacity", True),),
    conditions=WorkerCondition,
    reasons=WorkerReason,
    news=tuple([(each, ALERTS[each].when) for each in WorkerCondition if each in ALERTS]),
    resting=(
        "ACTIVE",
        "READY",
        "READY_UNLICENSED",
        "STOPPED",
        "TERMINATED",
    ),
    runbook=_RUNBOOK,
    states=_STATES,
    words={"Health": _HEALTH},
    page=_PAGE,
    followed=True,
)
