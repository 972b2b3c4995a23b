"""What the newest samples of a worker's CML mean: conditions, with hysteresis.

Pure: reads samples, writes conditions into the draft. A condition changes only when the two
newest samples agree; the very first sample counts at once, and a value missing in a sample
changes nothing at first: what no look has renewed for a while becomes Unknown.

Sources: facts/cml.md#system-bodies and #licensing,
facts/cml-issues.md#f33, #f41, #f42, #f45.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from labfleet.decisions import vitals
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import TOLERATED_CHECKS, Draft
from labfleet.kernel import quantity
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.conditions import Condition, Measured, Status
from labfleet.resources.telemetry import ComputeHealth, Licensing, Sample, SystemStats
from labfleet.resources.worker import FINALIZER_LICENCE
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

CONFIRM = 2
ORPHAN_CPU_MILLI, ORPHAN_MEMORY_MIB = 1000, 2048
"""What an orphan is assumed to hold when unknown: one vCPU and 2 GiB (estimate)."""

Found = tuple[Status, WorkerReason, str]
"""Status, reason, message."""


def note(draft: Draft) -> None:
    """Write what the samples mean; without a sample of this observation write nothing."""
    samples = draft.seen.samples
    if not samples:
        return
    newest = samples[-1]
    same_boot = [each for each in samples if each.boot == newest.boot]
    _cml(draft, same_boot)
    _orphans(draft, same_boot)
    _disk(draft, same_boot)
    _complete(draft, same_boot)
    if newest.maintenance is not None:  # switched by a person: nothing to wait for
        on = newest.maintenance
        told = "in maintenance: labs are refused to people without admin rights" if on else ""
        draft.fact(
            WorkerCondition.MAINTENANCE_MODE,
            "True" if on else "False",
            WorkerReason.ON if on else WorkerReason.OFF,
            told,
        )
    if newest.licence is not None:
        _expiry(draft, newest.licence)
    _identity(draft)


def settled(
    samples: Sequence[Sample], before: Condition | None, read: Callable[[Sample], Found | None]
) -> Found | None:
    """Return what to write: None means that the condition stays as it is."""
    found = read(samples[-1])
    if found is None or before is None or before.status in {found[0], "Unknown"}:
        return found
    last = [read(each) for each in samples[-CONFIRM:]]
    agree = len(last) == CONFIRM and all(each is not None and each[0] == found[0] for each in last)
    return found if agree else None


RENEWED_BY: dict[str, Callable[[Sample], bool]] = {
    WorkerCondition.CML_HEALTHY: lambda each: each.health is not None or each.ready is False,
    WorkerCondition.TELEMETRY_COMPLETE: lambda _: True,
    WorkerCondition.MAINTENANCE_MODE: lambda each: each.maintenance is not None,
    WorkerCondition.LICENSED: lambda each: each.licence is not None,
    WorkerCondition.LICENCE_EXPIRING: lambda each: each.licence is not None,
    WorkerCondition.DISK_ALMOST_FULL: lambda each: vitals.fullest_disk(each) is not None,
    WorkerCondition.CPU_HIGH: lambda each: vitals.cml_cpu(each)[0] is not None,
    WorkerCondition.MEMORY_HIGH: lambda each: vitals.cml_memory(each)[0] is not None,
    WorkerCondition.STRAY_LABS: lambda each: each.labs_count is not None,
    WorkerCondition.ORPHANS_ON_HOST: lambda each: (
        each.stats is not None and each.stats.running_orphans is not None
    ),
}
"""Every fact that is read from CML, and which samples tell it anew. One that no look has renewed
for `TOLERATED_CHECKS` looks is Unknown, so that nothing is shown as of before."""


def let_lapse(draft: Draft) -> None:
    """Make Unknown what the latest looks did not renew, each by its own part of the samples.

    What keeps sessions away stays while the server answers otherwise: one part that fails must not
    open it. CloudWatch renews the load of a silent server.
    """
    samples = draft.seen.samples
    newest = samples[-1] if samples else None
    for before in draft.status.conditions:
        told = RENEWED_BY.get(before.type)
        if told is None or before.status == "Unknown" or (newest is not None and told(newest)):
            continue
        if not _lapsed(draft, told) or (samples and phases.closing(before)):
            continue
        name = WorkerCondition(before.type)  # type: ignore[call-arg]  # by its word alone
        if name is WorkerCondition.CPU_HIGH and draft.seen.points and not samples:
            continue
        text = f"the last {TOLERATED_CHECKS} looks did not tell; {before.status} before that"
        draft.fact(name, "Unknown", WorkerReason.NOT_RENEWED, text)


def _lapsed(draft: Draft, told: Callable[[Sample], bool]) -> bool:
    if not draft.seen.samples:
        return draft.status.failed_checks >= TOLERATED_CHECKS
    boot = draft.seen.samples[-1].boot
    last = [each for each in draft.seen.samples if each.boot == boot][-TOLERATED_CHECKS:]
    return len(last) == TOLERATED_CHECKS and not any(told(each) for each in last)


def _holds(found: Found) -> bool:
    return found[0] == "True"


def _before(draft: Draft, name: WorkerCondition) -> Condition | None:
    return conditions.find(draft.status.conditions, name)


def _cml(draft: Draft, samples: Sequence[Sample]) -> None:
    before = _before(draft, WorkerCondition.CML_HEALTHY)
    lost = before is not None and before.reason in {
        WorkerReason.NO_COMPUTE,
        WorkerReason.COMPUTE_MISSING,
    }
    known = {key for each in samples if each.health for key in each.health.computes}

    def read(sample: Sample) -> Found | None:
        return _healthy(sample, known, lost=lost)

    found = settled(samples, before, read)
    if found is not None:
        draft.fact(WorkerCondition.CML_HEALTHY, *found)
    elif before is None:
        reason = WorkerReason.NOT_TOLD
        draft.fact(WorkerCondition.CML_HEALTHY, "Unknown", reason, "CML does not tell its health")


def _healthy(sample: Sample, known: set[str], *, lost: bool) -> Found | None:
    """Return the worst problem that a sample shows; None when it has no health values."""
    found = _worst(sample, known, lost=lost)
    if sample.ready is not False or (found is not None and found[0] == "False"):
        return found
    why = sample.gaps.get("health") or "no flag of its health says why"
    return "False", WorkerReason.NOT_READY, f"CML says ready: false, no node can start; {why}"


def _worst(sample: Sample, known: set[str], *, lost: bool) -> Found | None:
    health = sample.health
    if health is None:
        return None
    if health.controller.core_connected is False:
        return "False", WorkerReason.CONTROLLER_DOWN, "core_connected is false: no new sessions"
    computes = list(health.computes.values())
    if not computes:
        if known or lost:
            return "False", WorkerReason.NO_COMPUTE, "the only compute is gone: no node can start"
        return None
    closed = _no_room(computes)
    if closed is not None:
        return closed
    gone = sorted(known - set(health.computes))
    told = set(health.computes) if sample.stats is None else set(sample.stats.computes)
    gone += sorted(
        key
        for key, each in health.computes.items()
        if each.lld_connected is False or key not in told
    )
    if gone:
        return "False", WorkerReason.COMPUTE_MISSING, _gone_text(gone)
    failing = _failing(sample)
    if failing:
        return "False", WorkerReason.CHECK_FAILED, f"CML says no to {', '.join(failing[:8])}"
    if health.valid is False:
        return (
            "False",
            WorkerReason.CHECK_FAILED,
            "CML says valid: false, and no flag of it says why",
        )
    flags = [each.kvm_vmx_enabled for each in computes] + [health.controller.core_connected]
    return None if all(flag is None for flag in flags) else ("True", WorkerReason.HEALTHY, "")


def _gone_text(gone: Sequence[str]) -> str:
    return f"computes not connected: {', '.join(gone[:3])}; nodes there are DISCONNECTED"


def _no_room(computes: Sequence[ComputeHealth]) -> Found | None:
    """Return why no compute host would start a node."""
    if all(each.kvm_vmx_enabled is False for each in computes):
        return (
            "False",
            WorkerReason.KVM_MISSING,
            "no compute has KVM: machines with a kernel do not start",
        )
    states = [each.admission_state for each in computes]
    if all(state is not None and state != "READY" for state in states):
        told = ", ".join(str(state) for state in states[:3])
        return (
            "False",
            WorkerReason.NO_COMPUTE_READY,
            f"no compute is READY ({told}): nodes stay QUEUED",
        )
    if all(each.cpu_overload or each.memory_overload or each.disk_overload for each in computes):
        return (
            "False",
            WorkerReason.OVERLOADED,
            "every compute is overloaded and refuses node starts",
        )
    return None


def _failing(sample: Sample) -> list[str]:
    """Return the flags that are plainly false."""
    health = sample.health
    if health is None:
        return []
    failing = [
        f"controller {name}"
        for name in ("nodes_loaded", "images_loaded", "valid")
        if getattr(health.controller, name) is False
    ]
    for each in health.computes.values():
        failing += [
            f"{each.hostname or 'compute'} {name}"
            for name in each.__struct_fields__
            if getattr(each, name) is False
            and name != "is_controller"
            and not name.endswith("overload")
        ]
    return failing


def cause(samples: Sequence[Sample]) -> str:
    """Return in words why a server is not ready, as its newest sample says; empty if it does not."""
    found = _worst(samples[-1], set(), lost=False) if samples else None
    return found[2] if found is not None and found[0] == "False" else ""


def _orphans(draft: Draft, samples: Sequence[Sample]) -> None:
    def read(sample: Sample) -> Found | None:
        count = None if sample.stats is None else sample.stats.running_orphans
        if count is None:
            return None
        if count:
            return (
                "True",
                WorkerReason.ORPHANS,
                f"{quantity.count(count, 'unknown machine')} running; capacity is that much less",
            )
        return "False", WorkerReason.NO_ORPHANS, ""

    found = settled(samples, _before(draft, WorkerCondition.ORPHANS_ON_HOST), read)
    if found is None:
        return
    if _holds(found):
        stats = samples[-1].stats
        count = (stats.running_orphans if stats is not None else None) or 0
        draft.fact(
            WorkerCondition.ORPHANS_ON_HOST, "True", WorkerReason.ORPHANS, found[2],
            measured=Measured(value=count, unit="machines"),
        )  # fmt: skip
    else:
        draft.fact(WorkerCondition.ORPHANS_ON_HOST, "False", WorkerReason.NO_ORPHANS, found[2])


def _disk(draft: Draft, samples: Sequence[Sample]) -> None:
    before = _before(draft, WorkerCondition.DISK_ALMOST_FULL)
    full = before is not None and before.status == "True"
    limits = draft.seen.thresholds

    def read(sample: Sample) -> Found | None:
        used = vitals.fullest_disk(sample)
        if used is None:
            return None
        if used >= (limits.disk_eased_percent if full else limits.disk_percent):
            return (
                "True",
                WorkerReason.WATERMARK,
                "a disk is almost full: no new labs until it is freed",
            )
        return "False", WorkerReason.BELOW_WATERMARK, ""

    found = settled(samples, before, read)
    if found is None:
        return
    if _holds(found):
        used = vitals.fullest_disk(samples[-1]) or 0.0
        draft.fact(
            WorkerCondition.DISK_ALMOST_FULL, "True", WorkerReason.WATERMARK, found[2],
            measured=Measured(value=round(used, 1), unit="percent", limit=limits.disk_percent),
        )  # fmt: skip
    else:
        draft.fact(
            WorkerCondition.DISK_ALMOST_FULL, "False", WorkerReason.BELOW_WATERMARK, found[2]
        )


def _complete(draft: Draft, samples: Sequence[Sample]) -> None:
    def read(sample: Sample) -> Found:
        missing = [name for name in ("stats", "health", "licence") if getattr(sample, name) is None]
        if missing:
            return (
                "False",
                WorkerReason.PARTIAL,
                f"{', '.join(missing)} not read: see its telemetry",
            )
        return "True", WorkerReason.COMPLETE, ""

    found = settled(samples, _before(draft, WorkerCondition.TELEMETRY_COMPLETE), read)
    if found is None:
        return
    if _holds(found):
        draft.fact(WorkerCondition.TELEMETRY_COMPLETE, "True", WorkerReason.COMPLETE, found[2])
    else:
        draft.fact(WorkerCondition.TELEMETRY_COMPLETE, "False", WorkerReason.PARTIAL, found[2])


# --- licence and identity --------------------------------------------------------------------


def licence_date(text: str | None) -> datetime | None:
    """Return an expiry date as UTC, for CML sends no zone; None when unreadable."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _expiry(draft: Draft, licence: Licensing) -> None:
    """Check both dates: renewals are automatic, so a near date means that they fail."""
    if not licence.registered:
        draft.set(
            conditions=conditions.drop(draft.status.conditions, WorkerCondition.LICENCE_EXPIRING)
        )
        return
    raw = {
        "authorization": licence.authorization_expires,
        "registration": licence.registration_expires,
    }
    dates = {name: at for name, text in raw.items() if (at := licence_date(text)) is not None}
    if not dates:
        draft.fact(
            WorkerCondition.LICENCE_EXPIRING,
            "Unknown",
            WorkerReason.NO_DATE,
            f"CML tells no date: {raw}",
        )
        return
    name = min(dates, key=dates.__getitem__)
    left = dates[name] - draft.now
    told = f"{name} ends {raw[name]} (no zone told: taken as UTC)"
    limit = draft.seen.thresholds.licence_days
    number = Measured(value=round(left / timedelta(days=1), 1), unit="days", limit=limit)
    if left < timedelta(0):
        draft.fact(
            WorkerCondition.LICENCE_EXPIRING, "True", WorkerReason.EXPIRED, told, measured=number
        )
    elif left <= timedelta(days=limit):
        rest = quantity.count(left.days, "day")
        days = f"{told}, {rest} left; it renews by itself only with a way to the cloud"
        draft.fact(
            WorkerCondition.LICENCE_EXPIRING, "True", WorkerReason.SOON, days, measured=number
        )
    else:
        draft.fact(WorkerCondition.LICENCE_EXPIRING, "False", WorkerReason.VALID, told)


