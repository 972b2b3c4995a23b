"""Requests behind the spot instances that RunInstances launches; moto makes none.

The instance shows its request's id, and DescribeSpotInstanceRequests the request. It is active
until its instance ends. Prices and bids are not simulated.
"""

from typing import Any

from moto.ec2.models.spot_requests import LaunchSpecification, SpotInstanceRequest
from moto.ec2.utils import random_spot_request_id

from aws_simulator.active import ORIGINALS, world
from aws_simulator.filters import stamp

ENDED = ("shutting-down", "terminated")


class LaunchedRequest(SpotInstanceRequest):
    """The request of an instance that is there already."""

    def __init__(self, backend: Any, instance: Any, tags: dict[str, str]) -> None:
        # Not moto's own __init__: that one launches.
        self.ec2_backend = backend
        self.instance = instance
        self.id = random_spot_request_id()
        self.type, self.price = "one-time", "0.000000"
        self.valid_from = self.valid_until = None
        self.launch_group = self.availability_zone_group = None
        self.instance_interruption_behaviour = "terminate"
        self.user_data = self.spot_fleet_id = self.launch_spec = None
        self.all_tags: dict[str, dict[str, str]] = {}
        self.created = stamp(world().clock.utc())
        self.launch_specification = LaunchSpecification(
            kernel_id=None,
            ramdisk_id=None,
            image_id=instance.image_id,
            key_name=instance.key_name,
            instance_type=instance.instance_type,
            placement=instance.availability_zone,
            monitored=bool(instance.monitored),
            subnet_id=str(instance.subnet_id),
        )
        self.add_tags(tags)

    @property
    def state(self) -> str:  # type: ignore[override]
        """Active while its instance lives, then closed."""
        return "closed" if self._ended else "active"

    @property
    def status(self) -> dict[str, Any]:
        """What became of it, in EC2's own code."""
        code = "instance-terminated-by-user" if self._ended else "fulfilled"
        return {"Code": code, "Message": "", "UpdateTime": self.created}

    @property
    def create_time(self) -> str:
        """When it was made."""
        return self.created

    @property
    def _ended(self) -> bool:
        machine = world().machines.get(self.instance.id)
        return machine is None or machine.state in ENDED


def request_of(backend: Any, instance: Any, tags: dict[str, str]) -> None:
    """Give a spot instance its request."""
    found = LaunchedRequest(backend, instance, tags)
    backend.spot_instance_requests[found.id] = found
    instance.spot_instance_request_id = found.id


def launch_instance(self: Any) -> Any:
    """Launch what RequestSpotInstances asks for, marked as its own; the drop-in for moto's."""
    instance = ORIGINALS["launch_instance"](self)
    instance.spot_instance_request_id = self.id
    return instance
