"""The installation's file of sites: which servers there are, and which commands switch them.

TOML, named by the setting `static_sites`. Its commands run as the server's own user, so the file
must belong to that user or root, and be writable by nobody else. Templates name servers only.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from labfleet.kernel.errors import Invalid
from labfleet.resources.providers.static import Name

FILE_BYTES = 1024 * 1024
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Command = Annotated[tuple[Word, ...], msgspec.Meta(min_length=1, max_length=32)]
Address = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$"
    ),
]


class Power(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands that switch a server: program and arguments, run without a shell.

    In each argument `{server}`, `{address}` and `{site}` stand for the server's own. `status`
    prints booting, running, stopping or stopped. Seconds are real ones.
    """

    start: Command
    stop: Command
    status: Command
    timeout: Annotated[float, msgspec.Meta(gt=0, le=12)] = 10.0


class _Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: Address
    power: Name | None = None


class _Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    servers: dict[Name, _Server]
    power: dict[Name, Power] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """One CML server; without `power` it is never switched."""

    site: str
    name: str
    address: str
    power: Power | None = None


Sites = Mapping[str, Mapping[str, Server]]
"""Site -> server's name -> server, in the order of the file."""


def read(path: str) -> Sites:
    """Return the sites of a file; Invalid says what is wrong with it."""
    try:
        with Path(path).open("rb") as file:
            _trusted(path, os.fstat(file.fileno()))
            raw = file.read(FILE_BYTES + 1)
    except OSError as problem:
        raise Invalid(f"static_sites: {problem}") from None
    if len(raw) > FILE_BYTES:
        raise Invalid(f"static_sites: {path} is larger than {FILE_BYTES} bytes")
    return parsed(raw.decode("utf-8", "replace"))


def parsed(text: str) -> Sites:
    """Return the sites of a file's text."""
    try:
        found = msgspec.convert(tomllib.loads(text), dict[Name, _Site])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise Invalid(f"static_sites: {problem}") from None
    made: dict[str, Mapping[str, Server]] = {}
    where: dict[str, str] = {}
    for site, row in found.items():
        for name, each in row.servers.items():
            if each.power is not None and each.power not in row.power:
                raise Invalid(f"static_sites: {site}.{name}: no power {each.power!r} in {site}")
            other = where.setdefault(each.address.lower(), f"{site}.{name}")
            if other != f"{site}.{name}":
                raise Invalid(f"static_sites: {site}.{name} and {other} have one address")
        for word, power in row.power.items():
            for command in (power.start, power.stop, power.status):
                if not command[0].startswith("/") or "{" in command[0]:
                    raise Invalid(f"static_sites: {site}.power.{word}: name programs by full path")
        made[site] = {
            name: Server(site, name, each.address, row.power.get(each.power or ""))
            for name, each in row.servers.items()
        }
    return made


def _trusted(path: str, seen: os.stat_result) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise Invalid(f"static_sites: {path} is no file")
    if seen.st_uid not in {0, os.geteuid()} or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = "must belong to the server's user or root and be writable by nobody else"
        raise Invalid(f"static_sites: {path} {what}: it names commands to run")
