"""People whose labs are counted with what past ones used: `labfleet rehearse --learned N`.

Their lab declares four times what its node reserves, and at first uses little of either. Later on
each lab uses all that its node has, and far more disk than it says or ever used, so that what was
learned is wrong. Beside them others ask for a lab that declares a large disk and says the truth. They
have a pool, a track and a template of their own: what they do to each other is theirs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from cml_simulator.core import use_curves
from cml_simulator.core.definitions import DEFINITIONS
from cml_simulator.core.use_curves import UseCurve, UsePoint
from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas.fleet_client import FleetClient
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers

POOL, TEMPLATE, TRACK = "learned", "learned-metal", "learned"
NODE, RAM = "alpine", 45_000
"""What the lab is of, one node, and its MiB: four fill a server's memory, and five do not fit."""
TIMES = 4
"""How many times what its node reserves the lab declares."""
LITTLE = UsePoint(at=0, cpu=20, ram=900, disk=200)
MUCH = UsePoint(at=0, cpu=100, ram=RAM, disk=40_000)
"""What it uses at first, and what it uses later, from its start: percent of a core, MiB, MiB."""
SAID, DISK = 10_000, 100_000
"""MiB of disk that the two labs declare: the honest one fits a server beside four labs that use what
they say, and not beside three that use much."""
MINUTES = 15
CHANGE = 0.65
"""Share of the time after which labs use much; by then past ones are known."""
HONEST = 0.25
"""Share of the requests that are for the honest lab."""


def topology(label: str, more: str = "") -> str:
    """Return a topology of one node without ports; `more` are fields of the node."""
    return (
        f"lab: {{title: {label}, version: 0.3.0, description: '', notes: ''}}\n"
        f"nodes:\n- {{id: n0, label: {label}, node_definition: {NODE}, x: 0, y: 0, "
        f"tags: [], interfaces: []{more}}}\nlinks: []\n"
    )


@dataclass(slots=True)
class LearnedLabs:
    """So many sessions over the hours of a run; `run` returns when all have asked."""

    count: int
    hours: float
    workers: int
    rng: SeededRng
    client: FleetClient
    sender: Sender
    world: CmlServers

    async def run(self) -> None:
        """Make the fleet, let everybody come, and have the labs change in between."""
        self._use(LITTLE)
        await self._set_up()
        span = self.hours * 3600
        async with asyncio.TaskGroup() as group:
            group.create_task(self._change(span * CHANGE))
            for number in range(self.count):
                at = self.rng.between(300, max(span - 900, 600))
                group.create_task(self._one(number, at, honest=self.rng.chance(HONEST)))

    def _use(self, point: UsePoint) -> None:
        """Have the labs of every server, and of those still to come, use so much from now on."""
        curves = use_curves.checked([UseCurve(node="learned", points=(point,))])
        self.world.use_curves = curves
        for server in self.world.fleet.servers.values():
            server.use_curves = curves

    async def _change(self, at: float) -> None:
        await self._until(at)
        self._use(MUCH)

    async def _one(self, number: int, at: float, *, honest: bool) -> None:
        await self._until(at)
        name = f"l{number:05d}"
        lab = "honest" if honest else "learned"
        spec = {"definition": lab, "owner": f"l{number}"}
        await self.sender.send(self.client.create("Session", name, spec, f"learned-{name}"))

    async def _set_up(self) -> None:
        machine = {
            "provider": {"kind": "aws", "amiId": "ami-1", "subnetIds": ["subnet-a", "subnet-b"]},
            "cml": {"adminPassword": {"env": "CML_PASSWORD"}, "tls": {"mode": "off"}},
            "licence": {"product": "CML_Enterprise", "token": {"env": "CML_TOKEN"}},
        }
        await self._make("Template", TEMPLATE, {"machine": machine})
        scaling = {"minWorkers": 0, "maxWorkers": self.workers}
        await self._make(
            "Pool",
            POOL,
            {"template": TEMPLATE, "track": TRACK, "namePrefix": "l", "scaling": scaling,
             "demand": "bound"},
        )  # fmt: skip
        declared = {
            "cpuMilli": TIMES * DEFINITIONS[NODE].cpus * 1000,
            "memoryMib": TIMES * RAM,
            "storageMib": SAID,
        }
        common = {"track": TRACK, "defaultDurationMinutes": MINUTES}
        lab = {"topology": topology("learned", f", ram: {RAM}"), "resources": declared}
        await self._make("Definition", "learned", {**common, **lab})
        lab = {"topology": topology("honest"), "resources": {"storageMib": DISK}}
        await self._make("Definition", "honest", {**common, **lab, "demand": "declared"})

    async def _make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        made = await self.sender.send(
            self.client.create(kind, name, spec, f"learned-{kind}-{name}")
        )
        if made is None:
            raise AssertionError(f"{kind} {name} was refused: {dict(self.sender.refused)}")

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
