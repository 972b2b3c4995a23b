"""Settings as routes under the names that upstream 002 gives them: whole sections in snake_case.

Thin: each calls the verb; reading settings needs the right to read them, which users lack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from labfleet.api.core.route import Routes
from labfleet.resources.fleet_settings import SECTIONS
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import settings_verbs

# The compatible name of a section, where it differs from ours.
_SEED_NAMES = {"idle": "idle_detection"}
_OUR_NAMES = {theirs: ours for ours, theirs in _SEED_NAMES.items()}


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("seeds")
    _all(made, services)
    _discovery(made, services)
    return made


def _all(made: Routes, services: ServiceContext) -> None:
    def shown() -> dict[str, Any]:
        return {_SEED_NAMES.get(name, name): _shown(services, name) for name in SECTIONS}

    @made.get("/api/settings", "All settings as they hold", needs=("read", "Settings"))
    async def seed_settings(who: Caller) -> dict[str, Any]:
        """Return all settings in force, in sections under upstream's names."""
        del who
        await services.fresh()
        return shown()

    @made.put("/api/settings", "Replace the sections that are named", needs=("update", "Settings"))
    async def seed_put_settings(who: Caller, sent: dict[str, Any]) -> dict[str, Any]:
        """Replace each section that the body names; others stay as they are."""
        sections: dict[str, dict[str, Any]] = {}
        for name, fields in sent.items():
            ours = _OUR_NAMES.get(name, name)
            if ours == "automation":
                continue  # read, and changed by pause and resume only
            sections[ours] = _camel(ours, fields, name)
        await settings_verbs.replace_sections(services, who, sections)
        await services.fresh()
        return shown()


def _discovery(made: Routes, services: ServiceContext) -> None:
    @made.get("/api/settings/discovery", "What is discovered", needs=("read", "Settings"))
    async def seed_discovery(who: Caller) -> dict[str, Any]:
        """Return the settings of discovery in force."""
        del who
        await services.fresh()
        return _shown(services, "discovery")

    @made.patch(
        "/api/settings/discovery", "Change what is discovered", needs=("update", "Settings")
    )
    async def seed_patch_discovery(who: Caller, sent: dict[str, Any]) -> dict[str, Any]:
        """Change the settings of discovery that the body names."""
        fields = _camel("discovery", sent, "discovery")
        values = {f"discovery.{key}": value for key, value in fields.items()}
        await settings_verbs.change(services, who, values)
        await services.fresh()
        return _shown(services, "discovery")

    @made.get(
        "/api/internal/settings/discovery", "What is discovered, for controllers",
        needs=("read", "Settings"),
    )  # fmt: skip
    async def internal_discovery(who: Caller) -> dict[str, Any]:
        """Return the settings of discovery in force, for worker controllers."""
        return await seed_discovery(who)


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
