"""Tries the TCP ports of labs from here, as their users would: until they are ready, and then now and then.

It connects to the address of the session's own worker, at the numbers that the session was given,
and hangs up; it sends nothing and reads nothing. What it finds is told and ends no session that was
ready once. UDP cannot be tried from outside (facts/cml-issues.md#f40).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.decisions import reach
from labfleet.decisions.lifecycle.session.draft import SessionObservation
from labfleet.resources.meta import Key
from labfleet.resources.session import PortAllocation, Session, SessionPhase
from labfleet.resources.worker import Worker

AT_ONCE = 16
"""Connections at a time for one lab; each has the probe's own deadline."""
SHOWN = 5
CONFIRM = 2
"""Tries in a row that must fail before ports that have answered count as silent."""
MINUTE = timedelta(minutes=1)


@dataclass(slots=True)
class _Tried:
    """When the ports of a lab were tried last, and how often in a row one did not answer."""

    at: datetime
    failed: int = 0


@dataclass(slots=True)
class PortWatch:
    """Tries ports within the settings' limits; what it remembers is of live labs alone."""

    context: Context
    _tried: dict[str, _Tried] = field(default_factory=dict)
    _spent: dict[Key, int] = field(default_factory=dict)
    _minute: datetime | None = None

    async def coming(
        self, session: Session, worker: Worker, seen: SessionObservation
    ) -> SessionObservation:
        """Try every TCP port of a lab whose nodes are up; not tried when settings say so."""
        if self.context.settings.now().monitoring.port_probe == "off":
            return replace(seen, ports_untried=True)
        silent = await self._silent(worker, _of(session))
        return replace(seen, ports_open=not silent, ports_detail=_told(silent))

    async def up(
        self, session: Session, worker: Worker, seen: SessionObservation
    ) -> SessionObservation:
        """Try the TCP ports of a lab that was ready once, when it is due and within the budget.

        One try that fails proves nothing: it is repeated at the next look.
        """
        ports, now = _of(session), self.context.clock.now()
        wanted = self.context.settings.now().monitoring
        if wanted.port_probe != "always" or not ports or not reach.host_of(worker):
            return seen
        every = timedelta(seconds=wanted.port_probe_seconds)
        last = self._tried.get(session.metadata.uid)
        again = last is not None and 0 < last.failed < CONFIRM
        if last is not None and not again and last.at <= now < last.at + every:
            return seen
        if not self._may(worker, len(ports), wanted.port_probes_per_minute, now, every):
            return seen
        silent = await self._silent(worker, ports)
        failed = (0 if last is None else last.failed) + 1 if silent else 0
        self._tried[session.metadata.uid] = _Tried(now, failed)
        if 0 < failed < CONFIRM:
            return seen
        return replace(seen, ports_open=not silent, ports_detail=_told(silent))

    def _may(self, worker: Worker, count: int, limit: int, now: datetime, every: timedelta) -> bool:
        """Take connections from the worker's budget of this minute.

        A lab with more ports than the budget gets a minute of its own.
        """
        if self._minute is None or not self._minute <= now < self._minute + MINUTE:
            self._minute, self._spent = now, {}
            self._tried = {
                uid: each for uid, each in self._tried.items() if now - each.at <= 3 * every
            }
        spent = self._spent.get(worker.key, 0)
        if spent and spent + count > limit:
            return False
        self._spent[worker.key] = spent + count
        return True

    async def _silent(
        self, worker: Worker, ports: Sequence[PortAllocation]
    ) -> list[PortAllocation]:
        address, silent = reach.host_of(worker), list[PortAllocation]()
        for start in range(0, len(ports), AT_ONCE):
            batch = ports[start : start + AT_ONCE]
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.context.probe.answers(address, port.number))
                    for port in batch
                ]
            silent += [port for port, task in zip(batch, tasks, strict=True) if not task.result()]
        return silent


def is_up(session: Session) -> bool:
    """Tell whether a session is in a phase in which its ports are tried now and then."""
    return session.status.phase in {SessionPhase.READY, SessionPhase.RUNNING}


def _of(session: Session) -> list[PortAllocation]:
    off = session.status.lab_off
    dark = () if off is None else off.nodes
    return [
        port for port in session.status.ports if port.transport == "tcp" and port.node not in dark
    ]


def _told(silent: Sequence[PortAllocation]) -> str:
    return ", ".join(f"{port.name} ({port.transport} {port.number})" for port in silent[:SHOWN])
