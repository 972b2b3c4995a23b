"""The rule on learned demand: what past labs used never puts more on a worker than it has.

Judged by plain sums at the commit that binds a session, from the checker's own copy of the objects:
memory by what the labs' nodes want in the simulator's own table, whatever the product counted them
with; and every dimension by what the product had recorded of their use when it decided. At each
look at a server, also by the memory that its nodes truly take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from cml_simulator.core import topology as files
from cml_simulator.core import usage
from cml_simulator.core.definitions import DEFINITIONS
from cml_simulator.core.profile import Profile
from cml_simulator.core.server import MIB
from labfleet.interfaces import store
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.rehearsal.worlds.ec2 import Cloud
from labfleet.resources import kinds, refs
from labfleet.resources.amounts import DIMENSIONS, Reservation
from labfleet.resources.definition import Definition
from labfleet.resources.history import peak
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.stores import rules

COARSE = frozenset({"docker"})
"""Drivers of which the product's table has a coarse guess (resources/node_definitions)."""


@dataclass(slots=True)
class Learned:
    """Watches a run in which sessions are counted with what past ones used.

    `figures` counts the sessions of learned demand that were bound, those of them that were counted
    with less memory than declared, and the recorded uses beyond what was counted.
    """

    shared: SharedDatabase
    cloud: Cloud
    cml_servers: CmlServers
    broken: Callable[[str, str], None]
    figures: Counter[str]
    _memory: dict[Key, int] = field(default_factory=dict)
    _workers: dict[Key, Worker] = field(default_factory=dict)
    _most: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    _here: dict[Key, dict[Key, list[tuple[int, Session]]]] = field(default_factory=dict)
    _sessions: dict[Key, Session] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared.heard.append(self.committed)

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, revision in written(commit, outcome):
                if isinstance(write, store.Put):
                    self._put(write, revision)
                else:
                    self._leave(self._sessions.pop(write.key, None))

    def _put(self, write: store.Put, revision: int) -> None:
        if write.key.kind == "Session":
            new = kinds.decode("Session", write.doc, revision)
            old = self._sessions.get(write.key)
            self._sessions[write.key] = new
            self._session(old, new, revision)
        elif write.key.kind == "Definition":
            self._memory[write.key] = _wanted(kinds.decode("Definition", write.doc, revision))
        elif write.key.kind == "Worker":
            worker = self._workers[write.key] = kinds.decode("Worker", write.doc, revision)
            size = worker.status.capacity
            if size is not None:
                before = self._most.get(write.key, (0,) * len(DIMENSIONS))
                row = (getattr(size, name) for name in DIMENSIONS)
                self._most[write.key] = tuple(map(max, before, row))

    def _session(self, old: Session | None, new: Session, revision: int) -> None:
        held, worker = new.status.reservation, refs.worker_of(new)
        if held is None or worker is None:
            self._leave(new)
            return
        was = None if old is None or old.status.reservation is None else refs.worker_of(old)
        if was is None or was.key != worker.key:
            self._leave(new)
            self._judge(worker.key, new, held)
            if new.status.demand is not None:
                self.figures["bound"] += 1
                declared = new.status.demand.learned[1].declared
                self.figures["with less memory"] += held.amounts.memory_mib < declared
        known = self._here.setdefault(worker.key, {}).setdefault(new.key, [])
        if not known or known[-1][1].status.used != new.status.used:
            known.append((revision, new))
            above = new.status.demand is not None and _beyond(new, held)
            self.figures["use above"] += above
        else:
            known[-1] = (known[-1][0], new)

    def _leave(self, session: Session | None) -> None:
        """Forget a session that holds nothing any more."""
        if session is not None:
            for here in self._here.values():
                here.pop(session.key, None)

    # --- what is judged ------------------------------------------------------------------

    def _judge(self, worker: Key, new: Session, held: Reservation) -> None:
        """Judge a session that comes to a worker beside those that are there then."""
        others = [rows for rows in self._here.get(worker, {}).values() if rows]
        seen = 0 if new.status.decision is None else new.status.decision.revision
        learned = new.status.demand is not None or any(
            rows[-1][1].status.demand is not None for rows in others
        )
        if not learned:
            return
        starts = [held.start, *(_held(rows[-1][1]).start for rows in others)]
        for at in starts:
            if at < held.start or (held.end is not None and at >= held.end):
                continue
            there = [rows for rows in others if _stands(_held(rows[-1][1]), at)]
            self._memory_of(worker, new, [rows[-1][1] for rows in there])
            self._used(worker, new, held, there, seen)

    def _memory_of(self, worker: Key, new: Session, there: list[Session]) -> None:
        """No more memory is wanted by all nodes than the machine has."""
        vm = self.cloud.vms.get(self._workers[worker].status.machine.id or "")
        if vm is None:
            return
        most = self.cml_servers.fleet.servers[vm.server_id].config.machine.memory_bytes // MIB
        want = sum(self._memory.get(refs.definition_of(each).key, 0) for each in (new, *there))
        if want > most:
            counted = sum(_held(each).amounts.memory_mib for each in (new, *there))
            told = f"{worker.label}: with {new.name} its labs want {want} of {most} MiB memory"
            self.broken("learned", f"{told}, counted with {counted}")

    def _used(
        self,
        worker: Key,
        new: Session,
        held: Reservation,
        there: list[list[tuple[int, Session]]],
        seen: int,
    ) -> None:
        """Judge that the use which was recorded when it was decided left room for a session."""
        known = [_as_of(rows, seen) for rows in there]
        for place, name in enumerate(DIMENSIONS):
            asked = getattr(held.amounts, name)
            real = [_counted(each, name) for each in known]
            most = self._most.get(worker, ())[place : place + 1]
            if asked and most and asked + sum(real) > most[0]:
                told = f"{worker.label}: {new.name} asks for {asked} {name} of {most[0]}"
                self.broken("learned", f"{told}, of which its labs use {sum(real)}")
                return

    def patrol(self) -> None:
        """Judge each server with labs of learned demand by what its nodes truly take now."""
        now = self.cml_servers.now()
        for key, here in self._here.items():
            if not any(rows[-1][1].status.demand is not None for rows in here.values() if rows):
                continue
            worker = self._workers.get(key)
            vm = None if worker is None else self.cloud.vms.get(worker.status.machine.id or "")
            if vm is None or vm.state != "running":
                continue
            server = self.cml_servers.fleet.servers[vm.server_id]
            most = server.config.machine.memory_bytes // MIB
            used = sum(usage.node_ram(server, each, now) for each in server.active.values())
            if used > most:
                self.broken("learned", f"{key.label}: its labs use {used} of {most} MiB memory")


