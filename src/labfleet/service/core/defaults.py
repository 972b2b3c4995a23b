"""What a new object gets where its spec leaves something out, as the environment says it.

Only at creation: what stands in the store never changes because a variable did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Either of two says it: the body's word for the one keeps the environment's other out.
_INSTEAD = {"amiId": "amiNamePattern", "amiNamePattern": "amiId"}


def filled(default: Mapping[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with what it leaves out; null in the spec stands, as null."""
    made: dict[str, Any] = dict(spec)
    for key, value in default.items():
        if key not in made:
            if _INSTEAD.get(key) not in made:
                made[key] = value
        elif isinstance(value, Mapping) and isinstance(made[key], dict) and not _secret(value):
            made[key] = filled(value, made[key])
    return made


def _secret(value: Mapping[str, Any]) -> bool:
    """Tell whether this is a secretRef, which is taken whole or not at all."""
    return set(value) <= {"env", "file"}
