"""What needs a person: load, silence, a stuck phase, the provider's checks and planned events.

Pure: writes conditions into the draft before the phase's own rules run. A condition is raised
when the two newest measurements are at its threshold, and cleared when the two newest are below
a lower one; values in between and missing ones change nothing. Texts name limits and never the
present value, otherwise each observation would make an event; the value that raised the condition
is kept beside them. `resources/alerts` says what a
person does about each.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from labfleet.decisions import port_holders, vitals
from labfleet.decisions.lifecycle.worker import limits, phases
from labfleet.decisions.lifecycle.worker.draft import Draft, P
from labfleet.kernel.clock import utc_text
from labfleet.resources import conditions
from labfleet.resources.conditions import Condition, Measured
from labfleet.resources.providers.words import Planned
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.resources.worker import Health
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

CONFIRM = 2
SHOWN = 3
"""How many sessions a sentence names."""
IMPAIRED_SECONDS = 120
"""How long a check must fail before it counts (facts/aws.md#status-checks)."""

OF_A_BOOT = (
    WorkerCondition.CML_HEALTHY,
    WorkerCondition.MAINTENANCE_MODE,
    WorkerCondition.ORPHANS_ON_HOST,
    WorkerCondition.STRAY_LABS,
    WorkerCondition.TELEMETRY_COMPLETE,
)
OF_A_MACHINE = (
    WorkerCondition.DISK_ALMOST_FULL,
    WorkerCondition.LICENCE_EXPIRING,
    WorkerCondition.OVER_COMMITTED,
    WorkerCondition.PORTS_LOW,
    WorkerCondition.PORT_DRIFT,
)
"""Conditions that end with the boot, and with the machine; then they need no attention."""

MEASURED = phases.WATCHED | {P.LICENSING, P.UNLICENSING}


def note(draft: Draft) -> None:
    """Write what is wrong, and take back what is not."""
    _stuck(draft)
    _checks(draft)
    _planned(draft)
    _silent(draft)
    _load(draft)
    _ports(draft)
    _drift(draft)
    phase = draft.status.phase
    if phase not in phases.WATCHED:
        draft.set(health=Health.UNKNOWN)
    if phase in {P.STOPPED, P.TERMINATED}:
        _forget(draft, *OF_A_BOOT)
    if phase is P.TERMINATED:
        _forget(draft, *OF_A_MACHINE)


def _before(draft: Draft, name: WorkerCondition) -> Condition | None:
    return conditions.find(draft.status.conditions, name)


def _forget(draft: Draft, *names: WorkerCondition) -> None:
    draft.forget(*names)


# --- a phase that does not end ---------------------------------------------------------------


def _stuck(draft: Draft) -> None:
    known, seconds = draft.status.limit, limits.seconds(draft)
    at_rest = draft.status.phase is P.DRAINING and conditions.is_true(
        draft.status.conditions, WorkerCondition.DRAINED
    )
    if known is None or seconds is None or at_rest or known.held_since is not None:
        _forget(draft, WorkerCondition.PHASE_STUCK)
        return
    if limits.unseen(draft):
        return
    factor = draft.seen.thresholds.stuck_factor
    if not limits.late(draft, factor):
        _forget(draft, WorkerCondition.PHASE_STUCK)
        return
    since, name = known.since, known.name
    told = (
        f"{draft.status.phase} since {utc_text(since, seconds=True)}, over {factor:g} x its {name}"
    )
    told += f" limit of {seconds:.0f} s; see what it waits for: labfleet explain worker"
    draft.fact(
        WorkerCondition.PHASE_STUCK, "True", WorkerReason.OVER_LIMIT, f"{told} {draft.worker.name}",
        measured=_seconds(draft.now - since, seconds * factor),
    )  # fmt: skip


# --- the provider's word ---------------------------------------------------------------------


def _checks(draft: Draft) -> None:
    """Judge the provider's checks: they count when impaired for two minutes on the running machine."""
    machine = draft.status.machine
    told = {"system": machine.host_check, "instance": machine.machine_check}
    if machine.state != "running":
        _forget(draft, WorkerCondition.INSTANCE_CHECKS_PASSED)
        return
    bad = [name for name, word in told.items() if word == "impaired"]
    before = _before(draft, WorkerCondition.INSTANCE_CHECKS_PASSED)
    asked = draft.seen.machine is not None or draft.provider_down
    if asked and before is not None and (draft.seen.machine is None or not any(told.values())):
        # What keeps sessions away stays until the provider says otherwise: its silence mends no host.
        stays = before.status == "False" and draft.seen.checks_asked
        if before.status != "Unknown" and not stays:
            text = f"the provider does not tell; {before.status} before that"
            reason = WorkerReason.NOT_RENEWED
            draft.fact(WorkerCondition.INSTANCE_CHECKS_PASSED, "Unknown", reason, text)
    elif bad:
        what = f"the provider's {' and '.join(bad)} check fails"
        suspected = before is not None and before.reason == WorkerReason.SUSPECTED
        if before is not None and (before.status == "False" or _impaired_long(draft, before)):
            draft.fact(WorkerCondition.INSTANCE_CHECKS_PASSED, "False", WorkerReason.IMPAIRED, what)
        else:
            if not suspected:  # the patience begins now, whatever was unknown before
                _forget(draft, WorkerCondition.INSTANCE_CHECKS_PASSED)
            draft.fact(
                WorkerCondition.INSTANCE_CHECKS_PASSED, "Unknown", WorkerReason.SUSPECTED, what
            )
    elif all(word in {"ok", "not-applicable"} for word in told.values()):
        draft.fact(WorkerCondition.INSTANCE_CHECKS_PASSED, "True", WorkerReason.PASSED)
    elif any(word == "initializing" for word in told.values()):
        draft.fact(
            WorkerCondition.INSTANCE_CHECKS_PASSED,
            "Unknown",
            WorkerReason.INITIALIZING,
            "the provider has not checked it yet",
        )
    elif any(word == "insufficient-data" for word in told.values()) and before is None:
        reason = WorkerReason.NOT_TOLD
        draft.fact(
            WorkerCondition.INSTANCE_CHECKS_PASSED,
            "Unknown",
            reason,
            "the provider has too little data",
        )


def _impaired_long(draft: Draft, before: Condition) -> bool:
    patience = timedelta(seconds=IMPAIRED_SECONDS)
    return before.reason == WorkerReason.SUSPECTED and draft.overdue(
        before.last_transition_time, patience
    )


EVENTS: dict[Planned, tuple[WorkerReason, str]] = {
    Planned.RETIRE: (
        WorkerReason.INSTANCE_RETIREMENT,
        "stop and start it before then, once drained",
    ),
    Planned.STOP: (WorkerReason.INSTANCE_STOP, "stop and start it before then, once drained"),
    Planned.REBOOT: (
        WorkerReason.INSTANCE_REBOOT,
        "drain it, or reboot it yourself before then",
    ),
    Planned.REBOOT_HOST: (
        WorkerReason.SYSTEM_REBOOT,
        "drain it before then: everything on it restarts",
    ),
    Planned.MAINTAIN: (
        WorkerReason.SYSTEM_MAINTENANCE,
        "expect a short loss of network or power",
    ),
    Planned.RECLAIM: (
        WorkerReason.SPOT_INTERRUPTION,
        "it drains at once; the provider takes the machine back",
    ),
}
"""What is planned -> reason and what to do."""


def _planned(draft: Draft) -> None:
    """Name what the provider will do first; what takes the machine away closes it in time."""
    machine = draft.status.machine
    if draft.status.phase is P.TERMINATED:
        _forget(draft, WorkerCondition.SCHEDULED_EVENT)
        return
    reason = draft.seen.state_reason or machine.state_reason or ""
    means = phases.words(draft.worker)
    if means.reclaimed(reason):
        # Before everything else: there are two minutes (facts/aws-bugs.md#case-36).
        told = f"the provider takes the machine back: {reason}"
        draft.fact(WorkerCondition.SCHEDULED_EVENT, "True", WorkerReason.SPOT_INTERRUPTION, told)
        return
    if not machine.events or machine.state not in {"running", "stopped", "stopping", "booting"}:
        _forget(draft, WorkerCondition.SCHEDULED_EVENT)
        return
    first = min(
        machine.events,
        key=lambda each: (_rank(means.planned(each.code)), each.not_before or draft.now),
    )
    other = (WorkerReason.OTHER_EVENT, means.announces)
    word, advice = EVENTS.get(means.planned(first.code), other)
    when = "at once" if first.not_before is None else utc_text(first.not_before)
    text = f"{first.code} not before {when}: {advice}"
    draft.fact(WorkerCondition.SCHEDULED_EVENT, "True", word, text)


def _rank(planned: Planned) -> int:
    """Order events: a machine that is taken back now, what closes the worker, the rest."""
    if planned is Planned.RECLAIM:
        return 0
    return 1 if planned in phases.CLOSING_EVENTS else 2


# --- silence ---------------------------------------------------------------------------------


def _silent(draft: Draft) -> None:
    """Count from the first observation without answer, which the condition keeps over a restart.

    A server that answers 502 or refuses the login does not serve either, and the reason says which
    of them it is. One that tells its health is not silent, whatever that says.
    """
    if draft.status.phase not in phases.WATCHED:
        _forget(draft, WorkerCondition.SILENT)
        return
    well = draft.seen.stage == "ready" and not draft.seen.trouble
    if well or draft.seen.stage == "not_ready":  # CmlHealthy says what such a server lacks
        draft.fact(WorkerCondition.SILENT, "False", WorkerReason.ANSWERING)
        return
    before, limit = _before(draft, WorkerCondition.SILENT), draft.seen.thresholds.silent_seconds
    if before is None or before.status == "False":
        draft.fact(
            WorkerCondition.SILENT,
            "Unknown",
            WorkerReason.NOT_ANSWERING,
            "the first look without an answer",
        )
        return
    silent = before.last_transition_time
    if before.status == "True" or draft.overdue(silent, timedelta(seconds=limit)):
        told = f"no answer since {utc_text(silent, seconds=True)}"
        if before.status == "True":
            told = before.message.partition(": ")[0]
        reason, why = _mute(draft)
        draft.fact(
            WorkerCondition.SILENT, "True", reason, f"{told}: {why}" if why else told,
            measured=_seconds(draft.now - silent, limit),
        )  # fmt: skip


def _seconds(lasts: timedelta, limit: float) -> Measured:
    return Measured(value=round(lasts.total_seconds()), unit="seconds", limit=round(limit))


def _mute(draft: Draft) -> tuple[WorkerReason, str]:
    """Return what kind of silence it is; a good answer is what is missed."""
    if draft.seen.login_refused:
        return WorkerReason.LOGIN_REFUSED, "it refuses our login"
    if draft.seen.stage == "untrusted":
        return WorkerReason.UNTRUSTED, f"nothing was sent there: {draft.seen.trouble}"
    if draft.seen.stage == "bad_gateway":
        return WorkerReason.BAD_GATEWAY, "only its web server answers"
    if draft.seen.stage == "refused":
        return WorkerReason.REFUSED, "the machine answers, no server listens on the port"
    if draft.seen.stage == "ready":
        return WorkerReason.CHECK_FAILED, "it says that it is ready and answers nothing else"
    return WorkerReason.NO_ANSWER, ""


# --- load ------------------------------------------------------------------------------------

Values = Sequence[float | None]


def verdict(
    values: Values, *, before: bool | None, raise_at: float, ease_below: float
) -> bool | None:
    """Return whether a load alert holds: True, False, or None for "as it was".

    `values` are measurements, oldest first; only the newest `CONFIRM` count, and an unknown one
    among them decides nothing. With nothing before, False needs no second measurement.
    """
    last = list(values)[-CONFIRM:]
    known = [each for each in last if each is not None]
    if not known or len(known) < len(last):
        return None
    if before is None and known[-1] < raise_at:
        return False
    if len(known) < CONFIRM:
        return None
    if before:
        return False if all(each < ease_below for each in known) else None
    return True if all(each >= raise_at for each in known) else None


def _load(draft: Draft) -> None:
    if draft.status.phase not in MEASURED:
        _forget(draft, WorkerCondition.CPU_HIGH, WorkerCondition.MEMORY_HIGH)
        return
    thresholds = draft.seen.thresholds
    samples = _same_boot(draft.seen.samples)
    cpu: Values = [vitals.cml_cpu(each)[0] for each in samples]
    source = "CML"
    if not samples:
        cpu, source = _cloudwatch(draft.seen.points, draft.now), "CloudWatch"
    memory: Values = [vitals.cml_memory(each)[0] for each in samples]
    top, low = thresholds.cpu_percent, thresholds.cpu_eased_percent
    holds = _judge(draft, WorkerCondition.CPU_HIGH, cpu, top, low)
    if holds is True:
        draft.fact(
            WorkerCondition.CPU_HIGH,
            "True",
            WorkerReason.OVER_THRESHOLD,
            _told("CPU", top, low, source),
            measured=_percent(cpu, top),
        )
    elif holds is False:
        draft.fact(WorkerCondition.CPU_HIGH, "False", WorkerReason.BELOW_THRESHOLD)
    top, low = thresholds.memory_percent, thresholds.memory_eased_percent
    holds = _judge(draft, WorkerCondition.MEMORY_HIGH, memory, top, low)
    if holds is True:
        draft.fact(
            WorkerCondition.MEMORY_HIGH,
            "True",
            WorkerReason.OVER_THRESHOLD,
            _told("memory", top, low, "CML"),
            measured=_percent(memory, top),
        )
    elif holds is False:
        draft.fact(WorkerCondition.MEMORY_HIGH, "False", WorkerReason.BELOW_THRESHOLD)


def _ports(draft: Draft) -> None:
    """Say when few ports are left; where that never was so there is nothing to be said."""
    use, thresholds = draft.seen.port_use, draft.seen.thresholds
    before = _before(draft, WorkerCondition.PORTS_LOW)
    if use is None or draft.status.phase not in phases.WATCHED:
        return
    share, top, low = (
        port_holders.taken_percent(use), thresholds.ports_percent, thresholds.ports_eased_percent
    )  # fmt: skip
    if share >= top:
        draft.fact(
            WorkerCondition.PORTS_LOW,
            "True",
            WorkerReason.FEW_FREE,
            f"{top:g} % or more of its ports are used or held; taken back below {low:g} %",
            measured=Measured(value=round(share, 1), unit="percent", limit=top),
        )
    elif share < low and before is not None:
        draft.fact(WorkerCondition.PORTS_LOW, "False", WorkerReason.ENOUGH_FREE)


def _drift(draft: Draft) -> None:
    """Name the sessions whose labs have other ports than they were given."""
    drifted = draft.seen.drifted
    if drifted is None:
        return
    if drifted:
        more = f" and {len(drifted) - SHOWN} more" if len(drifted) > SHOWN else ""
        told = f"labs of {', '.join(drifted[:SHOWN])}{more} name other ports than they were given"
        draft.fact(WorkerCondition.PORT_DRIFT, "True", WorkerReason.PORTS_DIFFER, told)
    elif _before(draft, WorkerCondition.PORT_DRIFT) is not None:
        draft.fact(WorkerCondition.PORT_DRIFT, "False", WorkerReason.PORTS_AS_GIVEN)


def _percent(values: Values, limit: float) -> Measured | None:
    newest = values[-1] if values else None
    if newest is None:
        return None
    return Measured(value=round(newest, 1), unit="percent", limit=limit)


def _judge(
    draft: Draft, name: WorkerCondition, values: Values, top: float, low: float
) -> bool | None:
    before = _before(draft, name)
    was = None if before is None or before.status == "Unknown" else before.status == "True"
    return verdict(values, before=was, raise_at=top, ease_below=low)


def _told(what: str, top: float, low: float, source: str) -> str:
    return f"{what} at {top:g} % or over, as {source} tells; taken back below {low:g} %"


def _same_boot(samples: Sequence[Sample]) -> list[Sample]:
    return [each for each in samples if each.boot == samples[-1].boot]


def _cloudwatch(points: Sequence[ProviderPoint], now: datetime) -> Values:
    """Return CloudWatch's CPU while it is fresh: the second opinion on a silent server."""
    if not points:
        return []
    newest = points[-1]
    late = vitals.CLOUDWATCH_LATE + timedelta(seconds=2 * newest.seconds)
    return [each.cpu_percent for each in points] if now - newest.at <= late else []
