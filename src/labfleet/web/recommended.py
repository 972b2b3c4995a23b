"""The panel of a definition's page: what it asks for, what was used, what may be applied."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.kernel.quantity import count
from labfleet.resources.definition import Definition
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.lab_recommendation import LabRecommendation, PoolOutcome, SizeOption
from labfleet.resources.meta import Key, Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import recommendations

_TITLES = {"cpu_milli": "CPU", "memory_mib": "Memory", "storage_mib": "Storage"}
POOLS = 3
"""Pools that a row names."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The tables and sentences of the panel; `figures` are title, cells and evidence by dimension.

    `choices` are name, amounts, sessions that would have exceeded, outcome and refusal by value.
    """

    figures: tuple[tuple[str, tuple[str, ...], str], ...]
    choices: tuple[tuple[str, str, str, str, str], ...]
    said: tuple[str, ...]
    commands: tuple[str, ...]
    needs_review: bool
    looked_at: str


async def of(services: ServiceContext, caller: Caller, obj: Resource | None) -> Panel | None:
    """Return the panel of a definition, for those who look after definitions; else None."""
    if not isinstance(obj, Definition) or not access.may(
        caller.principal, "recommend", "Definition"
    ):
        return None
    known = await recommendations.known(services, obj)
    found = recommendations.of(services, obj, known)
    admin = access.may(caller.principal, "apply", "Definition")
    return Panel(
        figures=tuple(_figures(each) for each in found.dimensions),
        choices=tuple(_choice(each, found.looked_at) for each in found.options),
        said=sentences(found),
        commands=commands(found, obj, admin=admin),
        needs_review=found.needs_review,
        looked_at=f"{count(found.looked_at, 'past session')}, {found.most} at most",
    )


def _figures(each: LabBound) -> tuple[str, tuple[str, ...], str]:
    values = (each.declared, each.latest, each.mean, each.max, each.p95, each.bound)
    told = each.sentence
    if each.bound is not None:
        told += f"; stated {each.coverage:.0%}"
        told += "" if each.achieved is None else f", achieved {each.achieved:.0%}"
    cells = tuple(_amount(each.resource, value) for value in values)
    return _TITLES[each.resource], cells, told


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name == "cpu_milli":
        return f"{value / 1000:.3g} CPU"
    return f"{round(value)} MiB" if value < 1024 else f"{value / 1024:.3g} GiB"


def _choice(each: SizeOption, looked_at: int) -> tuple[str, str, str, str, str]:
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
