"""Tabs that every kind has: what happened to an object, and the object as YAML."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from labfleet.kernel import errors
from labfleet.resources import yamltext
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import objects
from labfleet.web import overview, words
from labfleet.web.overview import RecentEvent
from labfleet.web.view import Asked

MOST = 256 * 1024
"""Characters of YAML that a page shows; the command prints all."""


@dataclass(frozen=True, slots=True)
class Happened:
    """The tab of events, whether there may be older ones, and the command that tells them."""

    events: tuple[RecentEvent, ...]
    more: bool
    command: str


@dataclass(frozen=True, slots=True)
class Written:
    """The tab with an object's text, whether it is cut, and the command that prints all of it."""

    text: str
    cut: bool
    command: str


async def happened(
    services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked
) -> Happened:
    """Return the newest events of an object."""
    row, told = KINDS[obj.kind], f"{obj.kind.lower()}/{obj.key.argument}"
    try:
        past = await objects.events(
            services, caller, row, obj.name, obj.namespace, limit=words.LOOKED
        )
    except errors.Gone:
        past = ()
    found = overview.recent_events(past[::-1], caller, services.clock.now(), only=obj.metadata.uid)
    return Happened(found, len(past) >= words.LOOKED, f"labfleet events {told}")


async def written(
    _services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> Written:
    """Return an object as `labfleet get -o yaml` prints it, as far as the caller may see it."""
    text = yamltext.dump(msgspec.to_builtins(obj, str_keys=True))
    command = f"labfleet get {obj.kind.lower()}/{obj.key.argument} -o yaml"
    return Written(text[:MOST], len(text) > MOST, command)
