"""Durations, instants and amounts as people write and read them; pure."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from labfleet.kernel import clock, quantity
from labfleet.kernel.clock import utc_text
from labfleet.resources.conditions import Measured

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 36_525 * 86_400
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_SAID = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*)(?: \((?:in \S+|\S+ ago)\))?", re.IGNORECASE)
"""An instant as programs write it, or as tables show it: `2026-11-27 09:00:00Z (in 25m)`."""


def is_duration(text: str) -> bool:
    """Tell whether a text has the form of a duration."""
    return _DURATION.fullmatch(text.strip().lower()) is not None


def duration(text: str) -> float:
    """Return seconds from `30m`, `1h30m`, `90s`, `2d`; ValueError names the forms."""
    plain = text.strip().lower()
    if not is_duration(text):
        message = f"{text!r} is not a duration: write 90s, 30m, 1h30m or 2d"
        raise ValueError(message)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))
    if seconds > _LONGEST:
        message = f"{text[:40]!r} is longer than a hundred years"
        raise ValueError(message)
    return seconds


def moment(text: str) -> datetime:
    """Return the instant that a person wrote or copied from a table; ValueError names the form."""
    found = _SAID.fullmatch(text.strip())
    if found is None:
        message = f"{text[:60]!r} is not an instant: write 2026-11-27T18:00:00Z"
        raise ValueError(message)
    return clock.parse_instant(found[1])


def span(seconds: float) -> str:
    """Return `45s`, `12m`, `3h20m`, `4d2h`: two units at most."""
    left = round(abs(seconds))
    if left < 60:
        return f"{left}s"
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def measured(value: Any) -> str:
    """Return the number behind an alert as pages and `explain` write it; empty without one."""
    if not isinstance(value, dict):
        return ""
    value_, unit, limit = value.get("value"), value.get("unit"), value.get("limit")
    if not isinstance(value_, int | float) or not isinstance(unit, str):
        return ""
    bound = limit if isinstance(limit, int | float) else None
    return printable(str(Measured(value=value_, unit=unit, limit=bound)))


def instant(value: Any) -> datetime | None:
    """Return the instant that a JSON value holds, or None when it is none."""
    if not isinstance(value, str) or not _INSTANT.match(value):
        return None
    try:
        return clock.parse_instant(value)
    except ValueError:
        return None


def age(value: Any, now: datetime) -> str:
    """Return how long ago, or `-` when unknown."""
    then = instant(value)
    return "-" if then is None else span(max(0.0, (now - then).total_seconds()))


def when(value: Any, now: datetime) -> str:
    """Return absolute and relative: `2026-11-27 09:00:00Z (in 25m)`."""
    then = instant(value)
    if then is None:
        return "-"
    seconds = (then - now).total_seconds()
    relative = f"in {span(seconds)}" if seconds > 0 else f"{span(seconds)} ago"
    return f"{utc_text(then, seconds=True)} ({relative})"


def amount(dimension: str, value: float) -> str:
    """Return a number of a named dimension with its unit: `14 CPU`, `52 GiB`."""
    kind = dimension.replace("_", "").lower()
    whole = int(value)
    if kind == "cpumilli":
        return f"{whole / 1000:g} CPU"
    if kind in {"memorymib", "storagemib"}:
        what = "memory" if kind.startswith("memory") else "storage"
        return f"{memory(whole)} {what}"
    if kind == "networkkbps":
        return f"{whole / 1000:g} Mbit/s"
    named = {"nodes": "licensed nodes", "labs": "lab slots", "ports": "ports"}.get(kind, dimension)
    return f"{whole} {named[:-1] if whole == 1 and named.endswith('s') else named}"


def memory(mib: int) -> str:
    """Return `900MiB`, `8GiB` or `5.12GiB`: exact to three digits."""
    if mib < 1024:
        return f"{mib}MiB"
    return f"{mib / 1024:.3f}".rstrip("0").rstrip(".") + "GiB"


COLUMN_UNITS = frozenset({"cpuMilli", "memoryMib", "storageMib", "networkKbps", "risk", "seconds"})
"""Fields that a table for people shows in other units than the field's."""


def cell(key: str, value: Any) -> str:
    """Return the cell of a field of COLUMN_UNITS: `1.5` CPU, `8GiB`, `100Mbit/s`, `0.20%`, `35m`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(value)
    if key == "cpuMilli":
        return f"{value / 1000:g}"
    if key == "risk":
        return f"{value:.2%}"
    if key == "seconds":
        return span(value)
    return f"{value / 1000:g}Mbit/s" if key == "networkKbps" else memory(int(value))


def plain(value: Any) -> str:
    """Return a cell of a table: `-` for unknown, lists joined, nested data as JSON."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return printable(",".join(str(each) for each in value))
    if isinstance(value, list | dict):
        return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    then = instant(value)
    if then is not None:
        return utc_text(then, seconds=True)
    return printable(str(value))


def printable(text: str) -> str:
    """Return one line without control characters: a title must not move the cursor."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def harmless(text: str) -> str:
    """Return text of several lines without control characters: line ends and tabs stay."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


_UNIT_WORDS = frozenset(
    {"seconds", "minutes", "milli", "mib", "gib", "kbps", "usd", "percent"}
)  # the value says its unit
_CAPITALS = frozenset({"ami", "aws", "cml", "cpu", "ec2", "id", "ip", "tls", "uid", "url"})
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def titled(key: str) -> str:
    """Return a field's name for people: `cooldownUpSeconds` is `Cooldown up`, `cpuMilli` `CPU`.

    What is no name of a field, such as a node's id in a mapping, stays as it is.
    """
    if not key.isidentifier():
        return printable(key)
    words = [each.lower() for each in _WORD.findall(key)]
    if len(words) > 1 and words[-1] in _UNIT_WORDS:
        words.pop()
    if not words:
        return printable(key)
    said = [each.upper() if each in _CAPITALS else each for each in words]
    return " ".join([said[0][:1].upper() + said[0][1:], *said[1:]])


def labelled(key: str, value: Any, now: datetime) -> str:
    """Return a field's value beside its title, its unit taken from the field's name."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return when(value, now) if instant(value) else plain(value)
    if key == "cpuMilli":
        return quantity.format_cpu(int(value))
    if key in {"memoryMib", "storageMib"}:
        return f"{quantity.format_memory(int(value))}B"
    if key == "networkKbps":
        return amount(key, value)
    if key.endswith("Seconds"):
        return f"{value:g} s ({span(value)})" if value >= 60 else f"{value:g} s"
    if key.endswith("Minutes"):
        return f"{value:g} min"
    if key.endswith("Usd"):
        return f"{value:g} USD"
    if key.endswith("Percent"):
        return f"{value:g} %"
    if key.endswith("Gib"):
        return f"{value:g} GiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


count = quantity.count
"""`1 session`, `3 sessions`: also for people who read the command line."""
