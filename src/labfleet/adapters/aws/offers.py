"""Remembers what EC2 refused, and until when it is not asked for again.

One memory for all workers of a process (facts/aws.md#error-classes): when a type is out of stock in
one subnet, no worker asks for it there for a while; an account limit blocks every worker of the
same settings; a refused start blocks only its own worker. A restart loses the memory, which costs
a call or two. Times are arguments; the memory is bounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from labfleet.kernel import errors, ids
from labfleet.kernel.clock import utc_time
from labfleet.resources.providers.aws import AwsSettings

CAPACITY = (timedelta(minutes=3), timedelta(minutes=30))
QUOTA = (timedelta(minutes=5), timedelta(minutes=30))
START = (timedelta(minutes=1), timedelta(minutes=30))
TRIAL = timedelta(seconds=60)
"""How long all other workers wait while one tries again first."""
FORGET = timedelta(hours=1)
LIMIT = 10_000

Option = tuple[str, str | None]
"""An instance type and a subnet; None lets the provider choose the zone."""


@dataclass(slots=True)
class Block:
    """A refusal: until when it blocks, how often in a row it was given, and its text."""

    until: datetime
    hits: int
    reason: str
    message: str
    tried_until: datetime | None = None

    def opens(self, now: datetime) -> datetime | None:
        """Return when it may be asked again; None when it may be now."""
        until = max(self.until, self.tried_until or self.until)
        return until if until > now else None


@dataclass(slots=True)
class Blocks:
    """Refusals by key: the first blocks for `first`, each next twice as long, up to `longest`."""

    first: timedelta
    longest: timedelta
    _rows: dict[Hashable, Block] = field(default_factory=dict)

    def refused(self, key: Hashable, problem: errors.LabfleetError, now: datetime) -> Block:
        """Record a refusal; while one blocks, another (of a call under way) renews it."""
        known = self.get(key, now)
        hits = 0
        if known is not None:
            hits = known.hits if known.until > now else known.hits + 1
        span = min(self.first * 2 ** min(hits, 20), self.longest)
        block = Block(now + span, hits, problem.reason, problem.message)
        self._rows.pop(key, None)
        self._rows[key] = block
        while len(self._rows) > LIMIT:
            del self._rows[next(iter(self._rows))]
        return block

    def worked(self, key: Hashable) -> None:
        """Forget the refusals of a key, since a call succeeded."""
        self._rows.pop(key, None)

    def get(self, key: Hashable, now: datetime) -> Block | None:
        """Return the last refusal, even one that no longer blocks, unless it is long ago."""
        known = self._rows.get(key)
        if known is not None and now >= known.until + FORGET:
            del self._rows[key]
            return None
        return known

    def opens(self, key: Hashable, now: datetime) -> datetime | None:
        """Return when it may be asked again; None when it may be now."""
        known = self.get(key, now)
        return None if known is None else known.opens(now)

    def trial(self, key: Hashable, now: datetime) -> None:
        """Let one caller try again while the others still wait; no effect without a refusal."""
        known = self.get(key, now)
        if known is not None:
            known.tried_until = now + TRIAL


@dataclass(slots=True)
class Offers:
    """What may be launched and started now."""

    capacity: Blocks = field(default_factory=lambda: Blocks(*CAPACITY))
    quota: Blocks = field(default_factory=lambda: Blocks(*QUOTA))
    starts: Blocks = field(default_factory=lambda: Blocks(*START))

    def choose(self, settings: AwsSettings, now: datetime) -> Option:
        """Return the first option in order of preference that is not blocked.

        Raises QuotaExceeded or OutOfCapacity (`retry_after` in fleet seconds) if there is none.
        """
        limit = quota_key(settings)
        at = self.quota.opens(limit, now)
        if at is not None:
            raise self._limited(settings, limit, at, now)
        for option in options(settings):
            if self.capacity.opens(_place(settings, option), now) is None:
                self.quota.trial(limit, now)
                self.capacity.trial(_place(settings, option), now)
                return option
        raise self._empty(settings, options(settings), now)

    def held(
        self, settings: AwsSettings, now: datetime, option: Option | None = None
    ) -> errors.Temporary | None:
        """Return why every option, or the given one, is blocked; None when one is not."""
        limit = quota_key(settings)
        at = self.quota.opens(limit, now)
        if at is not None:
            return self._limited(settings, limit, at, now)
        wanted = options(settings) if option is None else (option,)
        if any(self.capacity.opens(_place(settings, each), now) is None for each in wanted):
            return None
        return self._empty(settings, wanted, now)

    def refused(
        self, settings: AwsSettings, option: Option, problem: errors.LabfleetError, now: datetime
    ) -> None:
        """Remember a definite refusal of a launch."""
        if isinstance(problem, errors.QuotaExceeded):
            self.quota.refused(quota_key(settings), problem, now)
        elif isinstance(problem, errors.OutOfCapacity):
            self.capacity.refused(_place(settings, option), problem, now)

    def worked(self, settings: AwsSettings, option: Option) -> None:
        """Remember a success: there is capacity, and the account's limit is not reached."""
        self.quota.worked(quota_key(settings))
        self.capacity.worked(_place(settings, option))

    def _limited(
        self, settings: AwsSettings, limit: str, at: datetime, now: datetime
    ) -> errors.QuotaExceeded:
        block = self.quota.get(limit, now)
        told, reason = ("", "") if block is None else (block.message, block.reason)
        message = (
            f"an account limit in {settings.region} stops every worker with these settings: "
            f"{told}; asked again at {_clock(at)}, or at once for a changed template"
        )
        return errors.QuotaExceeded(
            message[:500], reason=reason or None, retry_after=(at - now).total_seconds()
        )

    def _empty(
        self, settings: AwsSettings, wanted: Sequence[Option], now: datetime
    ) -> errors.OutOfCapacity:
        rows = list(self._closed(settings, wanted, now))
        first = min(at for _, at, _ in rows)
        told = "; ".join(
            f"{kind} in {subnet or 'any zone'}: {reason}" for (kind, subnet), _, reason in rows[:8]
        )
        more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
        message = f"no capacity: {told}{more}; asked again at {_clock(first)}"
        return errors.OutOfCapacity(
            message, reason="OutOfCapacity", retry_after=(first - now).total_seconds()
        )

    def _closed(
        self, settings: AwsSettings, wanted: Sequence[Option], now: datetime
    ) -> Iterator[tuple[Option, datetime, str]]:
        for option in wanted:
            block = self.capacity.get(_place(settings, option), now)
            if block is not None:
                yield option, block.opens(now) or now, block.reason


def options(settings: AwsSettings) -> Sequence[Option]:
    """Return every type and subnet that may be asked for, in order of preference."""
    subnets = settings.subnet_ids or (None,)
    return [(kind, subnet) for kind in settings.instance_types for subnet in subnets]


def quota_key(aws: AwsSettings) -> str:
    """Return the key of an account limit: workers of equal settings share it."""
    return ids.digest(msgspec.json.encode(aws, order="sorted").decode())


def _place(settings: AwsSettings, option: Option) -> Hashable:
    return (settings.region, *option)


def _clock(at: datetime) -> str:
    return utc_time(at)
