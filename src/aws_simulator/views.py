"""Views of the true state for the control endpoint: instances, volumes, and the summary."""

from typing import Any

from moto.ec2.models import ec2_backends

from aws_simulator.launching import tags_of
from aws_simulator.world import World


def state(world: World) -> dict[str, list[dict[str, Any]]]:
    """Return all instances ever launched, with their true state, and the volumes that exist."""
    return {
        "instances": [_instance(world, instance) for instance in world.instances.values()],
        "volumes": _volumes(),
    }


def _instance(world: World, instance: Any) -> dict[str, Any]:
    machine = world.machines[instance.id]
    nic = instance.nics.get(0)
    return {
        "id": instance.id,
        "state": machine.state,
        "since": machine.since,
        "type": instance.instance_type,
        "zone": instance.availability_zone,
        "region": instance.region_name,
        "image": instance.image_id,
        "tags": tags_of(instance),
        "token": "" if instance.client_token in (None, "ABCDE") else instance.client_token,
        "public_ip": nic.public_ip if nic else None,
        "private_ip": nic.private_ip_address if nic else None,
        "launch_time": instance.launch_time.isoformat() + "Z",
        "volumes": [device.volume_id for device in instance.block_device_mapping.values()],
        "cml_calls_open": list(machine.calls),
    }


def _volumes() -> list[dict[str, Any]]:
    found = []
    for account in ec2_backends.values():
        for backend in account.values():
            for volume in backend.volumes.values():
                attachment = volume.attachment
                found.append(
                    {
                        "id": volume.id,
                        "size": volume.size,
                        "type": volume.volume_type,
                        "iops": volume.iops,
                        "instance": attachment.instance.id if attachment else None,
                        "tags": dict(backend.tags.get(volume.id, {})),
                    }
                )
    return found


def summary(world: World) -> dict[str, Any]:
    """Return what a run is judged by; `double_launches` counts workers that ever had two."""
    states = [machine.state for machine in world.machines.values()]
    return {
        "instances_left": sum(state != "terminated" for state in states),
        "instances_total": len(states),
        "volumes_left": len(_volumes()),
        "run_instances_calls": world.journal.counts["RunInstances"],
        "double_launches": len(world.doubles),
        "calls": sum(world.journal.counts.values()),
        "cml_error": world.cml.last_error if world.cml else "",
    }
