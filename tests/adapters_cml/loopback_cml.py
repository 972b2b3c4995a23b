"""A CML simulator on a loopback port with the adapter on it; the test moves its clock."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import networks

from cml_simulator.app import CmlApp
from cml_simulator.core import fleet as fleets
from cml_simulator.core.faults import Fault
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.profile import Machine, Rules
from cml_simulator.core.world import Server
from cml_simulator.shell.tls import self_signed
from cml_simulator.shell.web import Web
from labfleet.adapters.cml.host import CmlHost
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines
from labfleet.interfaces.lab_host import HostAddress
from labfleet.resources.machine import TlsSettings

TLS = self_signed()
PASSWORD = "a long password"
LAB = """
lab: {title: file title, notes: "labfleet/marker-1", version: 0.3.0}
nodes:
  - id: n0
    label: PC
    node_definition: alpine
    x: 0
    y: 0
    tags: ["serial:5041", "vnc:5044"]
    interfaces: [{id: i0, slot: 0, label: eth0, type: physical}]
  - id: n1
    label: SW
    node_definition: unmanaged_switch
    x: 100
    y: 0
    tags: []
    interfaces: [{id: i0, slot: 0, label: port0, type: physical}]
links:
  - {id: l0, n1: n0, i1: i0, n2: n1, i2: i0}
"""


class World:
    """One simulated server, the adapter on it, and the clock."""

    def __init__(
        self, *, boot_seconds: float = 0.0, rules: Rules | None = None, patience: float = 10.0
    ) -> None:
        self.now = 1_800_000_000.0
        self.fleet = Fleet(random.Random(7), PASSWORD)
        self.fleet.fixed_address = "127.0.0.1"
        self.server: Server = fleets.create(
            self.fleet, machine=Machine(boot_seconds=boot_seconds), rules=rules
        )
        self.hosts = CmlHosts(networks.connect, Limits(upload=Deadlines(10, patience, 20)))
        self.host: CmlHost
        self.port = 0

    def boot(self, *, password: str = PASSWORD, tls: TlsSettings | None = None) -> None:
        """Switch the server on and take the host of this boot."""
        fleets.boot(self.fleet, self.server, self.now)
        self.host = self.hosts.at(
            HostAddress(
                worker="w1",
                base_url=f"https://127.0.0.1:{self.port}",
                boot=f"i-1/{self.fleet.boots}",
                username="admin",
                password=password,
                tls=tls or TlsSettings(),
            )
        )

    def fault(self, kind: str, path: str, *, times: int | None = 1, method: str = ".*") -> None:
        """Let requests go wrong from now."""
        rule = Fault("f", kind, re.compile(method), re.compile(path), times)  # type: ignore[arg-type]
        self.fleet.faults.append(rule)

    def asked(self, path: str) -> int:
        """Count the requests whose path ends like this."""
        return sum(str(entry["path"]).endswith(path) for entry in self.server.journal)

    async def settle(self, lab: str, state: str) -> None:
        """Move the clock until every node has the state."""
        for _ in range(60):
            nodes = await self.host.nodes(lab)
            if await self.host.converged(lab) and {n.state for n in nodes} == {state}:
                return
            self.now += 5
        raise AssertionError([(n.label, n.state) for n in nodes])


@asynccontextmanager
async def world(*, booted: bool = True, **options) -> AsyncIterator[World]:
    """Serve a simulated server on a free loopback port."""

    async def no_sleep(_seconds: float) -> None:
        return None

    made = World(**options)
    web = Web(CmlApp(made.fleet, lambda: made.now, no_sleep), TLS)
    door = await web.listen("127.0.0.1", 0)
    made.port = door.sockets[0].getsockname()[1]
    try:
        if booted:
            made.boot()
        yield made
    finally:
        await made.hosts.close()
        door.close()
        web.cut()
