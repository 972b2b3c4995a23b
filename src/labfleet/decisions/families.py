"""The versions of one lab: which is the newest, and what the next one is called.

Versions are ordered as semantic versioning orders them; of equal ones the one made later is newer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from labfleet.kernel import ids
from labfleet.resources.definition import Definition, family_of

Order = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], datetime, str]
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([^+]*))?")
DIGITS = 18
"""Digits of a number of a version beyond which numbers are not told apart."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def order(definition: Definition) -> Order:
    """Return the place of a definition among the versions of its family, later ones last."""
    found = _VERSION.match(definition.spec.version)
    assert found is not None  # noqa: S101 - the field's pattern is stricter
    numbers = tuple(_number(each) for each in found.groups()[:3])
    before = found[4]
    # A number comes before a word; without a pre-release a version comes after those with one.
    parts = tuple(
        (not each.isdecimal(), _number(each) if each.isdecimal() else 0, each)
        for each in (before or "").split(".")
    )
    made = definition.metadata.creation_timestamp or _EARLIEST
    return numbers, before is None, parts, made, definition.name


def _number(digits: str) -> int:
    """Return what digits say; more of them than any version has are all one number."""
    return int(digits) if len(digits) <= DIGITS else 10**DIGITS


def members(definitions: Iterable[Definition], family: str) -> list[Definition]:
    """Return the definitions of a family that are not being deleted, the newest version last."""
    found = [each for each in definitions if family_of(each) == family and not each.deleting]
    return sorted(found, key=order)


def newest(definitions: Iterable[Definition], family: str) -> Definition | None:
    """Return the newest version of a family that new sessions may use; None when there is none."""
    usable = [each for each in members(definitions, family) if not each.spec.deprecated]
    return usable[-1] if usable else None


def next_version(known: Iterable[Definition]) -> str:
    """Return the version after all of these, with the same topology: its middle number is one more."""
    found = max((order(each)[0] for each in known), default=(1, 0, 0))
    return f"{found[0]}.{found[1] + 1}.0"


def next_name(family: str, known: Collection[Definition], taken: Collection[str]) -> str:
    """Return `<family>-v<n>` for the next version: n counts on, and leaves out names in use."""
    number = len(known) + 1
    for each in known:
        base, _, tail = each.name.rpartition("-v")
        if base and tail.isascii() and tail.isdecimal() and len(tail) < 9:
            number = max(number, int(tail) + 1)
    while True:
        tail = f"-v{number}"
        name = f"{ids.slug(family, limit=ids.NAME_LIMIT - len(tail))}{tail}"
        if name not in taken:
            return name
        number += 1
