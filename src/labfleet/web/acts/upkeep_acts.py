"""What people do with the fleet as a whole: settings, pauses, webhooks, leaks, servers of others."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import fleet_settings
from labfleet.resources.pool import Pool
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import adoption, leaks, lifecycle, settings_verbs
from labfleet.web.acts import fields
from labfleet.web.acts.act import ROOT, Act, Doing, same
from labfleet.web.acts.fields import Field

SETTINGS = "/settings"
_VALUE = 2000


def _setting() -> Field:
    names = tuple((path, path) for path, _, _ in fleet_settings.settings_fields())
    return Field(name="setting", label="Setting", show="choice", required=True, choices=names)


def _reason(_s: ServiceContext, _c: Caller, _o: Any) -> tuple[Field, ...]:
    return (fields.reason(lifecycle.TEXT_LIMIT),)


def _set_fields(_s: ServiceContext, _c: Caller, _o: Any) -> tuple[Field, ...]:
    told = "Lists are separated by commas."
    value = Field(name="value", label="Value", help=told, most=_VALUE)
    return _setting(), value, fields.reason(lifecycle.TEXT_LIMIT)


def text_of(value: Any) -> str:
    """Return a setting's value as it is typed; nothing for none."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(text_of(each) for each in value)
    return value if isinstance(value, str) else json.dumps(value)


def _in_force(doing: Doing) -> str:
    path = doing.text("setting")
    return text_of(fleet_settings.value_at(doing.services.settings.now(), path))


def _typed(doing: Doing) -> Any:
    try:
        return fleet_settings.from_text(doing.text("setting"), doing.text("value"))
    except ValueError as error:
        raise intake.invalid(("Value", str(error))) from None


async def _set(doing: Doing) -> str:
    name, before = doing.text("setting"), _in_force(doing)
    changed = {name: _typed(doing)}
    await settings_verbs.change(doing.services, doing.caller, changed, reason=doing.text("reason"))
    return f"Done: {name} is {doing.text('value')}; it was {before}."


async def _set_follows(doing: Doing) -> Sequence[str]:
    if not doing.text("setting"):
        return ["It holds for the whole fleet, at once and after a restart."]
    told = f"{doing.text('setting')} is {_in_force(doing)} now, by {_source(doing)}."
    if not doing.text("value"):
        return [told]
    typed = text_of(_typed(doing))
    return [told, f"It would be {typed}, for the whole fleet, at once and after a restart."]


def _source(doing: Doing) -> str:
    settings = doing.services.settings
    origin = fleet_settings.sources(settings.stored, doing.services.environment)
    told = {"settings": "a person", "environment": "the environment", "default": "default"}
    return told.get(origin[doing.text("setting")], "default")


def _set_back(doing: Doing) -> str:
    settings, path = doing.services.settings, doing.text("setting")
    origin = fleet_settings.sources(settings.stored, doing.services.environment)
    if origin.get(path) != "settings":
        return same(doing, "settings", "unset", setting=path)
    return same(doing, "settings", "set", setting=path, value=_in_force(doing))


async def _unset(doing: Doing) -> str:
    name, before = doing.text("setting"), _in_force(doing)
    await settings_verbs.change(
        doing.services, doing.caller, {}, (name,), reason=doing.text("reason")
    )
    return f"Done: {name} falls back to environment or default; it was {before}."


async def _unset_follows(doing: Doing) -> Sequence[str]:
    if not doing.text("setting"):
        return ["It falls back to the environment's value, or to the default."]
    floor = fleet_settings.effective(None, doing.services.environment)
    falls = text_of(fleet_settings.value_at(floor, doing.text("setting")))
    told = f"{doing.text('setting')} is {_in_force(doing)} now, by {_source(doing)}."
    return [told, f"It would be {falls}."]


def _unset_back(doing: Doing) -> str:
    return same(doing, "settings", "set", setting=doing.text("setting"), value=_in_force(doing))


def _switch(verb: Callable[..., Any], said: str) -> Any:
    async def does(doing: Doing) -> str:
        await verb(doing.services, doing.caller, reason=doing.text("reason"))
        return said

    return does


async def _pause_follows(doing: Doing) -> Sequence[str]:
    pools = count(len([*doing.services.cache.all(Pool)]), "pool")
    return [
        f"Nothing is scaled, replaced, stopped, collected, imported or renewed, in {pools} and beside.",
        "What people ask for, sessions that run and workers on their way go on.",
    ]


async def _resume_follows(doing: Doing) -> Sequence[str]:
    paused = [each.text for each in doing.services.settings.pauses()]
    return [f"Paused now: {each}." for each in paused] or ["Nothing is paused now."]


async def _clock_follows(doing: Doing) -> Sequence[str]:
    check = doing.services.clock_check
    at = doing.services.clock.now() if check is None else check.host_now()
    return [
        f"This server's host says that it is {utc_text(at, seconds=True)}. Look at another clock.",
        "What waits because the clock jumped goes on: slots begin and end by it.",
    ]


async def _resolve(doing: Doing) -> str:
    await leaks.resolve(doing.services, doing.caller, *doing.where, note=doing.text("note"))
    return f"Done: leak {doing.name} is closed."


