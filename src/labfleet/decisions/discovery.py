"""Which of the instances that a scan found become workers: pure.

Discovery is not ownership (facts/aws.md#ownership): an image pattern only finds candidates. An
instance with an owner tag belongs to an installation, ours or another, and is never imported.
Image ids are remembered, because a deregistered image disappears while its instances run.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import msgspec

from labfleet.kernel import errors, ids
from labfleet.resources import conditions
from labfleet.resources.region import RegionCondition, RegionReason, RegionStatus

OWNER_TAG = "labfleet:owner"
"""The tag that names the installation that owns an instance (adapters/aws/launches)."""
WORKER_TAG = "labfleet:worker"
UID_TAG = "labfleet:worker-uid"
GROUPS = ("fresh", "known", "ours", "foreign", "ignored", "ending")
_ENDING = frozenset({"ending", "gone"})
NAME_LIMIT = 40
FOREIGN_KEPT = 50


class Machine(Protocol):
    """The fields that are read of a described instance."""

    @property
    def id(self) -> str:
        """Its instance id."""
        ...

    @property
    def state(self) -> str:
        """Its state in the provider's words."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """Its tags."""
        ...


M = TypeVar("M", bound=Machine)


@dataclass(frozen=True, slots=True)
class Sorted(Generic[M]):
    """The candidates of one region, each in exactly one group.

    `fresh` shall be imported; `known` are workers already; `ours` carry our owner tag without
    having a worker (left to garbage collection); `foreign` carry another installation's tag.
    """

    fresh: tuple[M, ...] = ()
    known: tuple[M, ...] = ()
    ours: tuple[M, ...] = ()
    foreign: tuple[M, ...] = ()
    ignored: tuple[M, ...] = ()
    ending: tuple[M, ...] = ()


def sort(
    found: Iterable[M],
    *,
    known: Collection[str],
    ignored: Collection[str],
    installation: str | None,
) -> Sorted[M]:
    """Return the candidates in groups. `installation` None: all with an owner are foreign."""
    groups: dict[str, list[M]] = {name: [] for name in GROUPS}
    seen: set[str] = set()
    for each in found:
        if each.id not in seen:
            seen.add(each.id)
            groups[_group(each, known, ignored, installation)].append(each)
    return Sorted(**{name: tuple(group) for name, group in groups.items()})


def _group(
    each: Machine, known: Collection[str], ignored: Collection[str], installation: str | None
) -> str:
    if each.id in known:
        return "known"
    owner = each.tags.get(OWNER_TAG)
    if owner is not None:
        return "ours" if owner == installation else "foreign"
    if each.state in _ENDING:
        return "ending"
    return "ignored" if each.id in ignored else "fresh"


def remembered(before: Sequence[str], found: Iterable[str], limit: int) -> tuple[str, ...]:
    """Return known and new image ids, oldest first; beyond the limit the oldest are dropped.

    An id that is seen again moves to the end, so that the longest unseen ids are dropped.
    """
    again = dict.fromkeys(found)
    kept = [each for each in before if each not in again]
    return tuple([*kept, *again][-limit:])


@dataclass(frozen=True, slots=True)
class _Used:
    """Names that others have, and those given out since; others' are only asked, never listed."""

    others: Container[str]
    mine: set[str]

    def __contains__(self, name: object) -> bool:
        return name in self.mine or name in self.others


def worker_name(instance_id: str, tag: str | None, taken: Container[str]) -> str:
    """Return a valid, free name: of the Name tag, with the instance's id if that is taken."""
    base = ids.slug(tag, limit=NAME_LIMIT) if tag else ids.slug(instance_id)
    if base not in taken:
        return base
    tail = instance_id.removeprefix("i-")
    for name in (f"{base}-{tail[-8:]}", f"{base}-{tail}"):
        legal = ids.slug(name)
        if legal not in taken:
            return legal
    return ids.slug(f"{base}/{instance_id}")


def names_for(found: Iterable[tuple[str, str | None]], taken: Container[str]) -> Mapping[str, str]:
    """Return a name for each (instance id, Name tag), all different and none taken."""
    made: dict[str, str] = {}
    used = _Used(taken, set())
    for instance_id, tag in found:
        made[instance_id] = worker_name(instance_id, tag, used)
        used.mine.add(made[instance_id])
    return made


@dataclass(slots=True)
class Scan:
    """What one scan of a region has found so far.

    `compared`: what was found was compared with our workers; `made` are the names of new ones,
    `foreign` instances of others and `ignored` the number of those that people told to leave.
    """

    source: str = "default"
    images: tuple[str, ...] = ()
    found: int = 0
    compared: bool = False
    made: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    ignored: int = 0
    trouble: errors.LabfleetError | None = None


def scanned(status: RegionStatus, scan: Scan, now: datetime) -> RegionStatus:
    """Return the region's status after a scan; one that failed keeps what was known."""
    told = scan.trouble
    known = msgspec.structs.replace(
        status.scan,
        runs=status.scan.runs + 1,
        last_run_at=now,
        last_error="" if told is None else told.message[:500],
        settings_source=scan.source,
    )
    if scan.compared:
        known = msgspec.structs.replace(
            known,
            discovered=scan.found,
            imported=known.imported + len(scan.made),
            foreign=len(scan.foreign),
            foreign_ids=scan.foreign[:FOREIGN_KEPT],
            ignored=scan.ignored,
        )
    facts = conditions.put(
        status.conditions,
        RegionCondition.SCANNED,
        "True" if told is None else "False",
        RegionReason.COMPLETE if told is None else conditions.of_error(told),
        "" if told is None else told.message[:300],
        now=now,
    )
    images = scan.images or status.images
    return msgspec.structs.replace(status, images=images, scan=known, conditions=facts)
