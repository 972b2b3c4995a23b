"""The dependencies and the caller of every verb, and the retry of writes after a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from labfleet.decisions import vitals
from labfleet.engine.aside import Aside, Here
from labfleet.engine.cache import Cache
from labfleet.engine.clock_check import ClockCheck
from labfleet.engine.leader_watch import LeaderWatch
from labfleet.engine.objects import Objects
from labfleet.engine.samples import SampleRing
from labfleet.engine.secrets_check import SecretsCheck
from labfleet.engine.store_health import StoreHealth
from labfleet.interfaces import store as stores
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.resources.fleet_settings import Layer
from labfleet.resources.prices import SHIPPED, PriceList
from labfleet.service.core.access import Principal
from labfleet.service.core.asked_runs import AskedRuns
from labfleet.service.core.awaited import Awaited
from labfleet.service.core.cluster_watch import ClusterWatch
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.core.known_starts import KnownStarts
from labfleet.service.core.learning import Learning
from labfleet.service.core.paid_ledger import PaidLedger

TRIES = 8
FRESH_SECONDS = 2.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, in which request."""

    principal: Principal
    request_id: str = ""


class KeyedLocks:
    """Locks by name: callers of one process get the same lock one after the other, in order.

    This saves them conflicts and retries; between processes only the store decides.
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


@dataclass(slots=True)
class Outlooks:
    """The lines that people ask about, by cluster, for `kinds.outlook` to fill and follow."""

    of: dict[str, object] = field(default_factory=dict)
    follows: bool = False
    """Whether changes of runs are followed: from the first question on."""


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Typed access to the store and its other parts, the cache, clock, identities, the samples.

    `environment` is the environment's layer of settings, which the composition root has read;
    `variables` says which variable gave a value of it; `defaults` is what new objects of a kind
    get where their spec leaves it out. `health`, `clock_check`, `secrets_check` and
    `leaders` are what this process knows of its store, its clock, the fleet's secretRefs and who
    leads; None where nobody watches. `aside` runs what would hold up the loop. `asked` are requests of
    simulations that wait in this process for their decision, `awaited` callers who wait for one;
    `watch` is what was heard of clusters, and when;
    `outlooks` is what is kept to tell when those that wait will start, `starts` the same of sessions;
    `learning` is what this process learned from past runs; `prices` is what machines cost,
    `ledger` what was paid.
    """

    objects: Objects
    cache: Cache
    clock: Clock
    ids: IdSource
    _: KW_ONLY
    log: stores.EventLog
    replies: stores.ReplyStore
    series: stores.SeriesStore
    history: stores.HistoryStore
    kept: stores.KeptStore
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    samples: Samples = field(default_factory=SampleRing)
    environment: Layer = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    health: StoreHealth | None = None
    clock_check: ClockCheck | None = None
    secrets_check: SecretsCheck | None = None
    leaders: LeaderWatch | None = None
    aside: Aside = field(default_factory=Here)
    asked: AskedRuns = field(default_factory=AskedRuns)
    watch: ClusterWatch = field(default_factory=ClusterWatch)
    outlooks: Outlooks = field(default_factory=Outlooks)
    starts: KnownStarts = field(default_factory=KnownStarts)
    prices: PriceList = SHIPPED
    settings: SettingsReader = field(init=False)
    awaited: Awaited = field(init=False)
    learning: Learning = field(init=False)
    ledger: PaidLedger = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "awaited", Awaited(self.cache))
        object.__setattr__(self, "learning", Learning(self.history))
        object.__setattr__(self, "ledger", PaidLedger(self.history))
        reader = SettingsReader(self.cache, self.environment, self.variables)
        object.__setattr__(self, "settings", reader)

    def cause(self, caller: Caller, reason: str) -> stores.Cause:
        """Return the cause that events of a write by this caller carry."""
        return stores.Cause(
            actor=caller.principal.name,
            at=self.clock.now(),
            request_id=caller.request_id,
            reason=reason,
        )

    def machine_hours(self, hours: float) -> timedelta:
        """Return the fleet time in which this many hours of machine time pass."""
        return timedelta(hours=hours * max(1.0, self.clock.rate))

    def sample_life(self) -> timedelta:
        """Return from which age on what a sample says is unknown."""
        poll = float(self.settings.now().monitoring.poll_interval_seconds)
        return vitals.fresh_for(poll, self.clock.rate)

    async def fresh(self) -> int:
        """Return a cache revision that has everything written before this call.

        Raises Temporary (reason CacheBehind) when the cache needs more than two seconds:
        an old list is never returned as a new one.
        """
        head = await self.log.head()
        await self.reached(head.revision)
        return self.cache.revision

    async def reached(self, revision: int) -> None:
        """Return once the cache has this revision; raise Temporary after two seconds."""
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
    """Return the attempt's result, running it again on fresh state after each conflict.

    The last Conflict is raised. A stale resourceVersion given by the caller is not retried.
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
    """The object's state forbids it, so trying again does not help.

    `problems` lists (where, what) pairs, as those of `Invalid`.
    """

    reason = "Refused"

    def __init__(
        self, message: str, *, reason: str, problems: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message, reason=reason)
        self.problems = problems
