"""Keeps one LabHost for each worker's present boot.

Tokens, connections and first-seen certificates belong to (worker, boot); when the boot, the
address or the password changes, a new host starts fresh (facts/aws.md#boot-facts). The certificate
seen stays known within one boot.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from labfleet.adapters.cml.client import Client
from labfleet.adapters.cml.host import CmlHost
from labfleet.adapters.cml.transport import Connect, Limits
from labfleet.adapters.http.transport import Deadlines, Reply, Transport
from labfleet.interfaces.lab_host import HostAddress


@dataclass(frozen=True, slots=True)
class Kept:
    """A host with the address it was made for."""

    address: HostAddress
    host: CmlHost
    transport: Transport


class CmlHosts:
    """LabHosts over any transport; the composition root passes `transport.connect`."""

    def __init__(self, connect: Connect, limits: Limits | None = None) -> None:
        self._connect = connect
        self._limits = limits or Limits()
        self._kept: dict[str, Kept] = {}
        self._retired: list[CmlHost] = []

    def at(self, address: HostAddress) -> CmlHost:
        """Return the host of this address; opens nothing yet."""
        kept = self._kept.get(address.worker)
        if kept is not None and kept.address == address:
            return kept.host
        seen = None
        if kept is not None:
            self._retired.append(kept.host)
            if (kept.address.boot, kept.address.base_url) == (address.boot, address.base_url):
                seen = kept.transport.fingerprint
        transport = Sweeping(self._connect(address, seen, self._limits), self)
        host = CmlHost(Client(transport, address, self._limits))
        self._kept[address.worker] = Kept(address, host, transport)
        return host

    @property
    def retired(self) -> bool:
        """Tell whether hosts of older boots wait to be closed."""
        return bool(self._retired)

    async def forget(self, worker: str) -> None:
        """Close what is kept for a worker."""
        kept = self._kept.pop(worker, None)
        if kept is not None:
            self._retired.append(kept.host)
        await self.sweep()

    async def close(self) -> None:
        """Close everything."""
        for worker in list(self._kept):
            await self.forget(worker)
        await self.sweep()

    async def sweep(self) -> None:
        """Close the hosts of older boots; calls still on their way there fail as closed."""
        while self._retired:
            await self._retired.pop().close()


class Sweeping:
    """A transport that closes older boots' connections before it opens its own.

    `at` cannot await, and a separate task would have no owner.
    """

    def __init__(self, inner: Transport, hosts: CmlHosts) -> None:
        self._inner = inner
        self._hosts = hosts

    @property
    def fingerprint(self) -> str | None:
        """The inner transport's."""
        return self._inner.fingerprint

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Coroutine[Any, Any, Reply]:
        """Sweep where there is something to sweep, then exchange."""
        exchange = self._inner.request(method, path, body, deadlines, headers=headers)
        return self._swept(exchange) if self._hosts.retired else exchange

    async def _swept(self, exchange: Coroutine[Any, Any, Reply]) -> Reply:
        try:
            await self._hosts.sweep()
        except BaseException:
            exchange.close()
            raise
        return await exchange

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()
