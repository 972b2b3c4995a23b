"""Which worker gets a session, or why it waits, or why it can never run.

Pure and total: the same candidates in any order give the same answer. The filters are those of
facts/upstream.md#templates-and-placement with its defects fixed (real track match, licence node
limits, real port check, stable ties); what is preferred among those that fit is `strategies`.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from labfleet.decisions import cml_versions, ledger, strategies, wording
from labfleet.decisions.candidates import Candidate, PlacementRequest, WorkerShape, with_nodes
from labfleet.kernel.rng import Rng
from labfleet.resources.amounts import Amounts, Shortage, vector
from labfleet.resources.decision import CANDIDATES, Decision, Verdict
from labfleet.resources.machine import Machine
from labfleet.resources.session_conditions import WaitReason

__all__ = ["Candidate", "PlacementRequest", "WorkerShape"]
SHORT = {
    "cpu_milli": "InsufficientCpu",
    "memory_mib": "InsufficientMemory",
    "storage_mib": "InsufficientStorage",
    "nodes": "InsufficientNodes",
    "labs": "NoLabSlot",
    "ports": "NoFreePorts",
    "network_kbps": "InsufficientNetwork",
}
_SERVES = {
    "enterprise": frozenset({"enterprise", "personal"}),
    "personal": frozenset({"personal"}),
    "evaluation": frozenset({"evaluation"}),
}
# How far a candidate passed the filters; the furthest one is the nearest miss.
_STAGE = {
    "NotReady": 1, "Cordoned": 2, "Draining": 2, "OverCommitted": 2, "Unreachable": 2, "Impaired": 2, "ScheduledEvent": 2, "NotAdopted": 2,
    "ControllerDown": 2, "KvmMissing": 2, "NoComputeReady": 2, "NoCompute": 2, "Overloaded": 2,
    "MissingDefinitions": 2, "DuplicateIdentity": 2, "MaintenanceMode": 2, "DiskAlmostFull": 2, "TrackMismatch": 0, "VersionMismatch": 2, "VersionUnknown": 2, "LicenceMismatch": 3, "UnlicensedNodeLimit": 4, "CapacityUnknown": 4,
}  # fmt: skip
_FITTED = 6
_FITS: tuple[tuple[str, ...], tuple[Shortage, ...]] = ((), ())


def place(
    request: PlacementRequest,
    candidates: Sequence[Candidate],
    *,
    now: datetime,
    revision: int = 0,
    rng: Rng | None = None,
) -> Decision:
    """Return the worker that is preferred among those that fit, or why the request waits.

    Fits means: in every dimension, the reservations of the whole window plus the request
    never exceed the capacity. What is preferred: first the pool, then the worker by the pool's
    strategy (`strategies`). RANDOM draws from `rng`; without one it takes the first name, for
    callers that ask only whether there is a place. Call `never_fits` first: this function answers
    `waiting` also for a request that can never fit.
    """
    scan = Scan(request, now, rng)
    scan.look(candidates)
    return scan.decision(revision)


class Scan:
    """The work of `place`, for a caller that looks at the candidates in several steps.

    The answer is that of one look at all of them, in whatever order they come.
    """

    def __init__(self, request: PlacementRequest, now: datetime, rng: Rng | None = None) -> None:
        self._request = request
        self._now = now
        self._rng = rng
        self._wanted = vector(request.amounts)
        self._seen: list[Candidate] = []
        self._fitting: list[Candidate] = []
        self._missing: list[tuple[int, float, str, Verdict]] = []
        self._counts: Counter[str] = Counter()

    def look(self, candidates: Iterable[Candidate]) -> None:
        """Judge these candidates too."""
        for candidate in candidates:
            self._seen.append(candidate)
            reasons, shortages = _judge(self._request, self._wanted, candidate, self._now)
            if reasons:
                self._counts[reasons[0]] += 1
                self._missing.append(_miss(candidate.name, reasons, shortages))
            else:
                self._fitting.append(candidate)

    def decision(self, revision: int) -> Decision:
        """Return the decision on all that was looked at."""
        best = self._best()
        near = heapq.nsmallest(CANDIDATES - len(best), self._missing, key=_nearness)
        chosen = best[0][3] if best else None
        reason = "Fits" if chosen else str(_why(self._request, self._seen, self._counts))
        return Decision(
            outcome="assigned" if chosen else "waiting",
            reason=reason,
            message=_message(self._request, chosen.name if chosen else None, reason, near),
            at=self._now,
            revision=revision,
            requested=self._request.amounts,
            chosen=chosen.name if chosen else None,
            candidates=(
                *(fitting(score, each.name) for *_, each, score in best),
                *(each[3] for each in near),
            ),
            evaluated=len(self._seen),
            rejected_by_reason=dict(sorted(self._counts.items())),
            strategy=chosen.strategy if chosen else "",
            parts={} if chosen is None else parts_of(chosen, self._now),
        )

    def _best(self) -> list[Weighed]:
        """Return the best that fit, in order; random keys are drawn in the order of names."""
        found = []
        for each in self._fitting:
            key, score = strategies.RULES[each.strategy].weigh(each)
            found.append((each.rank, key, each.name, each, score))
        best = heapq.nsmallest(CANDIDATES, found, key=_order)
        if self._rng is None or not any(each[3].strategy in DRAWN for each in best):
            return best
        found.sort(key=lambda each: each[2])
        return heapq.nsmallest(CANDIDATES, [_drawn(each, self._rng) for each in found], key=_order)


DRAWN = frozenset(name for name, rule in strategies.RULES.items() if rule.drawn)
"""Strategies whose choice is drawn anew each time."""
Weighed = tuple[strategies.Rank, strategies.Key, str, Candidate, float]


def _order(each: Weighed) -> tuple[strategies.Rank, strategies.Key, str]:
    return each[:3]


def _drawn(each: Weighed, rng: Rng) -> Weighed:
    rank, _, name, candidate, _ = each
    if candidate.strategy not in DRAWN:
        return each
    number = rng.random()
    return rank, number, name, candidate, 1 - number


def parts_of(candidate: Candidate, now: datetime) -> strategies.Parts:
    """Return what a chosen candidate was preferred by."""
    return strategies.parts_of(candidate, candidate.strategy, candidate.rank, now)


def fitting(score: float, name: str) -> Verdict:
    """Return the verdict on a worker that fits."""
    return Verdict(name=name, fits=True, score=round(score, 6))


def judge(
    request: PlacementRequest, candidate: Candidate, now: datetime
) -> tuple[tuple[str, ...], tuple[Shortage, ...]]:
    """Return why the candidate cannot take the request, with what it lacks; nothing if it can."""
    return _judge(request, vector(request.amounts), candidate, now)


def unsuited(request: PlacementRequest, candidate: Candidate) -> str | None:
    """Return why the candidate takes no such request, whatever is booked and whenever it ends.

    None when that is left to the window: to what is free then, and to `closes_at`.
    """
    if candidate.closed is not None:
        return candidate.closed
    if request.track not in {None, candidate.track}:
        return "TrackMismatch"
    word = _mismatch(request, candidate)
    if word is not None:
        return word
    if candidate.real is None:
        return "CapacityUnknown"
    if not candidate.licensed and request.amounts.nodes > candidate.real.nodes:
        return "UnlicensedNodeLimit"
    return None


def never_fits(
    request: PlacementRequest, shapes: Iterable[WorkerShape], *, now: datetime, revision: int = 0
) -> Decision | None:
    """Return the refusal of a request that fits no worker that can exist, else None.

    `shapes` are empty workers: of the pools' templates, and of the existing workers. Whether they
    are licensed at all is not asked, since a licence may be registered later. Without a
    shape on the request's track the answer is None: a pool may be added, so the request waits.
    """
    missing: list[tuple[int, float, str, Verdict]] = []
    for shape in shapes:
        if request.track not in {None, shape.track}:
            continue
        if not serves(shape.product, request.licence_affinity):
            missing.append(_miss(shape.name, ("LicenceMismatch",), ()))
            continue
        found = ledger.shortages(request.amounts, shape.capacity, Amounts())
        if not found:
            return None
        missing.append(_miss(shape.name, _words(found), found))
    if not missing:
        return None
    near = heapq.nsmallest(CANDIDATES, missing, key=_nearness)
    best = near[0][3]
    what = f"the largest possible worker is {best.name}, short {wording.short(best.shortages)}"
    if not best.shortages:
        what = f"no worker can carry a licence of class {' or '.join(request.licence_affinity)}"
    return Decision(
        outcome="refused",
        reason="NeverFits",
        message=f"needs {wording.amounts(request.amounts)}; {what}",
        at=now,
        revision=revision,
        requested=request.amounts,
        candidates=tuple(each[3] for each in near),
        evaluated=len(missing),
        rejected_by_reason=dict(sorted(Counter(each[3].reasons[0] for each in missing).items())),
    )


def fits_empty(request: PlacementRequest, shape: WorkerShape) -> bool:
    """Tell whether a request fits an empty worker of this shape; the track is the caller's."""
    allowed = licence_serves(request, shape.product, licensed=shape.product is not None)
    if shape.has is not None and not request.needs <= shape.has:
        return False
    if request.versions is not None and shape.version is not None:
        allowed = allowed and cml_versions.within(shape.version, request.versions)
    return allowed and not ledger.shortages(request.amounts, shape.capacity, Amounts())


