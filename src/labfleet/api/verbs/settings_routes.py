"""Settings and pauses as routes: the seeds' names in snake_case, and the product's own.

Thin: each calls the verb; reading settings needs the right to read them, which users lack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from labfleet.api.core.endpoints import (
    JSON,
    MERGE_PATCH,
    Ask,
    Shape,
    body,
    caller,
    endpoint,
    record,
    reply,
)
from labfleet.resources.fleet_settings import SECTIONS, Settings
from labfleet.resources.meta import Record
from labfleet.resources.pool import Pool
from labfleet.service.core import access, intake
from labfleet.service.core.fleet_settings import Pause, SettingValue
from labfleet.service.core.parts import Parts
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

Namespace = Annotated[str, QueryParameter(name="namespace")]
Words = Annotated[str, msgspec.Meta(max_length=verbs.TEXT_LIMIT)]
Setting = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
# The seeds' name of a section, where it is another than ours.
_SEED_NAMES = {"idle": "idle_detection"}
_OUR_NAMES = {theirs: ours for ours, theirs in _SEED_NAMES.items()}


class ReasonRequest(Record, frozen=True, kw_only=True):
    """Why."""

    reason: Words = ""


class ChangeRequest(Record, frozen=True, kw_only=True):
    """Settings by name (`idle.timeoutMinutes`) with their values, those to unset, and why."""

    set: Annotated[dict[Setting, Any], msgspec.Meta(max_length=100)] = {}
    unset: Annotated[tuple[Setting, ...], msgspec.Meta(max_length=100)] = ()
    reason: Words = ""


class EffectiveReply(Record, frozen=True, kw_only=True):
    """Every setting as it holds and where its value is from, and what is paused."""

    settings: tuple[SettingValue, ...]
    pauses: tuple[Pause, ...]


def routes(parts: Parts) -> list[HTTPRouteHandler]:
    """Return all of them."""
    return [*_own(parts), *_pauses(parts), *_seeds(parts)]


def _own(parts: Parts) -> list[HTTPRouteHandler]:
    async def effective(request: Ask) -> Response[bytes]:
        await _reader(parts, request)
        reader = parts.settings
        return reply(EffectiveReply(settings=reader.listed(), pauses=reader.pauses()))

    async def change(request: Ask) -> Response[bytes]:
        asked = await record(request, ChangeRequest)
        made = await settings_verbs.change(
            parts, caller(request), asked.set, asked.unset, reason=asked.reason
        )
        return reply(made)

    return [
        endpoint("GET", "/api/v1/settings/effective", effective, name="effectiveSettings",
                 tag="settings", summary="Every setting as it holds, and its source",
                 shape=Shape(reply=EffectiveReply)),
        endpoint("POST", "/api/v1/settings/change", change, name="changeSettings",
                 tag="settings", summary="Set and unset settings by name",
                 shape=Shape(body=ChangeRequest, reply=Settings)),
    ]  # fmt: skip


def _pauses(parts: Parts) -> list[HTTPRouteHandler]:
    async def pause(request: Ask) -> Response[bytes]:
        asked = await record(request, ReasonRequest)
        return reply(await settings_verbs.pause(parts, caller(request), reason=asked.reason))

    async def resume(request: Ask) -> Response[bytes]:
        asked = await record(request, ReasonRequest)
        return reply(await settings_verbs.resume(parts, caller(request), reason=asked.reason))

    async def pause_pool(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return await _pool(request, name, namespace, paused=True)

    async def resume_pool(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return await _pool(request, name, namespace, paused=False)

    async def _pool(request: Ask, name: str, namespace: str, *, paused: bool) -> Response[bytes]:
        asked = await record(request, ReasonRequest)
        pool = await settings_verbs.pause_pool(
            parts, caller(request), name, namespace, paused=paused, reason=asked.reason
        )
        return reply(pool)

    fleet = Shape(body=ReasonRequest, reply=Settings)
    pool = Shape(body=ReasonRequest, reply=Pool)
    return [
        endpoint("POST", "/api/v1/settings/pause", pause, name="pause", tag="settings",
                 summary="Stop every automatic action", shape=fleet),
        endpoint("POST", "/api/v1/settings/resume", resume, name="resume", tag="settings",
                 summary="Let automatic actions go on", shape=fleet),
        endpoint("POST", "/api/v1/pools/{name:str}/pause", pause_pool, name="pausePool",
                 tag="pools", summary="Stop every automatic action on a pool", shape=pool),
        endpoint("POST", "/api/v1/pools/{name:str}/resume", resume_pool, name="resumePool",
                 tag="pools", summary="Let automatic actions on a pool go on", shape=pool),
    ]  # fmt: skip


def _seeds(parts: Parts) -> list[HTTPRouteHandler]:
    async def get(request: Ask) -> Response[bytes]:
        await _reader(parts, request)
        return reply({_SEED_NAMES.get(name, name): _shown(parts, name) for name in SECTIONS})

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
        await settings_verbs.replace_sections(parts, caller(request), sections)
        return await _after(parts, request, get)

    async def discovery(request: Ask) -> Response[bytes]:
        await _reader(parts, request)
        return reply(_shown(parts, "discovery"))

    async def patch_discovery(request: Ask) -> Response[bytes]:
        fields = _camel("discovery", await body(request, MERGE_PATCH, JSON), "discovery")
        values = {f"discovery.{key}": value for key, value in fields.items()}
        await settings_verbs.change(parts, caller(request), values)
        return await _after(parts, request, discovery)

    whole = Shape(body=dict[str, Any], reply=dict[str, Any])
    part = Shape(body=dict[str, Any], body_type=MERGE_PATCH, reply=dict[str, Any])
    path = "/api/settings"
    return [
        endpoint("GET", path, get, name="seedSettings", tag="seeds",
                 summary="All settings as they hold", shape=Shape(reply=dict[str, Any])),
        endpoint("PUT", path, put, name="seedPutSettings", tag="seeds",
                 summary="Replace the sections that are named", shape=whole),
        endpoint("GET", f"{path}/discovery", discovery, name="seedDiscovery", tag="seeds",
                 summary="What is discovered", shape=Shape(reply=dict[str, Any])),
        endpoint("PATCH", f"{path}/discovery", patch_discovery, name="seedPatchDiscovery",
                 tag="seeds", summary="Change what is discovered", shape=part),
        endpoint("GET", "/api/internal/settings/discovery", discovery, name="internalDiscovery",
                 tag="seeds", summary="What is discovered, for controllers",
                 shape=Shape(reply=dict[str, Any])),
    ]  # fmt: skip


async def _reader(parts: Parts, request: Ask) -> None:
    """Ask for the right to read settings, and for a cache that has every earlier write."""
    access.demand(caller(request).principal, "read", "Settings")
    await parts.fresh()


async def _after(parts: Parts, request: Ask, show: Any) -> Response[bytes]:
    """Return what holds after a write."""
    await parts.fresh()
    answer: Response[bytes] = await show(request)
    return answer


def _shown(parts: Parts, section: str) -> dict[str, Any]:
    """Return a section as it holds, in snake_case."""
    found: dict[str, Any] = msgspec.to_builtins(getattr(parts.settings.now(), section))
    return {_snake(key): value for key, value in found.items()}


def _camel(section: str, fields: Any, shown: str) -> dict[str, Any]:
    """Return a section's fields under our names; Invalid with a hint for what there is not."""
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
    # A list without regions means: those of the environment (ADR-012).
    return {
        known[key]: None if key == "regions" and value == [] else value
        for key, value in fields.items()
    }


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda found: "_" + found[1].lower(), name)