def _wanted(definition: Definition) -> int:
    """Return the MiB of memory that a definition's nodes want, by the simulator's own table."""
    document = files.load_text(definition.spec.topology.encode())
    found = 0
    for node in files.parse(document, Profile()).nodes:
        kind = DEFINITIONS.get(node.definition)
        if kind is not None and kind.has_vm and kind.driver not in COARSE:
            ram = node.values.get("ram")
            found += kind.ram if ram is None else ram
    return found


def _held(session: Session) -> Reservation:
    held = session.status.reservation
    if held is None:
        raise AssertionError("only who holds something is kept")
    return held


def _stands(held: Reservation, at: datetime) -> bool:
    return held.start <= at and (held.end is None or held.end > at)


def _as_of(rows: list[tuple[int, Session]], seen: int) -> Session:
    """Return a session as it was at a revision, or as it came."""
    found = rows[0][1]
    for revision, each in rows:
        if revision <= seen:
            found = each
    return found


def _counted(session: Session, name: str) -> float:
    """Return what a session is to be counted with, by its record."""
    held = float(getattr(_held(session).amounts, name))
    if session.status.demand is None:
        return held
    return max(held, peak(session.status.used, name) or 0.0)


def _beyond(session: Session, held: Reservation) -> bool:
    plain = msgspec.structs.asdict(held.amounts)
    return any((peak(session.status.used, name) or 0.0) > plain[name] for name in DIMENSIONS)
