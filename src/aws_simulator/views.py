"""Views of the true state for the control endpoint: instances, volumes, addresses, the summary."""

from typing import Any

from moto.ec2.models import ec2_backends

from aws_simulator import meter
from aws_simulator.launching import tags_of
from aws_simulator.seen import NO_TOKEN
from aws_simulator.world import World


def state(world: World) -> dict[str, list[dict[str, Any]]]:
    """Return all instances ever launched, with their true state, and what else exists."""
    return {
        "instances": [_instance(world, instance) for instance in world.instances.values()],
        "volumes": _volumes(),
        "addresses": _addresses(),
    }


def _instance(world: World, instance: Any) -> dict[str, Any]:
    machine = world.machines[instance.id]
    nic = instance.nics.get(0)
    token = instance.client_token
    return {
        "id": instance.id,
        "state": machine.state,
        "since": machine.since,
        "launched": machine.launched,
        "type": instance.instance_type,
        "zone": instance.availability_zone,
        "region": instance.region_name,
        "account": instance.owner_id,
        "image": instance.image_id,
        "lifecycle": instance.lifecycle or "normal",
        "tags": tags_of(instance),
        "token": "" if token in (None, NO_TOKEN) else token,
        "public_ip": nic.public_ip if nic else None,
        "private_ip": nic.private_ip_address if nic else None,
        "launch_time": instance.launch_time.isoformat() + "Z",
        "state_reason": instance.state_reason.code,
        "nested": machine.nested,
        "fate": machine.fate,
        "volumes": [device.volume_id for device in instance.block_device_mapping.values()],
        "cml_calls_open": list(machine.calls),
    }


def metered(world: World) -> list[dict[str, Any]]:
    """Return what the meter bills: every instance ever launched, its runs and its disks."""
    return [
        {
            "id": instance.id,
            "type": instance.instance_type,
            "runs": list(machine.runs),
            "volumes": machine.disks or meter.disks(instance, machine.launched, None),
        }
        for instance in world.instances.values()
        for machine in (world.machines[instance.id],)
    ]


def _backends() -> list[Any]:
    return [backend for account in list(ec2_backends.values()) for backend in account.values()]


def _volumes() -> list[dict[str, Any]]:
    return [
        {
            "id": volume.id,
            "region": backend.region_name,
            "size": volume.size,
            "type": volume.volume_type,
            "iops": volume.iops,
            "instance": volume.attachment.instance.id if volume.attachment else None,
            "tags": dict(backend.tags.get(volume.id, {})),
        }
        for backend in _backends()
        for volume in backend.volumes.values()
    ]


def _addresses() -> list[dict[str, Any]]:
    return [
        {
            "id": address.allocation_id,
            "region": backend.region_name,
            "public_ip": address.public_ip,
            "instance": address.eni.instance.id if address.eni and address.eni.instance else None,
            "tags": dict(backend.tags.get(address.allocation_id, {})),
        }
        for backend in _backends()
        for address in backend.addresses
    ]


def summary(world: World) -> dict[str, Any]:
    """Return what a run is judged by; `double_launches` counts workers that ever had two."""
    states = [machine.state for machine in world.machines.values()]
    return {
        "instances_left": sum(state != "terminated" for state in states),
        "instances_total": len(states),
        "volumes_left": len(_volumes()),
        "addresses_left": len(_addresses()),
        "run_instances_calls": world.journal.counts["RunInstances"],
        "double_launches": len(world.doubles),
        "calls": sum(world.journal.counts.values()),
        "throttled": dict(world.journal.throttled),
        "rules_fired": {str(rule.id): rule.fired for rule in world.rules},
        "cml_error": world.cml.last_error if world.cml else "",
    }
