"""What a definition should ask for, in words: what may be applied, what follows, the commands."""

from __future__ import annotations

from labfleet.kernel.quantity import count
from labfleet.resources.definition import Definition
from labfleet.resources.lab_recommendation import LabRecommendation, PoolOutcome, SizeOption
from labfleet.resources.meta import Key, Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import recommendations

Choice = tuple[str, str, str, str, str]
"""A value that may be applied: name, amounts, sessions that would have exceeded, outcome, refusal."""
POOLS = 3
"""Pools that a row names."""


async def choices(
    services: ServiceContext, caller: Caller, obj: Resource | None
) -> tuple[Choice, ...] | None:
    """Return what may be applied, for those who look after definitions; else None."""
    if not isinstance(obj, Definition) or not access.may(
        caller.principal, "recommend", "Definition"
    ):
        return None
    known = await recommendations.known(services, obj)
    found = recommendations.of(services, obj, known)
    return tuple(_choice(each, found.looked_at) for each in found.options)


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name == "cpu_milli":
        return f"{value / 1000:.3g} CPU"
    return f"{round(value)} MiB" if value < 1024 else f"{value / 1024:.3g} GiB"


def _choice(each: SizeOption, looked_at: int) -> Choice:
    amounts = each.amounts
    sizes = (("cpu_milli", amounts.cpu_milli), ("", amounts.memory_mib), ("", amounts.storage_mib))
    outcomes = "; ".join(_outcome(one) for one in each.pools[:POOLS])
    if len(each.pools) > POOLS:
        outcomes += f"; and {len(each.pools) - POOLS} more"
    return (
        each.value,
        ", ".join(_amount(name, value) for name, value in sizes),
        f"{each.exceeded} of {looked_at}",
        outcomes or "no pool serves its track",
        each.refused,
    )


def _outcome(one: PoolOutcome) -> str:
    price = (
        ""
        if one.usd_per_session_hour is None
        else f", ${one.usd_per_session_hour:.2f} an hour each"
    )
    return f"{one.pool}: {count(one.sessions_per_worker, 'session')} a worker{price}"


def sentences(found: LabRecommendation) -> tuple[str, ...]:
    """Return what follows of a recommendation, and who proposes what, in sentences without a stop."""
    told = [found.reviewed]
    saving = found.saving
    if saving is not None:
        worth = [f"{saving.memory_gib_hours:g} GiB-hours of memory"]
        if saving.worker_hours is not None:
            worth.append(f"{saving.worker_hours:g} worker-hours")
        if saving.usd is not None:
            worth.append(f"${saving.usd:.2f}")
        over = count(saving.sessions, "session")
        told.append(f"over {over} the bound would have saved {', '.join(worth)}")
    if found.proposal is not None:
        why = f": {found.proposal.reason}" if found.proposal.reason else ""
        told.append(f"{found.proposal.by} proposes {found.proposal.value}{why}")
    if found.applied is not None:
        by, value = found.applied.by, found.applied.value
        told.append(f"{by} made it of {found.applied.source} by applying its {value}")
    if found.newest not in {None, found.definition}:
        told.append(f"{found.newest} is a newer version")
    return tuple(told)


def commands(found: LabRecommendation, obj: Definition, *, admin: bool) -> tuple[str, ...]:
    """Return the commands that do what the panel shows, for this caller."""
    base = f"labfleet recommend definition/{Key('', obj.namespace, obj.name).argument}"
    able = {each.value for each in found.options if not each.refused} - {"declared"}
    if found.newest != found.definition or not able:
        return (base,)
    values = [each for each in ("proposed", "bound", "max", "latest") if each in able]
    if not admin:
        return tuple(f"{base} --propose {each}" for each in values if each != "proposed")
    undo = (f"{base} --undo",) if found.applied is not None else ()
    return (*(f"{base} --apply {each}" for each in values), *undo)
