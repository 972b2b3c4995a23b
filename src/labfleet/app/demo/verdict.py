"""The demo's verdict: the event log replayed, and the simulators' records read at the end.

Violations are sentences. The rules are the rehearsal's, as far as log and records show them:
phases follow their tables, capacity is never exceeded, no port is given twice, TERMINATED only
when EC2 said so, finalizers gone mean things gone, the log replays to exactly what is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from labfleet.app.demo.run_counts import RunCounts
from labfleet.decisions import ledger
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.interfaces import store as stores
from labfleet.kernel.quantity import count
from labfleet.resources import kinds, refs
from labfleet.resources.meta import Key, Ref, Resource
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.worker import Worker, WorkerPhase

KEPT = 50


@dataclass
class Replay:
    """The objects as the log says they were, one event after the other."""

    objects: dict[Key, Resource] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    provisioned: set[str] = field(default_factory=set)
    terminated: set[str] = field(default_factory=set)
    runs: RunCounts = field(default_factory=RunCounts)
    events: int = 0

    def take(self, event: stores.Event) -> None:
        """Apply one event and check what it may have broken."""
        self.events += 1
        old = self.objects.get(event.key)
        if event.type == "DELETED":
            gone = self.objects.pop(event.key, None)
            if isinstance(gone, Worker):
                # A worker that a person deletes has no event that says TERMINATED; the simulator's
                # records show that its instance is gone too.
                self.terminated.add(gone.metadata.uid)
            return
        new: Resource = kinds.decode(event.key.kind, event.doc, event.revision)
        self.objects[event.key] = new
        if isinstance(new, Worker):
            self._worker(old, new)
        if isinstance(new, Session):
            self._session(old, new)
        if isinstance(new, Simulation):
            self.runs.take(new)

    def _worker(self, old: Resource | None, new: Worker) -> None:
        if isinstance(old, Worker):
            # A server of others may skip phases: its owner has started it already.
            before = old.status.phase
            self._edge(old, new, {before: worker_phases.edges(old, before)})
        if new.status.machine.id is not None:
            self.provisioned.add(new.metadata.uid)
        if new.status.phase is WorkerPhase.TERMINATED:
            self.terminated.add(new.metadata.uid)
            shown = new.status.machine
            seen = shown.id is None or shown.state == "gone" or shown.absent_since
            if not seen:
                self._say(f"{new.name} is TERMINATED but EC2 said {shown.state}")
            if new.metadata.finalizers:
                self._say(f"{new.name} is TERMINATED and still holds {new.metadata.finalizers}")

    def _session(self, old: Resource | None, new: Session) -> None:
        self._edge(old, new, session_phases.EDGES)
        worker = refs.worker_of(new)
        if new.status.reservation is None or worker is None:
            return
        if isinstance(old, Session) and old.status.reservation == new.status.reservation:
            return
        self._ports(new)
        self._capacity(worker)

    def _edge(self, old: Resource | None, new: Resource, edges: dict[Any, frozenset[Any]]) -> None:
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        before, after = old.status.phase, new.status.phase
        if before is not after and after not in edges[before]:
            self._say(f"{new.key} went {before} -> {after}")

    def _ports(self, new: Session) -> None:
        mine = {(port.transport, port.number) for port in new.status.ports}
        for other in self._held(refs.worker_of(new)):
            if other.key == new.key:
                continue
            both = mine & {(port.transport, port.number) for port in other.status.ports}
            if both:
                self._say(f"{new.key} and {other.key} both hold {sorted(both)}")

    def _capacity(self, worker: Ref[Worker]) -> None:
        host, name = self.objects.get(worker.key), worker.key.label
        if not isinstance(host, Worker) or host.status.capacity is None:
            self._say(f"a session was placed on {name}, whose capacity is unknown")
            return
        held = [s.status.reservation for s in self._held(worker) if s.status.reservation]
        start = min(each.start for each in held)
        short = ledger.shortages(
            ledger.peak(held, start, None), host.status.capacity, ledger.total(())
        )
        for each in short:
            self._say(f"{name} is over its capacity in {each.dimension}")

    def _held(self, worker: Ref[Worker] | None) -> list[Session]:
        return [
            each
            for each in self.objects.values()
            if isinstance(each, Session)
            and refs.worker_of(each) == worker
            and each.status.reservation is not None
        ]

    def _say(self, violation: str) -> None:
        if len(self.violations) < KEPT and violation not in self.violations:
            self.violations.append(violation)


class Replayable(stores.ObjectReader, stores.EventLog, stores.PortStore, Protocol):
    """What a replay reads of a store."""


async def replay(store: Replayable) -> Replay:
    """Replay the whole log and compare what it gives with what is stored."""
    seen = Replay()
    head = await store.head()
    cursor = stores.Cursor(head.epoch, 0)
    while True:
        page = await store.events(cursor)
        for event in page.events:
            seen.take(event)
        cursor = page.cursor
        if len(page.events) < stores.PAGE_LIMIT:
            break
    for name in kinds.KINDS:
        await _compare(store, name, seen)
    for row in await store.ports():
        seen.violations.append(f"port {row.transport}/{row.number} of {row.worker} is still taken")
    return seen


async def _compare(store: stores.ObjectReader, kind: str, seen: Replay) -> None:
    stored: dict[Key, int] = {}
    after: tuple[str, str] | None = None
    while True:
        page = await store.list(kind, after=after)
        for each in page.items:
            stored[each.key] = each.revision
            logged = seen.objects.get(each.key)
            if logged is None or kinds.encode(logged) != each.doc:
                seen.violations.append(f"{each.key}: the log does not replay to what is stored")
        if page.after is None:
            break
        after = page.after
    for key in seen.objects:
        if key.kind == kind and key not in stored:
            seen.violations.append(f"{key}: in the log but not stored")


def books(read: Callable[[str], Any], aws: str, cml: str) -> tuple[dict[str, int], list[str]]:
    """Return what the simulators hold at the end, and what went wrong by their records."""
    shown, labs = read(f"{aws}/_fake/summary"), read(f"{cml}/_control/summary")
    wrong = [f"AWS simulator: {each}" for each in _sentences(read(f"{aws}/_fake/invariants"))]
    if labs.get("licences_leaked"):
        wrong.append(f"leaked: {count(labs['licences_leaked'], 'licence')}")
    if labs.get("labs_destroyed"):
        wrong.append(f"lost with their server: {count(labs['labs_destroyed'], 'lab')}")
    if shown.get("double_launches"):
        wrong.append(f"had two instances: {count(shown['double_launches'], 'worker')}")
    left = {
        "instances_left": int(shown["instances_left"]),
        "volumes_left": int(shown.get("volumes_left", 0)),
        "licences_left": int(labs["licences_held"]),
        "labs_left": int(labs["labs_left"]),
        "ports_open": int(labs["ports_open"]),
        "port_conflicts": int(labs["port_conflicts"]),
        "imports": int(labs["import_count"]),
    }
    return left, wrong


def _sentences(answer: Any) -> list[str]:
    found = answer.get("violations", []) if isinstance(answer, dict) else answer
    return [str(each) for each in found]
