"""Corrections to moto's DetachVolume: the instance need not be named, and must be the right one."""

from typing import Any

from moto.ec2.exceptions import EC2ClientError

from aws_simulator.active import ORIGINALS, world


def detach_volume(self: Any, volume_id: str, instance_id: str | None, device_path: str) -> Any:
    """Detach a volume from what it is attached to; the drop-in for moto's method."""
    if not volume_id:
        message = "The request must contain the parameter volumeId"
        raise EC2ClientError("MissingParameter", message)
    attachment = self.get_volume(volume_id).attachment
    if attachment is None:
        text = f"Volume '{volume_id}' is in the 'available' state."
        raise EC2ClientError("IncorrectState", text)
    holder = attachment.instance.id
    if (instance_id or holder, device_path or attachment.device) != (holder, attachment.device):
        text = f"Volume '{volume_id}' is attached to '{holder}' as '{attachment.device}'."
        raise EC2ClientError("InvalidAttachment.NotFound", text)
    machine = world().machines.get(holder)
    root = attachment.device == attachment.instance.root_device_name
    if root and machine is not None and machine.state in ("pending", "running", "stopping"):
        text = f"Unable to detach root volume '{volume_id}' from instance '{holder}'"
        raise EC2ClientError("OperationNotPermitted", text)
    return ORIGINALS["detach_volume"](self, volume_id, holder, attachment.device)
