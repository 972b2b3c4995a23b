"""Rules of definitions: their needs are computed from the topology once, at creation."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import datetime

import msgspec

from labfleet.decisions import demand, port_numbers
from labfleet.kernel import errors
from labfleet.resources import amounts, conditions, topology, topology_check
from labfleet.resources.definition import (
    Definition,
    DefinitionCondition,
    DefinitionReason,
    DefinitionSpec,
    DefinitionStatus,
)
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import catalogues, indices
from labfleet.service.kinds.admitted import Admitted, with_status
from labfleet.service.kinds.machine_rules import in_use

TOPOLOGY = "spec.topology"
"""Where a problem of a topology stands; `, line 7` behind it counts the lines of its own text."""


async def create_definition(services: ServiceContext, caller: Caller, new: Definition) -> Admitted:
    """Read the topology and store what it needs."""
    del caller
    _durations(new.spec)
    status = await services.aside.run(len(new.spec.topology), lambda: status_of(new.spec))
    if status.unknown_definitions:
        what = "sizes are assumed for: " + ", ".join(status.unknown_definitions[:10])
        found = conditions.put(
            (),
            DefinitionCondition.NODES_KNOWN,
            "False",
            DefinitionReason.UNKNOWN_NODE_DEFINITION,
            what,
            now=services.clock.now(),
        )
        status = msgspec.structs.replace(status, conditions=found)
    # Only a verb gives it; what a caller says of the status never comes this far.
    status = msgspec.structs.replace(status, applied=new.status.applied)
    made = msgspec.structs.replace(new, status=status)
    judge = catalogues.Judge(services.cache)
    return Admitted(with_availability(judge, made, services.clock.now()))


def with_availability(judge: catalogues.Judge, definition: Definition, now: datetime) -> Definition:
    """Return the definition with what is known of its lab's node and image definitions."""
    status, track = definition.status, definition.spec.track
    found = judge.of(status, definition.namespace, track)
    facts = conditions.put(
        status.conditions,
        DefinitionCondition.AVAILABLE,
        found.status,
        found.reason,
        found.message,
        now=now,
    )
    return with_status(definition, conditions=facts)


async def update_definition(
    services: ServiceContext, caller: Caller, old: Definition, new: Definition
) -> Admitted:
    """Keep the phase in step with the deprecation; the topology is frozen."""
    del services, caller, old
    _durations(new.spec)
    phase = "DEPRECATED" if new.spec.deprecated else "ACTIVE"
    return Admitted(with_status(new, phase=phase))


async def delete_definition(services: ServiceContext, caller: Caller, old: Definition) -> Admitted:
    """Refuse to delete a definition that sessions still use."""
    del caller
    revision = await services.fresh()
    users = [each.name for each in services.cache.by(indices.SESSIONS_USING, old.key.path)]
    in_use(old.name, "definition", "sessions", users)
    return Admitted(old, (ledger_rows.untouched(ledger_rows.of(old.key), revision),))


def status_of(spec: DefinitionSpec) -> DefinitionStatus:
    """Return what a definition's topology says; Invalid names the lines that are wrong.

    Given resources replace the computed ones where they are not 0; ports are always counted.
    """
    parsed = _checked(spec.topology)
    needed = demand.of(parsed)
    ports = spec.port_template
    if ports is None:
        ports = port_numbers.template_of(parsed)
    labels = {node.label for node in parsed.nodes}
    names = Counter(port.name for port in ports)
    problems = [
        (f"spec.portTemplate[{index}].node", f"no node is labelled {port.node[:64]!r}")
        for index, port in enumerate(ports)
        if port.node not in labels
    ]
    problems += [
        ("spec.portTemplate", f"{name!r} is given twice") for name, n in names.items() if n > 1
    ]
    if problems:
        raise intake.invalid(*problems)
    given = spec.resources or amounts.Amounts()
    total = {
        name: getattr(given, name) or getattr(needed.amounts, name) for name in amounts.DIMENSIONS
    }
    total["ports"] = len(ports)
    return DefinitionStatus(
        phase="DEPRECATED" if spec.deprecated else "ACTIVE",
        demand=amounts.Amounts(**total),
        reserved=needed.amounts,
        ports=ports,
        node_count=needed.node_count,
        node_definitions=needed.definitions,
        unknown_definitions=needed.unknown,
        image_definitions=tuple(
            sorted({n.image_definition for n in parsed.nodes if n.image_definition})
        ),
        topology_digest=hashlib.sha256(spec.topology.encode()).hexdigest(),
        boot_seconds=needed.boot_seconds,
        unplaced=parsed.unplaced,
        observed_generation=1,
    )


async def reserved(services: ServiceContext, definition: Definition) -> amounts.Amounts:
    """Return what a lab's nodes reserve by themselves, also of one that an earlier version made.

    Where its topology cannot be read any more, that is what it declares: no less is safe.
    """
    known, spec = definition.status.reserved, definition.spec
    if known.labs:
        return known
    if spec.resources is None:
        return definition.status.demand
    try:
        made = await services.aside.run(
            len(spec.topology), lambda: demand.of(topology_check.check(spec.topology))
        )
    except errors.Invalid:
        return definition.status.demand
    return made.amounts


def unplaced(definition: Definition) -> str:
    """Return the sentence on nodes that the file gives no place; or nothing."""
    count = definition.status.unplaced
    if not count:
        return ""
    nodes = "1 node has" if count == 1 else f"{count} nodes have"
    return f"definition {definition.name}: {nodes} no x or no y; CML gets places in a grid"


def unavailable(definition: Definition) -> str:
    """Return the sentence on what no worker of its track has; or nothing."""
    found = conditions.find(definition.status.conditions, DefinitionCondition.AVAILABLE)
    if found is None or found.status != "False":
        return ""
    return f"definition {definition.name}: {found.message}; its sessions wait"


def _checked(text: str) -> topology.Topology:
    """Return the topology; the places of its problems say in which text their lines are."""
    try:
        return topology_check.check(text)
    except errors.Invalid as problem:
        places = [(f"{TOPOLOGY}, {where}", what) for where, what in problem.problems]
        found = places or [(TOPOLOGY, problem.message)]
        raise intake.invalid(*found, reason=problem.reason) from None


def _durations(spec: DefinitionSpec) -> None:
    if spec.default_duration_minutes > spec.max_duration_minutes:
        what = "must not be longer than maxDurationMinutes"
        raise intake.invalid(("spec.defaultDurationMinutes", what))
