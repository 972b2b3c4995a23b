"""The rules of definitions, and their events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from labfleet.resources import conditions
from labfleet.resources.definition import Definition, DefinitionCondition
from labfleet.resources.lab_recommendation import SizedAmounts
from labfleet.service.core import event_types
from labfleet.service.core.kind_table import Change, EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import definition_rules, indices


class DefinitionEvent(EventType):
    """What can happen to a definition."""

    CREATED = "definition.created", "a version of a lab was made"
    UPDATED = "definition.updated", "its text was changed"
    DEPRECATED = "definition.deprecated", "no new sessions are to use it"
    DELETED = "definition.deleted", "it is gone"
    APPLIED = "definition.applied", "a recommendation made this version"
    PROPOSED = "definition.proposed", "somebody proposes that it asks for other amounts"


def _changed(old: Definition, new: Definition) -> Iterator[Change]:
    if new.spec.deprecated and not old.spec.deprecated:
        yield Change(DefinitionEvent.DEPRECATED, {"replacement": new.spec.replacement})
    else:
        yield from event_types.updated(old, new)
    proposal = new.status.proposal
    if proposal is not None and proposal != old.status.proposal:
        data = {"by": proposal.by, "value": proposal.value, "reason": proposal.reason}
        yield Change(DefinitionEvent.PROPOSED, {**data, "amounts": _sizes(proposal.amounts)})


def _born(new: Definition) -> Iterator[Change]:
    applied = new.status.applied
    if applied is not None:
        given = SizedAmounts(
            cpu_milli=new.status.demand.cpu_milli or None,
            memory_mib=new.status.demand.memory_mib or None,
            storage_mib=new.status.demand.storage_mib or None,
        )
        data = {"source": applied.source, "value": applied.value, "by": applied.by}
        sizes = {"before": _sizes(applied.declared), "after": _sizes(given)}
        yield Change(DefinitionEvent.APPLIED, {**data, "reason": applied.reason, **sizes})


def _sizes(amounts: SizedAmounts) -> dict[str, int]:
    """Return the amounts that are said."""
    told: dict[str, int | None] = msgspec.to_builtins(amounts)
    return {name: value for name, value in told.items() if value is not None}


def _warns(services: ServiceContext, definition: Definition) -> tuple[str, ...]:
    """Say what is filled in for the file, and what no worker of its track has."""
    del services
    found = (definition_rules.unplaced(definition), definition_rules.unavailable(definition))
    return tuple(each for each in found if each)


def _about(definition: Definition) -> str:
    """Say what comes of it: whether sessions of it wait, for what, and how they are counted."""
    told, demand = [], definition.spec.demand
    found = conditions.find(definition.status.conditions, DefinitionCondition.AVAILABLE)
    if found is not None and found.status == "False":
        told.append(f"{found.message}; its sessions wait")
    if demand is not None:
        by = "what is declared" if demand == "declared" else "a bound of what past ones used"
        told.append(f"new sessions are counted with {by}")
    return "; ".join(told)


RULES = KindRules(
    name="Definition",
    create=definition_rules.create_definition,
    update=definition_rules.update_definition,
    delete=definition_rules.delete_definition,
    grants={Role.USER: frozenset({"read"})},
    event_types=DefinitionEvent,
    born=_born,
    changed=_changed,
    warns=_warns,
    about=_about,
    indices=(indices.DEFINITIONS_OF_FAMILY,),
)
