"""What rehearsals seldom meet, made to happen, so that every kind of effect gets recorded.

Each is something that people or CML do: an import that loses port tags, a licence whose
renewals have long failed, a lab of somebody else's on a worker that gives its licence
back, and a licence cloud that cannot be told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cml_simulator.core import builder, lifecycle, topology
from cml_simulator.core.errors import CmlError
from cml_simulator.core.licensing import DAY
from cml_simulator.core.server import ADMIN_ID, Server
from labfleet.rehearsal.people import people
from labfleet.rehearsal.people.operators import Operators
from labfleet.rehearsal.replicas.fleet_client import FleetClient, ReplicaCall
from labfleet.rehearsal.stage.stage import Stage
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase

UNRENEWED_DAYS = 80
EVERY_SECONDS, RUSH_SECONDS = 420.0, 50.0


@dataclass
class RareEvents:
    """Hears of every commit and strikes, once each worker or a few times."""

    stage: Stage
    tags: int = 20
    _old: set[str] = field(default_factory=set)
    _busy: set[str] = field(default_factory=set)

    def committed(self, *_: object) -> None:
        """Strike whatever is in the right phase."""
        for worker in self.stage.invariants.workers.values():
            server = self._server(worker)
            if server is None:
                continue
            if worker.status.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}:
                self._grow_old(worker, server)
            elif worker.status.phase is WorkerPhase.UNLICENSING:
                self._use(worker, server)
        if self.tags:
            for session in self.stage.invariants.sessions.values():
                self._lose_tags(session)

    def _server(self, worker: Worker) -> Server | None:
        thing = self.stage.cloud.vms.get(worker.status.machine.id or "")
        if thing is None or thing.state != "running" or worker.spec.origin is not None:
            return None
        return self.stage.cml_servers.fleet.servers[thing.server_id]

    def _grow_old(self, worker: Worker, server: Server) -> None:
        licence = server.licence
        if licence.renewed_at is not None and worker.metadata.uid not in self._old:
            self._old.add(worker.metadata.uid)
            licence.renewed_at -= UNRENEWED_DAYS * DAY
            server.revision += 1

    def _use(self, worker: Worker, server: Server) -> None:
        if worker.metadata.uid in self._busy:
            return
        self._busy.add(worker.metadata.uid)
        if len(self._busy) % 2 == 0:
            # The licence cloud is not told: a leak that a person has to see to.
            self.stage.invariants.fault_record.begin("licence_unreachable", _machine(worker))
            server.licence.reachable = False
            return
        now = self.stage.cml_servers.now()
        with suppress(CmlError):
            drawing = topology.load_text(people.topology("theirs", ["alpine"]).encode())
            parsed = topology.parse(drawing, server.config.profile)
            lab, _ = builder.import_topology(server, parsed, "theirs", ADMIN_ID, now)
            lifecycle.start_lab(server, lab, now)

    def _lose_tags(self, session: Session) -> None:
        status = session.status
        if status.phase is not SessionPhase.INSTANTIATING or status.lab is None:
            return
        for server in self.stage.cml_servers.fleet.servers.values():
            lab = server.labs.get(status.lab.id or "")
            if lab is not None and lab.state() == "DEFINED_ON_CORE" and self.tags:
                self.tags -= 1
                for node in lab.nodes.values():
                    node.tags = []
                server.revision += 1


def _machine(worker: Worker) -> str:
    return worker.status.machine.id or ""


async def rush_hours(stage: Stage, operators: Operators, usual: float) -> None:
    """Ask every few minutes for very much at once, then lose for ten seconds what is answered.

    So that many effects are open together, all of them done and none of them known to be done.
    `usual` is the share of answers that are lost at other times.
    """
    send, desk, rng = operators.send, operators.client, stage.rng.stream("rush hours")
    known, number = stage.invariants, 0

    async def soon(ask: Any) -> None:
        await asyncio.sleep(rng.between(0, RUSH_SECONDS))
        await send(ask)

    async def lost() -> None:
        await asyncio.sleep(RUSH_SECONDS - 4)
        stage.injector.change("call_lost_after", 0.124)  # times 8 for a change: nearly all
        await asyncio.sleep(12)
        stage.injector.change("call_lost_after", usual)

    while True:
        await asyncio.sleep(EVERY_SECONDS)
        number += 1
        acts: list[Coroutine[Any, Any, None]] = [lost()]
        running = [each.name for each in known.sessions.values()
                   if each.status.phase is SessionPhase.RUNNING]  # fmt: skip
        acts += [soon(desk.cancel(name, "rush")) for name in running[:3]]
        spec = {"definition": "pair", "owner": "rush", "slot": {"zone": "UTC"}}
        names = [f"rush-{number}-{each}" for each in range(3)]
        acts += [soon(desk.create("Session", name, spec, name)) for name in names]
        spec = {"template": "metal", "track": "main"}
        if number % 3 == 0:
            acts.append(soon(desk.create("Worker", f"rush-{number}", spec, f"rush-w-{number}")))
        acts += [soon(act) for act in _of_workers(known.workers.values(), desk, number)]
        async with asyncio.TaskGroup() as group:
            for act in acts:
                group.create_task(act)


def _of_workers(workers: Iterable[Worker], desk: FleetClient, number: int) -> Iterator[ReplicaCall]:
    """Stop or end one that is ready; start what is stopped."""
    ours = [each for each in workers if each.spec.origin is None]
    ready = [each.name for each in ours if each.status.phase is WorkerPhase.READY]
    stopped = [each.name for each in ours if each.status.phase is WorkerPhase.STOPPED]
    for name in ready[:1]:
        yield desk.desire(name, "Stopped" if number % 2 else "Terminated")
    for name in stopped[:1]:
        yield desk.desire(name, "Ready" if number % 2 else "Terminated")
