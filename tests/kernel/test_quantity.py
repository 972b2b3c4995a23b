"""Quantities are exact, rounded to the safe side, and refuse what has two meanings."""

from __future__ import annotations

import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import quantity

NUMBERS = st.decimals(min_value=0, max_value=10**12, allow_nan=False, places=9)
UNITS = st.sampled_from(["b", "kb", "ki", "MB", "Mi", "gb", "Gi", "GiB", "TB", "Ti"])
MIB = {"b": 1, "kb": 10**3, "ki": 2**10, "mb": 10**6, "mi": 2**20, "gb": 10**9, "gi": 2**30}
MIB |= {"gib": 2**30, "tb": 10**12, "ti": 2**40}


@given(NUMBERS)
def test_cpu_is_rounded_to_the_safe_side(number) -> None:
    """Demand is the smallest whole milli-CPU not below, supply the largest not above."""
    text = f"{number:f}"
    exact = Fraction(number) * 1000
    demand, supply = quantity.parse_cpu(text), quantity.parse_cpu(text, supply=True)
    assert demand - 1 < exact <= demand
    assert supply <= exact < supply + 1


@given(NUMBERS, UNITS)
def test_memory_is_rounded_to_the_safe_side(number, unit: str) -> None:
    """Demand is the smallest whole MiB not below, supply the largest not above."""
    exact = Fraction(number) * MIB[unit.lower()] / 2**20
    text = f"{number:f}{unit}"
    if exact > 2**62:
        with pytest.raises(ValueError, match="sane"):
            quantity.parse_memory(text)
        return
    demand, supply = quantity.parse_memory(text), quantity.parse_memory(text, supply=True)
    assert demand - 1 < exact <= demand
    assert supply <= exact < supply + 1


@given(st.integers(0, 2**60))
def test_written_form_reads_back(number: int) -> None:
    """What is shown to people means the same when they write it."""
    assert quantity.parse_cpu(quantity.format_cpu(number)) == number
    assert quantity.parse_memory(quantity.format_memory(number)) == number


@given(st.one_of(st.text(max_size=80), st.floats(), st.integers(), st.booleans()))
def test_anything_else_is_a_value_error(value) -> None:
    """No input raises anything but ValueError, and no result is negative."""
    for parse in (quantity.parse_cpu, quantity.parse_memory):
        with contextlib.suppress(ValueError):
            assert parse(value) >= 0


@pytest.mark.parametrize(
    ("text", "milli"), [("2", 2000), ("0.5", 500), (".25", 250), ("250m", 250), (" 1 ", 1000)]
)
def test_cpu_spellings(text: str, milli: int) -> None:
    """CPUs are written whole, as a fraction or in milli-CPU."""
    assert quantity.parse_cpu(text) == milli


@pytest.mark.parametrize(
    ("text", "mib"),
    [("4Gi", 4096), ("8192MB", 7813), ("1.5Gi", 1536), (4096, 4096), (4096.0, 4096), ("1 b", 1)],
)
def test_memory_spellings(text: float | str, mib: int) -> None:
    """Memory carries a unit; a whole number is MiB; demand is rounded up."""
    assert quantity.parse_memory(text) == mib


@pytest.mark.parametrize("value", [1.5, "1.5", "0.5", "5m", "4Xi", "-1Gi", "", "Gi", "1_000", True])
def test_memory_with_two_meanings_is_refused(value: float | str) -> None:
    """A fraction without a unit, milli-bytes, unknown units and negatives are refused."""
    with pytest.raises(ValueError, match="is not"):
        quantity.parse_memory(value)


@pytest.mark.parametrize("text", ["9e999999", "1e-999999", "9e99", "1" * 65])
def test_absurd_numbers_are_value_errors(text: str) -> None:
    """Exponents and digits without end are refused, not computed (a decimal.Overflow once)."""
    with pytest.raises(ValueError, match="is not"):
        quantity.parse_cpu(text)


def test_long_text_costs_nothing() -> None:
    """A megabyte of digits is refused at once (20,000 digits took 14 s once)."""
    begun = time.process_time()
    with pytest.raises(ValueError, match="is not"):
        quantity.parse_memory("1" * 1_000_000 + "!")
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    ("text", "asked", "there"),
    [
        ("1G", 954, 953), ("1GB", 954, 953), ("1.5g", 1431, 1430), ("1Gi", 1024, 1024),
        ("1GiB", 1024, 1024), ("1 Gi", 1024, 1024), ("1e3Mi", 1000, 1000), ("0", 0, 0),
        ("24GB", 22889, 22888),
    ],
)  # fmt: skip
def test_t24_gb_is_not_gib(text: str, asked: int, there: int) -> None:
    """GB counts by thousands, GiB by 1,024; who asks gets no less (facts/fleet-bugs.md#t24)."""
    assert quantity.parse_memory(text) == asked
    assert quantity.parse_memory(text, supply=True) == there


@pytest.mark.parametrize("text", ["-1Gi", "NaN", "inf", "1 000Mi"])
def test_t24_what_is_no_amount_is_refused(text: str) -> None:
    """no amount is below zero, and none is no number."""
    with pytest.raises(ValueError, match="is not"):
        quantity.parse_memory(text)


def test_t24_a_share_is_of_the_same_unit() -> None:
    """156000Mi of 350Gi are 43.5 %, whatever the two were written in."""
    used, whole = quantity.parse_memory("156000Mi"), quantity.parse_memory("350Gi", supply=True)
    assert f"{100 * used / whole:.1f}" == "43.5"
    assert (quantity.format_memory(used), quantity.format_memory(whole)) == ("156000Mi", "350Gi")
