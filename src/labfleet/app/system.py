"""The real clock, random numbers and ids; only this module reads them from the host."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from labfleet.decisions import clock_trust
from labfleet.kernel import errors
from labfleet.kernel.rng import Rng

# Elsewhere than on Linux CLOCK_MONOTONIC is the one that counts a sleep.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _since_boot() -> float:
    """Return seconds since the machine's start, suspended time included."""
    return time.clock_gettime(_BOOT_CLOCK)


class SystemClock:
    """Fleet time from the host's clock: epoch + (real - epoch) x rate.

    `epoch` is a Unix instant at which fleet time and real time are the same; with rate 1 they
    always are. The simulators of EC2 and CML take the same two numbers and so share the time.

    Real time is the host's wall clock while that agrees with the clock since its start
    (`decisions.clock_trust`); a jump is not followed until people confirm it.
    """

    def __init__(
        self,
        epoch: float = 0.0,
        rate: float = 1.0,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _since_boot,
    ) -> None:
        if rate <= 0:
            raise errors.Invalid(f"clock rate {rate} must be greater than 0")
        self._epoch = epoch
        self._rate = rate
        self._wall = wall
        self._steady = steady
        self._trust = clock_trust.Trust(wall(), steady())

    @property
    def rate(self) -> float:
        """Return fleet seconds per machine second."""
        return self._rate

    def now(self) -> datetime:
        """Return the fleet's instant."""
        return self._fleet(self._judged().time)

    def host_now(self) -> datetime:
        """Return the instant of the host's wall clock, also while it is not followed."""
        return self._fleet(self._wall())

    @property
    def apart(self) -> float:
        """Return by how many real seconds the host's wall clock is ahead of what holds."""
        return self._judged().apart

    @property
    def apart_since(self) -> datetime | None:
        """Return since when the wall clock is not followed, None while it is."""
        since = self._judged().since
        return None if since is None else self._fleet(since)

    def doubt(self, told: datetime) -> None:
        """Go on from the instant that the fleet's log tells just now, when ours is ahead."""
        self._trust = clock_trust.doubted(self._judged(), self._real(told), self._steady())

    def confirm(self) -> None:
        """Follow the host's wall clock again."""
        self._trust = clock_trust.confirmed(self._wall(), self._steady())

    def _judged(self) -> clock_trust.Trust:
        # Threads may do this at once: each writes a whole value of the same two clocks.
        self._trust = found = clock_trust.judged(self._trust, self._wall(), self._steady())
        return found

    def _fleet(self, real: float) -> datetime:
        if self._rate == 1.0:
            return datetime.fromtimestamp(real, UTC)
        scaled = (real - self._epoch) * self._rate
        return datetime.fromtimestamp(self._epoch, UTC) + timedelta(seconds=scaled)

    def _real(self, fleet: datetime) -> float:
        return self._epoch + (fleet.timestamp() - self._epoch) / self._rate

    def monotonic(self) -> float:
        """Return fleet seconds that never go back."""
        return time.monotonic() * self._rate

    async def sleep(self, seconds: float) -> None:
        """Sleep for fleet seconds."""
        await asyncio.sleep(seconds / self._rate)


class SystemRng:
    """Random numbers of the host, or of a seed; streams of one seed are independent by name."""

    def __init__(self, seed: str | None = None) -> None:
        self._seed = secrets.token_hex(16) if seed is None else seed
        self._rng = random.Random(self._seed)  # noqa: S311 - jitter, not secrecy

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._rng.random()

    def stream(self, name: str) -> Rng:
        """Return the stream of this name."""
        return SystemRng(f"{self._seed}/{name}")


_UIDS_AT_ONCE = 256


class SystemIds:
    """Random identities and secrets."""

    def __init__(self) -> None:
        self._random: Iterator[bytes] = iter(())

    def uid(self) -> str:
        """Return a fresh UUID.

        The host's random bytes are read for many at once: each read lets another thread run, and
        the loop waits for it to stop.
        """
        found = next(self._random, None)
        if found is None:
            raw = os.urandom(16 * _UIDS_AT_ONCE)
            self._random = iter([raw[at : at + 16] for at in range(0, len(raw), 16)])
            found = next(self._random)
        # What uuid.UUID(bytes=found, version=4) writes, in a quarter of the time.
        text = found.hex()
        variant = "89ab"[found[8] >> 4 & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    def token(self) -> str:
        """Return 256 fresh random bits as text."""
        return secrets.token_urlsafe(32)
