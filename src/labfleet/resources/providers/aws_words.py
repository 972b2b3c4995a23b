"""EC2's words for what happens to instances (facts/aws-bugs.md#case-33 to #case-36)."""

from __future__ import annotations

from labfleet.resources.providers.words import Planned, Words

WORDS = Words(
    events={
        "instance-reboot": Planned.REBOOT,
        "instance-retirement": Planned.RETIRE,
        "instance-stop": Planned.STOP,
        "spot-interruption": Planned.RECLAIM,
        "system-maintenance": Planned.MAINTAIN,
        "system-reboot": Planned.REBOOT_HOST,
    },
    reclaims=("SpotInstance", "spot-interruption"),
    changes=(
        (
            "Client.UserInitiated",
            "somebody with access to the account did it: CloudTrail names who",
        ),
        ("Client.InstanceInitiated", "it was shut down from inside the machine"),
        ("Server.Spot", "it was a spot machine and its price or capacity went"),
        ("Server.ScheduledStop", "it was stopped for a scheduled retirement of its host"),
        ("Server.InsufficientInstanceCapacity", "its zone had no capacity to start it again"),
        ("Server.InternalError", "the provider's host failed"),
        ("Client.VolumeLimit", "the account's limit of volumes was reached"),
        ("Client.InvalidSnapshot", "its image's snapshot could not be used"),
    ),
    announces="read the AWS Health dashboard",
    suspects="look for another tool that ends machines, such as a tag policy",
)
