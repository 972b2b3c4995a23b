"""Whether what a definition asks for needs a review, what may be applied instead, what follows.

On the bounds that `lab_bounds` makes of past sessions. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from labfleet.decisions import lab_bounds
from labfleet.kernel import quantity
from labfleet.resources import conditions
from labfleet.resources.amounts import DIMENSIONS, LABELS, Amounts
from labfleet.resources.conditions import Condition, Measured, Status
from labfleet.resources.definition import DefinitionCondition, DefinitionReason
from labfleet.resources.history import Run
from labfleet.resources.lab_bound import SIZED, LabBound
from labfleet.resources.lab_recommendation import (
    OptionName,
    PoolOutcome,
    SizedAmounts,
    SizeOption,
    SizeSaving,
)


@dataclass(frozen=True, slots=True)
class Significant:
    """From which difference on a definition needs a review: both must be passed.

    percent: Share of what is declared.
    memory_mib: MiB of memory.
    cpu_milli: Thousandths of a CPU.
    """

    percent: float = 20.0
    memory_mib: int = 256
    cpu_milli: int = 250


@dataclass(frozen=True, slots=True)
class Review:
    """Whether a definition needs a review, in a sentence.

    `reason` None: too few sessions were measured to say. `measured` is the number behind it.
    """

    needed: bool
    reason: DefinitionReason | None
    message: str
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A pool that may host a lab: its name, what an empty worker has, its price an hour or None."""

    pool: str
    capacity: Amounts
    hourly_usd: float | None = None


def review(found: Mapping[str, LabBound], than: Significant) -> Review:
    """Return whether the bounds differ significantly from what is declared.

    Too little is graver than too much, so it gives the reason when both are the case. Storage
    alone is no reason: what it asks for is seldom what limits a worker.
    """
    least = {"memory_mib": than.memory_mib, "cpu_milli": than.cpu_milli}
    known = [found[name] for name in least if found[name].bound is not None]
    if not known:
        told = "; ".join(f"{name.split('_')[0]}: {found[name].sentence}" for name in least)
        return Review(needed=False, reason=None, message=told)
    apart = [
        each
        for each in known
        if each.bound is not None
        and abs(each.bound - each.declared)
        > max(each.declared * than.percent / 100, least[each.resource])
    ]
    if not apart:
        told = "what it asks for is near what its past sessions used"
        return Review(needed=False, reason=DefinitionReason.NEAR_USE, message=told)
    short = [each for each in apart if each.bound is not None and each.bound > each.declared]
    reason = DefinitionReason.ASKS_TOO_LITTLE if short else DefinitionReason.ASKS_TOO_MUCH
    told = "; ".join(_told(each) for each in (short or apart))
    first = (short or apart)[0]
    number = Measured(
        value=float(first.bound or 0), unit=_UNITS[first.resource], limit=float(first.declared)
    )
    return Review(needed=True, reason=reason, message=told, measured=number)


_UNITS = {"memory_mib": "MiB", "cpu_milli": "mCPU"}


def worth_telling(known: Condition | None, now: Review) -> bool:
    """Tell whether a review differs from the condition that was recorded.

    Each session moves the bound a little; a record is written anew when it moved by a tenth.
    """
    if known is None or (known.status, known.reason) != (_status(now), now.reason):
        return True
    before, after = known.measured, now.measured
    if before is msgspec.UNSET or after is None:
        return False
    return abs(after.value - before.value) > before.value / 10


def recorded(
    known: tuple[Condition, ...], now: Review | None, at: datetime, generation: int
) -> tuple[Condition, ...]:
    """Return the conditions of a definition with its review.

    Without one where it is not to be judged (None), and while nothing is known.
    """
    if now is None or now.reason is None:
        return conditions.drop(known, DefinitionCondition.NEEDS_REVIEW)
    if not worth_telling(conditions.find(known, DefinitionCondition.NEEDS_REVIEW), now):
        return known
    return conditions.put(
        known, DefinitionCondition.NEEDS_REVIEW, _status(now), now.reason, now.message, now=at,
        generation=generation, measured=now.measured,
    )  # fmt: skip


def _status(now: Review) -> Status:
    return "True" if now.needed else "False"


def _told(each: LabBound) -> str:
    unit, by = LABELS[each.resource], quantity.count(each.sessions, "session")
    return f"it asks for {each.declared} {unit}, and {each.bound} would do by {by}"


def refused(amounts: Amounts, asked: lab_bounds.Asked) -> tuple[str, str] | None:
    """Return why a lab may not ask for that, as a word and a sentence; None when it may."""
    least = asked.reserved.memory_mib
    if amounts.memory_mib < least:
        return "BelowReserved", (
            f"its nodes reserve {least} MiB by their own ram, whatever is declared, and "
            f"{amounts.memory_mib} is less"
        )
    # Who wrote a definition may have it share CPUs; nobody else takes them from its sessions.
    cpu = amounts.cpu_milli
    if cpu < min(asked.reserved.cpu_milli, asked.declared.cpu_milli):
        return "BelowReserved", (
            f"its nodes reserve {asked.reserved.cpu_milli} {LABELS['cpu_milli']} by their own cpus and "
            f"cpu_limit, whatever is declared, and {cpu} is less: beside others its labs would not start"
        )
    for name in SIZED if asked.most is not None else ():
        wanted, most = getattr(amounts, name), getattr(asked.most, name)
        if wanted > most and wanted > getattr(asked.declared, name):
            told = f"{wanted} {LABELS[name]} is more than the largest worker's {most}"
            return "AboveWorkers", f"{told}: no session of it could ever run"
    return None


