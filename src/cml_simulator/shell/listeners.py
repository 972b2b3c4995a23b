"""Opens and closes real listeners for the APIs and lab ports that the core says should listen.

One loop asks the core a few times a second. TCP lab ports answer with a banner and echo what they
get; UDP ports echo each datagram.
"""

import asyncio
from functools import partial
from typing import Any, cast

from cml_simulator.core.fleet import Fleet, listening
from cml_simulator.core.inputs import Clock
from cml_simulator.core.ports import OpenPort
from cml_simulator.shell.web import Web

TICK = 0.05
CONSOLES_MAX = 200
BANNERS = {
    "serial": b"\r\nEscape character is '^]'.\r\nSimulated console.\r\n",
    "vnc": b"RFB 003.008\n",
    "pat": b"SSH-2.0-cml-simulator\r\n",
}


Key = tuple[str, str, int]
"""Transport, address, port."""


class Console(asyncio.Protocol):
    """One connection to a lab port."""

    def __init__(self, kind: str, open_now: set[asyncio.Transport]) -> None:
        self._kind = kind
        self._open = open_now
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio.Transport, only shaped like one.
        self._transport = cast("asyncio.Transport", transport)
        if len(self._open) >= CONSOLES_MAX:
            self._transport.abort()
            return
        self._open.add(self._transport)
        self._transport.write(BANNERS[self._kind])

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        _ = exc
        if self._transport is not None:
            self._open.discard(self._transport)


class Echo(asyncio.DatagramProtocol):
    """One UDP lab port."""

    def __init__(self) -> None:
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        if self._transport is not None:
            self._transport.sendto(data, addr)


class LabPort:
    """The listener of one lab port with its connections."""

    def __init__(self, kind: str) -> None:
        self._make = partial(Console, kind, set())
        self._open: set[asyncio.Transport] = self._make.args[1]
        self._server: asyncio.Server | None = None
        self._datagrams: asyncio.BaseTransport | None = None

    async def listen(self, transport: str, address: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        if transport == "udp":
            place = (address, port)
            self._datagrams, _ = await loop.create_datagram_endpoint(Echo, local_addr=place)
        else:
            self._server = await loop.create_server(self._make, address, port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._datagrams is not None:
            self._datagrams.close()
        for transport in list(self._open):
            transport.abort()


class Listeners:
    """The real side of a fleet's addresses and ports."""

    def __init__(self, fleet: Fleet, clock: Clock, web: Web, *, apis: bool) -> None:
        self._fleet, self._clock, self._web, self._with_apis = fleet, clock, web, apis
        self._apis: dict[str, asyncio.Server] = {}
        self._ports: dict[Key, tuple[OpenPort, LabPort]] = {}

    async def run(self) -> None:
        """Keep listeners in sync until cancelled, then close them all."""
        try:
            while True:
                await self.sync()
                await asyncio.sleep(TICK)
        finally:
            self.close()

    async def sync(self) -> None:
        """Open what should be open and is not, close the rest."""
        wanted = listening(self._fleet, self._clock())
        if self._with_apis:
            await self._sync_apis(set(wanted))
        ports = {
            (port.transport, address, port.outer): port
            for address, found in wanted.items()
            for port in found
        }
        for key in [key for key, held in self._ports.items() if ports.get(key) != held[0]]:
            self._ports.pop(key)[1].close()
        for key, port in ports.items():
            if key not in self._ports:
                await self._open_port(key, port)
        for name in [name for name in self._fleet.unbound if name not in _names(ports, wanted)]:
            del self._fleet.unbound[name]

    async def _sync_apis(self, wanted: set[str]) -> None:
        for address in self._apis.keys() - wanted:
            self._apis.pop(address).close()
            self._web.cut(address)
        for address in wanted - self._apis.keys():
            try:
                self._apis[address] = await self._web.listen(address, self._fleet.port)
            except OSError as error:
                self._fleet.unbound[address] = str(error)

    async def _open_port(self, key: Key, port: OpenPort) -> None:
        listener = LabPort(port.kind)
        try:
            await listener.listen(*key)
        except OSError as error:
            self._fleet.unbound[_name(key)] = str(error)
            return
        self._fleet.unbound.pop(_name(key), None)
        self._ports[key] = (port, listener)

    def close(self) -> None:
        """Close everything."""
        for server in self._apis.values():
            server.close()
        for _port, listener in self._ports.values():
            listener.close()
        self._apis.clear()
        self._ports.clear()


def _name(key: Key) -> str:
    transport, address, port = key
    return f"{address}:{port}" if transport == "tcp" else f"{address}:{port}/{transport}"


def _names(ports: dict[Key, OpenPort], apis: dict[str, list[OpenPort]]) -> set[str]:
    return {*map(_name, ports), *apis}
