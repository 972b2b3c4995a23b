"""Checks untyped documents field by field, with CML's limits; problems are collected."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cml_simulator.core.errors import Problem

_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
CONFIG_LIMIT = 20 * 1024 * 1024

LIMITS: dict[str, tuple[int, int]] = {
    "ram": (1, 1_048_576),
    "cpus": (1, 128),
    "cpu_limit": (20, 100),
    "data_volume": (0, 4096),
    "boot_disk_size": (0, 4096),
}
"""Bounds of a node's overrides: MiB, count, percent, GB, GB."""


@dataclass(slots=True)
class Reader:
    """Reads values of one mapping; what is wrong goes to `problems` with its location."""

    problems: list[Problem]
    where: tuple[str | int, ...]
    lenient: bool = False

    def fail(self, key: str, kind: str, message: str) -> None:
        where = (*self.where, key) if key else self.where
        self.problems.append(Problem(where, kind, message))

    def deeper(self, *more: str | int) -> "Reader":
        return Reader(self.problems, (*self.where, *more), self.lenient)

    def text(
        self,
        row: Mapping[str, Any],
        key: str,
        most: int,
        *,
        needed: bool = False,
        line: bool = False,
        least: int = 0,
    ) -> str | None:
        """Return a text of bounded length; a lenient reader takes numbers, as YAML titles need."""
        value = row.get(key)
        if value is None:
            if needed:
                self.fail(key, "missing", "Field required")
            return None
        if self.lenient and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            self.fail(key, "string_type", "Input should be a valid string")
            return None
        if len(value) > most:
            self.fail(key, "string_too_long", f"String should have at most {most} characters")
        if len(value) < least:
            self.fail(key, "string_too_short", f"String should have at least {least} characters")
        if line and ("\n" in value or "\r" in value):
            self.fail(key, "string_pattern_mismatch", "String should be one line")
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
            self.fail(key, "string_unicode", "Input should be a valid unicode string")
        return value

    def whole(
        self,
        row: Mapping[str, Any],
        key: str,
        least: int,
        most: int,
        *,
        needed: bool = False,
    ) -> int | None:
        """Return a bounded whole number."""
        value = row.get(key)
        if value is None:
            if needed:
                self.fail(key, "missing", "Field required")
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, "int_type", "Input should be a valid integer")
            return None
        if not least <= value <= most:
            self.fail(key, "out_of_range", f"Input should be from {least} to {most}")
        return value

    def number(
        self,
        row: Mapping[str, Any],
        key: str,
        least: float,
        most: float,
        *,
        needed: bool = False,
    ) -> float | None:
        """Return a bounded number, whole or not, as it came."""
        value = row.get(key)
        if value is None:
            if needed:
                self.fail(key, "missing", "Field required")
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(key, "float_type", "Input should be a valid number")
            return None
        if not least <= value <= most:
            self.fail(key, "out_of_range", f"Input should be from {least} to {most}")
        return value

    def mac(self, row: Mapping[str, Any], key: str) -> str | None:
        """Return a MAC address in lower case."""
        value = row.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not _MAC.fullmatch(value):
            self.fail(key, "string_pattern_mismatch", "Input should be a MAC address")
            return None
        return value.lower()


def is_flat(row: Mapping[str, Any]) -> bool:
    """Whether every value is a scalar (so that no alias bomb can be echoed)."""
    return all(not isinstance(value, dict | list | set) for value in row.values())


def node_values(row: Mapping[str, Any], read: Reader, *, upgrade: bool = False) -> dict[str, Any]:
    """Return the overrides of a node; with upgrade, the 0 of the oldest exports means none."""
    values: dict[str, Any] = {}
    for key, (least, most) in LIMITS.items():
        if upgrade and row.get(key) == 0:
            continue
        values[key] = read.whole(row, key, least, most)
    values["image"] = read.text(row, "image_definition", 250) or None
    values["hide_links"] = bool(row.get("hide_links", False))
    parameters = row.get("parameters") or {}
    if not isinstance(parameters, dict) or not is_flat(parameters):
        read.fail("parameters", "dict_type", "Input should be a flat dictionary")
        parameters = {}
    values["parameters"] = parameters
    return values


def tags(row: Mapping[str, Any], read: Reader) -> list[str]:
    """Return a node's tags, each once, in their order."""
    value = row.get("tags")
    if value is None:
        return []
    if not isinstance(value, list):
        read.fail("tags", "list_type", "Input should be a valid list")
        return []
    found: dict[str, None] = {}
    for index, tag in enumerate(value):
        deeper = read.deeper("tags", index)
        text = deeper.text({"": tag}, "", 64)
        if text is not None:
            found[text] = None
    return list(found)


def configuration(row: Mapping[str, Any], read: Reader) -> list[dict[str, str]] | str | None:
    """Return a configuration in the form it came in: a text, a list of named files, or none."""
    value = row.get("configuration")
    if value is None or isinstance(value, str):
        if isinstance(value, str) and len(value) > CONFIG_LIMIT:
            read.fail("configuration", "string_too_long", "Configuration is over 20 MB")
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        read.fail("configuration", "list_type", "Input should be a string or a list")
        return None
    files = []
    for index, item in enumerate(value):
        deeper = read.deeper("configuration", index)
        if not isinstance(item, dict):
            deeper.fail("", "dict_type", "Input should be a valid dictionary")
            continue
        name = deeper.text(item, "name", 64, needed=True) or ""
        content = deeper.text(item, "content", CONFIG_LIMIT) or ""
        files.append({"name": name, "content": content})
    return files


AUTOSTART = {"enabled": (False, True), "priority": (0, 10_000), "delay": (0, 86_400)}
STAGING = dict.fromkeys(("enabled", "start_remaining", "abort_on_failure"), (False, True))


def extra_fits(row: Any, kinds: dict[str, tuple[Any, Any]]) -> bool:
    """Whether an object has only known keys with values of their kind, within bounds."""
    if not isinstance(row, dict) or row.keys() - kinds.keys():
        return False
    for key, value in row.items():
        least, most = kinds[key]
        if value is None:
            continue
        if isinstance(value, bool) is not isinstance(least, bool) or not isinstance(value, int):
            return False
        if not least <= value <= most:
            return False
    return True