def shape(
    name: str,
    track: str,
    machine: Machine,
    has: frozenset[str] | None = None,
    version: str | None = None,
) -> WorkerShape:
    """Return the capacity of an empty worker of this machine once it is licensed.

    Without a licence token it keeps CML's free node limit. A capacity without a node count
    gets the machine's licensed limit.
    """
    licensed = machine.auto_license and machine.licence.token is not None
    limit = machine.cml.max_nodes_licensed if licensed else machine.cml.max_nodes_unlicensed
    nodes = min(limit, machine.capacity.nodes or limit)
    return WorkerShape(
        name=name,
        track=track,
        capacity=with_nodes(machine.capacity, nodes),
        product=machine.licence.product if licensed else None,
        has=has,
        version=version,
    )


def edition(product: str | None) -> str:
    """Return the licence class of a CML product: enterprise, personal or evaluation."""
    word = (product or "").lower()
    if "enterprise" in word or "education" in word:
        return "enterprise"
    return "personal" if "personal" in word else "evaluation"


def serves(product: str | None, affinity: Iterable[str]) -> bool:
    """Tell whether a worker of this product may run definitions of these licence classes."""
    wanted = set(affinity)
    return not wanted or bool(wanted & _SERVES[edition(product)])


def _judge(
    request: PlacementRequest, wanted: tuple[int, ...], candidate: Candidate, now: datetime
) -> tuple[tuple[str, ...], tuple[Shortage, ...]]:
    """Return why the candidate cannot take the request; nothing when it can."""
    closed = _closed(request, candidate)
    if closed is not None:
        return (closed,), ()
    word = _mismatch(request, candidate)
    if word is not None:
        return (word,), ()
    real = candidate.real
    if real is None:
        return ("CapacityUnknown",), ()
    if not candidate.licensed and request.amounts.nodes > real.nodes:
        lack = Shortage(dimension="nodes", wanted=request.amounts.nodes, free=real.nodes)
        return ("UnlicensedNodeLimit",), (lack,)
    found: list[Shortage] = []
    # The sum of all reservations is an upper bound at every instant: mostly no sweep is needed.
    if not all(map(operator.le, wanted, candidate.room)):
        held = ledger.peak(ledger.settled(candidate.reservations, now), request.start, request.end)
        found.extend(ledger.shortages(request.amounts, real, held))
    ports = candidate.free_ports
    if ports is not None and request.amounts.ports > ports:
        found = [each for each in found if each.dimension != "ports"]
        found.append(Shortage(dimension="ports", wanted=request.amounts.ports, free=ports))
    return (_words(found), tuple(found)) if found else _FITS


