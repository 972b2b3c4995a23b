"""Routes of settings and pauses: reading the values in force, changing them, pausing, resuming.

Thin: each calls the verb; reading settings needs a right that the role user lacks.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import Name, Reply, Routes
from labfleet.api.core.warning_headers import warning_headers
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.meta import Record
from labfleet.resources.pool import Pool
from labfleet.service.core import warned
from labfleet.service.core.fleet_settings import Pause, SettingValue
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

Namespace = Annotated[str, QueryParameter(name="namespace", description="Namespace of the object.")]
Words = Annotated[str, msgspec.Meta(max_length=verbs.TEXT_LIMIT)]
Setting = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class ReasonRequest(Record, frozen=True, kw_only=True):
    """The reason of the request.

    reason: Why, for the log and for people.
    """

    reason: Words = ""


class ChangeRequest(Record, frozen=True, kw_only=True):
    """Settings by name (`idle.timeoutMinutes`) with their values, those to unset, and why.

    set: Name of a setting (`idle.timeoutMinutes`) to its new value.
    unset: Names of settings that fall back to the environment or the default.
    reason: Why, for the log and for people.
    """

    set: Annotated[dict[Setting, Any], msgspec.Meta(max_length=100)] = {}
    unset: Annotated[tuple[Setting, ...], msgspec.Meta(max_length=100)] = ()
    reason: Words = ""


class EffectiveReply(Record, frozen=True, kw_only=True):
    """Every setting's value in force, where the value comes from, and what is paused.

    settings: Every setting.
    pauses: What is paused.
    """

    settings: tuple[SettingValue, ...]
    pauses: tuple[Pause, ...]


def routes(services: ServiceContext) -> Routes:
    """Return all of them."""
    made = Routes("settings")
    _own(made, services)
    _pauses(made, services)
    return made


def _own(made: Routes, services: ServiceContext) -> None:
    @made.get(
        "/api/v1/settings/effective", "Every setting as it holds, and its source",
        needs=("read", "Settings"),
    )  # fmt: skip
    async def effective_settings(who: Caller) -> EffectiveReply:
        """Return every setting with its value in force and where that comes from."""
        del who
        await services.fresh()
        reader = services.settings
        told = warned.blind_templates(services.cache) if reader.now().idle.enabled else ""
        notes = {"idle.enabled": told}
        return EffectiveReply(settings=reader.listed(notes), pauses=reader.pauses())

    @made.post(
        "/api/v1/settings/change", "Set and unset settings by name",
        needs=("update", "Settings"),
    )  # fmt: skip
    async def change_settings(who: Caller, sent: ChangeRequest) -> Reply[Settings]:
        """Set and unset settings by their names, in one change of the log."""
        new = await settings_verbs.change(services, who, sent.set, sent.unset, reason=sent.reason)
        return Reply(new, headers=warning_headers(services, new))


def _pauses(made: Routes, services: ServiceContext) -> None:
    @made.post("/api/v1/settings/pause", "Stop every automatic action", needs=("pause", "Settings"))
    async def pause(who: Caller, sent: ReasonRequest) -> Settings:
        """Stop every automatic action of the fleet; what people ask for goes on."""
        return await settings_verbs.pause(services, who, reason=sent.reason)

    @made.post(
        "/api/v1/settings/resume", "Let automatic actions go on", needs=("pause", "Settings")
    )
    async def resume(who: Caller, sent: ReasonRequest) -> Settings:
        """Let the automatic actions of the fleet go on."""
        return await settings_verbs.resume(services, who, reason=sent.reason)

    @made.post(
        "/api/v1/settings/confirm-clock", "Say that this server's host has the right time",
        needs=("pause", "Settings"),
    )  # fmt: skip
    async def confirm_clock(who: Caller, sent: ReasonRequest) -> Settings:
        """Say that the clock is right after a jump, so that what waits for it goes on."""
        return await settings_verbs.confirm_clock(services, who, reason=sent.reason)

    @made.post(
        "/api/v1/pools/{name:str}/pause", "Stop every automatic action on a pool",
        tag="pools", needs=("pause", "Pool"),
    )  # fmt: skip
    async def pause_pool(
        who: Caller, name: Name, sent: ReasonRequest, namespace: Namespace = "default"
    ) -> Pool:
        """Stop every automatic action on one pool and its workers."""
        return await settings_verbs.pause_pool(
            services, who, name, namespace, paused=True, reason=sent.reason
        )

    @made.post(
        "/api/v1/pools/{name:str}/resume", "Let automatic actions on a pool go on",
        tag="pools", needs=("pause", "Pool"),
    )  # fmt: skip
    async def resume_pool(
        who: Caller, name: Name, sent: ReasonRequest, namespace: Namespace = "default"
    ) -> Pool:
        """Let the automatic actions on one pool go on, also after it paused itself."""
        return await settings_verbs.pause_pool(
            services, who, name, namespace, paused=False, reason=sent.reason
        )
