"""Images of the fake account: one CML image at the start, more on request."""

import datetime as dt
from typing import Any

from moto.ec2.models import ec2_backends

from aws_simulator.calls import ACCOUNT, Refusal
from aws_simulator.world import World

CML_IMAGE = "cisco-cml2.9.1-lab"


def backend_of(region: str, account: str = ACCOUNT) -> Any:
    """Return moto's EC2 of an account in a region; Refusal for an unknown region."""
    try:
        return ec2_backends[account][region]
    except KeyError:
        raise Refusal(400, "AuthFailure", f"There is no region {region!r}") from None


def register(world: World, fields: dict[str, Any]) -> dict[str, Any]:
    """Register an image; a foreign owner is an account id, `created` an ISO time."""
    backend = backend_of(fields.get("region", world.region))
    image = backend.register_image(
        name=fields["name"],
        description=fields.get("description", "Cisco Modeling Labs"),
    )
    image.architecture, image.virtualization_type = "x86_64", "hvm"
    image.root_device_type, image.hypervisor = "ebs", "xen"
    image.owner_id = fields.get("owner", image.owner_id)
    image.creation_date = world.clock.utc()
    if "created" in fields:
        stamp = dt.datetime.fromisoformat(fields["created"])
        image.creation_date = stamp.replace(tzinfo=None)
    place = fields.get("region", world.region)
    return {"ami_id": image.id, "name": image.name, "owner": image.owner_id, "region": place}


def deregister(world: World, ami_id: str, region: str | None = None) -> dict[str, Any]:
    """Deregister an image; running instances of it stay."""
    backend_of(region or world.region).deregister_image(ami_id)
    return {"ami_id": ami_id}


def furnish(world: World) -> dict[str, Any]:
    """Give the region its CML image; returns its id and the default network's subnets."""
    backend = backend_of(world.region)
    image = register(world, {"name": CML_IMAGE})
    subnets = sorted(
        (subnet.availability_zone, subnet.id)
        for zones in backend.subnets.values()
        for subnet in zones.values()
    )
    return {
        "ami_id": image["ami_id"],
        "vpc_id": backend.default_vpc.id,
        "subnets": [{"id": subnet_id, "zone": zone} for zone, subnet_id in subnets],
    }
