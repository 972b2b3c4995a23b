"""Request buckets of the EC2 API per account, region and action: facts/aws.md#request-buckets.

Refilled in simulated time, because callers on the scaled clock send requests at its pace. Off by
default; the `tenth` preset is ten times smaller. Four mutations have a second bucket that counts
instances; both must have tokens. A refused request takes nothing.
"""

import dataclasses

Limit = tuple[float, float]
Key = tuple[str, str, str, str]

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
MUTATING: dict[str, Limit] = {
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
RESOURCES: dict[str, Limit] = {
    "RunInstances": (1000.0, 2.0),
    "StartInstances": (1000.0, 2.0),
    "StopInstances": (1000.0, 20.0),
    "TerminateInstances": (1000.0, 20.0),
}


def limit(action: str, *, narrowed: bool) -> Limit:
    """Return (maximum, refill per second) of an action; `narrowed` = with a filter or a page."""
    if action.startswith(("Describe", "Get")):
        return (50.0, 10.0) if action in UNFILTERED_LISTS and not narrowed else (100.0, 20.0)
    return MUTATING.get(action, (50.0, 5.0))


@dataclasses.dataclass
class Buckets:
    """Token buckets by key; `take` answers whether the request may pass."""

    levels: dict[Key, Limit] = dataclasses.field(default_factory=dict)

    def take(
        self,
        account: str,
        region: str,
        action: str,
        *,
        narrowed: bool,
        now: float,
        scale: float = 1.0,
        instances: int = 0,
        own: Limit | None = None,
    ) -> bool:
        """Take the tokens of a request at a time (seconds); False means RequestLimitExceeded.

        `instances` is how many the request names or asks for; `own` replaces the table's limit.
        """
        kind = "narrowed" if narrowed else "whole"
        wanted = [((account, region, action, kind), own or limit(action, narrowed=narrowed), 1.0)]
        if action in RESOURCES and instances:
            counted = (account, region, action, "instances")
            wanted.append((counted, RESOURCES[action], float(instances)))
        found = []
        for key, (maximum, refill), cost in wanted:
            largest, refilled = max(1.0, maximum * scale), refill * scale
            level, last = self.levels.get(key, (largest, now))
            level = min(largest, level + max(0.0, now - last) * refilled)
            self.levels[key] = (level, now)
            found.append((key, level, min(cost, largest)))
        if any(level < cost for _, level, cost in found):
            return False
        for key, level, cost in found:
            self.levels[key] = (level - cost, now)
        return True
