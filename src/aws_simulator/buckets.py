"""Request buckets of the EC2 API per account, region and action: facts/aws.md section 6.3.

Refilled in simulated time, because callers that follow the scaled clock ask at its pace. Off by
default; the `tenth` preset is ten times smaller.
"""

import dataclasses

UNFILTERED_LISTS = frozenset(
    {
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeVolumes",
        "DescribeNetworkInterfaces",
        "DescribeSnapshots",
        "DescribeSecurityGroups",
        "DescribeSpotInstanceRequests",
    },
)
MUTATING = {
    "RunInstances": (5.0, 2.0),
    "StartInstances": (5.0, 2.0),
    "TerminateInstances": (100.0, 5.0),
    "CreateTags": (100.0, 10.0),
    "DeleteTags": (100.0, 10.0),
    "CreateVolume": (100.0, 5.0),
    "DeleteVolume": (100.0, 5.0),
    "CreateNetworkInterface": (100.0, 5.0),
    "AssociateIamInstanceProfile": (100.0, 5.0),
    "ModifyInstanceMetadataOptions": (100.0, 5.0),
    "DeregisterImage": (100.0, 5.0),
}


def limit(action: str, *, narrowed: bool) -> tuple[float, float]:
    """Return (maximum, refill per second) of an action; `narrowed` = with a filter or a page."""
    if action.startswith(("Describe", "Get")):
        return (50.0, 10.0) if action in UNFILTERED_LISTS and not narrowed else (100.0, 20.0)
    return MUTATING.get(action, (50.0, 5.0))


@dataclasses.dataclass
class Buckets:
    """Token buckets by key; `take` answers whether the request may pass."""

    levels: dict[tuple[str, str, str, bool], tuple[float, float]] = dataclasses.field(
        default_factory=dict,
    )

    def take(
        self,
        account: str,
        region: str,
        action: str,
        *,
        narrowed: bool,
        now: float,
        scale: float = 1.0,
    ) -> bool:
        """Take one token at a time (seconds); False means RequestLimitExceeded."""
        maximum, refill = limit(action, narrowed=narrowed)
        maximum, refill = max(1.0, maximum * scale), refill * scale
        key = (account, region, action, narrowed)
        level, last = self.levels.get(key, (maximum, now))
        level = min(maximum, level + max(0.0, now - last) * refill)
        passed = level >= 1.0
        self.levels[key] = (level - 1.0 if passed else level, now)
        return passed
