"""Alerts of other kinds than workers: failing pools, regions and webhooks, leaked licences.

The texts are the runbook's; the kind declares which conditions count, and their severity. Workers
have a table of their own in `alerts`.
"""

from __future__ import annotations

from labfleet.resources import alerts, runbook
from labfleet.resources.alerts import Raised
from labfleet.resources.declaration import Loud
from labfleet.resources.kinds import KINDS
from labfleet.resources.leak import Leak
from labfleet.resources.meta import Resource
from labfleet.resources.worker_conditions import WorkerCondition

LEAKED = WorkerCondition.LICENCE_LEAKED


def kinds() -> tuple[str, ...]:
    """Return the kinds other than Worker that can raise an alert; a leak is one by itself."""
    return (*(row.name for row in KINDS.values() if row.loud), Leak.__name__)


def raised(obj: Resource) -> tuple[Raised, ...]:
    """Return the raised alerts of an object that is no worker, the gravest first."""
    if isinstance(obj, Leak):
        return (_leak(obj),)
    name = f"{obj.kind.lower()}/{obj.metadata.name}"
    table: dict[str, Loud] = {each.condition: each for each in KINDS[obj.kind].loud}
    found = []
    for each in obj.status.conditions if table else ():
        loud = table.get(each.type)
        if loud is None or each.status != loud.when:
            continue
        if loud.unless is not None and loud.unless(obj):
            continue
        row = runbook.of_condition(obj.kind, each.type, each.reason)
        found.append(
            Raised(
                object=name,
                namespace=obj.namespace,
                condition=each.type,
                severity=loud.severity,
                since=each.last_transition_time,
                reason=each.reason,
                message=each.message,
                measured=each.measured or None if loud.measure is None else loud.measure(obj),
                cause=row.cause,
                command=row.command.replace("NAME", obj.key.argument),
                fix=row.fix.replace("NAME", obj.key.argument),
            )
        )
    return tuple(sorted(found, key=alerts.gravity))


def _leak(leak: Leak) -> Raised:
    spec, row = leak.spec, alerts.ALERTS[LEAKED]
    whose = f"the licence of worker {spec.worker}" + (
        f" ({spec.hostname})" if spec.hostname else ""
    )
    fix = f"{spec.fix} leak/{leak.key.argument}" if spec.fix.endswith("resolve") else spec.fix
    sure = "is still counted" if spec.certain else "may still be counted"
    return Raised(
        object=f"leak/{leak.name}",
        namespace=leak.namespace,
        condition=LEAKED,
        severity=row.severity,
        since=spec.since,
        reason="Leaked" if spec.certain else "Unknown",
        message=f"{whose} {sure}: {spec.why}",
        cause=row.cause,
        command=f"labfleet describe leak/{leak.key.argument}",
        fix=fix,
    )
