"""The meter of the account: what its instances and their disks cost in a month, as AWS bills them.

An instance is billed per second while it is `running`, each start for at least a minute; `pending`,
`stopping`, `stopped` and `shutting-down` are not billed. A disk is billed from its instance's launch
until it is deleted, whatever the instance does. Instants count in whole seconds. Prices are
given with the question, or those of PRICES; of a type without one the bill says so. Pure.
"""

import calendar
import datetime as dt
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

MINIMUM = 60
PRICES: dict[str, Any] = {
    "instances": {"m5zn.metal": "4.3605", "m8i.12xlarge": "2.540", "c5n.metal": "3.888"},
    "volumes": {
        "gp3": {"gib": "0.08", "iops": "0.005", "free_iops": 3000},
        "io1": {"gib": "0.125", "iops": "0.065", "free_iops": 0},
    },
}
"""US dollars of us-east-1: of an hour of an instance, of a month of a GiB and of an IOPS."""


def bill(
    instances: Iterable[dict[str, Any]], month: str, prices: dict[str, Any], now: float
) -> dict[str, Any]:
    """Return a month's bill up to now: its lines, their exact sum in cents, and what has no price.

    An instance is `id`, `type`, `runs` (Unix seconds of entering and leaving running, infinite while
    it runs), and `volumes` with `size`, `type`, `iops`, `created` and `deleted` (None: it is there).
    """
    first, length = _month(month)
    last = first + length
    lines, unknown = [], set()
    total = Fraction(0)
    for each in instances:
        seconds = sum(_run(entered, left, first, last, now) for entered, left in each["runs"])
        hourly = prices["instances"].get(each["type"])
        cost = Fraction(0)
        if hourly is None and seconds:
            unknown.add(each["type"])
        elif seconds:
            cost = Fraction(str(hourly)) * seconds / 3600
        disks = Fraction(0)
        for volume in each["volumes"]:
            monthly = _monthly(volume, prices["volumes"])
            until = volume["deleted"] if volume["deleted"] is not None else now
            there = max(0, min(int(until), last) - max(int(volume["created"]), first))
            if monthly is None and there:
                unknown.add(volume["type"])
            elif monthly is not None:
                disks += monthly * there / length
        total += cost + disks
        lines.append({
            "instance": each["id"], "type": each["type"], "seconds": seconds,
            "usd": round(float(cost), 6), "volumes_usd": round(float(disks), 6),
        })  # fmt: skip
    cents = round(total * 100)
    return {"month": month, "lines": lines, "cents": cents, "unknown": sorted(unknown)}


def _month(month: str) -> tuple[int, int]:
    begin = dt.datetime.strptime(month, "%Y-%m").replace(tzinfo=dt.UTC)
    days = calendar.monthrange(begin.year, begin.month)[1]
    return int(begin.timestamp()), days * 86_400


def _run(entered: float, left: float, first: int, last: int, now: float) -> int:
    """Return the billed seconds of one run that lie in the month."""
    begin = int(entered)
    end = max(int(min(left, now)), begin + MINIMUM)
    return max(0, min(end, last) - max(begin, first))


def _monthly(volume: dict[str, Any], prices: dict[str, Any]) -> Fraction | None:
    known = prices.get(volume["type"])
    if known is None:
        return None
    paid = max(0, int(volume["iops"] or 0) - int(known.get("free_iops", 0)))
    size = int(volume["size"])
    return Fraction(str(known["gib"])) * size + Fraction(str(known["iops"])) * paid


def disks(instance: Any, launched: float, deleted: float | None) -> list[dict[str, Any]]:
    """Return the disks of one of moto's instances; those that outlive it are not deleted with it."""
    found = []
    for device in instance.block_device_mapping.values():
        volume = instance.ec2_backend.volumes.get(device.volume_id)
        if volume is not None:
            ends = deleted if device.delete_on_termination else None
            found.append({
                "id": volume.id, "size": int(volume.size), "type": volume.volume_type,
                "iops": volume.iops, "created": launched, "deleted": ends,
            })  # fmt: skip
    return found
