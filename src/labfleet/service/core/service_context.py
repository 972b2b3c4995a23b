"""What every verb stands on, who calls it, and how a write is tried again after a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from labfleet.engine.cache import Cache
from labfleet.engine.objects import Objects
from labfleet.engine.samples import SampleRing
from labfleet.interfaces import store as stores
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.resources.fleet_settings import Layer
from labfleet.service.core.access import Principal
from labfleet.service.core.fleet_settings import SettingsReader

TRIES = 8
FRESH_SECONDS = 2.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, in which request."""

    principal: Principal
    request_id: str = ""


class KeyedLocks:
    """Lets callers of one process decide about one thing one after the other, in their order.

    Saves the losers of a race their retries; between processes only the store decides.
    """

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of this name until the block ends."""
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = (lock, users - 1)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The store's typed face, the cache, clock, identities, the samples of this process.

    `environment` is the environment's layer of settings, which the composition root has read; `variables`
    says which variable gave a value of it; `defaults` is what new objects of a kind get where
    their spec leaves it out.
    """

    objects: Objects
    cache: Cache
    clock: Clock
    ids: IdSource
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    samples: Samples = field(default_factory=SampleRing)
    environment: Layer = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: SettingsReader = field(init=False)

    def __post_init__(self) -> None:
        reader = SettingsReader(self.cache, self.environment, self.variables)
        object.__setattr__(self, "settings", reader)

    def cause(self, caller: Caller, reason: str) -> stores.Cause:
        """Return what every event of a write by this caller carries."""
        return stores.Cause(
            actor=caller.principal.name,
            at=self.clock.now(),
            request_id=caller.request_id,
            reason=reason,
        )

    def machine_hours(self, hours: float) -> timedelta:
        """Return the fleet time in which this many hours of machine time pass."""
        return timedelta(hours=hours * max(1.0, self.clock.rate))

    async def fresh(self) -> int:
        """Return a cache revision that has everything written before this call.

        Temporary (reason CacheBehind) when the cache does not get there in two seconds:
        an old list is never given out as a new one.
        """
        head = await self.objects.store.head()
        await self.reached(head.revision)
        return self.cache.revision

    async def reached(self, revision: int) -> None:
        """Return once the cache has this revision; Temporary after two seconds."""
        if self.cache.revision >= revision:
            return
        try:
            async with asyncio.timeout(FRESH_SECONDS):
                await self.cache.reached(revision)
        except TimeoutError:
            message = "the cache is behind the store; try again"
            raise errors.Temporary(message, reason="CacheBehind", retry_after=1) from None


class Stale(errors.Conflict):
    """The caller's resourceVersion is not the newest; `current` is, 0 when it is gone."""

    reason = "StaleVersion"

    def __init__(self, message: str, *, current: int) -> None:
        super().__init__(message)
        self.current = current


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the attempt's answer, deciding again from fresh state after each lost race.

    The last Conflict goes to the caller. A stale version that the caller itself named is
    never tried again.
    """
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except (Stale, errors.Fenced, Refused):
            raise
        except errors.Conflict:
            continue
    return await attempt()


class Refused(errors.Conflict):
    """The object's state forbids it, so trying again does not help."""

    reason = "Refused"
