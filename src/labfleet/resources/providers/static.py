"""The settings of CML servers that are there already: people's own metal, vSphere, anything.

A template only names servers. Where they are and how they are switched on stands in a file of
the installation (`adapters/static/sites`), so that nobody who writes templates can have a command
run or a password sent to an address of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from labfleet.resources.meta import Record

PREFIX = "static-"
NAME = r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"
Name = Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]
REGION = re.compile(PREFIX + NAME)
MACHINE = re.compile(NAME + r"\.[0-9a-f]{12}")
TAG_TEXT = 256


class StaticSettings(Record, frozen=True, kw_only=True, tag_field="kind", tag="static"):
    """Which servers of a site a worker may be given.

    kind: Always static.
    site: Name of the site in the server's file of sites.
    servers: Servers of the site that may be given, in order of preference; empty means any.
    tags: Tags that are only shown.
    """

    site: Name
    servers: Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)] = ()
    tags: Annotated[dict[str, str], msgspec.Meta(max_length=30)] = {}

    @property
    def region(self) -> str:
        """Return the site as a region: with a prefix that no other provider's regions have."""
        return PREFIX + self.site


def problems(settings: StaticSettings) -> tuple[tuple[str, str], ...]:
    """Return (field, what is wrong) of settings; only the servers know which sites there are."""
    twice = sorted({each for each in settings.servers if settings.servers.count(each) > 1})
    found = (("servers", f"{', '.join(twice)} stands there twice"),) if twice else ()
    return (*found, *tags(settings.tags))


def tags(given: Mapping[str, str], where: str = "tags") -> tuple[tuple[str, str], ...]:
    """Return what is wrong with tags that people wrote."""
    return tuple(
        (f"{where}.{key[:128]}", "keys begin not with labfleet:, and are short texts")
        for key, value in given.items()
        if key.lower().startswith("labfleet:") or not 1 <= len(key) <= 128 or len(value) > TAG_TEXT
    )
