"""The rules of the fleet's settings: only admins write them."""

from __future__ import annotations

from labfleet.resources import fleet_settings
from labfleet.resources.fleet_settings import Settings
from labfleet.service.core import warned
from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import settings_rules


class SettingsEvent(EventType):
    """What can happen to the fleet's settings."""

    UPDATED = "settings.updated", "the fleet's settings were changed"


def _warns(services: ServiceContext, settings: Settings) -> tuple[str, ...]:
    if not fleet_settings.effective(settings, services.environment).idle.enabled:
        return ()
    told = warned.blind_templates(services.cache)
    return (told,) if told else ()


RULES = KindRules(
    name="Settings",
    create=settings_rules.create_settings,
    update=settings_rules.update_settings,
    delete=settings_rules.delete_settings,
    admins_only=True,
    pools=lambda _: (None,),
    warns=_warns,
    event_types=SettingsEvent,
)
