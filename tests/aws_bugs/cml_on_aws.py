"""CML servers on the machines of the AWS simulator.

The rehearsal's servers are told which machines there are at one place: which server answers at
an address now. Everything else they do by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cml_simulator.core import fleet as servers
from cml_simulator.core import world
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.server import Server
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.time.virtual_host import SECRET, SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers


class OnMachine(Protocol):
    """A running machine: the id of the server on its disk, and since when it runs (Unix seconds)."""

    @property
    def server_id(self) -> str: ...

    @property
    def since(self) -> float: ...


class Sky(Protocol):
    """Where the machines are."""

    def at(self, address: str) -> OnMachine | None:
        """Return the running machine at an address."""
        ...


@dataclass(slots=True)
class FleetOnAws(Fleet):
    """Servers whose power and addresses are those of machines that somebody else runs."""

    sky: Sky | None = None
    boot_seconds: Callable[[], float] = float

    def at_address(self, address: str) -> Server | None:
        """Return the server that answers at an address, in the boot that its machine is in."""
        assert self.sky is not None
        machine = self.sky.at(address)
        if machine is None:
            return None
        server = self.servers.get(machine.server_id)
        if server is None:
            server = servers.create(self, server_id=machine.server_id)
        if not server.power.on or server.power.since != machine.since:
            self._booted(server, machine.since)
        return server

    def _booted(self, server: Server, since: float) -> None:
        """Switch a server on at the moment since when its machine runs."""
        if server.power.on:
            world.power_off(server, since)  # seen only now; what ran before stands still
        machine = replace(server.config.machine, boot_seconds=self.boot_seconds())
        server.config = replace(server.config, machine=machine)
        world.power_on(server, since)


def servers_on(sky: Sky) -> CmlServers:
    """Return the CML servers on the machines of an account."""
    loop: Any = asyncio.get_running_loop()
    rng = SeededRng("on aws")
    made = CmlServers(loop, rng, FaultInjector(FaultPlan(), rng.stream("luck")))
    made.fleet = FleetOnAws(rng, SECRET, port=443, sky=sky, boot_seconds=made.boot_seconds)
    return made
