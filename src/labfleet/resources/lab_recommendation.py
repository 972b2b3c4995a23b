"""What a definition should ask for: what its sessions used, what may be applied, and what follows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import MOST, Amounts
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.meta import Record

Value = Literal["max", "latest", "bound", "custom", "proposed"]
"""What an admin may apply to a definition."""
OptionName = Literal["declared", "latest", "max", "bound", "proposed"]
Amount = Annotated[int, msgspec.Meta(ge=1, le=MOST)]


class SizedAmounts(Record, frozen=True, kw_only=True):
    """What a lab would ask for; null leaves a dimension as it is declared.

    cpu_milli: Thousandths of a CPU.
    memory_mib: Memory in MiB.
    storage_mib: Disk in MiB.
    """

    cpu_milli: Amount | None = None
    memory_mib: Amount | None = None
    storage_mib: Amount | None = None


class AppliedSize(Record, frozen=True, kw_only=True):
    """How a version came about that was made of a recommendation.

    source: Name of the version that it was made of.
    value: What was applied to it.
    declared: What the source asked for.
    by: Who applied it.
    at: When.
    reason: Why, in the words of whoever applied it.
    """

    source: str
    value: Value
    declared: SizedAmounts
    by: str
    at: datetime
    reason: str = ""


class ProposedSize(Record, frozen=True, kw_only=True):
    """What somebody proposes that a definition asks for; an admin applies it, or does not.

    value: What is proposed.
    amounts: The amounts that it meant when it was proposed.
    by: Who proposes it.
    at: Since when.
    reason: Why, in the words of whoever proposes it.
    """

    value: Value
    amounts: SizedAmounts
    by: str
    at: datetime
    reason: str = ""


class PoolOutcome(Record, frozen=True, kw_only=True):
    """How many labs of a size one empty worker of a pool holds, and what that costs.

    pool: Name of the pool.
    sessions_per_worker: Sessions that one of its workers holds at once; 0 when none fits.
    usd_per_session_hour: Price of a full worker's hour for each of them; null where the price is not
    known, or none fits.
    """

    pool: str
    sessions_per_worker: int
    usd_per_session_hour: float | None = None


class SizeOption(Record, frozen=True, kw_only=True):
    """One size that a definition could ask for, and what follows.

    value: What it is.
    amounts: What one lab would ask for.
    exceeded: How many of the sessions that were looked at used more of anything.
    pools: What it means for each pool of its track, by the pools' names.
    refused: Why it cannot be applied; empty when it can.
    """

    value: OptionName
    amounts: Amounts
    exceeded: int
    pools: tuple[PoolOutcome, ...] = ()
    refused: str = ""


class SizeSaving(Record, frozen=True, kw_only=True):
    """What the bound would have saved over the sessions that were looked at; negative costs more.

    sessions: Sessions whose length is known.
    hours: Their hours together.
    memory_gib_hours: Memory that would not have been reserved, times the hours.
    worker_hours: Hours of full workers of the cheapest pool; null where no pool holds both sizes.
    usd: What those cost; null where no price is known.
    """

    sessions: int
    hours: float
    memory_gib_hours: float
    worker_hours: float | None = None
    usd: float | None = None


class LabRecommendation(Record, frozen=True, kw_only=True):
    """What past sessions of a definition's family say of what it asks for.

    definition: Name of the definition.
    namespace: Namespace of the definition.
    family: Family whose sessions count.
    version: Version of the definition.
    newest: Name of the newest version of the family that new sessions may use; null when none.
    looked_at: Past sessions that were looked at, the newest ones.
    most: How many are looked at, at most.
    reviewed: Why it needs a review, or why not, as its condition says it.
    needs_review: Whether what it asks for differs significantly from the bounds.
    dimensions: What was used of each dimension.
    options: What may be applied, and what follows of each; what is declared first.
    saving: What the bound would have saved; null as long as there is no bound.
    proposal: What somebody proposes; null when nobody does.
    applied: How this version came about; null when no recommendation was applied.
    """

    definition: str
    namespace: str
    family: str
    version: str
    newest: str | None
    looked_at: int
    most: int
    reviewed: str
    needs_review: bool
    dimensions: tuple[LabBound, ...]
    options: tuple[SizeOption, ...]
    saving: SizeSaving | None = None
    proposal: ProposedSize | None = None
    applied: AppliedSize | None = None
