"""The tab that shows an object as its YAML, as far as the reader may see it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from labfleet.resources import yamltext
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.view import Asked

MOST = 256 * 1024
"""Characters that a page shows; the command gives all."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text, whether it is cut, and the command that gives all of it."""

    text: str
    cut: bool
    command: str


async def panel(
    _services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> Written:
    """Return an object as `labfleet get -o yaml` writes it."""
    text = yamltext.dump(msgspec.json.decode(msgspec.json.encode(obj)))
    named = Key("", obj.namespace, obj.name).argument
    command = f"labfleet get {KINDS[obj.kind].name.lower()} {named} -o yaml"
    return Written(text[:MOST], len(text) > MOST, command)
