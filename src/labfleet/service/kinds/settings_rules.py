"""Rules of the one Settings object: its name, what it refers to, who paused, what changed.

The record of each section validates its values; this module checks what needs other objects,
and writes the event's text: the log has every change of a setting with old and new value.
"""

from __future__ import annotations

from typing import Any

import msgspec

from labfleet.kernel import clock
from labfleet.resources import fleet_settings
from labfleet.resources.fleet_settings import NAME, SECTIONS, Settings, SettingsSpec
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.template import Template
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds.admitted import Admitted, referred, with_spec

REASON_LIMIT = 1000
_EMPTY = SettingsSpec()


async def create_settings(services: ServiceContext, caller: Caller, new: Settings) -> Admitted:
    """Allow only the one object's name."""
    if new.name != NAME or new.namespace != DEFAULT_NAMESPACE:
        what = f"there is one Settings object, {NAME!r} in namespace {DEFAULT_NAMESPACE}"
        raise intake.invalid(("metadata.name", what))
    return await _judged(services, caller, None, new)


async def update_settings(
    services: ServiceContext, caller: Caller, old: Settings, new: Settings
) -> Admitted:
    """Check what changed, and describe it in the event's reason."""
    return await _judged(services, caller, old, new)


async def delete_settings(services: ServiceContext, caller: Caller, old: Settings) -> Admitted:
    """Fall back to the environment and the defaults; only `resume` ends a pause."""
    del caller
    if old.spec.automation.get("paused"):
        message = "automatic actions are paused; resume them first"
        raise Refused(message, reason="AutomationPaused")
    said = changes(services, old, None)
    return Admitted(old, reason=worded("Deleted", said))


async def _judged(
    services: ServiceContext, caller: Caller, old: Settings | None, new: Settings
) -> Admitted:
    before = _EMPTY if old is None else old.spec
    raw = {name: _plain(getattr(new.spec, name)) for name in SECTIONS}
    raw["automation"] = _automation(services, caller, before.automation, raw["automation"])
    new = with_spec(new, **raw)
    wanted, was = raw["discovery"], before.discovery
    template, space = wanted.get("template"), wanted.get("namespace", DEFAULT_NAMESPACE)
    before_that = was.get("template"), was.get("namespace", DEFAULT_NAMESPACE)
    if template is not None and (template, space) != before_that:
        await referred(services, Template, template, space, "spec.discovery.template")
    return Admitted(new, reason=worded("Changed", changes(services, old, new)))


def _automation(
    services: ServiceContext, caller: Caller, before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """Return the pause switch with who set it and since when, which callers cannot set."""
    if not after.get("paused"):
        return {}
    told: dict[str, Any] = {"paused": True}
    if after.get("reason"):
        told["reason"] = after["reason"]
    if before.get("paused"):
        return told | {name: before[name] for name in ("by", "since") if name in before}
    since = clock.format_instant(services.clock.now())
    return {**told, "by": caller.principal.name, "since": since}


def changes(
    services: ServiceContext, old: Settings | None, new: Settings | None
) -> tuple[str, ...]:
    """Return one phrase for each setting whose value or source differs from before."""
    environment = services.environment
    was, will = (fleet_settings.effective(each, environment) for each in (old, new))
    was_from, will_from = (fleet_settings.sources(each, environment) for each in (old, new))
    found = []
    for path, _, _ in fleet_settings.settings_fields():
        if path in {"automation.by", "automation.since"}:
            continue
        pair = fleet_settings.value_at(was, path), fleet_settings.value_at(will, path)
        if pair[0] == pair[1] and was_from[path] == will_from[path]:
            continue
        shown = (_shown(pair[0], was_from[path]), _shown(pair[1], will_from[path]))
        found.append(f"{path} {shown[0]} -> {shown[1]}")
    return tuple(found)


def worded(what: str, said: tuple[str, ...], why: str = "") -> str:
    """Return an event's reason: what was done, what changed, why; bounded."""
    told = f" ({why})" if said else f": {why}"
    text = what + (f" {'; '.join(said)}" if said else "") + (told if why else "")
    return text if len(text) <= REASON_LIMIT else text[: REASON_LIMIT - 1] + "…"


def _shown(value: Any, source: str) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return (text or '""') + ("" if source == "settings" else f" ({source})")


def _plain(section: dict[str, Any]) -> dict[str, Any]:
    """Return a section in JSON form: tuples of a body are lists in the store."""
    plain: dict[str, Any] = msgspec.to_builtins(section)
    return {key: list(each) if isinstance(each, tuple) else each for key, each in plain.items()}
