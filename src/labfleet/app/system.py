"""The real clock, random numbers, ids and secrets; only this module reads them from the host."""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from labfleet.decisions import clock_trust
from labfleet.kernel import errors
from labfleet.kernel.rng import Rng
from labfleet.resources.meta import SecretRef

SECRET_LIMIT = 65536


def _since_boot() -> float:
    """Return seconds since the machine's start, suspended time included."""
    # Elsewhere than on Linux CLOCK_MONOTONIC is the one that counts a sleep.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """Fleet time from the host's clock: epoch + (real - epoch) x rate.

    `epoch` is a Unix instant at which fleet time and real time are the same; with rate 1 they
    always are. The two simulators take the same two numbers and so share the time.

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


class SystemIds:
    """Random identities and secrets."""

    def uid(self) -> str:
        """Return a fresh UUID."""
        return str(uuid.uuid4())

    def token(self) -> str:
        """Return 256 fresh random bits as text."""
        return secrets.token_urlsafe(32)


# The server's own credentials. An operator chooses both a secretRef and the address that the
# secret is sent to; with these an operator would become admin, or the AWS account's owner.
_OUR_VARIABLES = re.compile(r"AWS_.*|PG[A-Z]+|LABFLEET_(?:TOKEN|STORE)")
_OUR_TOKEN = re.compile(r"lf_[0-9a-f]{16}_\S{20,}")
_NO_FOLDERS = ("/proc", "/sys", "/dev")
_NO_PARTS = frozenset({".aws", ".ssh"})


class HostSecrets:
    """Reads secretRefs from the environment and from files, at the moment of use.

    `reserved` names more variables of the server's own. The protection is partial: a person who
    may make templates can have any other secret that this process can read sent to their server.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, *, reserved: Collection[str] = ()
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._reserved = frozenset(reserved)

    def resolve(self, ref: SecretRef) -> str:
        """Return the value, without a trailing newline; Denied names only the reference."""
        value = self._read(ref)
        if _OUR_TOKEN.search(value):
            message = f"{ref.env or ref.file} holds a token of labfleet, which is no worker's"
            raise errors.Denied(message, reason="NoSecret")
        return value

    def _read(self, ref: SecretRef) -> str:
        if ref.env is not None:
            if ref.env in self._reserved or _OUR_VARIABLES.fullmatch(ref.env):
                raise errors.Denied(f"variable {ref.env} is the server's own", reason="NoSecret")
            value = self._environment.get(ref.env)
            if not value:
                raise errors.Denied(f"environment variable {ref.env} is not set", reason="NoSecret")
            return value
        path = Path(ref.file or "")
        try:
            real = path.resolve()
            if str(real).startswith(_NO_FOLDERS) or _NO_PARTS & set(real.parts):
                raise errors.Denied(f"{path} is no place for a worker's secret", reason="NoSecret")
            # A pipe or a device would hold up the whole server until somebody writes to it.
            if path.exists() and not path.is_file():
                raise errors.Denied(f"secret file {path} is no regular file", reason="NoSecret")
            with path.open(encoding="utf-8") as file:
                value = file.read(SECRET_LIMIT).rstrip("\r\n")
        except (OSError, ValueError, RuntimeError) as problem:
            kind = type(problem).__name__
            raise errors.Denied(
                f"cannot read secret file {path}: {kind}", reason="NoSecret"
            ) from None
        if not value:
            raise errors.Denied(f"secret file {path} is empty", reason="NoSecret")
        return value
