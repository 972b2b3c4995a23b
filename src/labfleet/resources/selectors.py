"""Label selectors as people write them: `team=a,env in (dev,test),!legacy`.

Reads text into requirements, all of which must hold, and judges labels by them. The store
has its own record with the same fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from labfleet.kernel import errors

TEXT_LIMIT = 4096
REQUIREMENTS_LIMIT = 32
VALUES_LIMIT = 100

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,251}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?)?"
_COMPARED = re.compile(rf"({_LABEL})\s*(==|!=|=)\s*({_VALUE})")
_LISTED = re.compile(rf"({_LABEL})\s+(in|notin)\s*\(([^()]*)\)")
_NAMED = re.compile(rf"(!?)\s*({_LABEL})")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `in` has at least one value, exists and absent none."""

    label: str
    op: Literal["=", "!=", "in", "exists", "absent"]
    values: tuple[str, ...] = ()


def parse(text: str) -> tuple[Requirement, ...]:
    """Return what the text requires; empty text requires nothing.

    `notin` becomes one `!=` for each value. errors.Invalid names the part that is wrong.
    """
    if len(text) > TEXT_LIMIT:
        _refuse(f"longer than {TEXT_LIMIT} characters")
    if not text.strip():
        return ()
    made: list[Requirement] = []
    for part in _parts(text):
        made.extend(_one(part.strip()))
        if len(made) > REQUIREMENTS_LIMIT:
            _refuse(f"more than {REQUIREMENTS_LIMIT} requirements")
    return tuple(made)


def matches(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Tell whether the labels fulfil every requirement; an absent label is != anything."""
    return all(_holds(each, labels.get(each.label)) for each in requirements)


def _holds(requirement: Requirement, value: str | None) -> bool:
    if requirement.op == "exists":
        return value is not None
    if requirement.op == "absent":
        return value is None
    if requirement.op == "!=":
        return value is None or value not in requirement.values
    return value is not None and value in requirement.values


def _parts(text: str) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    parts = [""]
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _one(part: str) -> tuple[Requirement, ...]:
    if found := _COMPARED.fullmatch(part):
        return (Requirement(found[1], "!=" if found[2] == "!=" else "=", (found[3],)),)
    if found := _LISTED.fullmatch(part):
        values = tuple(dict.fromkeys(value.strip() for value in found[3].split(",")))
        if len(values) > VALUES_LIMIT or any(not re.fullmatch(_VALUE, each) for each in values):
            _refuse(f"{part[:80]!r} has a value that no label can have")
        if found[2] == "in":
            return (Requirement(found[1], "in", values),)
        return tuple(Requirement(found[1], "!=", (value,)) for value in values)
    found = _NAMED.fullmatch(part)
    if found is None:
        _refuse(f"{part[:80]!r} is none of: a=b, a!=b, a in (b,c), a notin (b,c), a, !a")
    return (Requirement(found[2], "absent" if found[1] else "exists"),)


def _refuse(what: str) -> NoReturn:
    message = f"label selector: {what}"
    raise errors.Invalid(message, reason="BadSelector", problems=(("selector", what),))
