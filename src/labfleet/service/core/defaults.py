"""Defaults from the environment for fields that a new object's spec leaves out.

Only at creation: a stored object never changes because a variable did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Two fields exclude each other: if the body has one, the other gets no default.
_INSTEAD = {"amiId": "amiNamePattern", "amiNamePattern": "amiId"}


def filled(default: Mapping[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with defaults for missing fields; an explicit null stays null."""
    made: dict[str, Any] = dict(spec)
    for key, value in default.items():
        if key not in made:
            if _INSTEAD.get(key) not in made:
                made[key] = value
        elif isinstance(value, Mapping) and isinstance(made[key], dict) and not _secret(value):
            made[key] = filled(value, made[key])
    return made


def _secret(value: Mapping[str, Any]) -> bool:
    """Tell whether this is a secretRef, whose fields get no defaults one by one."""
    return set(value) <= {"env", "file"}
