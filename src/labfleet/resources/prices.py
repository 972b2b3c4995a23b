"""What machines, disks and licences cost: the one dated price list of the product.

On-demand Linux prices of us-east-1 in US dollars an hour, generated 2026-07-20, with the sizes
that EC2 names, and the prices of its disks (facts/aws.md#prices). An installation replaces the
whole list by a file of the same form (setting `prices_file`); `labfleet cost --prices` prints the
one in force. A template's own `hourlyPriceUsd` comes first. What the list does not name has no
price, which is None and never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from labfleet.kernel import errors
from labfleet.resources.meta import Record

AS_OF = "2026-07-20"
REGION = "us-east-1"
CURRENCY = "USD"
FILE_BYTES = 1 << 20
"""The largest price file: all types of all regions of EC2 are a tenth of it."""
Model = Literal["on_demand", "spot", "reserved"]
"""How a machine is bought."""
MOST_USD = 1e6
"""The highest price of anything: sums of what costs more are no longer exact."""
Usd = Annotated[float, msgspec.Meta(ge=0, le=MOST_USD)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


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


class MachinePrice(Record, frozen=True, kw_only=True):
    """What an hour of one machine type costs in one region, in US dollars; null is not known.

    on_demand: Price without any commitment.
    spot: Price of spare capacity that may be taken away.
    reserved: Price under a commitment.
    reserved_share: Share of the hours that commitments cover, 0 to 1; these cost `reserved`, the
    rest `on_demand`.
    """

    on_demand: Usd | None = None
    spot: Usd | None = None
    reserved: Usd | None = None
    reserved_share: Share = 0.0


class PriceStep(Record, frozen=True, kw_only=True):
    """What one more unit of something costs from a bound on.

    above: From how many units on.
    usd_month: Price of one of them for a month, in US dollars.
    """

    above: Annotated[int, msgspec.Meta(ge=0)] = 0
    usd_month: Usd


class DiskPrice(Record, frozen=True, kw_only=True):
    """What a month of a disk costs, in US dollars.

    gib_month: Price of a GiB.
    iops: Price of each operation a second, in steps that rise.
    mibps: Price of each MiB/s of throughput, in steps that rise.
    """

    gib_month: Usd
    iops: tuple[PriceStep, ...] = ()
    mibps: tuple[PriceStep, ...] = ()


class RegionPrices(Record, frozen=True, kw_only=True):
    """The prices of one region.

    machines: What machines cost, by type.
    disks: What disks cost, by type.
    """

    machines: dict[str, MachinePrice] = {}
    disks: dict[str, DiskPrice] = {}


class PriceList(Record, frozen=True, kw_only=True):
    """All prices with their day.

    as_of: Day of which the prices are.
    currency: Currency of all prices.
    regions: What machines and disks cost, by region.
    licences: Price of a month of a CML licence in US dollars, by product; one that is not named
    here is not part of what Labfleet counts.
    """

    as_of: date
    currency: Literal["USD"] = "USD"
    regions: dict[str, RegionPrices] = {}
    licences: dict[str, Usd] = {}

    def hourly(
        self, region: str, instance_type: str | None, model: Model = "on_demand"
    ) -> Decimal | None:
        """Return US dollars of an hour of a machine; None when the list does not say."""
        there = self.regions.get(region)
        known = None if there is None else there.machines.get(instance_type or "")
        if known is None:
            return None
        if model != "on_demand":
            return _exact(known.spot if model == "spot" else known.reserved)
        plain, under = _exact(known.on_demand), _exact(known.reserved)
        share = _exact(known.reserved_share) or Decimal(0)
        if not share:
            return plain
        if plain is None or under is None:
            return None
        return plain * (1 - share) + under * share

    def disk_month(
        self, region: str, kind: str, gib: int, iops: int = 0, mibps: int = 0
    ) -> Decimal | None:
        """Return US dollars of a month of a disk; None when the list does not say."""
        there = self.regions.get(region)
        known = None if there is None else there.disks.get(kind)
        if known is None:
            return None
        size = (_exact(known.gib_month) or Decimal(0)) * gib
        return size + _stepped(known.iops, iops) + _stepped(known.mibps, mibps)


def _exact(value: float | None) -> Decimal | None:
    """Return a price as it is written, so that sums of it are exact."""
    return None if value is None else Decimal(repr(value))


def _stepped(steps: tuple[PriceStep, ...], units: int) -> Decimal:
    """Return what so many units cost: each step's price up to where the next begins."""
    total = Decimal(0)
    for number, step in enumerate(steps):
        until = steps[number + 1].above if number + 1 < len(steps) else units
        within = max(0, min(units, until) - step.above)
        total += within * (_exact(step.usd_month) or Decimal(0))
    return total


SHIPPED = PriceList(
    as_of=date.fromisoformat(AS_OF),
    regions={
        REGION: RegionPrices(
            machines={
                name: MachinePrice(on_demand=each.hourly_usd) for name, each in TYPES.items()
            },
            disks={
                "gp3": DiskPrice(
                    gib_month=0.08,
                    iops=(PriceStep(above=3000, usd_month=0.005),),
                    mibps=(PriceStep(above=125, usd_month=0.04),),
                ),
                "io1": DiskPrice(gib_month=0.125, iops=(PriceStep(usd_month=0.065),)),
                "io2": DiskPrice(
                    gib_month=0.125,
                    iops=(
                        PriceStep(usd_month=0.065),
                        PriceStep(above=32_000, usd_month=0.046),
                        PriceStep(above=64_000, usd_month=0.032),
                    ),
                ),
            },
        )
    },
)
"""The list that comes with the product."""


def parse(data: bytes) -> PriceList:
    """Return the price list of a file; Invalid says what is wrong with it, and where."""
    if len(data) > FILE_BYTES:
        raise errors.Invalid(f"prices_file: larger than {FILE_BYTES} bytes")
    try:
        found = msgspec.json.decode(data, type=PriceList)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise errors.Invalid(f"prices_file: {problem}") from None
    for region, there in found.regions.items():
        for name, disk in there.disks.items():
            for steps in (disk.iops, disk.mibps):
                bounds = [each.above for each in steps]
                if bounds != sorted(set(bounds)):
                    where = f"prices_file: regions.{region}.disks.{name}"
                    raise errors.Invalid(f"{where}: the steps' `above` must rise")
    return found
