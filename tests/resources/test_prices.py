"""The price file: one place, with a date, and no price is not the price 0."""

from __future__ import annotations

from datetime import date

from labfleet.resources import prices


def test_a_template_states_its_own_price_first() -> None:
    """The stated price wins, the list comes second, an unknown machine has none."""
    assert prices.hourly_usd("m5zn.metal", stated=2.5) == 2.5
    assert prices.hourly_usd("m5zn.metal") == 4.3605
    assert prices.hourly_usd("q9.metal") is None
    assert prices.hourly_usd(None) is None


def test_the_list_is_dated_and_sane() -> None:
    """Every type has a size and a price, and the list says of which day it is."""
    assert date.fromisoformat(prices.AS_OF) <= date(2026, 12, 31)
    assert all(
        each.vcpus > 0 and each.memory_gib > 0 and 0.5 < each.hourly_usd < 20
        for each in prices.TYPES.values()
    )
