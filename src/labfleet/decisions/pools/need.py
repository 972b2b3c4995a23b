"""NEED_BASED: as many workers as what waits and what is promised needs, and the spares that are set.

Pure. What waits is packed into whole workers beside what is there and what boots; what is promised
gets so many that all that a slot needs are up in time with the stated probability; what is empty
beyond that may go.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from labfleet.decisions import parking, placement
from labfleet.decisions.claims import growth
from labfleet.decisions.pool_view import PoolView, PoolWorker
from labfleet.decisions.pools import boot_odds, groups, windows
from labfleet.decisions.pools.groups import Groups, Look
from labfleet.kernel.quantity import count
from labfleet.resources.worker import WorkerPhase

WAITING_LIMIT = 200
"""How many waiting sessions one decision considers."""
STARTS = 20
"""How many different starts of promised slots one decision makes sure of, the first ones."""
KEEP = 0.25
"""Of the doubt that is allowed, what may be left once a worker is given back."""
_NONE: AbstractSet[str] = frozenset()


def uncovered(view: PoolView, there: Groups, now: datetime) -> list[placement.PlacementRequest]:
    """Return the waiting sessions that no present or starting worker will take."""
    return _served(view, there, now)[0]


def _served(
    view: PoolView, there: Groups, now: datetime
) -> tuple[list[placement.PlacementRequest], frozenset[str]]:
    """Return the waiting sessions that no present or starting worker will take, and who takes others.

    Sessions that do not fit an empty worker are left out: adding one would not help them.
    """
    horizon = now + view.lead
    due = [each for each in view.waiting if each.start <= horizon][:WAITING_LIMIT]
    if not due or (not _has_spares(view) and _plenty(due, view, there)):
        return [], frozenset()
    workers = [groups.as_ready(each, view) for each in (*there.ready, *there.booting)]
    left, taken = parking.packed(workers, due, now=now)
    shape = view.shape
    return [each for each in left if shape is None or placement.fits_empty(each, shape)], taken


def _has_spares(view: PoolView) -> bool:
    return bool(view.spec.scaling.spare_workers or view.spec.scaling.spare_times)


def packed(wanting: Sequence[placement.PlacementRequest], view: PoolView, now: datetime) -> int:
    """Return into how many new workers these sessions go, packed as placement will pack them."""
    if view.shape is None:
        return len(wanting)
    made = list[placement.Candidate]()
    for request in wanting:
        found = placement.place(request, made, now=now).chosen
        place = next((at for at, each in enumerate(made) if each.name == found), None)
        if place is None:
            place = len(made)
            made.append(_new(f"new-{place:04d}", view, view.shape))
        made[place] = parking.occupied(made[place], request)
    return len(made)


def wanted(view: PoolView, now: datetime) -> bool:
    """Tell whether a waiting session could still need an empty worker within the lead time."""
    horizon = now + view.lead
    return any(
        each.start <= horizon and (view.shape is None or placement.fits_empty(each, view.shape))
        for each in view.waiting[:WAITING_LIMIT]
    )


def promised(look: Look) -> int:
    """Return how many more workers the promises that are due soon need.

    Where the pool's boots are known, all workers that a slot needs are to be up at its start with the
    stated probability; where they are not, a worker that boots counts as one that will be up.
    """
    missing, sure = certain(look), look.view.spec.scaling.sure_percent / 100
    for left, needs, chances in _slots(look, _NONE):
        each = look.view.odds.up_within(left)
        missing = max(missing, boot_odds.lacking(chances, needs, each, sure))
    return missing


def kept(look: Look, without: AbstractSet[str]) -> bool:
    """Tell whether what is promised stays as sure as it is to be when these workers go.

    A little surer than that: what goes and is missed a minute later would have to be made again.
    """
    if certain(look, without):
        return False
    doubt = KEEP * (1 - look.view.spec.scaling.sure_percent / 100)
    return all(
        boot_odds.enough(chances, needs) >= 1 - doubt for _, needs, chances in _slots(look, without)
    )


def _slots(look: Look, without: AbstractSet[str]) -> Iterator[tuple[float, int, list[float]]]:
    """Yield for each start of promised slots, where the pool's boots are known, what it depends on.

    That is the seconds until then, how many workers are needed of those that boot or are to be made,
    and of each that boots how likely it is up by then.
    """
    view, there = look.view, look.groups
    if not view.odds.known:
        return
    ready = {each.name for each in there.ready if not groups.closed(each)} - without
    coming = [each for each in there.booting if each.name not in without]
    for start in sorted({each.start for each in view.promised.due})[:STARTS]:
        needs = growth.missing(view.promised, ready, until=start)
        left = (start - look.now).total_seconds()
        if needs > 0 and left > 0:
            most = min(needs, view.spec.scaling.max_workers)
            yield left, most, [_up(each, view, left, look.now) for each in coming]


def certain(look: Look, without: AbstractSet[str] = _NONE) -> int:
    """Return how many workers promises need even if all that boot come up in time."""
    there = look.groups
    ready = {each.name for each in there.ready if not groups.closed(each)}
    serving = ready | {each.name for each in there.booting}
    return growth.missing(look.view.promised, serving - without)


def spares(look: Look) -> int:
    """Return how many empty workers the pool shall keep now beyond what is needed."""
    scaling = look.view.spec.scaling
    found = windows.workers(scaling.spare_times, look.view.zones, look.now)
    return scaling.spare_workers if found is None else found


def free(look: Look, *, without: AbstractSet[str] = _NONE) -> int:
    """Return how many workers are empty, or come up so, and that nothing promised takes."""
    view, there = look.view, look.groups
    ready = [each for each in there.ready if groups.empty(each) and not groups.closed(each)]
    coming = [each for each in there.booting if not each.reservations]
    named = {each.name for each in (*ready, *coming)} - without
    return len(named) - min(len(named), growth.missing(view.promised, _NONE))


def grow(look: Look) -> tuple[int, str, str]:
    """Return how many workers to add for what waits and as spares, a word and a sentence."""
    view, now = look.view, look.now
    wanting, taken = _served(view, look.groups, now)
    many = packed(wanting, view, now)
    lacking = spares(look) - free(look, without=taken)
    if many:
        be = "session waits" if len(wanting) == 1 else "sessions wait"
        return many + max(0, lacking), "SessionsWaiting", f"{len(wanting)} {be} for capacity"
    if lacking > 0:
        return lacking, "Spare", f"{count(lacking, 'spare worker')} missing"
    return 0, "", ""


def surplus(look: Look, candidates: Sequence[PoolWorker]) -> int:
    """Return how many of the empty workers, in their order, may go."""
    if wanted(look.view, look.now):
        return 0
    extra = max(0, free(look) - spares(look))
    return spared(look, [each.name for each in candidates[:extra]])


def spared(look: Look, names: Sequence[str]) -> int:
    """Return how many of these workers, in their order, may go with all that is promised kept.

    Found by halving, since what is kept without many is kept without fewer: each try asks how sure
    every slot is, and a pool may have a thousand workers.
    """
    return bisect.bisect_left(
        range(1, len(names) + 1), True, key=lambda many: not kept(look, set(names[:many]))
    )


def _up(worker: PoolWorker, view: PoolView, left: float, now: datetime) -> float:
    """Return how likely a booting worker is up in time; one that was not launched yet has age 0."""
    if worker.unlaunched or worker.boot_since is None:
        return view.odds.up_within(left)
    return view.odds.up_within(left, (now - worker.boot_since).total_seconds())


def _new(name: str, view: PoolView, shape: placement.WorkerShape) -> placement.Candidate:
    return placement.Candidate(
        name=name, track=view.spec.track, licensed=True, product=shape.product,
        capacity=shape.capacity, has=shape.has,
    )  # fmt: skip


def _plenty(due: Sequence[placement.PlacementRequest], view: PoolView, there: Groups) -> bool:
    """Tell whether each request has an empty ready worker, so that no search is needed."""
    spare = [
        (each.capacity, each.has)
        for each in there.ready
        if each.capacity is not None
        and not each.reservations
        and not (each.cordoned or each.unreachable)
        and each.phase is WorkerPhase.READY
    ]
    if len(spare) < len(due) or view.shape is None:
        return False
    empty = (replace(view.shape, capacity=size, has=known) for size, known in spare)
    return all(
        placement.fits_empty(request, room) for request, room in zip(due, empty, strict=False)
    )
