"""What machines cost: the one price file of the product.

On-demand Linux prices of us-east-1 in US dollars an hour, generated 2026-07-20, with the sizes
that EC2 names (facts/aws.md#prices). A template's own `hourlyPriceUsd` comes first: these figures
know no discount and no other region. An unknown type has no price, which is None and never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_OF = "2026-07-20"
REGION = "us-east-1"
CURRENCY = "USD"


@dataclass(frozen=True, slots=True)
class MachineType:
    """One instance type: virtual CPUs, nominal memory in GiB, US dollars an hour."""

    vcpus: int
    memory_gib: int
    hourly_usd: float


TYPES: dict[str, MachineType] = {
    "c5n.metal": MachineType(72, 192, 3.888),
    "c5.metal": MachineType(96, 192, 4.080),
    "m5zn.metal": MachineType(48, 192, 4.3605),
    "z1d.metal": MachineType(48, 384, 4.464),
    "m5.metal": MachineType(96, 384, 4.608),
    "c7i.metal-24xl": MachineType(96, 192, 4.712),
    "m7i.metal-24xl": MachineType(96, 384, 5.322),
    "m8azn.metal-12xl": MachineType(48, 192, 5.451),
    "r5.metal": MachineType(96, 768, 6.048),
    "m6i.metal": MachineType(128, 512, 6.144),
    "m8i.metal-48xl": MachineType(192, 768, 10.161),
    "m8i.4xlarge": MachineType(16, 64, 0.847),
    "m8i.8xlarge": MachineType(32, 128, 1.693),
    "m8i.12xlarge": MachineType(48, 192, 2.540),
    "m7i.12xlarge": MachineType(48, 192, 2.419),
    "m8i.16xlarge": MachineType(64, 256, 3.387),
    "m8i.24xlarge": MachineType(96, 384, 5.080),
    "r8i.4xlarge": MachineType(16, 128, 1.111),
    "r8i.8xlarge": MachineType(32, 256, 2.223),
    "r8i.12xlarge": MachineType(48, 384, 3.334),
}


def hourly_usd(instance_type: str | None, *, stated: float = 0.0) -> float | None:
    """Return US dollars an hour: what the template states, else the list price, else None."""
    if stated > 0:
        return stated
    known = TYPES.get(instance_type or "")
    return None if known is None else known.hourly_usd
