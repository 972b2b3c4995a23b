"""Looks now and then at the nodes of running labs: which there are, and which ports they name.

One request for a lab, every `observation.portsSeconds`, and once more when the worker's own look
says something new of that lab: a port that somebody adds is found without a request of its own
before that. A look that fails or sees no node tells nothing, and what was known stays.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.decisions import port_numbers
from labfleet.decisions.lifecycle.session.draft import SessionObservation
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker

AGAIN = timedelta(seconds=60)
"""How soon a lab is looked at again whose nodes could not be read."""

Named = tuple[tuple[str, int, int], ...]
"""Stretches of numbers, as the worker's record has them, that a lab names unasked."""


@dataclass(slots=True)
class _Looked:
    """When a lab is due, and what its worker said of it at the last look."""

    due: datetime
    named: Named = ()


@dataclass(slots=True)
class PortLooks:
    """Looks at the port tags of labs; what it remembers is of labs that are up."""

    context: Context
    _looked: dict[str, _Looked] = field(default_factory=dict)
    _swept: datetime | None = None

    async def at(
        self, session: Session, worker: Worker, host: LabHost, seen: SessionObservation
    ) -> SessionObservation:
        """Add which ports a lab's nodes name, when a look at them is due."""
        wanted, lab = self.context.settings.now().observation, session.status.lab
        if not wanted.enabled or lab is None or lab.id is None:
            return seen
        now, every = self.context.clock.now(), timedelta(seconds=wanted.ports_seconds)
        self._sweep(now, every)
        uid, named = session.metadata.uid, _named(worker, lab.id)
        known = self._looked.get(uid)
        if known is None:
            # Spread by identity: a process that begins looks at no fleet all at once.
            known = _Looked(now + every * (zlib.crc32(uid.encode()) % 1000 / 1000))
            self._looked[uid] = known
        told = named != known.named
        if not told and known.due - every <= now < known.due:
            return seen
        try:
            nodes = await host.nodes(lab.id)
        except errors.LabfleetError:
            known.due, known.named = now + min(AGAIN, every), named
            return seen
        known.due, known.named = now + every, named
        if not nodes:
            return seen
        found = port_numbers.observed(nodes, session.status.ports)
        return replace(seen, ports_seen=found, nodes=nodes)

    def _sweep(self, now: datetime, every: timedelta) -> None:
        """Forget labs that nobody asked about for long."""
        if self._swept is not None and self._swept <= now < self._swept + every:
            return
        self._swept = now
        self._looked = {
            uid: each for uid, each in self._looked.items() if now - each.due <= 2 * every
        }


def _named(worker: Worker, lab: str) -> Named:
    return tuple(
        (each.transport, each.first, each.last)
        for each in worker.status.held_ports
        if each.lab == lab
    )
