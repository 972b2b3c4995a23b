"""Which resources of a provider without an owner may be removed, and when: pure.

Two phases (facts/aws.md#two-phases): a resource without an owner is a suspect; after its grace it
is due, and the controller checks the provider and the store once more before it removes it. A
failed list decides nothing, nothing is due before every region was listed once, and a round
removes only a few. Times are monotonic seconds of this leader: a new leader starts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from labfleet.decisions.discovery import Machine
from labfleet.resources import conditions
from labfleet.resources.region import LeftKind
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

SHARE = 0.2
"""The largest share of a region's machines that one round may end (but at least one)."""

Place = tuple[str, LeftKind, str]
"""Region, kind, id."""
Word = Literal["owned", "kept", "ending", "suspect"]


class Unattached(Protocol):
    """The fields that are read of a volume or address attached to nothing."""

    @property
    def kind(self) -> Literal["volume", "address"]:
        """Which of the two."""
        ...

    @property
    def region(self) -> str:
        """Where it is."""
        ...

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """Its tags."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings' rules. `hold` is why nothing may be removed now, None when it may."""

    grace: float = 300.0
    round_limit: int = 5
    keep_tag: str = "keep"
    dry_run: bool = False
    hold: str | None = None


@dataclass(frozen=True, slots=True)
class Owners:
    """Who owns what, as the records say: by instance id, and by uid while a launch is open."""

    instances: frozenset[str] = frozenset()
    launching: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SweepCandidate:
    """A listed resource with our owner tag: its name and what was decided about it."""

    place: Place
    word: Word
    name: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """What to do: `due` in order, at most what a round may end; `next` describes each suspect.

    `since` is when each suspect was first seen, for the next round.
    """

    due: tuple[SweepCandidate, ...] = ()
    since: Mapping[Place, float] = field(default_factory=dict)
    next: Mapping[Place, str] = field(default_factory=dict)


def owners(workers: Iterable[Worker]) -> Owners:
    """Return who owns what: each worker record owns its instance, an ended one nothing."""
    instances, launching = set(), set()
    for worker in workers:
        if worker.status.phase is WorkerPhase.TERMINATED:
            continue
        origin = worker.spec.origin
        for found in (worker.status.machine.id, origin and origin.instance_id):
            if found:
                instances.add(found)
        effect = worker.status.effect
        if effect is not None and effect.kind == "launch":
            launching.add(worker.metadata.uid)
    return Owners(frozenset(instances), frozenset(launching))


def vanished(worker: Worker) -> bool:
    """Tell whether the provider confirmed that the machine is gone, and not by our doing.

    Its record then is no suspect any more: nothing of it is left to end. How long a machine was not
    found tells who looks for it, in the record: no other process's clock can be held against that.
    """
    status = worker.status
    told = conditions.find(status.conditions, WorkerCondition.EXTERNAL_CHANGE)
    if told is not None and told.status == "True" and told.reason == WorkerReason.TERMINATED:
        return True
    return status.phase is WorkerPhase.FAILED and status.machine.state == "gone"


def instance(region: str, machine: Machine, known: Owners, keep_tag: str) -> SweepCandidate:
    """Judge a machine that carries our owner tag."""
    place: Place = (region, "instance", machine.id)
    name = machine.tags.get("Name", "")
    if machine.id in known.instances or known.launching.intersection(machine.tags.values()):
        return SweepCandidate(place, "owned", name)
    if keep_tag in machine.tags:
        return SweepCandidate(place, "kept", name, f"no worker has it; tag {keep_tag} protects it")
    if machine.state in {"ending", "gone"}:
        return SweepCandidate(place, "ending", name)
    return SweepCandidate(place, "suspect", name, "it carries our owner tag and no worker has it")


def leftover(found: Unattached, known: Owners, keep_tag: str) -> SweepCandidate:
    """Judge a volume or address with our owner tag that is attached to nothing."""
    place: Place = (found.region, found.kind, found.id)
    name = found.tags.get("Name", "")
    if known.launching.intersection(found.tags.values()):
        return SweepCandidate(place, "owned", name)
    if keep_tag in found.tags:
        return SweepCandidate(
            place, "kept", name, f"attached to nothing; tag {keep_tag} protects it"
        )
    return SweepCandidate(
        place, "suspect", name, "it carries our owner tag and is attached to nothing"
    )


def sweep(
    things: Iterable[SweepCandidate],
    before: Mapping[Place, float],
    now: float,
    rules: Rules,
    *,
    listed: Mapping[str, int],
    unheard: Collection[str] = (),
) -> Round:
    """Return the round. `listed` is how many machines each region has.

    `unheard` are regions whose list failed: nothing there is due, and earlier suspects there
    stay as they were. A suspect that is no longer listed is forgotten.
    """
    since: dict[Place, float] = {place: at for place, at in before.items() if place[0] in unheard}
    told: dict[Place, str] = {}
    ripe: list[tuple[float, SweepCandidate]] = []
    for thing in things:
        if thing.place[0] in unheard:
            continue
        if thing.word == "kept":
            told[thing.place] = "nothing: it is protected by its tag"
        if thing.word != "suspect":
            continue
        first = since[thing.place] = before.get(thing.place, now)
        if now - first >= rules.grace:
            ripe.append((first, thing))
        told[thing.place] = _next(rules)
    if rules.hold is not None or rules.dry_run:
        return Round((), since, told)
    ripe.sort(key=_oldest)
    return Round(tuple(_capped(ripe, rules.round_limit, listed)), since, told)


def _next(rules: Rules) -> str:
    if rules.hold is not None:
        return f"nothing while held: {rules.hold}"
    if rules.dry_run:
        return "nothing: dry run; would be ended after its grace"
    return "ended after its grace and a last look"


def _oldest(each: tuple[float, SweepCandidate]) -> tuple[float, Place]:
    return each[0], each[1].place


def _capped(
    ripe: Iterable[tuple[float, SweepCandidate]], limit: int, listed: Mapping[str, int]
) -> Iterable[SweepCandidate]:
    """Yield the oldest, up to a number in total and a share of each region's machines."""
    left = limit
    shares: dict[str, int] = {}
    for _, thing in ripe:
        region, kind, _ = thing.place
        if not left:
            return
        if kind == "instance":
            share = shares.setdefault(region, max(1, int(listed.get(region, 0) * SHARE)))
            if not share:
                continue
            shares[region] = share - 1
        left -= 1
        yield thing
