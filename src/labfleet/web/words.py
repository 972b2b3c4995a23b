"""The pages' vocabulary: columns, and a word, a shape and a tone for every state.

One table for both sides: Jinja renders the first rows from it and the scripts get it as JSON
(`as_json`), so that both draw a row in the same way.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from labfleet.resources.cluster import SimulationPhase
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Health, WorkerPhase

ROWS = 200
EVENTS = 100
# Rows with an order from this number on are over, and are sorted by time, newest first.
OVER = 6


@dataclass(frozen=True, slots=True)
class State:
    """How a state is shown: never by colour alone. `group` is what the summary counts."""

    group: str
    order: int
    tone: str
    shape: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column: heading, how to show it, where the value is (`|` tries one after the other).

    `show` is name, link:<plural>, state, health, text, why, flag, time, load or live. `absent` is
    what stands there without a value; `unknown: why` is shown as unknown with its reason.
    """

    title: str
    show: str
    path: str = ""
    absent: str = "unknown: not reported"
    wide: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the page. `since` is the instant by which objects that are over are sorted."""

    kind: str
    plural: str
    title: str
    columns: tuple[Column, ...]
    since: str = "metadata.creationTimestamp"


_WAITS = State("waiting", 0, "wait", "○")
_STARTS = State("starting", 1, "busy", "◔")
_RUNS = State("running", 2, "good", "●")
_ENDS = State("ending", 3, "busy", "◑")
_FAILED = State("failed", 4, "bad", "✕")
_STOPPED = State("stopped", 5, "calm", "■")
_OVER = State("ended", OVER, "calm", "■")
_DONE = State("ended", OVER, "calm", "✓")

STATES: dict[str, dict[str, State]] = {
    "Session": {
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
    },
    "Worker": {
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
    },
    "Simulation": {
        SimulationPhase.APPROVED: State("running", 2, "good", "●"),
        SimulationPhase.DENIED: State("denied", OVER, "warn", "▲"),
        SimulationPhase.EXPIRED: State("ended", OVER, "warn", "▲"),
        SimulationPhase.COMPLETED: _DONE,
    },
    "Health": {
        Health.HEALTHY: State("healthy", 0, "good", "●"),
        Health.DEGRADED: State("degraded", 0, "warn", "▲"),
        Health.UNREACHABLE: State("unreachable", 0, "bad", "✕"),
        Health.UNKNOWN: State("unknown", 0, "calm", "○"),
    },
}
# What the summary counts, in its order; `ended` last because nobody acts on it.
GROUPS: dict[str, tuple[str, ...]] = {
    "Session": ("waiting", "starting", "running", "ending", "failed", "ended"),
    "Worker": ("waiting", "starting", "running", "ending", "stopped", "failed"),
    "Simulation": ("running", "denied", "ended"),
}
# A state that this program does not know, or none at all.
STRANGE = State("unknown", 5, "calm", "○")

SECTIONS = (
    Section("Worker", "workers", "Workers", (
        Column("Worker", "name", wide=3),
        Column("State", "state", "status.phase", wide=3),
        Column("Health", "health", "status.health", "unknown: never checked", wide=2),
        Column("Sessions", "live"),
        Column("CPU", "load", "cpuMilli", "unknown: not seen yet", wide=3),
        Column("Memory GiB", "load", "memoryMib", "unknown: not seen yet", wide=3),
        Column("Nodes", "load", "nodes", "unknown: not seen yet", wide=3),
        Column("Licence", "flag", "status.licence.licensed", "unknown: not asked", wide=2),
        Column("Since", "time", "status.phaseSince", "just now", wide=2),
        Column("What it does", "text", "status.message", "", wide=3),
    )),
    Section("Session", "sessions", "Sessions", (
        Column("Session", "name", wide=3),
        Column("State", "state", "status.phase", wide=2),
        Column("Definition", "link:definitions", "spec.definition", wide=2),
        Column("Owner", "text", "spec.owner", "none given"),
        Column("Worker", "link:workers", "status.worker", "not placed", wide=2),
        Column("Since", "time", "status.phaseSince", "just now"),
        Column("Ends", "time", "status.endedAt|status.end", "not set"),
        Column("Why", "why", "status.message|status.decision.message|status.reason", "",
               wide=5),
    ), since="status.phaseSince"),
    Section("Cluster", "clusters", "Clusters", (
        Column("Cluster", "name", wide=3),
        Column("Running", "live"),
        Column("CPU of target", "load", "cpuMilli", wide=3),
        Column("Memory GiB of target", "load", "memoryMib", wide=3),
        Column("About", "text", "spec.description", "", wide=5),
    )),
    Section("Simulation", "simulations", "Simulations", (
        Column("Simulation", "name", wide=3),
        Column("State", "state", "status.phase", wide=2),
        Column("Cluster", "link:clusters", "spec.cluster", wide=2),
        Column("Owner", "text", "spec.owner", "none given"),
        Column("Decided", "time", "status.decidedAt"),
        Column("Ends", "time", "status.completedAt|status.reservation.end", "has not run"),
        Column("Why", "why", "status.decision.message", "", wide=5),
    ), since="status.decidedAt"),
)  # fmt: skip
BY_KIND = {section.kind: section for section in SECTIONS}
# Kinds in the list of events: those of the tables, pools (their decisions change workers), and
# settings (they can pause everything).
FOLLOWED = {
    **{section.kind: section.plural for section in SECTIONS},
    "Pool": "pools",
    "Settings": "settings",
}
CHANGES = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}
UNITS = {"cpuMilli": 1000, "memoryMib": 1024, "nodes": 1}
FLAGS = {True: "licensed", False: "not licensed"}


def state(kind: str, phase: str | None) -> State:
    """Return how a phase of a kind is shown."""
    return STATES.get(kind, {}).get(phase or "", STRANGE)


def as_json() -> dict[str, Any]:
    """Return the tables for the script."""
    return {
        "states": {
            kind: {str(phase): asdict(each) for phase, each in table.items()}
            for kind, table in STATES.items()
        },
        "strange": asdict(STRANGE),
        "groups": GROUPS,
        "sections": {each.kind: asdict(each) for each in SECTIONS},
        "followed": FOLLOWED,
        "changes": CHANGES,
        "units": UNITS,
        "flags": {"true": FLAGS[True], "false": FLAGS[False]},
        "rows": ROWS,
        "events": EVENTS,
        "over": OVER,
    }
