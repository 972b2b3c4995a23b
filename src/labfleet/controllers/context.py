"""The dependencies of every controller, and the functions that all of them write with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from labfleet.engine.cache import Cache
from labfleet.engine.effects import Effects
from labfleet.engine.election import Leadership
from labfleet.engine.objects import Objects, is_finished
from labfleet.engine.samples import SampleRing
from labfleet.interfaces import store as stores
from labfleet.interfaces.compute import Compute
from labfleet.interfaces.lab_host import LabHosts
from labfleet.interfaces.outside import Deliveries, PortProbe, Secrets
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.resources import kinds
from labfleet.resources.fleet_settings import Layer
from labfleet.resources.meta import Resource
from labfleet.resources.prices import SHIPPED, PriceList
from labfleet.service.core.fleet_settings import SettingsReader

# Machine seconds that a write waits for the feed: well below the deadline of an effect's call.
BEHIND_SECONDS = 2.0

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class Context:
    """The dependencies of a controller.

    `installation` is the owner tag of our machines. `since` is when this process was built
    (fleet time): deadlines count only time in which a controller ran. `samples` is where
    measurements go, shared with their readers. `deliveries` None: webhooks are not served.
    `environment` is the environment's layer of settings, read by the composition root; `prices` is
    what machines cost.
    """

    installation: str
    objects: Objects
    cache: Cache
    clock: Clock
    ids: IdSource
    effects: Effects
    leadership: Leadership
    compute: Compute
    hosts: LabHosts
    secrets: Secrets
    probe: PortProbe
    since: datetime | None = None
    samples: Samples = field(default_factory=SampleRing)
    deliveries: Deliveries | None = None
    environment: Layer = field(default_factory=dict)
    prices: PriceList = SHIPPED
    settings: SettingsReader = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", SettingsReader(self.cache, self.environment))

    def cause(self, actor: str, reason: str) -> stores.Cause:
        """Return the cause of a write (who and why), at the present fleet time."""
        return stores.Cause(actor=actor, at=self.clock.now(), reason=reason[:500])

    def fence(self) -> stores.Fence:
        """Return the fence for a controller's write; raise Fenced when this replica does not lead.

        Leadership may end between a decision and its write: without a fence, the store would
        accept that write and overwrite the new leader's.
        """
        fence = self.leadership.fence
        if fence is None:
            raise errors.Fenced("this replica does not lead")
        return fence

    async def record(
        self,
        old: R,
        *,
        status: object,
        finalizers: tuple[str, ...] | None = None,
        actor: str,
        reason: str,
        writes: Sequence[stores.Write] = (),
        preconditions: Sequence[stores.Precondition] = (),
    ) -> R:
        """Write status and finalizers when they differ, fenced, and wait for the cache.

        Returns the object as stored, or the old one when there was nothing to write.
        """
        held = old.metadata.finalizers if finalizers is None else finalizers
        same = status == old.status and held == old.metadata.finalizers and not writes
        if same and not (old.deleting and not held):
            return old
        metadata = msgspec.structs.replace(old.metadata, finalizers=held)
        new = msgspec.structs.replace(old, metadata=metadata, status=status)
        return (
            await self.write(
                new, actor=actor, reason=reason, writes=writes, preconditions=preconditions
            )
        )[0]

    async def write(
        self,
        *objects: R,
        actor: str,
        reason: str,
        writes: Sequence[stores.Write] = (),
        preconditions: Sequence[stores.Precondition] = (),
    ) -> tuple[R, ...]:
        """Write whole objects in one fenced commit and wait for the cache."""
        fence = self.fence()
        revision, stored = await self.objects.save(
            *objects,
            cause=self.cause(actor, reason),
            writes=writes,
            preconditions=preconditions,
            fence=fence,
        )
        await self._seen(revision, stored, actor)
        return stored  # type: ignore[return-value]

    async def _seen(self, revision: int, stored: Sequence[Resource], actor: str) -> None:
        """Wait until the cache has the write; put it there when the feed is late.

        An object put there is newer than the cache's revision. The only effect is that some
        ledger preconditions fail although they could have held.
        """
        try:
            async with asyncio.timeout(BEHIND_SECONDS):
                await self.cache.reached(revision)
        except TimeoutError:
            for each in stored:
                self.cache.event(
                    stores.Event(
                        revision=each.revision,
                        type="DELETED" if is_finished(each) else "MODIFIED",
                        key=each.key,
                        uid=each.metadata.uid,
                        doc=kinds.encode(each),
                        at=self.clock.now(),
                        actor=actor,
                        request_id="",
                        reason="",
                    )
                )
