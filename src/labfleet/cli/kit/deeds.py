"""Says what a verb did, by the object before and after it: what did not happen is not claimed.

What people ask for stands in an object's spec and annotations. Its status may change meanwhile
without their doing, so it is not looked at.
"""

from __future__ import annotations

from typing import Any

from labfleet.cli.kit import output, paths, targets
from labfleet.cli.kit.call import Call

NOTHING = "nothing was changed"
UNKNOWN: dict[str, Any] = {"spec": {"unknown": True}}
"""What somebody may not read before a verb: it counts as changed."""


def unchanged(before: Any, after: Any) -> bool:
    """Tell whether a verb left an object as it was; one that was not there had nothing set."""
    return isinstance(after, dict) and _wanted(before) == _wanted(after)


def _wanted(obj: Any) -> list[dict[str, Any]]:
    found = (paths.simple(obj, each) or {} for each in ("spec", "metadata.annotations"))
    return [
        {key: value for key, value in each.items() if value not in (None, {})} for each in found
    ]


def tell(
    call: Call, target: targets.Target, before: Any, after: Any, *, said: str, already: str
) -> None:
    """Print what became of one object: `said` of one that changed, `already` of one that did not."""
    if call.out.structured:
        call.out.show(target.kind, after)
    elif call.out.quiet:
        output.say(target.name)
    elif unchanged(before, after):
        output.say(f"{target} {already}; {NOTHING}")
    else:
        output.say(f"{target} {said}")
