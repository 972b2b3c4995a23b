"""The fleet's settings for people: what holds, what each means, and who changed it last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import descriptions, fleet_settings
from labfleet.resources.fleet_settings import SECTIONS
from labfleet.service.core import access, warned
from labfleet.service.core.fleet_settings import KEY, SettingValue
from labfleet.service.core.service_context import Caller, ServiceContext


@dataclass(frozen=True, slots=True)
class LastChange:
    """Who changed a setting last, when, and in which change of the log."""

    actor: str
    at: datetime
    revision: int


@dataclass(frozen=True, slots=True)
class ToldSetting:
    """One setting: its value in force with its source, what it means, its last change if known."""

    value: SettingValue
    meaning: str
    changed: LastChange | None


async def told(services: ServiceContext, caller: Caller) -> tuple[ToldSetting, ...]:
    """Return every setting in the order of the sections; Denied who may not read settings."""
    access.demand(caller.principal, "read", "Settings")
    await services.fresh()
    reader = services.settings
    blind = warned.blind_templates(services.cache) if reader.now().idle.enabled else ""
    changes = await _changes(services)
    meanings = _meanings()
    return tuple(
        ToldSetting(each, meanings.get(each.setting, ""), changes.get(each.setting))
        for each in reader.listed({"idle.enabled": blind})
    )


def _meanings() -> dict[str, str]:
    found = {name: descriptions.fields(section) for name, section in SECTIONS.items()}
    return {
        path: found[section].get(field.encode_name, "")
        for path, section, field in fleet_settings.settings_fields()
    }


class _Doc(msgspec.Struct):
    """The part of the stored object that holds settings."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


async def _changes(services: ServiceContext) -> dict[str, LastChange]:
    """Return the last change of each setting among the newest events of the settings."""
    events = await services.log.events_of(KEY)
    found: dict[str, LastChange] = {}
    whole = len(events) < stores.PAGE_LIMIT
    for number, event in enumerate(events):
        now = {} if event.type == "DELETED" else _values(event)
        if number + 1 < len(events):
            older = events[number + 1]
            before = {} if older.type == "DELETED" else _values(older)
        elif whole or event.type == "ADDED":
            before = {}
        else:
            break  # what was there before is no longer kept
        for path in {*now, *before}:
            if now.get(path) != before.get(path):
                found.setdefault(path, LastChange(event.actor, event.at, event.revision))
    return found


def _values(event: stores.Event) -> Mapping[str, Any]:
    """Return what an event's settings hold, by path; nothing of a form that is not known here."""
    try:
        spec = msgspec.json.decode(event.doc, type=_Doc).spec
    except ValueError:
        return {}
    return {
        f"{section}.{name}": value
        for section, fields in spec.items()
        if isinstance(fields, dict)
        for name, value in fields.items()
    }
