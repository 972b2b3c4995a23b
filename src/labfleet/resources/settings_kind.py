"""The kind Settings: how the fleet's settings are listed and changed."""

from __future__ import annotations

from labfleet.resources.declaration import Kind, columns
from labfleet.resources.fleet_settings import Settings

KIND = Kind(
    name="Settings",
    plural="settings",
    short=("setting",),
    type=Settings,
    summary="What people change while the fleet runs: discovery, idle, thresholds, garbage.",
    columns=columns(
        "PAUSED=spec.automation.paused",
        "BY=spec.automation.by",
        "REASON=spec.automation.reason",
    ),
    kept=("automation",),
    single=True,
    followed=True,
)
