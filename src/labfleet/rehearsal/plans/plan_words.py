"""Error messages about a plan: which file, which line, which key, what to write.

The code that finds a mistake raises `Wrong` with the path to the key; `Source` knows the lines.
This module reads nothing and checks nothing itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from labfleet.kernel import errors
from labfleet.resources.documents import Document
from labfleet.resources.documents import Path as Steps
from labfleet.resources.pool import ScalingPolicy

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_CHOICES = {"policy": tuple(map(str, ScalingPolicy)), "faults": ("none", "mild", "harsh")}
_FRIENDLY = ("cpu", "memory", "storage", "network")
_SAID = {
    "Invalid RFC3339 encoded datetime": "write an instant, for example 2026-11-30T08:00:00Z",
    "Expected `datetime`": "write an instant, for example 2026-11-30T08:00:00Z",
    "Expected `str` matching regex": "a name is 1 to 63 of a-z, 0-9 and inner hyphens",
}


class Wrong(errors.Invalid):
    """A mistake in a plan at a key: `steps` is the path to it, as the file spells it."""

    def __init__(self, told: str, *steps: str | int) -> None:
        super().__init__(told, reason="BadPlan")
        self.steps: Steps = steps


class Source:
    """A plan's file and the lines of its keys."""

    __slots__ = ("_document", "path")

    def __init__(self, path: Path, document: Document) -> None:
        self.path, self._document = path, document

    def line(self, *steps: str | int) -> int:
        """Return the line of a key, or of the innermost block on its path that exists."""
        return self._document.line_of(steps)

    def located(self, problem: Wrong) -> errors.Invalid:
        """Return the problem with its file and line in front."""
        place = ""
        for step in problem.steps:
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
        told = f"{place.removeprefix('.')}: {problem.message}" if place else problem.message
        line = self.line(*problem.steps)
        return errors.Invalid(f"{self.path}, line {line}: {told}", reason="BadPlan")


def explained(
    problem: str, types: Mapping[str, type[msgspec.Struct]], root: Steps = (), block: str = ""
) -> Wrong:
    """Return a validation error in the plan's own words, at the key that is wrong.

    `types` is what may stand in each block; `root` is the path to the validated value, which is
    a `block`.
    """
    told, _, where = problem.partition(" - at `")
    found = tuple(name or int(number) for name, number in _STEP.findall(where))
    steps = (*root, *found)
    inside = next((each for each in reversed(found) if isinstance(each, str)), block)
    known = list(types[inside].__struct_encode_fields__) if inside in types else []
    known += _FRIENDLY if inside in {"capacity", "resources"} else ()
    known = [each for each in known if each != "source"]
    unknown = _UNKNOWN.match(told)
    if unknown is not None:
        return Wrong(f"unknown key{_hint(unknown[1], known)}", *steps, unknown[1])
    missing = _MISSING.match(told)
    if missing is not None:
        return Wrong(f"{missing[1]} is missing", *steps)
    word, colon, rest = told.partition(": ")
    if colon and word in known:
        return Wrong(rest, *steps, word)
    if told.startswith("Invalid enum value") and inside in _CHOICES:
        value = told.removeprefix("Invalid enum value ")
        return Wrong(f"{value} is none of {', '.join(_CHOICES[inside])}", *steps)
    for start, said in _SAID.items():
        if told.startswith(start):
            return Wrong(said, *steps)
    return Wrong(told, *steps)


def _hint(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(known)}" if known else ""
