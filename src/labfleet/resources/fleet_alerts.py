"""Alerts of other kinds than workers: failing pools, regions and webhooks, leaked licences.

The texts are the runbook's; this table says which conditions count, and their severity. Workers
have a table of their own in `alerts`.
"""

from __future__ import annotations

from labfleet.resources import alerts, runbook
from labfleet.resources.alerts import Raised, Severity
from labfleet.resources.conditions import Status
from labfleet.resources.leak import Leak
from labfleet.resources.meta import Resource

LOUD: dict[tuple[str, str], tuple[Status, Severity]] = {
    ("Pool", "LosingMachines"): ("True", "critical"),
    ("Pool", "Paused"): ("True", "info"),
    ("Region", "Scanned"): ("False", "warning"),
    ("Webhook", "Delivering"): ("False", "warning"),
}
"""(kind, condition) -> in which status it is raised, and how grave it is."""

KINDS = ("Pool", "Region", "Webhook", "Leak")
LEAKED = "LicenceLeaked"

_ENTRIES = {(each.kind, each.subject): each for each in runbook.CONDITIONS}


def raised(obj: Resource) -> tuple[Raised, ...]:
    """Return the raised alerts of an object that is no worker, the gravest first."""
    if isinstance(obj, Leak):
        return (_leak(obj),)
    name = f"{obj.kind.lower()}/{obj.metadata.name}"
    found = []
    for each in obj.status.conditions:
        loud = LOUD.get((obj.kind, each.type))
        if loud is None or each.status != loud[0]:
            continue
        row = _ENTRIES[obj.kind, each.type]
        found.append(
            Raised(
                object=name,
                namespace=obj.namespace,
                condition=each.type,
                severity=loud[1],
                since=each.last_transition_time,
                reason=each.reason,
                message=each.message,
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
