"""Reads the file with prices that an installation has instead of the list that comes with us."""

from __future__ import annotations

from pathlib import Path

from labfleet.kernel import errors
from labfleet.resources import prices
from labfleet.resources.prices import PriceList


def prices_of(path: str) -> PriceList:
    """Return the prices of a file, the shipped ones without any; Invalid says what is wrong."""
    if not path:
        return prices.SHIPPED
    try:
        with Path(path).open("rb") as file:
            return prices.parse(file.read(prices.FILE_BYTES + 1))
    except OSError as problem:
        raise errors.Invalid(f"prices_file: {problem}") from None
