"""Settings as routes under the names that upstream 002 gives them: whole sections in snake_case.

Thin: each calls the verb; reading settings needs the right to read them, which users lack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from labfleet.api.core.endpoints import (
    JSON,
    MERGE_PATCH,
    Ask,
    RouteDoc,
    body,
    caller,
    endpoint,
    reply,
)
from labfleet.resources.fleet_settings import SECTIONS
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.verbs import settings_verbs

# The compatible name of a section, where it differs from ours.
_SEED_NAMES = {"idle": "idle_detection"}
_OUR_NAMES = {theirs: ours for ours, theirs in _SEED_NAMES.items()}


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes."""

    async def get(request: Ask) -> Response[bytes]:
        await _reader(services, request)
        return reply({_SEED_NAMES.get(name, name): _shown(services, name) for name in SECTIONS})

    async def put(request: Ask) -> Response[bytes]:
        sent = await body(request)
        if not isinstance(sent, Mapping):
            raise intake.invalid(("body", "a JSON object is expected"))
        sections: dict[str, dict[str, Any]] = {}
        for key, fields in sent.items():
            name = str(key)
            ours = _OUR_NAMES.get(name, name)
            if ours == "automation":
                continue  # read, and changed by pause and resume only
            sections[ours] = _camel(ours, fields, name)
        await settings_verbs.replace_sections(services, caller(request), sections)
        return await _after(services, request, get)

    async def discovery(request: Ask) -> Response[bytes]:
        await _reader(services, request)
        return reply(_shown(services, "discovery"))

    async def patch_discovery(request: Ask) -> Response[bytes]:
        fields = _camel("discovery", await body(request, MERGE_PATCH, JSON), "discovery")
        values = {f"discovery.{key}": value for key, value in fields.items()}
        await settings_verbs.change(services, caller(request), values)
        return await _after(services, request, discovery)

    whole = RouteDoc(body=dict[str, Any], reply=dict[str, Any])
    part = RouteDoc(body=dict[str, Any], body_type=MERGE_PATCH, reply=dict[str, Any])
    path = "/api/settings"
    return [
        endpoint("GET", path, get, name="seedSettings", tag="seeds",
                 summary="All settings as they hold", shape=RouteDoc(reply=dict[str, Any])),
        endpoint("PUT", path, put, name="seedPutSettings", tag="seeds",
                 summary="Replace the sections that are named", shape=whole),
        endpoint("GET", f"{path}/discovery", discovery, name="seedDiscovery", tag="seeds",
                 summary="What is discovered", shape=RouteDoc(reply=dict[str, Any])),
        endpoint("PATCH", f"{path}/discovery", patch_discovery, name="seedPatchDiscovery",
                 tag="seeds", summary="Change what is discovered", shape=part),
        endpoint("GET", "/api/internal/settings/discovery", discovery, name="internalDiscovery",
                 tag="seeds", summary="What is discovered, for controllers",
                 shape=RouteDoc(reply=dict[str, Any])),
    ]  # fmt: skip


async def _reader(services: ServiceContext, request: Ask) -> None:
    """Ask for the right to read settings, and for a cache that has every earlier write."""
    access.demand(caller(request).principal, "read", "Settings")
    await services.fresh()


async def _after(services: ServiceContext, request: Ask, show: Any) -> Response[bytes]:
    """Return the settings in force after a write."""
    await services.fresh()
    answer: Response[bytes] = await show(request)
    return answer


def _shown(services: ServiceContext, section: str) -> dict[str, Any]:
    """Return a section's values in force, in snake_case."""
    found: dict[str, Any] = msgspec.to_builtins(getattr(services.settings.now(), section))
    return {_snake(key): value for key, value in found.items()}


def _camel(section: str, fields: Any, shown: str) -> dict[str, Any]:
    """Return a section's fields under our names; Invalid with a hint for an unknown one."""
    if section not in SECTIONS:
        names = [_SEED_NAMES.get(name, name) for name in SECTIONS]
        what = f"unknown section{intake.hint(shown[:64], names)}"
        if shown == "worker_provisioning":
            what = "machines are made of templates: labfleet apply a Template"
        raise intake.invalid((shown[:64], what), reason="UnknownField")
    if not isinstance(fields, Mapping):
        raise intake.invalid((shown[:64], "a JSON object is expected"))
    known = {
        _snake(each.encode_name): each.encode_name
        for each in msgspec.structs.fields(SECTIONS[section])
    }
    unknown = [
        (f"{shown}.{str(key)[:64]}", f"unknown key{intake.hint(str(key)[:64], list(known))}")
        for key in list(fields)[:100]
        if key not in known
    ]
    if unknown:
        raise intake.invalid(*unknown, reason="UnknownField")
    # An empty list means the regions of the environment (facts/upstream.md#discovery-settings).
    return {
        known[key]: None if key == "regions" and value == [] else value
        for key, value in fields.items()
    }


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda found: "_" + found[1].lower(), name)