def options(
    newest_first: Sequence[Run],
    asked: lab_bounds.Asked,
    found: Mapping[str, LabBound],
    places: Sequence[Place],
    proposed: SizedAmounts | None = None,
) -> tuple[SizeOption, ...]:
    """Return what may be asked for, what is declared first, with what follows of each.

    A value of which nothing is known in any dimension is left out.
    """
    made: dict[OptionName, Amounts] = {"declared": asked.declared}
    for value in ("latest", "max", "bound"):
        sized = sizes(found, value)
        if sized != SizedAmounts():
            made[value] = with_sizes(asked.declared, sized)
    if proposed is not None:
        made["proposed"] = with_sizes(asked.declared, proposed)
    return tuple(
        SizeOption(
            value=value,
            amounts=amounts,
            exceeded=exceeded(newest_first, asked, amounts),
            pools=tuple(outcome(each, amounts) for each in places),
            refused="" if value == "declared" else (refused(amounts, asked) or ("", ""))[1],
        )
        for value, amounts in made.items()
    )


def sizes(found: Mapping[str, LabBound], value: str) -> SizedAmounts:
    """Return the amounts that `latest`, `max` or `bound` means; null where nothing is known."""
    known = {}
    for name, each in found.items():
        amount = getattr(each, value)
        if amount is not None:
            # A peak of CPU is hardly ever what nodes reserve, so it alone could never be applied.
            least = each.reserved if name == "cpu_milli" else 0
            known[name] = max(lab_bounds.LEAST[name], least, lab_bounds.whole(amount))
    return SizedAmounts(**known)


def with_sizes(declared: Amounts, sized: SizedAmounts) -> Amounts:
    """Return what is declared with other sizes."""
    changed = {name: value for name in SIZED if (value := getattr(sized, name)) is not None}
    return msgspec.structs.replace(declared, **changed)


def exceeded(newest_first: Sequence[Run], asked: lab_bounds.Asked, amounts: Amounts) -> int:
    """Return how many past sessions used more of anything than these amounts."""
    return sum(
        any(
            (found := lab_bounds.peak_of(run, name)) is not None and found > getattr(amounts, name)
            for name in SIZED
            if getattr(asked.declared, name)
        )
        for run in newest_first
    )


def outcome(place: Place, amounts: Amounts) -> PoolOutcome:
    """Return how many labs of these amounts an empty worker of a pool holds."""
    wanted = [name for name in DIMENSIONS if getattr(amounts, name)]
    held = min(
        (getattr(place.capacity, name) // getattr(amounts, name) for name in wanted), default=0
    )
    price = place.hourly_usd / held if held and place.hourly_usd is not None else None
    return PoolOutcome(
        pool=place.pool,
        sessions_per_worker=held,
        usd_per_session_hour=None if price is None else round(price, 4),
    )


def saving(
    newest_first: Iterable[Run], made: Sequence[SizeOption], places: Sequence[Place]
) -> SizeSaving | None:
    """Return what the bound would have saved over past sessions; None without a bound."""
    by = {each.value: each for each in made}
    bound, declared = by.get("bound"), by["declared"]
    if bound is None:
        return None
    lengths = [each.duration_seconds for each in newest_first if each.duration_seconds]
    hours = sum(lengths) / 3600
    mib = declared.amounts.memory_mib - bound.amounts.memory_mib
    worker_hours = usd = None
    cheapest = _cheapest(declared, bound, places)
    if cheapest is not None:
        before, after, price = cheapest
        worker_hours = hours / before - hours / after
        usd = None if price is None else round(worker_hours * price, 2)
    return SizeSaving(
        sessions=len(lengths),
        hours=round(hours, 2),
        memory_gib_hours=round(mib / 1024 * hours, 2),
        worker_hours=None if worker_hours is None else round(worker_hours, 2),
        usd=usd,
    )


def _cheapest(
    declared: SizeOption, bound: SizeOption, places: Sequence[Place]
) -> tuple[int, int, float | None] | None:
    """Return sessions a worker before and after, and its price, of the pool that costs least."""
    found = [
        (before.sessions_per_worker, after.sessions_per_worker, place.hourly_usd)
        for before, after, place in zip(declared.pools, bound.pools, places, strict=True)
        if before.sessions_per_worker and after.sessions_per_worker
    ]
    priced = [(price / after, (before, after, price)) for before, after, price in found if price]
    return min(priced)[1] if priced else (found[0] if found else None)
