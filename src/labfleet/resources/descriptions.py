"""The words of a record for people: what it is, and what each of its fields is, from its docstring.

A docstring is a sentence, perhaps a paragraph, and at its end one line for each field:

    start, end: The slot's instants.
    name: Name of the session, which
    may go on in the next line.

OpenAPI, the page at `/docs` and the reference all read them here. Citations of docs/facts are for
readers of the code and left out.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping

import msgspec

_LINE = re.compile(r"([a-z_][A-Za-z0-9_]*(?:, [a-z_][A-Za-z0-9_]*)*): (.*)")
_CITED = re.compile(r"\s*\([^()]*facts/[^()]*\)|\s*Source:\s+facts/\S+(?:\s+facts/\S+)*\.(?=\s|$)")
_NAME = re.compile(r"`([a-z0-9_]+)`")


def about(record: type) -> str:
    """Return what a record is: its docstring without the lines of its fields."""
    return _shown(_read(record)[0], _names(record))


def fields(record: type) -> dict[str, str]:
    """Return what the fields of a record are, by their names outside; inherited ones too."""
    told: dict[str, str] = {}
    for each in reversed(record.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            told |= _read(each)[1]
    outside = _names(record)
    return {outside[name]: _shown(text, outside) for name, text in told.items() if name in outside}


def _shown(text: str, outside: Mapping[str, str]) -> str:
    """Return a text for readers of the API: fields by their names there, no citations."""
    return _NAME.sub(lambda found: f"`{outside.get(found[1], found[1])}`", _CITED.sub("", text))


def _names(record: type) -> dict[str, str]:
    """Return the outside name of each field; the tag of a union's member counts as one."""
    found = {each.name: each.encode_name for each in msgspec.structs.fields(record)}
    tag = record.__struct_config__.tag_field  # type: ignore[attr-defined]  # a struct has it
    return found if tag is None else {**found, tag: tag}


@functools.cache
def _read(record: type) -> tuple[str, dict[str, str]]:
    outside = _names(record)
    prose: list[str] = []
    told: dict[str, str] = {}
    last: list[str] = []
    for line in inspect.cleandoc(record.__dict__.get("__doc__") or "").splitlines():
        found = _LINE.fullmatch(line)
        names = found[1].split(", ") if found is not None else []
        if found is not None and all(name in outside for name in names):
            last = names
            told |= dict.fromkeys(names, found[2])
        elif line and last:
            told |= {name: f"{told[name]} {line}" for name in last}
        else:
            last = []
            prose.append(line)
    return "\n".join(prose).strip(), told