def _mismatch(request: PlacementRequest, candidate: Candidate) -> str | None:
    """Return what of a worker's software and licence the request cannot take; None for nothing."""
    if candidate.has is not None and not request.needs <= candidate.has:
        return "MissingDefinitions"
    if request.versions is not None and not cml_versions.within(
        candidate.version, request.versions
    ):
        return "VersionUnknown" if candidate.version is None else "VersionMismatch"
    if request.licence_affinity or request.licensed:
        product = candidate.product if candidate.licensed else None
        if not licence_serves(request, product, licensed=candidate.licensed):
            return "LicenceMismatch"
    return None


def licence_serves(request: PlacementRequest, product: str | None, *, licensed: bool) -> bool:
    """Tell whether a worker of this licence may run what is asked for."""
    return (licensed or not request.licensed) and serves(product, request.licence_affinity)


def _closed(request: PlacementRequest, candidate: Candidate) -> str | None:
    if candidate.closed is not None:
        return candidate.closed
    limit = candidate.closes_at
    if limit is not None and (request.end is None or request.end > limit):
        return "ScheduledEvent"
    if request.track not in {None, candidate.track}:
        return "TrackMismatch"
    return None


def _words(shortages: Iterable[Shortage]) -> tuple[str, ...]:
    return tuple(SHORT[each.dimension] for each in shortages)


