"""Routes of settings and pauses: reading the values in force, changing them, pausing, resuming.

Thin: each calls the verb; reading settings needs a right that the role user lacks.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from labfleet.api.core.endpoints import (
    Ask,
    RouteDoc,
    caller,
    endpoint,
    record,
    reply,
)
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.meta import Record
from labfleet.resources.pool import Pool
from labfleet.service.core import access
from labfleet.service.core.fleet_settings import Pause, SettingValue
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

Namespace = Annotated[str, QueryParameter(name="namespace")]
Words = Annotated[str, msgspec.Meta(max_length=verbs.TEXT_LIMIT)]
Setting = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class ReasonRequest(Record, frozen=True, kw_only=True):
    """The reason of the request."""

    reason: Words = ""


class ChangeRequest(Record, frozen=True, kw_only=True):
    """Settings by name (`idle.timeoutMinutes`) with their values, those to unset, and why."""

    set: Annotated[dict[Setting, Any], msgspec.Meta(max_length=100)] = {}
    unset: Annotated[tuple[Setting, ...], msgspec.Meta(max_length=100)] = ()
    reason: Words = ""


class EffectiveReply(Record, frozen=True, kw_only=True):
    """Every setting's value in force, where the value comes from, and what is paused."""

    settings: tuple[SettingValue, ...]
    pauses: tuple[Pause, ...]


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return all of them."""
    return [*_own(services), *_pauses(services)]


def _own(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def effective(request: Ask) -> Response[bytes]:
        access.demand(caller(request).principal, "read", "Settings")
        await services.fresh()
        reader = services.settings
        return reply(EffectiveReply(settings=reader.listed(), pauses=reader.pauses()))

    async def change(request: Ask) -> Response[bytes]:
        asked = await record(request, ChangeRequest)
        made = await settings_verbs.change(
            services, caller(request), asked.set, asked.unset, reason=asked.reason
        )
        return reply(made)

    return [
        endpoint("GET", "/api/v1/settings/effective", effective, name="effectiveSettings",
                 tag="settings", summary="Every setting as it holds, and its source",
                 shape=RouteDoc(reply=EffectiveReply)),
        endpoint("POST", "/api/v1/settings/change", change, name="changeSettings",
                 tag="settings", summary="Set and unset settings by name",
                 shape=RouteDoc(body=ChangeRequest, reply=Settings)),
    ]  # fmt: skip


def _pauses(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def pause(request: Ask) -> Response[bytes]:
        asked = await record(request, ReasonRequest)
        return reply(await settings_verbs.pause(services, caller(request), reason=asked.reason))

    async def resume(request: Ask) -> Response[bytes]:
        asked = await record(request, ReasonRequest)
        return reply(await settings_verbs.resume(services, caller(request), reason=asked.reason))

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
            services, caller(request), name, namespace, paused=paused, reason=asked.reason
        )
        return reply(pool)

    fleet = RouteDoc(body=ReasonRequest, reply=Settings)
    pool = RouteDoc(body=ReasonRequest, reply=Pool)
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
