"""Defaults from the environment for fields that a new object's spec leaves out.

Only at creation: a stored object never changes because a variable did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labfleet.resources import providers

_INSTEAD = {one: other for each in providers.PROVIDERS.values() for one, other in each.instead}
"""If the body has one of two fields that exclude each other, the other gets no default."""


def filled(default: Mapping[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with defaults for missing fields; an explicit null stays null."""
    made: dict[str, Any] = dict(spec)
    for key, value in default.items():
        if key not in made:
            if _INSTEAD.get(key) not in made:
                made[key] = value
        elif (
            isinstance(value, Mapping) and isinstance(made[key], dict) and _alike(value, made[key])
        ):
            made[key] = filled(value, made[key])
    return made


def _alike(value: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Tell whether fields are filled in one by one: not in secrets, nor in another kind's block."""
    return not _secret(value) and block.get("kind", value.get("kind")) == value.get("kind")


def _secret(value: Mapping[str, Any]) -> bool:
    """Tell whether this is a secretRef, whose fields get no defaults one by one."""
    return set(value) <= {"env", "file"}
