"""Alerts in the log: a line when one is raised and one when it is cleared.

Runs where the worker controller leads, so one process of a fleet says each. A process that begins
to lead says what is raised then, so nothing that its predecessor saw last is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labfleet.app import logs
from labfleet.engine.wakeup import Pause
from labfleet.kernel.clock import format_instant
from labfleet.resources.alerts import Raised
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import raised

# Machine seconds.
EVERY_SECONDS = 5.0
QUIET_SECONDS = 60.0
"""What is raised and cleared again and again is said at most this often."""
AT_ONCE = 100
"""Lines of one look; the rest is a number."""

Name = tuple[str, str, str]
"""Namespace, object, condition."""


@dataclass(slots=True)
class _Told:
    """What was said last of an alert, and how often it has changed since without a line."""

    row: Raised | None
    at: float
    unsaid: int = 0
    last: bool = False


class AlertLog:
    """Compares what is raised now with what was said, and says the difference."""

    def __init__(
        self,
        services: ServiceContext,
        *,
        machine: Callable[[], float] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._services = services
        self._machine = machine or _loop_time
        self._pause = pause
        self._log = logs.get("alerts")
        self._told: dict[Name, _Told] = {}

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        await self._services.cache.ready()
        self._told.clear()
        while True:
            self.look()
            await self._pause(EVERY_SECONDS)

    def look(self) -> None:
        """Say what was raised and what was cleared since the last look."""
        now, lines = self._machine(), 0
        found = {_name(each): each for each in raised.standing(self._services) if _meant(each)}
        left = 0
        for name in sorted(found.keys() | self._told.keys()):
            row = found.get(name)
            told = self._told.setdefault(name, _Told(None, now - QUIET_SECONDS))
            if told.last != (row is not None):
                told.unsaid, told.last = told.unsaid + 1, row is not None
            if (told.row is None) is (row is None):
                if row is None and now - told.at >= QUIET_SECONDS:
                    del self._told[name]
                continue
            if now - told.at < QUIET_SECONDS:
                continue
            lines += 1
            if lines > AT_ONCE:
                left += 1
            else:
                self._say(name, row or told.row, told.unsaid - 1, cleared=row is None)
            self._told[name] = _Told(row, now, last=row is not None)
        if left:
            self._log.warning("alert.more", count=left, detail="see labfleet alerts")

    def _say(self, name: Name, row: Raised | None, unsaid: int, *, cleared: bool) -> None:
        namespace, what, condition = name
        said: dict[str, object] = {"object": what, "namespace": namespace, "condition": condition}
        if unsaid > 0:
            said["changes_unsaid"] = unsaid
        if cleared or row is None:
            self._log.info("alert.cleared", **said)
            return
        if row.measured is not None:
            said["value"], said["unit"] = row.measured.value, row.measured.unit
            if row.measured.limit is not None:
                said["limit"] = row.measured.limit
        said |= {"severity": row.severity, "since": format_instant(row.since)}
        write = self._log.info if row.severity == "info" else self._log.warning
        if row.severity == "critical":
            write = self._log.error
        write("alert.raised", **said, reason=row.reason, detail=row.message or row.cause)


def _name(row: Raised) -> Name:
    return row.namespace, row.object, row.condition


def _meant(row: Raised) -> bool:
    # What is wrong with the server itself is each process's own, and logged where it is found.
    return not row.object.startswith("server/")


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
