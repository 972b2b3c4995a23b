"""The body of a request for a run, made of what people type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import exits

FILE_LIMIT = 256 * 1024
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?")
_WORDS = {"true": True, "false": False}


def body(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `/request_run` takes, from the options of `labfleet admit`; usage Failure.

    Parameters are sent under `params`, where no name of theirs can be taken for another key.
    """
    made: dict[str, Any] = {"params": parameters(asked.get("params_file"), asked["params"])}
    if asked["cost"]:
        made["cost"] = pairs(
            [each for given in asked["cost"] for each in given.split(",")], "--cost"
        )
    for option, name in (("duration", "duration_seconds"), ("ttl", "ttl_seconds")):
        if asked.get(option) is not None:
            made[name] = math.ceil(calls.seconds(asked[option], f"--{option}"))
    for name in ("cluster", "priority", "owner"):
        if asked.get(name) is not None:
            made[name] = asked[name]
    if asked.get("queue") is not None:
        made["queue"] = asked["queue"] or True
    return made


def parameters(file: str | None, given: Sequence[str]) -> dict[str, Any]:
    """Return a run's parameters: those of the file, and those given by hand above them."""
    found = {} if file is None else _from_file(file)
    return {**found, **{name: sighted(text) for name, text in pairs(given, "--param").items()}}


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Return the values of K=V texts by name; usage Failure for what is none, or given twice."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise exits.usage(f"{option}: {each[:60]!r} is not NAME=VALUE")
        if name.strip() in found:
            raise exits.usage(f"{option}: {name.strip()[:60]!r} is given twice")
        found[name.strip()] = value
    return found


def sighted(text: str) -> Any:
    """Return the number or the truth value that a text is on sight; else the text."""
    if text in _WORDS:
        return _WORDS[text]
    return json.loads(text) if _NUMBER.fullmatch(text) else text


def _from_file(name: str) -> dict[str, Any]:
    from labfleet.resources import documents

    try:
        with Path(name).open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise exits.usage(f"cannot read {name}: {error.strerror}") from None
    found = documents.read(raw, name=name, limits=documents.Limits(size=FILE_LIMIT))
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise exits.usage(f"{name}: one mapping of parameters is expected")
    return {str(key): value for key, value in found[0].value.items()}
