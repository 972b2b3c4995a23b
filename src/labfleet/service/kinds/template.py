"""The rules of templates, and their events."""

from __future__ import annotations

from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.kinds import machine_rules


class TemplateEvent(EventType):
    """What can happen to a template."""

    CREATED = "template.created", "a template was made"
    UPDATED = "template.updated", "a template was changed"
    DELETED = "template.deleted", "a template is gone"


RULES = KindRules(
    name="Template",
    create=machine_rules.create_template,
    update=machine_rules.update_template,
    delete=machine_rules.delete_template,
    event_types=TemplateEvent,
)
