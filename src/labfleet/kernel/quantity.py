"""Quantities: integers in base units internally, human-readable text for people.

People may write `2`, `250m`, `4Gi`, `8192MB`. Demand is rounded up and supply down, so that
sums of small requests neither vanish nor overcommit (facts/fleet-bugs.md#t22, #t24;
facts/aws.md#integer-amounts). A bare number of memory or storage is refused when it could mean two
things: it must carry a unit unless it is whole, which means MiB. The arithmetic is exact; texts are
at most 64 characters and exponents two digits.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

TEXT_LIMIT = 64
# The pattern is unambiguous: a backtracking one took 14 s for 20,000 digits.
_TEXT = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-z]*)")
_BYTES = {
    "": None, "b": 1,
    "k": 10**3, "kb": 10**3, "ki": 2**10, "kib": 2**10,
    "m": 10**6, "mb": 10**6, "mi": 2**20, "mib": 2**20,
    "g": 10**9, "gb": 10**9, "gi": 2**30, "gib": 2**30,
    "t": 10**12, "tb": 10**12, "ti": 2**40, "tib": 2**40,
}  # fmt: skip
_LIMIT = 2**62
_KUBERNETES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
"""Suffixes of a Kubernetes quantity: case matters there, and bytes have no letter."""


def count(number: int, word: str) -> str:
    """Return `1 session`, `3 sessions`: how many of a thing whose plural ends in s."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def parse_cpu(value: float | str, *, supply: bool = False) -> int:
    """Return milli-CPU from `2`, `0.5`, `"250m"`; ValueError names what is wrong."""
    number, unit = _split(value)
    if unit not in {"", "m"}:
        raise ValueError(_message(value, "CPUs: write 2, 0.5 or 250m"))
    return _round(number if unit == "m" else number * 1000, value, supply=supply)


def parse_memory(value: float | str, *, supply: bool = False) -> int:
    """Return MiB from `4096` (MiB), `"4Gi"`, `"8192MB"`; ValueError names what is wrong."""
    number, unit = _split(value)
    factor = _BYTES.get(unit.lower(), 0)
    if factor == 0 or unit == "m":
        raise ValueError(_message(value, "memory: write 4Gi, 8192MB or whole MiB"))
    if factor is None:
        if number.denominator != 1:
            raise ValueError(_message(value, "memory: a part of what? Write for example 1.5Gi"))
        return _round(number, value, supply=supply)
    return _round(number * factor / 2**20, value, supply=supply)


def kubernetes_cpu(value: float | str, *, supply: bool = False) -> int:
    """Return milli-CPU from a Kubernetes quantity (`2`, `250m`, `1234567n`); ValueError otherwise."""
    return _round(_kubernetes(value) * 1000, value, supply=supply)


def kubernetes_memory(value: float | str, *, supply: bool = False) -> int:
    """Return MiB from a Kubernetes quantity of bytes (`16374588Ki`, `1e9`); ValueError otherwise."""
    return _round(_kubernetes(value) / 2**20, value, supply=supply)


def _kubernetes(value: float | str) -> Fraction:
    number, unit = _split(value)
    if unit not in _KUBERNETES:
        raise ValueError(_message(value, "a quantity of Kubernetes"))
    return number * _KUBERNETES[unit]


def format_cpu(milli: int) -> str:
    """Return `2` or `250m`."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_memory(mib: int) -> str:
    """Return `4Gi` or `768Mi`."""
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"


def _split(value: float | str) -> tuple[Fraction, str]:
    if isinstance(value, bool):
        raise ValueError(_message(value, "a number"))  # noqa: TRY004 - callers catch one type
    text = str(value).strip()
    found = _TEXT.fullmatch(text) if len(text) <= TEXT_LIMIT else None
    if found is None:
        raise ValueError(_message(value, "a number of zero or more, with a unit"))
    return Fraction(found[1]), found[2]


def _round(number: Fraction, value: object, *, supply: bool) -> int:
    if number > _LIMIT:
        raise ValueError(_message(value, "a sane number"))
    return math.floor(number) if supply else math.ceil(number)


def _message(value: object, wanted: str) -> str:
    return f"{str(value)[:TEXT_LIMIT]!r} is not {wanted}"
