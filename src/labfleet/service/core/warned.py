"""What is accepted and will not do what it seems to: said at the write, in `explain` and in views.

The idle rule acts only where CML records people's use, which a template switches on
(`cml.enableTelemetry`); a secretRef that is off the server's allow-list leads nowhere; what else a kind
has is in its rules (`warns`). One sentence for every surface.
"""

from __future__ import annotations

from labfleet.engine.cache import Cache
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Resource
from labfleet.resources.template import Template
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import ServiceContext

NAMED = 5
"""How many templates a sentence names."""


def warnings(services: ServiceContext, obj: Resource) -> tuple[str, ...]:
    """Return sentences on what this object asks for in vain; empty for most."""
    rules = TABLE.get(obj.kind)
    check = services.secrets_check
    refused = () if check is None else check.of(obj)
    if rules is None or rules.warns is None:
        return refused
    found: tuple[str, ...] = rules.warns(services, obj)
    return (*refused, *found)


def differences(before: Resource | None, after: Resource) -> tuple[str, ...]:
    """Return sentences on what a change of an object changed beside it; empty for most."""
    rules = TABLE.get(after.kind)
    if before is None or rules is None or rules.differs is None:
        return ()
    found: tuple[str, ...] = rules.differs(before, after)
    return found


def blind(machine: Machine | None) -> bool:
    """Tell whether the idle rule can never stop such a machine."""
    return machine is not None and not machine.cml.enable_telemetry


def never_idle(what: str) -> str:
    """Return the sentence on machines that the idle rule can never stop."""
    return (
        f"idle stop is on and can never stop a worker of {what}: cml.enableTelemetry is false "
        "there, so CML records nobody's use"
    )


def blind_templates(cache: Cache) -> str:
    """Return the sentence on all templates that the idle rule can do nothing for; or nothing."""
    found = sorted(each.key for each in cache.all(Template) if blind(each.spec.machine))
    if not found:
        return ""
    names = ", ".join(each.label for each in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return never_idle(f"template {names}{more}")
