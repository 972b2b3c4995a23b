"""The page of the fleet's settings: what holds, by whose word, and how it is changed."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.resources import fleet_settings
from labfleet.service.core import access, warned
from labfleet.service.core.fleet_settings import SettingValue
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.acts import table
from labfleet.web.acts.act import ROOT as ACT
from labfleet.web.acts.act import Offer
from labfleet.web.acts.upkeep_acts import SETTINGS as ROOT
from labfleet.web.acts.upkeep_acts import text_of
from labfleet.web.view import Asked
from labfleet.web.words import label

__all__ = ["ROOT", "page"]
_SOURCES = {"settings": "a person", "environment": "the environment", "default": "default"}
KIND = fleet_settings.Settings.__name__


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as it holds; `href` leads to changing it, "" for those who may not."""

    name: str
    value: str
    unit: str
    source: str
    default: str
    note: str
    href: str = ""
    back: str = ""


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """All settings by section, what is paused, and what may be done with all of it."""

    sections: tuple[tuple[str, tuple[Row, ...]], ...]
    acts: tuple[Offer, ...]
    history: str


async def page(services: ServiceContext, caller: Caller, _asked: Asked) -> SettingsPage:
    """Return every setting with its value in force and where that comes from; Denied without right."""
    access.demand(caller.principal, "read", KIND)
    await services.fresh()
    reader = services.settings
    told = warned.blind_templates(services.cache) if reader.now().idle.enabled else ""
    able = access.may(caller.principal, "update", KIND)
    found: dict[str, list[Row]] = {}
    for each in reader.listed({"idle.enabled": told}):
        found.setdefault(each.setting.partition(".")[0], []).append(_row(each, able=able))
    return SettingsPage(
        tuple((label(name), tuple(rows)) for name, rows in found.items()),
        table.of_kind(caller, KIND),
        f"labfleet events settings {fleet_settings.NAME}",
    )


def _row(each: SettingValue, *, able: bool) -> Row:
    source = _SOURCES[each.source]
    if each.variable:
        source = f"variable {each.variable}"
    value = text_of(each.value)
    asked = f"?setting={each.setting}" if able else ""
    return Row(
        each.setting, value, each.unit, source, text_of(each.default), each.note,
        f"{ACT}set/settings{asked}" if able else "",
        f"{ACT}unset/settings{asked}" if able and each.source == "settings" else "",
    )  # fmt: skip
