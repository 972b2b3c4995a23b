"""Remembers what the provider refused, and until when it is not asked for again.

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
from labfleet.resources.machine import Machine
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

    def choose(self, machine: Machine, now: datetime) -> Option:
        """Return the first option in order of preference that is not blocked.

        Raises QuotaExceeded or OutOfCapacity (`retry_after` in fleet seconds) if there is none.
        """
        limit = quota_key(machine.provider)
        at = self.quota.opens(limit, now)
        if at is not None:
            raise self._limited(machine, limit, at, now)
        for option in options(machine):
            if self.capacity.opens(_place(machine, option), now) is None:
                self.quota.trial(limit, now)
                self.capacity.trial(_place(machine, option), now)
                return option
        raise self._empty(machine, now)

    def may(self, machine: Machine, option: Option, now: datetime) -> bool:
        """Tell whether an option is not blocked now."""
        limited = self.quota.opens(quota_key(machine.provider), now)
        return limited is None and self.capacity.opens(_place(machine, option), now) is None

    def held(self, machine: Machine, now: datetime) -> errors.Temporary | None:
        """Return why every option is blocked; None when one is not."""
        limit = quota_key(machine.provider)
        at = self.quota.opens(limit, now)
        if at is not None:
            return self._limited(machine, limit, at, now)
        if any(self.may(machine, option, now) for option in options(machine)):
            return None
        return self._empty(machine, now)

    def refused(
        self, machine: Machine, option: Option, problem: errors.LabfleetError, now: datetime
    ) -> None:
        """Remember a definite refusal of a launch."""
        if isinstance(problem, errors.QuotaExceeded):
            self.quota.refused(quota_key(machine.provider), problem, now)
        elif isinstance(problem, errors.OutOfCapacity):
            self.capacity.refused(_place(machine, option), problem, now)

    def worked(self, machine: Machine, option: Option) -> None:
        """Remember a success: there is capacity, and the account's limit is not reached."""
        self.quota.worked(quota_key(machine.provider))
        self.capacity.worked(_place(machine, option))

    def _limited(
        self, machine: Machine, limit: str, at: datetime, now: datetime
    ) -> errors.QuotaExceeded:
        block = self.quota.get(limit, now)
        told, reason = ("", "") if block is None else (block.message, block.reason)
        message = (
            f"an account limit in {machine.provider.region} stops every worker with these settings: "
            f"{told}; asked again at {_clock(at)}, or at once for a changed template"
        )
        return errors.QuotaExceeded(
            message[:500], reason=reason or None, retry_after=(at - now).total_seconds()
        )

    def _empty(self, machine: Machine, now: datetime) -> errors.OutOfCapacity:
        rows = list(self._closed(machine, now))
        first = min(at for _, at, _ in rows)
        told = "; ".join(
            f"{kind} in {subnet or 'any zone'}: {reason}" for (kind, subnet), _, reason in rows[:8]
        )
        more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
        message = f"no capacity: {told}{more}; asked again at {_clock(first)}"
        return errors.OutOfCapacity(
            message, reason="OutOfCapacity", retry_after=(first - now).total_seconds()
        )

    def _closed(self, machine: Machine, now: datetime) -> Iterator[tuple[Option, datetime, str]]:
        for option in options(machine):
            block = self.capacity.get(_place(machine, option), now)
            if block is not None:
                yield option, block.opens(now) or now, block.reason


def options(machine: Machine) -> Sequence[Option]:
    """Return every type and subnet that may be asked for, in order of preference."""
    subnets = machine.provider.subnet_ids or (None,)
    return [(kind, subnet) for kind in machine.provider.instance_types for subnet in subnets]


def quota_key(aws: AwsSettings) -> str:
    """Return the key of an account limit: workers of equal settings share it."""
    return ids.digest(msgspec.json.encode(aws, order="sorted").decode())


def _place(machine: Machine, option: Option) -> Hashable:
    return (machine.provider.region, *option)


def _clock(at: datetime) -> str:
    return utc_time(at)
