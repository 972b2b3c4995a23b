"""The rules on what really runs on the CML servers and in the account, independent of the product.

A lab is identified by the marker in its notes, a machine by the worker its launch was for. A
reservation, a phase, an instance id or a tag is not used: the product writes these, and its bugs
would be in them too. Reads the worlds without advancing them to now, so that looking changes
nothing of what happens later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from cml_simulator.core import licensing, ports
from cml_simulator.core.model import Node
from cml_simulator.core.world import MIB, Server
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.ec2 import Cloud, FakeInstance
from labfleet.resources import conditions, topology
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition

CLOCKS_SECONDS = 600.0
"""How far the clocks of two processes may differ: one wrote a phase's start, one found it late."""
HOSTED = frozenset({SessionPhase.READY, SessionPhase.RUNNING})
_COARSE = frozenset({"docker"})
"""Drivers whose CPU and memory are reserved by a coarse guess (resources/node_definitions)."""


@dataclass(slots=True)
class Truth:
    """Compares the product's records with the servers and machines that exist.

    `leaks` are the product uuids whose loss is on record.
    """

    cloud: Cloud
    cml_servers: CmlServers
    broken: Callable[[str, str], None]
    leaks: set[str]
    sessions: dict[str, Session] = field(default_factory=dict)
    _given: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)
    _looked: dict[str, int] = field(default_factory=dict)
    _quotas: dict[str, int] = field(default_factory=dict)

    # --- what the commits say ------------------------------------------------------------

    def session(self, new: Session) -> None:
        """Remember whose marker it is, and the ports of its last placement, given back or not.

        Those of an earlier placement are not its own any more: a tag with such a number that
        somebody puts into its lab by hand (`port_added`) was given to nobody.
        """
        uid = new.metadata.uid
        self.sessions[uid] = new
        if new.status.ports:
            self._given[uid] = {(each.transport, each.number) for each in new.status.ports}

    def forget(self, old: Session) -> None:
        """Forget a session whose record is gone."""
        self.sessions.pop(old.metadata.uid, None)
        self._given.pop(old.metadata.uid, None)

    def worker(self, new: Worker) -> None:
        """Remember the last machine that a worker is known to have had."""
        if new.status.machine.id is not None:
            self._last[new.metadata.uid] = new.status.machine.id

    # --- servers -------------------------------------------------------------------------

    def server(self, vm: FakeInstance) -> Server:
        """Return the server that runs on a machine, in its state as of its last update."""
        return self.cml_servers.fleet.servers[vm.server_id]

    def patrol(self) -> None:
        """Look at every server that may run."""
        for vm in self.cloud.vms.values():
            if vm.state == "running":
                self.look(vm)

    def look(self, vm: FakeInstance) -> None:
        """Judge the labs on one server; only when something changed there since the last look."""
        server = self.server(vm)
        if self._looked.get(server.id) == server.revision:
            return
        self._looked[server.id] = server.revision
        labs = {}
        for lab in server.labs.values():
            marker = topology.marker_of(lab.notes)
            if marker is not None:
                labs[lab.id] = marker
        where = f"{vm.request.worker or vm.id}, {vm.id}"
        self._sums(where, server, labs)
        if len(labs) > 1:
            self._ports(where, server, labs)

    def _sums(self, where: str, server: Server, labs: dict[str, str]) -> None:
        """Judge that nodes never want more together than the machine and its licence have.

        A queued node counts: CML never starts more than it has room for, so overcommitment shows
        only in the queue. Labs of others (without marker) were not placed by the product.
        """
        points = memory = nodes = 0
        for node in self._active(server):
            kind = node.kind
            if node.lab_id not in labs or not kind.has_vm:
                continue
            nodes += 1
            if kind.driver not in _COARSE:
                points += node.points
                memory += node.want_ram
        quota = _quota(server)
        if nodes:
            # A licence that is taken away under a lab does not make the lab a wrong promise.
            quota = max(quota, self._quotas.get(server.id, 0))
        self._quotas[server.id] = quota
        machine = server.config.machine
        for what, used, most in (
            ("CPU points", points, machine.cpus * 100),
            ("MiB memory", memory, machine.memory_bytes // MIB),
            ("licensed nodes", nodes, quota),
        ):
            if used > most:
                told = f"{where}: its labs want {used} of {most} {what}"
                self.broken("capacity", told)

    def _active(self, server: Server) -> Iterator[Node]:
        """Yield the nodes that wait, run or are not yet stopped now."""
        now = self.cml_servers.now()
        for node in server.active.values():
            if node.stop_due is None or node.stop_due > now:
                yield node
        yield from server.queue

    def _ports(self, where: str, server: Server, labs: dict[str, str]) -> None:
        """No port that was given to a session stands in the labs of two.

        A tag that somebody else put there (`port_added`) was given to nobody.
        """
        rules = server.config.rules
        holders: dict[tuple[str, int], str] = {}
        for lab_id, marker in labs.items():
            given = self._given.get(marker)
            if not given:
                continue
            for node in server.labs[lab_id].nodes.values():
                for wish in ports.requests(node.tags, rules.patty_first, rules.patty_last):
                    if wish.key not in given:
                        continue
                    other = holders.setdefault(wish.key, marker)
                    if other != marker:
                        told = f"{where}: {wish.transport}/{wish.outer} stands in two labs, of"
                        self.broken("port", f"{told} {self._name(other)} and {self._name(marker)}")
                        return

    def ports_given(self, worker: Worker | None, new: Session) -> None:
        """No session is given a number that has long been known to stand in another lab."""
        at = new.status.scheduled_at
        if worker is None or at is None:
            return
        known = at - timedelta(seconds=CLOCKS_SECONDS)
        for port in new.status.ports:
            for held in worker.status.held_ports:
                there = held.first <= port.number <= held.last and held.since < known
                there = there and held.released is None
                if there and held.transport == port.transport:
                    told = f"{worker.key}: {port.transport}/{port.number} stands in lab {held.lab}"
                    self.broken("port", f"{told} and is given to {new.key}")

    def _name(self, marker: str) -> str:
        session = self.sessions.get(marker)
        return marker if session is None else str(session.key)

    def lab_gone(self, session: Session) -> None:
        """Judge that an ended session has left no lab behind."""
        for server in self.cml_servers.fleet.servers.values():
            for lab in server.labs.values():
                if topology.marker_of(lab.notes) == session.metadata.uid:
                    text = f"{session.key} is {session.status.phase}, its lab {lab.id} is there"
                    self.broken("lab-finalizer", text)

    # --- machines ------------------------------------------------------------------------

    def machines(self, worker: Worker) -> list[FakeInstance]:
        """Return every machine that was ever launched for a worker, and the one it took over."""
        uid, last = worker.metadata.uid, self._last.get(worker.metadata.uid)
        return [
            each
            for each in self.cloud.vms.values()
            if (uid and each.request.worker_uid == uid) or each.id == last
        ]

    def alone(self, vm: FakeInstance, owner: Worker | None) -> None:
        """Judge that a worker with a new machine has no other one that lives."""
        uid = vm.request.worker_uid if owner is None else owner.metadata.uid
        living = [
            each.id
            for each in self.cloud.vms.values()
            if each.live and (each is vm or (uid and each.request.worker_uid == uid))
        ]
        if len(living) > 1:
            name = vm.request.worker if owner is None else owner.key.label
            self.broken("one-instance", f"{name} has {', '.join(living)}")

    def machine_gone(self, worker: Worker, why: str) -> None:
        """TERMINATED only when EC2 said so; then it holds no licence without a leak record.

        The record of a stranger's machine that is only observed may go while it runs. The end
        of an earlier machine of the same worker need only have begun: it cannot be called off.
        """
        if worker_phases.observed(worker) and worker.status.phase is not WorkerPhase.TERMINATED:
            return
        last = self._last.get(worker.metadata.uid)
        for vm in self.machines(worker):
            if vm.live or (vm.id == last and vm.state != "gone"):
                text = f"{worker.key}: {why}, but {vm.id} is {vm.state}"
                self.broken("terminated", text)
        self.licence_gone(worker)

    def licence_gone(self, worker: Worker) -> None:
        """Judge that no machine of a worker holds a licence that no leak record names."""
        if worker.status.licence.leak is not None:
            return
        if conditions.find(worker.status.conditions, WorkerCondition.LICENCE_LEAKED) is not None:
            return
        now = worker.status.machine.id
        for vm in self.machines(worker):
            uuid = self.server(vm).config.identity.product_uuid
            # The leak of an earlier machine is not the worker's any more, and its record may be
            # gone: earlier is each but the one that it has now, even while it waits for its next.
            if uuid not in self.cml_servers.fleet.cloud.held or (
                vm.id != now and uuid in self.leaks
            ):
                continue
            text = f"{worker.key} lets go of a licence that {vm.id} still holds"
            self.broken("licence", text)

    def hosting(self, what: str, vm: FakeInstance, worker: Worker | None, now: float) -> None:
        """No stop and no end of a machine with people's labs, unless forced or past its time limit.

        `now` is in seconds since 1970.
        """
        if worker is not None and _may_go(worker, now):
            return
        for lab in self.server(vm).labs.values():
            session = self.sessions.get(topology.marker_of(lab.notes) or "")
            if session is None or session.status.phase not in HOSTED or lab.state() != "STARTED":
                continue
            whose = vm.request.worker if worker is None else worker.key
            self.broken("hosting", f"{what} {vm.id} of {whose} under {session.key}")


def _may_go(worker: Worker, now: float) -> bool:
    """Tell whether a worker may go under its labs: by force, or after a phase's whole limit.

    On an unreachable server no lab can be ended, so the wait ends at the limit.
    """
    drain = worker.spec.drain
    if drain is not None and drain.force and now >= drain.deadline.timestamp():
        return True
    limits = None if worker.spec.machine is None else worker.spec.machine.limits
    since = worker.status.phase_since
    if limits is None or since is None:
        return False
    limit = {
        WorkerPhase.STOPPING: limits.stop,
        WorkerPhase.TERMINATING_EC2: limits.terminate,
    }.get(worker.status.phase)
    return limit is not None and now - since.timestamp() > limit - CLOCKS_SECONDS


def _quota(server: Server) -> int:
    """Return how many nodes the licence was bought for, whether it is in compliance or not."""
    licence = server.licence
    if licence.stage is not licensing.Stage.COMPLETED:
        return licensing.FREE_NODES
    return licensing.INCLUDED.get(licence.product, licensing.FREE_NODES) + licence.expansion
