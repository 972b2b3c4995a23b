"""Observe what a lab really used, and report it through the service (upstream 000)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from labfleet.controllers.context import Context
from labfleet.decisions import observation
from labfleet.interfaces.lab_host import LabHost, LabObservation
from labfleet.kernel import errors
from labfleet.resources.session import (
    InterfaceObservation,
    NodeObservation,
    ResourceObservation,
    Session,
)

DEADLINE = 30.0
OBSERVER = "session-controller"


@dataclass(frozen=True, slots=True)
class UsageReporter:
    """Best effort: a failed observation is reported as such and never blocks a teardown."""

    context: Context

    async def look(self, session: Session, host: LabHost) -> ResourceObservation | str:
        """Return the observation, or a sentence on why there is none."""
        lab = session.status.lab
        if lab is None or lab.id is None:
            return "there is no lab to observe"
        try:
            async with asyncio.timeout(DEADLINE):
                seen = await host.observe(lab.id)
        except TimeoutError:
            return f"CML gave no answer within {DEADLINE:g} s"
        except errors.LabfleetError as problem:
            return problem.message
        at = self.context.clock.now()
        return assemble(seen, at, OBSERVER) or "the lab has no nodes"


def assemble(seen: LabObservation, at: datetime, observer: str) -> ResourceObservation | None:
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
        )
        for node in seen.nodes
    ]
    return observation.assemble(
        nodes, at=at, observer=observer, simulation_stats=seen.simulation_stats, gaps=seen.gaps
    )
