"""The rule that a session fails only for a reason that is true in the worlds, or just was.

Without this rule a product that fails every session would break none. A failure is judged when
it is decided, by the checker's own copy of the objects and the servers, not by its message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.session.draft import PLACEMENTS
from labfleet.decisions.lifecycle.worker.phases import drain_wanted
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.resources import conditions, refs
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition

P = WorkerPhase
ASKED = (WorkerCondition.CML_READY, WorkerCondition.CML_HEALTHY)
"""Facts of a worker of which one is not True once its CML does not answer, or starts nothing."""
LOST = frozenset({P.UNLICENSING, P.STOPPING, P.STOPPED, P.TERMINATING_EC2, P.TERMINATED, P.FAILED})
MOMENT_SECONDS = 900.0
"""How long after a worker came back its loss may still be a reason: a stale cache, a pause."""
LEAST_BOOT_SECONDS = 300.0
"""No definition of the stage has a smaller boot budget: five minutes are always granted."""


@dataclass(slots=True)
class Outcomes:
    """Judges each failure; `broken` takes the rule's word and what was seen."""

    broken: Callable[[str, str], None]
    loop: Loop
    cml_servers: CmlServers
    _lost: dict[str, float] = field(default_factory=dict)
    _emptied: dict[str, float] = field(default_factory=dict)
    _silent: dict[str, float] = field(default_factory=dict)
    _begun: dict[str, float] = field(default_factory=dict)

    def worker(self, new: Worker | None, name: str) -> None:
        """Remember when a worker was last lost to its sessions, to be emptied, or silent."""
        self._mark(self._lost, name, lasts=new is not None and new.status.phase in LOST)
        self._mark(self._emptied, name, lasts=new is not None and drain_wanted(new))
        self._mark(self._silent, name, lasts=new is not None and _silent(new))
        if new is None:
            self._lost[name] = self.loop.time()

    def _mark(self, last: dict[str, float], name: str, *, lasts: bool) -> None:
        if lasts:
            last[name] = float("inf")
        elif last.get(name) == float("inf"):
            last[name] = self.loop.time()

    def _recent(self, last: dict[str, float], name: str) -> bool:
        return self.loop.time() - last.get(name, float("-inf")) <= MOMENT_SECONDS

    def session(self, old: Session | None, new: Session) -> None:
        """Judge a failure at the commit that decides on it."""
        uid, now = new.metadata.uid, self.loop.time()
        was = None if old is None else old.status
        coming = SessionPhase.INSTANTIATING
        if new.status.phase is coming and (was is None or was.phase is not coming):
            self._begun[uid] = now
        failed = SessionPhase.FAILED
        decided = failed in {new.status.outcome, new.status.phase}
        if not decided or (was is not None and failed in {was.outcome, was.phase}):
            return
        placed = None if old is None else refs.worker_of(old)
        told = self._untrue(new, "" if placed is None else placed.key.label)
        if told:
            self.broken("failure", f"{new.key} fails as {new.status.reason}: {told}")

    def _untrue(self, new: Session, worker: str) -> str:
        """Return why a failure's reason is not true; "" when it is true."""
        now, reason, told = self.loop.time(), new.status.reason, ""
        if reason == "WorkerLost":
            told = "" if self._recent(self._lost, worker) else f"{worker} is not lost"
        elif reason in {"Drained", "LicenceReturned"}:
            told = "" if self._recent(self._emptied, worker) else f"nobody empties {worker}"
        elif reason in {"WorkerUnfit", "WorkerSilent"}:
            told = self._left(new, worker)
        elif reason == "LabDeletedOutside":
            lab = "" if new.status.lab is None else new.status.lab.id
            there = any(lab in each.labs for each in self.cml_servers.fleet.servers.values())
            told = f"lab {lab} is there" if there else ""
        elif reason in {"BootTimeout", "PortsSilent"}:
            spent = now - self._begun.get(new.metadata.uid, now)
            told = "" if spent >= LEAST_BOOT_SECONDS else f"it had {spent:.0f} s to come up"
        elif new.status.decision is None or new.status.decision.outcome != "refused":
            told = "nothing of that kind happens here"
        return told

    def _left(self, new: Session, worker: str) -> str:
        """Return why a session need not have been given up for its server's silence."""
        if new.status.lab is not None:
            return "what may be on its server waits there, or moves"
        if new.status.placements < PLACEMENTS:
            return f"it was placed {new.status.placements} times only"
        return "" if self._recent(self._silent, worker) else f"{worker} is not silent"


def _silent(worker: Worker) -> bool:
    """Tell whether a worker's record says that its CML does not answer, or starts nothing."""
    facts = (conditions.find(worker.status.conditions, each) for each in ASKED)
    return any(fact is not None and fact.status != "True" for fact in facts)
