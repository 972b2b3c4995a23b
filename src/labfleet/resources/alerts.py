"""Alerts: which conditions of a worker need a person, with cause, command and fix.

One table for `labfleet explain`, the list of raised alerts, the gauges and the runbook. It says
nothing about when a condition is set: that is `decisions/lifecycle`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from labfleet.resources import conditions as facts
from labfleet.resources.conditions import Condition, ConditionType, Measured, Status
from labfleet.resources.declaration import Severity
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key, Record
from labfleet.resources.providers.trouble import CAUSES, Trouble
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


class Alert(Record, frozen=True, kw_only=True):
    """One row of the runbook: raised while the condition has status `when`.

    `command` shows more, with NAME for the worker; `fix` is what a person does. `by_reason` has cause
    and fix for reasons of the condition that need others.
    """

    condition: str
    when: Status = "True"
    severity: Severity = "warning"
    cause: str
    command: str
    fix: str
    by_reason: dict[str, tuple[str, str]] = {}


class Raised(Record, frozen=True, kw_only=True):
    """An alert of one object now: the row, and the condition's own words.

    `measured` is of lately where this process knows it, else of when the alert was raised.

    object: The object as a command takes it (`worker/w1`, `server/store` for a part of the
    server).
    namespace: Namespace of the object.
    worker: Name of the worker; null for what is no worker's.
    condition: Condition that raised it.
    severity: How grave it is.
    since: Since when it is raised.
    reason: Word for why.
    message: The condition's own sentence.
    measured: The number behind it; null where none is.
    cause: What is usually behind it.
    command: Command that shows more.
    fix: What a person does.
    """

    object: str
    namespace: str = DEFAULT_NAMESPACE
    worker: str | None = None
    condition: str
    severity: Severity
    since: datetime
    reason: str
    message: str
    measured: Measured | None = None
    cause: str
    command: str
    fix: str


_ROWS = (
    Alert(
        condition=WorkerCondition.FAILED,
        severity="critical",
        cause="The worker cannot go on by itself: its launch, boot or licence failed, or its "
        "instance ended.",
        command="labfleet explain worker NAME; labfleet logs worker/NAME",
        fix="Mend what the message names (template, image, licence, quota), then try "
        "again with `labfleet start NAME`, or `labfleet delete worker/NAME`.",
    ),
    Alert(
        condition=WorkerCondition.SILENT,
        severity="critical",
        cause="CML has not answered for longer than thresholds.silentSeconds: the server hangs, "
        "its network or security group changed, or the host is ill.",
        command="labfleet describe worker NAME; labfleet top worker NAME --since 6h",
        fix="Compare the instance's checks and CloudWatch's CPU. Restart the instance when no "
        "lab matters; else drain it, and delete it once it is empty.",
        by_reason={
            WorkerReason.LOGIN_REFUSED: (
                (
                    "CML answers and refuses our login: its password was changed, or is not the one "
                    "that the template names."
                ),
                (
                    "Set the password of the account in CML, or what spec.machine.cml.adminPassword "
                    "leads to, so that both are the same."
                ),
            ),
            WorkerReason.UNTRUSTED: (
                (
                    "The server shows a certificate that is not the pinned one, or none that is "
                    "trusted: it was replaced, or somebody stands between. No password was sent."
                ),
                (
                    "Look at the server's own certificate. If it was replaced on purpose: name its "
                    "SHA-256 in spec.machine.cml.tls.fingerprint, or start the machine anew."
                ),
            ),
            WorkerReason.BAD_GATEWAY: (
                "Only CML's web server answers: the controller behind it is down or restarts.",
                (
                    "Restart the services of CML; if that does not help, the instance, once no lab on "
                    "it matters."
                ),
            ),
        },
    ),
    Alert(
        condition=WorkerCondition.PHASE_STUCK,
        cause="A phase lasts longer than its limit times thresholds.stuckFactor.",
        command="labfleet explain worker NAME; labfleet events worker NAME",
        fix="See what the phase waits for. Raise the template's limit when the machine type is "
        "that slow; else delete the worker, or stop its instance by hand.",
    ),
    Alert(
        condition=WorkerCondition.SCHEDULED_EVENT,
        severity="critical",
        cause="The provider will reboot, stop or retire the machine under the worker.",
        command="labfleet explain worker NAME",
        fix="Drain the worker in time. For a retirement stop and start it, which moves it to "
        "another host; a reboot can be awaited when it is empty.",
    ),
    Alert(
        condition=WorkerCondition.INSTANCE_CHECKS_PASSED,
        when="False",
        severity="critical",
        cause="The provider's own checks of the host or of the machine fail.",
        command="labfleet explain worker NAME; labfleet logs worker/NAME",
        fix="A failing system check is AWS's host: stop and start the worker. A failing "
        "instance check is the operating system: read its console, then restart it.",
    ),
    Alert(
        condition=WorkerCondition.PROVIDER_ANSWERS,
        when="False",
        severity="critical",
        cause=CAUSES[Trouble.SILENT][0],
        command="labfleet alerts; labfleet get regions; labfleet explain worker NAME",
        fix=CAUSES[Trouble.SILENT][1],
        by_reason=CAUSES,
    ),
    Alert(
        condition=WorkerCondition.MACHINE_LAUNCHED,
        when="False",
        cause="The provider has had no room for the worker's machine in any type and place that its "
        "template names, for longer than thresholds.noCapacitySeconds.",
        command="labfleet explain worker NAME",
        fix="It is asked again with back-off, and its time limits stand still. Name more machine types "
        "or subnets in the template, or delete the worker.",
        by_reason={
            WorkerReason.QUOTA_EXCEEDED: (
                "A quota of the account stops the launch, for longer than thresholds.noCapacitySeconds.",
                (
                    "Ask the provider for more, or end machines that nobody needs. It is asked again "
                    "with back-off, and its time limits stand still."
                ),
            ),
        },
    ),
    Alert(
        condition=WorkerCondition.MACHINE_STARTED,
        when="False",
        cause="The provider will not start the stopped machine: no room for its type in its zone, or a "
        "quota.",
        command="labfleet explain worker NAME",
        fix="It is asked again with back-off. If sessions wait, let the pool launch another "
        "worker, or delete this one; its disk and licence stay until then.",
    ),
    Alert(
        condition=WorkerCondition.CPU_HIGH,
        cause="The host's CPU is at or over thresholds.cpuPercent.",
        command="labfleet top worker NAME --since 6h",
        fix="See which labs run; cordon the worker, or raise what the definitions ask for so "
        "that fewer fit.",
    ),
    Alert(
        condition=WorkerCondition.MEMORY_HIGH,
        cause="Used memory is at or over thresholds.memoryPercent.",
        command="labfleet top worker NAME --since 6h",
        fix="As for CPU; machines that CML does not know (OrphansOnHost) hold memory too.",
    ),
    Alert(
        condition=WorkerCondition.DISK_ALMOST_FULL,
        cause="A disk of CML is over its watermark; no new labs are placed there.",
        command="labfleet top worker NAME --since 35d",
        fix="Wipe or delete labs, remove images that no definition uses, or make a template "
        "with a larger volume and replace the worker.",
    ),
    Alert(
        condition=WorkerCondition.LICENCE_EXPIRING,
        cause="A licence date is near: its automatic renewals fail.",
        command="labfleet describe worker NAME",
        fix="Let the worker reach the licence cloud on port 443, or register a new token.",
    ),
    Alert(
        condition=WorkerCondition.LICENCE_LEAKED,
        cause="A licence could not be given back before the machine ended.",
        command="labfleet explain worker NAME",
        fix="Remove the product instance in the Smart Account by its hostname.",
    ),
    Alert(
        condition=WorkerCondition.CML_HEALTHY,
        when="False",
        severity="critical",
        cause="CML says that its controller or a compute is not well.",
        command="labfleet explain worker NAME",
        fix="Restart the services of CML, or the instance once its labs have ended; without "
        "KVM choose a metal or nested-virtualisation type.",
    ),
    Alert(
        condition=WorkerCondition.ORPHANS_ON_HOST,
        cause="Machines run on the host that CML does not know; they hold CPU and memory.",
        command="labfleet describe worker NAME",
        fix="Drain the worker, then restart it: CML cleans up when it starts.",
    ),
    Alert(
        condition=WorkerCondition.STRAY_LABS,
        cause="Labs that we started belong to no session of this store, as after restoring a backup "
        "older than they are. Nobody can reach them by Labfleet, and they hold capacity.",
        command="labfleet describe worker NAME",
        fix="Save in CML what somebody needs and take the first line of that lab's notes away, which "
        "makes it somebody's own; `labfleet resume` lets the others be removed after their grace.",
        by_reason={
            WorkerReason.SHARED_SERVER: (
                (
                    "Labs with Labfleet's marker belong to no session of this store: they were left "
                    "by a restore, or are another installation's that has the same server."
                ),
                (
                    "Nothing is removed on a server that we did not launch. Find out whose they are, then "
                    "stop, wipe and delete in CML what is nobody's."
                ),
            ),
        },
    ),
    Alert(
        condition=WorkerCondition.MAINTENANCE_MODE,
        severity="info",
        cause="Somebody switched CML into maintenance mode.",
        command="labfleet describe worker NAME",
        fix="Switch it off in CML when the work is done; the worker opens by itself.",
    ),
    Alert(
        condition=WorkerCondition.DUPLICATE_IDENTITY,
        severity="critical",
        cause="Two servers have one product_uuid: an image was made of a registered server.",
        command="labfleet explain worker NAME",
        fix="Delete the worker; deregister a server before an image is made of it.",
    ),
    Alert(
        condition=WorkerCondition.OVER_COMMITTED,
        cause="More is reserved on the worker than it has: its real capacity is smaller.",
        command="labfleet explain worker NAME",
        fix="Nothing runs worse by itself. Correct the template's capacity.",
    ),
    Alert(
        condition=WorkerCondition.PORTS_LOW,
        cause="Nearly all port numbers of the worker are used, or held by labs that may still be there: "
        "over thresholds.portsPercent.",
        command="labfleet ports worker/NAME",
        fix="End sessions, or remove the labs that hold ports and are nobody's. Else cordon the worker; "
        "its pool adds another.",
    ),
    Alert(
        condition=WorkerCondition.PORT_DRIFT,
        cause="Somebody changed the port tags of labs of sessions in CML: a port was added, taken away "
        "or moved. What was added is quarantined: given to nobody else.",
        command="labfleet ports worker/NAME",
        fix="See which with `labfleet explain session/...`. Mend the tags in CML, or let its person know "
        "that a port is gone; it clears by itself. A held number is given out before by "
        "`labfleet ports worker/NAME --release`.",
    ),
    Alert(
        condition=WorkerCondition.TELEMETRY_COMPLETE,
        when="False",
        severity="info",
        cause="A part of CML's telemetry cannot be read.",
        command="labfleet describe worker NAME",
        fix="See which part fails, and whether the account is an admin of that CML.",
    ),
    Alert(
        condition=WorkerCondition.EXTERNAL_CHANGE,
        cause="Somebody else stopped, started or ended its instance; the message has AWS's reason.",
        command="labfleet explain worker NAME; labfleet events worker/NAME",
        fix="Find out who it was (CloudTrail, a tag policy, a clean-up job) and exempt our machines.",
    ),
    Alert(
        condition=WorkerCondition.LATE,
        cause="Stopping, terminating, or waiting for a server of others takes longer than its "
        "limit; it goes on.",
        command="labfleet explain worker NAME",
        fix="Metal takes 10 minutes and more. After an hour stop it by force in the AWS console. "
        "A server at an address: mend what the message says, or `labfleet delete worker/NAME`.",
    ),
)

ALERTS: dict[str, Alert] = {row.condition: row for row in _ROWS}
"""Condition -> its row, the gravest first among what is listed."""

_ORDER = {"critical": 0, "warning": 1, "info": 2}


def is_raised(condition: Condition) -> bool:
    """Tell whether a condition asks for somebody."""
    row = ALERTS.get(condition.type)
    return row is not None and condition.status == row.when


def raised(worker: Key, conditions: Iterable[Condition]) -> tuple[Raised, ...]:
    """Return a worker's raised alerts, the gravest first, then the oldest."""
    found = [_raised(worker, each) for each in conditions if is_raised(each)]
    return tuple(sorted(found, key=gravity))


