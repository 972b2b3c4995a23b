"""The rules of the fleet's settings: only admins write them."""

from __future__ import annotations

from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.kinds import settings_rules


class SettingsEvent(EventType):
    """What can happen to the fleet's settings."""

    UPDATED = "settings.updated", "the fleet's settings were changed"


RULES = KindRules(
    name="Settings",
    create=settings_rules.create_settings,
    update=settings_rules.update_settings,
    delete=settings_rules.delete_settings,
    admins_only=True,
    pools=lambda _: (None,),
    event_types=SettingsEvent,
)