async def _resolve_follows(_doing: Doing) -> Sequence[str]:
    return ["Do this once the licence is freed in the portal: nothing here does that."]


def _server_fields(_s: ServiceContext, _c: Caller, _o: Any) -> tuple[Field, ...]:
    return (
        Field(name="instance", label="Instance", help="Its id, with its region.", most=512),
        Field(name="region", label="Region", most=512),
        Field(name="url", label="Or the address of a CML server", help="https://…", most=512),
        Field(name="template", label="Template", most=253, required=True,
              help="Whose machine settings and CML access it gets."),
        Field(name="name", label="Name of the new worker", help="Empty: chosen here.", most=253),
    )  # fmt: skip


async def _adopt(doing: Doing) -> str:
    template, name = doing.text("template"), doing.text("name") or None
    if (doing.text("instance") == "") == (doing.text("url") == ""):
        raise intake.invalid(("Instance", "give exactly one of instance and address"))
    if doing.text("url"):
        new = await adoption.adopt_server(
            doing.services, doing.caller, doing.text("url"), template=template, name=name,
            namespace=doing.namespace,
        )  # fmt: skip
    else:
        if not doing.text("region"):
            raise intake.invalid(("Region", "an instance needs its region"))
        new = await adoption.adopt_instance(
            doing.services, doing.caller, doing.text("instance"), region=doing.text("region"),
            template=template, name=name, namespace=doing.namespace,
        )  # fmt: skip
    return f"Asked: {new.name} is managed from now on."


async def _adopt_follows(_doing: Doing) -> Sequence[str]:
    return [
        "It becomes a worker: it may be stopped, started, licensed and ended by this fleet.",
        "To only watch it, let discovery find it, and adopt nothing.",
    ]


def _adopt_line(doing: Doing) -> str:
    aim = shlex.quote(doing.text("instance") or doing.text("url") or "INSTANCE")
    options = (doing.option(f"--{name}", name) for name in ("region", "template", "name"))
    return " ".join(each for each in ("labfleet adopt", aim, *options) if each)


def _to_settings(_doing: Doing) -> str:
    return SETTINGS


ACTS = (
    Act(
        verb="set", kind="Settings", title="Set a setting", right="update", whole=True,
        routes="changeSettings", does=_set, follows=_set_follows, fields=_set_fields,
        goes=_to_settings, undo=_set_back, line=lambda doing: " ".join(filter(None, (
            "labfleet settings set",
            shlex.quote(f"{doing.text('setting') or 'SETTING'}={doing.text('value')}"),
            doing.option("--reason", "reason"),
        ))),
    ),
    Act(
        verb="unset", kind="Settings", title="Unset a setting", right="update", whole=True,
        routes="changeSettings", does=_unset, follows=_unset_follows, goes=_to_settings,
        fields=lambda services, caller, obj: (_setting(), *_reason(services, caller, obj)),
        undo=_unset_back, line=lambda doing: " ".join(filter(None, (
            "labfleet settings unset", shlex.quote(doing.text("setting") or "SETTING"),
            doing.option("--reason", "reason"),
        ))),
    ),
    Act(
        verb="pause", kind="Settings", title="Pause the fleet", right="pause", whole=True,
        routes="pause", fields=_reason, follows=_pause_follows, goes=_to_settings, grave=True,
        does=_switch(settings_verbs.pause, "Done: every automatic action rests."),
        line=lambda doing: doing.line("pause", doing.option("--reason", "reason")),
        back="Resume lets everything go on.", undo=lambda _doing: f"{ROOT}resume/settings",
    ),
    Act(
        verb="resume", kind="Settings", title="Resume the fleet", right="pause", whole=True,
        routes="resume", fields=_reason, follows=_resume_follows, goes=_to_settings,
        does=_switch(settings_verbs.resume, "Done: automatic actions go on."),
        line=lambda doing: doing.line("resume", doing.option("--reason", "reason")),
        back="Pause stops everything again.", undo=lambda _doing: f"{ROOT}pause/settings",
    ),
    Act(
        verb="confirm-clock", kind="Settings", title="Confirm the clock", right="pause",
        whole=True, routes="confirmClock", fields=_reason, follows=_clock_follows,
        goes=_to_settings, grave=True,
        does=_switch(settings_verbs.confirm_clock, "Done: this host's clock is followed again."),
        line=lambda doing: doing.line("confirm-clock", doing.option("--reason", "reason")),
    ),
    Act(
        verb="resolve", kind="Leak", title="Resolve", right="delete", routes="resolveLeak",
        does=_resolve, follows=_resolve_follows, goes=lambda _doing: "/leaks",
        fields=lambda _s, _c, _o: (Field(name="note", label="What was done", most=400),),
        line=lambda doing: doing.line("resolve", doing.option("--note", "note")), grave=True,
    ),
    Act(
        verb="adopt-server", kind="Worker", title="Adopt a server", right="update", whole=True,
        routes="adoptServer", does=_adopt, follows=_adopt_follows, fields=_server_fields,
        line=_adopt_line, goes=lambda _doing: "/workers",
    ),
)  # fmt: skip
