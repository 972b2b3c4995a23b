"""Sentences about amounts, the same in every decision: `14 CPU / 52 GiB / 6 ports`."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.resources.amounts import DIMENSIONS, Amounts, Shortage, vector


def quantity(dimension: str, value: int) -> str:
    """Return one amount in the unit that people use, exact to three digits."""
    if dimension == "cpu_milli":
        return f"{_decimal(value, 1000)} CPU"
    if dimension == "memory_mib":
        return _mebibytes(value)
    if dimension == "storage_mib":
        return f"{_mebibytes(value)} disk"
    if dimension == "network_kbps":
        return f"{_decimal(value, 1000)} Mbit/s"
    word = {"nodes": "licensed node", "labs": "lab slot", "ports": "port"}[dimension]
    return f"{value} {word}" if value == 1 else f"{value} {word}s"


def amounts(value: Amounts) -> str:
    """Return the amounts that are not zero, without lab slots."""
    parts = [
        quantity(name, amount)
        for name, amount in zip(DIMENSIONS, vector(value), strict=True)
        if amount and name != "labs"
    ]
    return " / ".join(parts) or "nothing"


def short(shortages: Iterable[Shortage]) -> str:
    """Return how much is missing in each dimension: `4 CPU and 2 ports`."""
    parts = [quantity(each.dimension, each.wanted - each.free) for each in shortages]
    return " and ".join(parts)


def _mebibytes(value: int) -> str:
    if value >= 1024:
        return f"{_decimal(value, 1024)} GiB"
    return f"{value} MiB"


def _decimal(value: int, unit: int) -> str:
    return f"{value / unit:.3f}".rstrip("0").rstrip(".")
