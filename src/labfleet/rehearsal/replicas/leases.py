"""One process's way to the leases, which a fault cuts while everything else of it works."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Process

WORD = "lead_lost"


@dataclass(frozen=True, slots=True)
class CutLeases:
    """Leases that are not renewed for a process while the fault holds for it.

    So the lead is lost in the middle of anything: the process lives, its calls are under way, and
    another process leads when the lease has run out.
    """

    inner: stores.LeaseStore
    injector: FaultInjector
    process: Process

    async def acquire(self, name: str, holder: str, *, seen: int | None) -> stores.Lease:
        """Take a lease, if it can be reached."""
        self._reach()
        return await self.inner.acquire(name, holder, seen=seen)

    async def renew(self, lease: stores.Lease) -> stores.Lease:
        """Renew a lease, if it can be reached."""
        self._reach()
        return await self.inner.renew(lease)

    async def release(self, lease: stores.Lease) -> None:
        """Give a lease up."""
        await self.inner.release(lease)

    async def lease(self, name: str) -> stores.Lease | None:
        """Read a lease."""
        return await self.inner.lease(name)

    def _reach(self) -> None:
        if self.injector.holds(WORD, self.process):
            raise errors.Temporary("the lease cannot be reached")