def _miss(
    name: str, reasons: tuple[str, ...], shortages: tuple[Shortage, ...]
) -> tuple[int, float, str, Verdict]:
    """Return the verdict with its sort key among misses: filter reached, missing share."""
    stage = _STAGE.get(reasons[0], _FITTED - 1)
    lack = sum((each.wanted - each.free) / each.wanted for each in shortages)
    verdict = Verdict(name=name, fits=False, reasons=reasons, shortages=shortages)
    return -stage, lack, name, verdict


def _nearness(miss: tuple[int, float, str, Verdict]) -> tuple[int, float, str]:
    return miss[:3]


def _why(
    request: PlacementRequest, candidates: Sequence[Candidate], counts: Counter[str]
) -> WaitReason:
    """Return the one-word reason of a request that waits, in upstream's order.

    Source: facts/upstream.md#wait-words.
    """
    if not candidates:
        return WaitReason.NO_WORKERS
    ours = [each for each in candidates if request.track in {None, each.track}]
    if not ours:
        return WaitReason.NO_TRACK
    if not any(_closed(request, each) is None for each in ours):
        return WaitReason.NOT_READY
    licence = {"LicenceMismatch", "UnlicensedNodeLimit"}
    if counts["MissingDefinitions"] == sum(_closed(request, each) is None for each in candidates):
        return WaitReason.MISSING_DEFINITIONS
    passed = sum(1 for each in candidates if _closed(request, each) is None)
    if counts["VersionMismatch"] + counts["VersionUnknown"] == passed:
        return WaitReason.NO_VERSION
    if sum(counts[word] for word in licence) == passed:
        return WaitReason.NOT_LICENSED
    return WaitReason.NO_CAPACITY


def _message(
    request: PlacementRequest,
    chosen: str | None,
    reason: str,
    near: Sequence[tuple[int, float, str, Verdict]],
) -> str:
    needs = needs_words(request)
    if chosen is not None:
        return placed_words(needs, chosen)
    if reason == WaitReason.NO_WORKERS:
        return f"{needs}; there is no worker yet"
    if reason == WaitReason.NO_TRACK:
        return f"{needs}; no worker serves the track {request.track}"
    best = near[0][3]
    if best.shortages:
        return f"{needs}; best worker {best.name} is short {wording.short(best.shortages)}"
    return f"{needs}; best worker {best.name}: {_SAYS[best.reasons[0]]}"


def needs_words(request: PlacementRequest) -> str:
    """Return the first half of a decision's message."""
    return f"needs {wording.amounts(request.amounts)}"


def placed_words(needs: str, chosen: str) -> str:
    """Return the message of a decision that found a worker."""
    return f"{needs}; placed on {chosen}"


_SAYS = {
    "MissingDefinitions": "it was not seen to have a node or image definition that the lab names",
    "NotReady": "it is not ready",
    "Cordoned": "it is cordoned",
    "Draining": "it is draining",
    "OverCommitted": "more is reserved on it than it has",
    "Unreachable": "it does not answer",
    "Impaired": "the provider's check of its machine fails",
    "ControllerDown": "its controller is down",
    "KvmMissing": "it has no KVM",
    "NoComputeReady": "none of its computes is READY",
    "NoCompute": "its compute is gone",
    "Overloaded": "it is overloaded",
    "DuplicateIdentity": "its product_uuid is another worker's",
    "MaintenanceMode": "it is in maintenance mode",
    "DiskAlmostFull": "its disk is almost full",
    "NotAdopted": "it is only observed until somebody adopts it",
    "ScheduledEvent": "the provider takes its machine before the session would end",
    "TrackMismatch": "it serves another track",
    "VersionMismatch": "its CML is of a version that the definition does not allow",
    "VersionUnknown": "the version of its CML is not known yet",
    "LicenceMismatch": "it has no licence, or one of another class",
    "CapacityUnknown": "its capacity is not known yet",
}