def changes(
    before: Iterable[Condition], after: Iterable[Condition]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which alerts a write raised and which it took back; a fact dropped is taken back."""
    old = {each.type for each in before if is_raised(each)}
    new = {each.type for each in after if is_raised(each)}
    return tuple(sorted(new - old)), tuple(sorted(old - new))


def _raised(worker: Key, condition: Condition) -> Raised:
    row = ALERTS[condition.type]
    cause, fix = row.by_reason.get(condition.reason, (row.cause, row.fix))
    return Raised(
        object=f"worker/{worker.name}",
        namespace=worker.namespace,
        worker=worker.name,
        condition=condition.type,
        severity=row.severity,
        since=condition.last_transition_time,
        reason=condition.reason,
        message=condition.message,
        measured=condition.measured or None,
        cause=cause,
        command=row.command.replace("NAME", worker.argument),
        fix=fix.replace("NAME", worker.argument),
    )


def gravity(each: Raised) -> tuple[int, datetime, str, str, str]:
    """Return the place of an alert in a list: the gravest first, then the oldest."""
    return _ORDER[each.severity], each.since, each.object, each.condition, each.namespace


def of(conditions: Iterable[Condition], name: ConditionType) -> Condition | None:
    """Return the condition when it is raised."""
    found = facts.find(conditions, name)
    return found if found is not None and is_raised(found) else None
