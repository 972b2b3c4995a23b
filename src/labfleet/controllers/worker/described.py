"""Translates what a provider describes into a worker's record of its machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from labfleet.interfaces.compute import Checks, Instance
from labfleet.resources.machine import MachineStatus

TAGS_KEPT = 50
"""EC2's own limit of tags on an instance."""


def machine_status(found: Instance, *, tagged: bool = False) -> MachineStatus:
    """Return the status record of a described machine; its tags only where a provider has them."""
    return MachineStatus(
        id=found.id,
        state=found.state,
        type=found.instance_type,
        image=found.image_id,
        zone=found.zone,
        public_address=found.public_ip,
        private_address=found.private_ip,
        launched=found.launch_time,
        stopped_at=found.stopped_at,
        volume=found.root_volume_id,
        state_reason=found.state_reason,
        tags_seen=dict(sorted(found.tags.items())[:TAGS_KEPT]) if tagged else None,
    )


def checked(shown: MachineStatus, checks: Mapping[str, Checks] | None) -> MachineStatus:
    """Return the machine with the provider's checks: ok if not listed, None when not known."""
    if checks is None:
        return shown
    told = checks.get(shown.id or "")
    if told is None:
        return msgspec.structs.replace(shown, host_check="ok", machine_check="ok")
    return msgspec.structs.replace(
        shown, host_check=told.system, machine_check=told.instance, events=told.events
    )
