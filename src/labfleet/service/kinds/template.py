"""The rules of templates, and their events."""

from __future__ import annotations

from labfleet.resources.template import Template
from labfleet.service.core import warned
from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import machine_rules


class TemplateEvent(EventType):
    """What can happen to a template."""

    CREATED = "template.created", "a template was made"
    UPDATED = "template.updated", "a template was changed"
    DELETED = "template.deleted", "a template is gone"


def _warns(services: ServiceContext, template: Template) -> tuple[str, ...]:
    if not services.settings.now().idle.enabled or not warned.blind(template.spec.machine):
        return ()
    return (warned.never_idle("this template"),)


RULES = KindRules(
    name="Template",
    create=machine_rules.create_template,
    update=machine_rules.update_template,
    delete=machine_rules.delete_template,
    warns=_warns,
    event_types=TemplateEvent,
)
