"""One instance as a Describe shows it at a moment: lags, late tags and late addresses applied.

The filters and the writer read only this, so that filters match exactly what is shown.
"""

import dataclasses
from typing import Any

from aws_simulator.machine import CODES, Machine
from aws_simulator.world import World

NO_TOKEN = "ABCDE"  # noqa: S105 - moto's value for a request without a client token


@dataclasses.dataclass(slots=True)
class ShownInstance:
    """An instance, its machine, and what eventual consistency lets through."""

    instance: Any
    machine: Machine
    reservation: str
    state: str
    tags: dict[str, str]
    has_addresses: bool
    missing: frozenset[str]
    checks: dict[str, str]

    @property
    def code(self) -> int:
        """The number of the state."""
        return CODES[self.state]

    @property
    def gone(self) -> bool:
        """Tell whether the instance has lost its network and volumes."""
        return self.machine.state == "terminated"

    @property
    def nics(self) -> list[Any]:
        """The network interfaces that are shown."""
        shown = self.has_addresses and not self.gone
        return list(self.instance.nics.values()) if shown else []

    @property
    def private_ip(self) -> str:
        """The private address; empty while it is not shown."""
        return str(self.nics[0].private_ip_address or "") if self.nics else ""

    @property
    def public_ip(self) -> str:
        """The public address; empty while there is none or it is not shown."""
        return str(self.nics[0].public_ip or "") if self.nics else ""

    @property
    def token(self) -> str:
        """The client token; empty when the launch had none."""
        token = self.instance.client_token
        return "" if token in (None, NO_TOKEN) else str(token)

    @property
    def profile(self) -> dict[str, str]:
        """The instance profile: Arn and Id, or nothing."""
        found = self.instance.iam_instance_profile
        return found if isinstance(found, dict) else {}


def shown_tags(world: World, machine: Machine, true: dict[str, str], now: float) -> dict[str, str]:
    """Return the tags that a reading call is shown."""
    if world.reading and now < machine.tags_visible_at:
        return machine.old_tags
    return true


def see(world: World, instance: Any, reservation: str, now: float) -> ShownInstance:
    """Return an instance as the API shows it now."""
    machine = world.machines[instance.id]
    lags = world.config.lags
    missing = frozenset(
        name for name, seconds in lags.fields.items() if now - machine.launched < seconds
    )
    initial = world.config.times_for(instance.instance_type).status
    return ShownInstance(
        instance=instance,
        machine=machine,
        reservation=reservation,
        state=machine.seen(now, lags.state),
        tags=shown_tags(world, machine, instance.ec2_backend.tags.get(instance.id, {}), now),
        has_addresses=now >= machine.addresses_visible_at,
        missing=missing,
        checks={
            which: machine.check_status(which, now, initial)
            for which in ("system", "instance", "ebs")
        },
    )
