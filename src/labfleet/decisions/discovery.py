"""Which instances that a scan found become workers: pure.

Discovery is not ownership (facts/aws.md#ownership): an image pattern finds candidates. Whatever
carries an owner tag belongs to an installation, ours or another, and is never imported. Image ids
are remembered, because a deregistered image disappears while its instances run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from labfleet.kernel import ids

OWNER_TAG = "labfleet:owner"
"""The tag that makes an instance some installation's (adapters/aws/launches)."""
WORKER_TAG = "labfleet:worker"
UID_TAG = "labfleet:worker-uid"
GROUPS = ("fresh", "known", "ours", "foreign", "ignored", "ending")
_ENDING = frozenset({"shutting-down", "terminated"})
NAME_LIMIT = 40


class Machine(Protocol):
    """What is read of an instance as the provider describes it."""

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

    `fresh` shall be imported; `known` are workers already; `ours` carry our owner tag and no
    worker has them (garbage collection's affair); `foreign` carry another installation's.
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
    """Return who is who. `installation` None: whatever has an owner is foreign."""
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
    """Return what was known and what is new, oldest first; the oldest leave over the limit.

    What is seen again moves to the end, so that only what long was not seen is forgotten.
    """
    again = dict.fromkeys(found)
    kept = [each for each in before if each not in again]
    return tuple([*kept, *again][-limit:])


def worker_name(instance_id: str, tag: str | None, taken: Collection[str]) -> str:
    """Return a legal, free name: the Name tag's, with the instance's id where that is taken."""
    base = ids.slug(tag, limit=NAME_LIMIT) if tag else ids.slug(instance_id)
    if base not in taken:
        return base
    tail = instance_id.removeprefix("i-")
    for name in (f"{base}-{tail[-8:]}", f"{base}-{tail}"):
        legal = ids.slug(name)
        if legal not in taken:
            return legal
    return ids.slug(f"{base}/{instance_id}")


def names_for(found: Iterable[tuple[str, str | None]], taken: Collection[str]) -> Mapping[str, str]:
    """Return a name for each (instance id, Name tag), all different and none taken."""
    used, made = set(taken), {}
    for instance_id, tag in found:
        made[instance_id] = worker_name(instance_id, tag, used)
        used.add(made[instance_id])
    return made
