"""Virtual clock, and random numbers, ids and secrets from a seed; `app` takes these from the host.

Random streams have names: one more draw in one stream does not shift the draws of another.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from labfleet.kernel import errors
from labfleet.resources.meta import SecretRef

EPOCH = datetime(2026, 11, 27, tzinfo=UTC)
"""The first instant of every rehearsal: midnight, so that hours of the day are virtual hours."""
SECRET = "rehearsed"  # noqa: S105 - no secret of anybody


class SeededRng:
    """Random numbers of a seed; streams are independent by name (kernel.rng.Rng)."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._rng = random.Random(seed)  # noqa: S311 - a rehearsal, not secrecy

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._rng.random()

    def stream(self, name: str) -> SeededRng:
        """Return the stream of this name."""
        return SeededRng(f"{self._seed}/{name}")

    def getrandbits(self, k: int, /) -> int:
        """Return k random bits (cml_simulator.core.inputs.Rng)."""
        return self._rng.getrandbits(k)

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self._rng.random()

    def below(self, bound: int) -> int:
        """Return a whole number from 0 to bound - 1."""
        return min(int(self._rng.random() * bound), bound - 1)

    def chance(self, share: float) -> bool:
        """Return True in this share of the cases."""
        return self._rng.random() < share


class VirtualClock:
    """Fleet time of one process: the loop's time plus the error of this host's clock.

    `rate` is the product's number of fleet seconds per machine second. The loop counts fleet
    seconds, so a rate other than 1 only lengthens what the product asks for in machine seconds.
    `monotonic` returns seconds since the start; setting the clock does not move it.
    """

    def __init__(
        self, skew: float = 0.0, rate: float = 1.0, time: Callable[[], float] | None = None
    ) -> None:
        self.skew = skew
        self.rate = rate
        self.monotonic = time or _time
        self._told = (math.nan, EPOCH)

    def now(self) -> datetime:
        """Return this host's idea of the instant."""
        at = self.monotonic() + self.skew
        known, instant = self._told
        if at != known:
            instant = EPOCH + timedelta(seconds=at)
            self._told = (at, instant)
        return instant

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds."""
        await asyncio.sleep(seconds)


def _time() -> float:
    return asyncio.get_running_loop().time()


class SeededIds:
    """Ids that depend on the seed and on how many were asked for."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def uid(self) -> str:
        """Return the next UUID."""
        return str(uuid.UUID(bytes=self._next(16), version=4))

    def token(self) -> str:
        """Return the next secret."""
        return self._next(32).hex()[:43]

    def _next(self, size: int) -> bytes:
        self._count += 1
        text = f"{self._seed}/{self._count}"
        return hashlib.blake2b(text.encode(), digest_size=size).digest()


class FixedSecrets:
    """Every reference leads to one value."""

    def resolve(self, ref: SecretRef) -> str:
        """Return the value; Denied for the reference that is to be missing."""
        if ref.env == "MISSING":
            raise errors.Denied("environment variable MISSING is not set", reason="NoSecret")
        return SECRET
