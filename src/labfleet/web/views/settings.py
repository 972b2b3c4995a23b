"""The page of the fleet's settings: value, default, source, meaning, and who changed each last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from labfleet.resources import descriptions
from labfleet.resources.fleet_settings import NAME, SECTIONS
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import audit, settings_told
from labfleet.service.reads.settings_told import ToldSetting
from labfleet.web import values
from labfleet.web.acts import table
from labfleet.web.acts.act import ROOT as ACT
from labfleet.web.acts.act import Offer
from labfleet.web.addresses import changed
from labfleet.web.overview import Row
from labfleet.web.values import Cell
from labfleet.web.view import Asked, Tab

ROOT = "/settings"
_SOURCES = {
    "settings": ("set here", "busy", "●"),
    "environment": ("environment", "wait", "◔"),
    "default": ("default", "calm", "○"),
}


@dataclass(frozen=True, slots=True)
class SettingsSection:
    """The settings of one section, with the sentence that says what they are about."""

    name: str
    about: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The page; `choices` lead to all settings, or to those that are not at their default."""

    sections: tuple[SettingsSection, ...]
    choices: tuple[Tab, ...]
    commands: tuple[str, ...]
    history: str
    acts: tuple[Offer, ...]


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> SettingsPage:
    """Return the page; Denied who may not read settings."""
    found = await settings_told.told(services, caller)
    changed_only = asked.last("show") == "changed"
    now, reads_audit = services.clock.now(), caller.principal.role in audit.READERS
    admin = access.may(caller.principal, "update", "Settings")
    shown: dict[str, list[Row]] = {}
    for each in found:
        if changed_only and each.value.source == "default":
            continue
        section = each.value.setting.partition(".")[0]
        row = _row(each, now, linked=reads_audit)
        name, undo = _named(each.value.setting, able=admin), _undo(each, able=admin)
        cells = (name, *row.cells[1:], undo)
        shown.setdefault(section, []).append(replace(row, cells=cells))
    sections = [
        SettingsSection(name, " ".join(descriptions.about(SECTIONS[name]).split()), tuple(rows))
        for name, rows in shown.items()
    ]
    return SettingsPage(
        sections=tuple(sections),
        choices=(
            Tab("All", ROOT if changed_only else ""),
            Tab("Not at their default", "" if changed_only else f"{ROOT}?show=changed"),
        ),
        commands=(
            "labfleet settings -o wide",
            *(("labfleet settings set idle.timeoutMinutes=30 --reason TEXT",
               "labfleet settings unset idle.timeoutMinutes") if admin else ()),
        ),
        history="/audit" + changed(Asked({}), kind="Settings", name=NAME) if reads_audit else "",
        acts=table.of_kind(caller, "Settings"),
    )  # fmt: skip


def _named(setting: str, *, able: bool) -> Cell:
    """Return the name of a setting, which leads those to its form who may change it."""
    if not able:
        return Cell("text", setting)
    return Cell("link", setting, href=f"{ACT}set/settings?setting={setting}")


def _undo(each: ToldSetting, *, able: bool) -> Cell:
    """Return what leads to taking back a setting that somebody set here."""
    if not able or each.value.source != "settings":
        return Cell("absent", "")
    return Cell("link", "unset", href=f"{ACT}unset/settings?setting={each.value.setting}")


def _row(each: ToldSetting, now: datetime, *, linked: bool) -> Row:
    value = each.value
    word, tone, shape = _SOURCES[value.source]
    if value.variable:
        word = f"{word}: {value.variable}"
    cells = (
        Cell("text", value.setting),
        Cell("text", _text(value.value, value.unit)),
        Cell("state", word, tone=tone, shape=shape),
        Cell("text", _text(value.default, value.unit)),
        Cell("says", f"{each.meaning} {value.note}".strip()),
        *_changed(each, now, linked=linked),
    )
    return Row(value.setting, cells)


def _changed(each: ToldSetting, now: datetime, *, linked: bool) -> tuple[Cell, Cell]:
    last = each.changed
    if last is None:
        if each.value.source == "settings":
            return Cell("unknown", "unknown", why="no longer kept"), Cell("absent", "")
        return Cell("absent", "no change is kept"), Cell("absent", "")
    if not linked:
        return Cell("text", last.actor), values.instant(last.at, now)
    href = f"/audit/{last.revision}" + changed(Asked({}), kind="Settings", name=NAME)
    return Cell("link", last.actor or "nobody", href=href), values.instant(last.at, now)


def _text(value: Any, unit: str) -> str:
    """Return a value as people write it, an amount with its unit."""
    if value is None or value in ("", [], ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return f"{value:g} {unit}".strip()
    return msgspec.json.encode(value).decode().strip("[]").replace('"', "").replace(",", ", ")
