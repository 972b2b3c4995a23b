"""Who leads each role, as the store's leases tell every process.

Clocks of two hosts are never compared: how long a leader is silent is how long this process has seen
its lease unchanged, in machine seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from labfleet.engine.election import Leadership
from labfleet.engine.wakeup import Pause
from labfleet.interfaces import store as stores
from labfleet.kernel import errors

# Machine seconds.
EVERY_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""The store is asked at most this often, however many ask."""
ANSWER_SECONDS = 2.0


class LeaderState(StrEnum):
    """How a role is led."""

    LED = "led"
    SILENT = "silent"
    """Its leader's lease has run out, and nobody has taken it yet."""
    NOBODY = "nobody"
    """Nobody leads: no process with this role runs, or a successor is about to begin."""
    UNKNOWN = "unknown"
    """The leases could not be read."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a role. `term` is the fencing token: it grows with each change of leader.

    `here`: this process does. `renewed` is for how many machine seconds its lease was seen
    unchanged, None before it was seen.
    """

    role: str
    state: LeaderState
    holder: str = ""
    term: int = 0
    here: bool = False
    renewed: float | None = None


class LeaderWatch:
    """Reads the leases of the roles, for whoever shows who leads."""

    def __init__(
        self,
        leases: stores.LeaseStore,
        roles: tuple[str, ...],
        *,
        seconds: float,
        machine: Callable[[], float] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take the store's leases, the roles that lead, and how long a lease lasts."""
        self._leases = leases
        self._roles = roles
        self._seconds = seconds
        self._machine = machine or _loop_time
        self._pause = pause
        self._rows: dict[str, tuple[stores.Lease, float]] = {}
        self._read = False
        self._looked = -LOOK_SECONDS
        self._asking = asyncio.Lock()
        self.own: Mapping[str, Leadership] = {}

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            await self.look()
            await self._pause(EVERY_SECONDS)

    async def look(self) -> None:
        """Read the leases, unless that was done within the last second."""
        async with self._asking:
            if self._machine() - self._looked < LOOK_SECONDS:
                return
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    rows = [await self._leases.lease(role) for role in self._roles]
            except (errors.LabfleetError, TimeoutError):
                self._read = False
                return
            finally:
                self._looked = self._machine()
            self._read = True
            for role, row in zip(self._roles, rows, strict=True):
                if row is None:
                    self._rows.pop(role, None)
                elif role not in self._rows or self._rows[role][0] != row:
                    self._rows[role] = (row, self._machine())

    @property
    def leaders(self) -> tuple[Leader, ...]:
        """Return who leads each role, as it was read last."""
        return tuple(self._leader(role) for role in self._roles)

    def _leader(self, role: str) -> Leader:
        mine = self.own.get(role)
        here = mine is not None and mine.held
        if not self._read:
            return Leader(role, LeaderState.UNKNOWN, here=here)
        row, at = self._rows.get(role, (None, 0.0))
        if row is None or not row.holder:
            return Leader(role, LeaderState.NOBODY, term=0 if row is None else row.token)
        age = self._machine() - at
        state = LeaderState.LED if age < self._seconds else LeaderState.SILENT
        return Leader(role, state, row.holder, row.token, here, round(age, 1))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