def _identity(draft: Draft) -> None:
    """Refuse the younger of two workers with one product_uuid: one licence, two servers."""
    older = draft.seen.duplicate_of
    if older is not None:
        told = f"its product_uuid is that of {older}: an image of a registered server; no labs here"
        draft.fact(WorkerCondition.DUPLICATE_IDENTITY, "True", WorkerReason.SAME_PRODUCT_UUID, told)
    elif conditions.is_true(draft.status.conditions, WorkerCondition.DUPLICATE_IDENTITY):
        draft.fact(WorkerCondition.DUPLICATE_IDENTITY, "False", WorkerReason.UNIQUE)
        if draft.status.licence.registered:  # now it is this one's to give back
            draft.hold(FINALIZER_LICENCE)


# --- capacity --------------------------------------------------------------------------------


def less_orphans(capacity: Amounts, stats: SystemStats | None) -> Amounts:
    """Return the capacity without what orphans are believed to hold.

    CML tells only their number. Each is assumed to be like an average running node of the
    server, and at least one vCPU and 2 GiB.
    """
    count = None if stats is None else stats.running_orphans
    if stats is None or not count:
        return capacity
    running = max(stats.running_nodes or 0, 1)
    cpu = max((stats.allocated_cpus or 0) * 1000 // running, ORPHAN_CPU_MILLI)
    memory = max((stats.allocated_memory_mib or 0) // running, ORPHAN_MEMORY_MIB)
    return Amounts(
        cpu_milli=max(capacity.cpu_milli - count * cpu, 0),
        memory_mib=max(capacity.memory_mib - count * memory, 0),
        storage_mib=capacity.storage_mib,
        nodes=capacity.nodes,
        labs=capacity.labs,
        ports=capacity.ports,
        network_kbps=capacity.network_kbps,
    )
