"""Explains an object's present state: one structured answer for API, CLI and pages.

Reads only what was recorded and decides nothing again. Sentences are for people, the other
fields for programs.
"""

from __future__ import annotations

import msgspec

from labfleet.resources import runbook
from labfleet.resources.alerts import Raised
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import Resource
from labfleet.service.core import access, lookup, views, warned
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import raised

__all__ = ["Explanation", "explain"]


async def explain(
    services: ServiceContext, caller: Caller, row: Kind, name: str, namespace: str
) -> Explanation:
    """Return the explanation of an object that the caller may see; Gone when there is none."""
    access.demand(caller.principal, "read", row.name)
    kind: type[Resource] = row.type
    obj = await lookup.found(services, caller, kind, name, namespace)
    made = await _explained(services, views.of(services, caller.principal, obj))
    vain = tuple(f"{each[:1].upper()}{each[1:]}." for each in warned.warnings(services, obj))
    found = raised.of(services, obj)
    told = tuple(line for each in found for line in _raised(each))
    lines = (*made.lines, *told, *vain)
    made = msgspec.structs.replace(made, alerts=found, more=(*made.more, *vain), lines=lines)
    if made.runbook is not None and not access.may(caller.principal, "update", "Pool"):
        made = msgspec.structs.replace(made, runbook=runbook.for_others(made.runbook))
    return _with_pause(services, caller, obj, _with_help(services, caller, obj, made))


def _raised(each: Raised) -> tuple[str, ...]:
    said = each.message or each.cause
    if each.measured is not None:
        said += f"; measured: {each.measured}"
    return (
        f"Raised ({each.severity}) {each.condition}: {said}",
        f"  Cause: {each.cause}",
        f"  See: {each.command}",
        f"  Fix: {each.fix}",
    )


async def _explained(services: ServiceContext, obj: Resource) -> Explanation:
    rules = TABLE.get(obj.kind)
    if rules is not None and rules.explain is not None:
        told: Explanation = await rules.explain(services, obj)
        return told
    return plain(obj, "" if rules is None or rules.about is None else rules.about(obj))


def help_for(services: ServiceContext, caller: Caller, obj: Resource) -> tuple[str, ...]:
    """Return what would have an object start earlier, in words that the caller may act on."""
    rules = TABLE.get(obj.kind)
    told = list[str]()
    for each in () if rules is None or rules.sooner is None else rules.sooner(services, obj):
        may = not each.kind or access.may(caller.principal, "update", each.kind)
        said = each.what if may else each.others
        if said and said not in told:
            told.append(said)
    return tuple(told)


def _with_help(
    services: ServiceContext, caller: Caller, obj: Resource, made: Explanation
) -> Explanation:
    """Return the explanation with what would help, in words that the caller may act on."""
    told = help_for(services, caller, obj)
    lines = (f"Earlier: {each}." for each in told)
    return msgspec.structs.replace(made, earlier=told, lines=(*made.lines, *lines))


def _with_pause(
    services: ServiceContext, caller: Caller, obj: Resource, made: Explanation
) -> Explanation:
    """Return the explanation with the pause that concerns the object, if there is one.

    A caller who may not read settings is told that there is a pause, not whose and why.
    """
    rules = TABLE.get(obj.kind)
    for pool in () if rules is None or rules.pools is None else rules.pools(obj):
        paused = services.settings.paused(pool)
        if paused is None:
            continue
        if not access.may(caller.principal, "read", "Settings"):
            paused = "automatic actions are paused"
        line = f"{paused[:1].upper()}{paused[1:]}. What people ask for goes on."
        return msgspec.structs.replace(made, paused=paused, lines=(*made.lines, line))
    return made
