"""Observe a lab, with what it has used, and report it through the service (upstream 000)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.decisions import observation
from labfleet.decisions.lab_use import LabUse
from labfleet.interfaces.lab_host import LabHost, LabObservation
from labfleet.kernel import errors
from labfleet.resources.session import (
    InterfaceObservation,
    NodeObservation,
    PortAllocation,
    ResourceObservation,
    Session,
)

OBSERVER = "session-controller"
ASKED = "manual:"
"""Before whoever asked for an observation, in its `observer`."""


@dataclass(frozen=True, slots=True)
class UsageReporter:
    """Best effort: a failed observation is reported as such and never blocks a teardown."""

    context: Context

    async def look(
        self, session: Session, host: LabHost, use: LabUse | None, asked_by: str = ""
    ) -> ResourceObservation | str:
        """Return the observation, or a sentence on why there is none; `asked_by` nobody is empty."""
        settings = self.context.settings.now().observation
        if not settings.enabled:
            return "observation is switched off (settings: observation.enabled)"
        lab = session.status.lab
        if lab is None or lab.id is None:
            return "there is no lab to observe"
        try:
            async with asyncio.timeout(settings.timeout_seconds):
                seen = await host.observe(lab.id)
        except TimeoutError:
            return f"CML gave no answer within {settings.timeout_seconds} s"
        except errors.LabfleetError as problem:
            return problem.message
        at = self.context.clock.now()
        observer = f"{ASKED}{asked_by}" if asked_by else OBSERVER
        return assemble(seen, at, observer, use, session.status.ports) or "the lab has no nodes"


def assemble(
    seen: LabObservation,
    at: datetime,
    observer: str,
    use: LabUse | None = None,
    given: Iterable[PortAllocation] = (),
) -> ResourceObservation | None:
    """Convert what the adapter saw into the stored record; None for a lab without nodes."""
    interfaces: dict[str, list[InterfaceObservation]] = {}
    for each in seen.interfaces:
        interfaces.setdefault(each.node_id, []).append(
            InterfaceObservation(
                interface_id=each.id,
                label=each.label,
                slot=each.slot,
                state=each.state,
                mac_address=each.mac_address,
                ip4=each.ip4,
            )
        )
    nodes = [
        NodeObservation(
            node_id=node.id,
            label=node.label,
            node_definition=node.definition,
            state=node.state,
            cpus=node.cpus,
            cpu_limit=node.cpu_limit,
            ram_mb=node.ram_mib,
            tags=node.tags,
            interfaces=tuple(interfaces.get(node.id, ())),
            used={} if use is None else use.used_by(node.label),
        )
        for node in seen.nodes
    ]
    told = observation.assemble(
        nodes,
        at=at,
        observer=observer,
        simulation_stats=seen.simulation_stats,
        gaps=(*seen.gaps, *(() if use is None else use.gaps)),
        given=given,
    )
    if told is None or use is None:
        return told
    return replace(told, used=use.used(), measured=use.readings)
