"""The price file: one place, with a date, and no price is not the price 0."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from labfleet.app.price_file import prices_of
from labfleet.kernel import errors
from labfleet.resources import prices


def test_the_list_is_dated_and_sane() -> None:
    """Every type has a size and a price, and the list says of which day it is."""
    assert date.fromisoformat(prices.AS_OF) <= date(2026, 12, 31)
    assert all(
        each.vcpus > 0 and each.memory_gib > 0 and 0.5 < each.hourly_usd < 20
        for each in prices.TYPES.values()
    )


def test_an_unknown_region_has_no_price() -> None:
    """The list is one region's: elsewhere the same type has no price, and not that of another."""
    assert prices.SHIPPED.hourly("eu-west-1", "m5zn.metal") is None
    assert prices.SHIPPED.disk_month("eu-west-1", "gp3", 100) is None
    assert prices.SHIPPED.hourly("us-east-1", "m5zn.metal", "spot") is None


def test_reserved_hours_mix_with_the_others() -> None:
    """Of a type with commitments the hour costs the mean of both prices, by their share."""
    there = prices.MachinePrice(on_demand=4.0, reserved=2.0, reserved_share=0.25)
    listed = prices.PriceList(
        as_of=date(2026, 11, 1), regions={"r": prices.RegionPrices(machines={"m": there})}
    )
    assert listed.hourly("r", "m") == Decimal("3.5")
    assert listed.hourly("r", "m", "reserved") == Decimal("2.0")


def test_a_disk_costs_its_size_and_what_it_is_bought_with() -> None:
    """The example of facts/aws.md#volumes: 250 GB with 10,000 IOPS, as io1 and as gp3."""
    assert prices.SHIPPED.disk_month("us-east-1", "io1", 250, 10_000) == Decimal("681.25")
    assert prices.SHIPPED.disk_month("us-east-1", "gp3", 250, 10_000) == Decimal("55.0")
    assert prices.SHIPPED.disk_month("us-east-1", "io2", 0, 70_000) == (
        32_000 * Decimal("0.065") + 32_000 * Decimal("0.046") + 6_000 * Decimal("0.032")
    )


def test_a_price_file_is_the_printed_list_and_its_faults_are_named() -> None:
    """What is printed is read back as it was; a wrong file says where it is wrong."""
    assert prices.parse(msgspec.json.encode(prices.SHIPPED)) == prices.SHIPPED
    with pytest.raises(errors.Invalid, match=r"prices_file: .*onDemand"):
        prices.parse(
            b'{"asOf": "2026-11-01", "regions": {"r": {"machines": {"m": {"onDemand": -1}}}}}'
        )
    with pytest.raises(errors.Invalid, match=r"regions\.r\.disks\.d: the steps"):
        prices.parse(
            b'{"asOf": "2026-11-01", "regions": {"r": {"disks": {"d": {"gibMonth": 1,'
            b' "iops": [{"above": 5, "usdMonth": 1}, {"above": 5, "usdMonth": 2}]}}}}}'
        )


def test_the_file_of_the_setting_replaces_the_list(tmp_path: Path) -> None:
    """With a file its prices hold; without one those that are shipped; a missing one is named."""
    file = tmp_path / "prices.json"
    file.write_text('{"asOf": "2026-11-01"}')
    assert prices_of(str(file)).hourly("us-east-1", "m5zn.metal") is None
    assert prices_of("") is prices.SHIPPED
    with pytest.raises(errors.Invalid, match="prices_file"):
        prices_of(str(tmp_path / "none"))
