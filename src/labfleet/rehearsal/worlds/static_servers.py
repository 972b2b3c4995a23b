"""A site of people's own servers in the CML world: fixed addresses, switched as commands would."""

from __future__ import annotations

import asyncio

from cml_simulator.core import fleet
from cml_simulator.core.profile import Machine as Hardware
from labfleet.adapters.static.sites import Power, Server, Sites
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.resources.machine import MachineState

SITE = "lab"
COMMAND_SECONDS = (0.5, 6.0)
_POWER = Power(start=("/power",), stop=("/power",), status=("/power",))


class StaticServers:
    """The switch of a site's servers, which are off until somebody switches them on.

    A command takes some seconds and fails now and then, before or after it did its work.
    """

    def __init__(self, cml_servers: CmlServers, rng: SeededRng, count: int) -> None:
        self._cml_servers = cml_servers
        self._rng = rng
        self._ids: dict[str, str] = {}
        site: dict[str, Server] = {}
        for number in range(1, count + 1):
            name = f"cml-{number}"
            built = Hardware(boot_seconds=cml_servers.boot_seconds())
            self._ids[name] = fleet.create(cml_servers.fleet, machine=built).id
            site[name] = Server(SITE, name, f"10.77.0.{number}", _POWER)
        self.sites: Sites = {SITE: site}
        self.trouble = 0.02

    async def start(self, server: Server) -> None:
        """Switch a server on; the same address comes back."""
        await self._command(errors.Ambiguous, before=True)
        if await self._on(server):
            return
        addresses = self._cml_servers.fleet.addresses
        drawn = self._cml_servers.boot(self._ids[server.name], hangs=False)
        addresses[server.address] = addresses.pop(drawn)
        await self._command(errors.Ambiguous, before=False)

    async def stop(self, server: Server) -> None:
        """Switch a server off."""
        await self._command(errors.Ambiguous, before=True)
        if await self._on(server):
            self._cml_servers.stop(self._ids[server.name])
        await self._command(errors.Ambiguous, before=False)

    async def state(self, server: Server) -> MachineState:
        """Return whether a server is on."""
        await self._command(errors.Temporary, before=True)
        return "running" if await self._on(server) else "stopped"

    async def _on(self, server: Server) -> bool:
        return server.address in self._cml_servers.fleet.addresses

    async def _command(
        self, trouble: type[errors.Ambiguous | errors.Temporary], *, before: bool
    ) -> None:
        """Take the time of a command; the failure comes before it did anything, or after."""
        if before:
            await asyncio.sleep(self._rng.between(*COMMAND_SECONDS))
        if self._rng.chance(self.trouble):
            raise trouble("the command failed", reason="CommandFailed")
