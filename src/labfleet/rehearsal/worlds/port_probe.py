"""Tries the ports of labs on the simulated CML servers."""

from __future__ import annotations

from cml_simulator.core import port_forwards
from labfleet.kernel import errors
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.wire import Wire


class PortProbe:
    """Tries a lab's port as a user would: open means that PATty serves it now."""

    def __init__(self, cml_servers: CmlServers, wire: Wire) -> None:
        self._cml_servers = cml_servers
        self._wire = wire

    async def answers(self, address: str, port: int) -> bool:
        """Tell whether the port answers now."""
        injector = self._cml_servers.injector
        if injector.strikes("probe_fails") or injector.holds("server_unreachable", address):
            return False

        def effect() -> bool:
            server = self._cml_servers.fleet.at_address(address)
            if server is None:
                return False
            opened, _ = port_forwards.open_ports(server, self._cml_servers.now())
            return any(each.outer == port and each.transport == "tcp" for each in opened)

        try:
            return await self._wire.ask("probe", effect)
        except errors.LabfleetError:
            return False
