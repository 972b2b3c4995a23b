"""Which worker gets a session, or why it waits, or why it can never run.

Pure and total: the same candidates in any order give the same answer. Filters and score are
those of facts/upstream.md#templates-and-placement with its defects fixed (real track match,
licence node limits, real port check, stable ties). The score function is an argument.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.decisions import ledger, wording
from labfleet.resources.amounts import Amounts, Reservation, Shortage, vector
from labfleet.resources.decision import CANDIDATES, Decision, Verdict
from labfleet.resources.machine import Machine
from labfleet.resources.session_conditions import WaitReason

UNLICENSED_NODES = 5
"""Running nodes that CML allows without a licence (facts/cml.md#licensing)."""

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
    "MissingDefinitions": 2, "DuplicateIdentity": 2, "MaintenanceMode": 2, "DiskAlmostFull": 2, "TrackMismatch": 0, "LicenceMismatch": 3, "UnlicensedNodeLimit": 4, "CapacityUnknown": 4,
}  # fmt: skip
_FITTED = 6
_FITS: tuple[tuple[str, ...], tuple[Shortage, ...]] = ((), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What is to be placed, for [start, end); `end` None means until it is ended.

    `track` None accepts any track, `licence_affinity` empty any licence. `needs` are the node and
    image definitions that the lab names (`catalogues`).
    """

    amounts: Amounts
    start: datetime
    end: datetime | None = None
    track: str | None = None
    licence_affinity: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One worker as the snapshot shows it.

    `capacity` None means not seen yet. `free_ports` counts the ports of the range held neither
    by our sessions nor by the quarantine now; None when that was not read.
    `closed` is the word for what keeps sessions away (`lifecycle.worker.phases.closure`); at
    `closes_at` the provider takes the machine away, so no placement may last beyond it. `has` are
    the definitions that servers of its image have, None when none was seen: then it may have all.
    Computed: `booked` is the sum of all reservations, `real` the capacity with the node limit
    of the licence state, `room` what `real` has beyond `booked`, `fill` the mean share of CPU and
    memory that is booked.
    """

    name: str
    track: str = "default"
    pool: str | None = None
    closed: str | None = None
    closes_at: datetime | None = None
    licensed: bool = False
    product: str | None = None
    unlicensed_nodes: int = UNLICENSED_NODES
    capacity: Amounts | None = None
    reservations: tuple[Reservation, ...] = ()
    free_ports: int | None = None
    sessions: int = 0
    has: frozenset[str] | None = None
    booked: Amounts = field(init=False)
    real: Amounts | None = field(init=False)
    room: tuple[int, ...] = field(init=False)
    fill: float = field(init=False)

    def __post_init__(self) -> None:
        # Computed once, since many requests are checked against a candidate.
        booked = ledger.total(self.reservations)
        real = self.capacity
        if real is not None and not self.licensed:
            real = _with_nodes(real, self.unlicensed_nodes)
        room = () if real is None else vector(ledger.less(real, booked))
        object.__setattr__(self, "booked", booked)
        object.__setattr__(self, "real", real)
        object.__setattr__(self, "room", room)
        object.__setattr__(self, "fill", _fill(booked, real))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShape:
    """A worker that could be created: an empty, licensed one of a pool's template.

    `has` as a candidate's.
    """

    name: str
    track: str
    capacity: Amounts
    product: str | None = None
    has: frozenset[str] | None = None


class Load(Protocol):
    """What a score looks at."""

    @property
    def fill(self) -> float: ...

    @property
    def sessions(self) -> int: ...


Score = Callable[[Load], float]


def bin_packing(candidate: Load) -> float:
    """Return how full the worker is: full ones are preferred, so that empty ones can be removed.

    mean(allocated / total) of CPU and memory + min(0.05, 0.01 x sessions)
    (facts/upstream.md#templates-and-placement).
    """
    return candidate.fill + min(0.05, 0.01 * candidate.sessions)


def _fill(booked: Amounts, real: Amounts | None) -> float:
    return 0.0 if real is None else fill_of(booked.cpu_milli, booked.memory_mib, real)


def fill_of(cpu_milli: int, memory_mib: int, real: Amounts) -> float:
    """Return the mean share of CPU and memory that is booked."""
    cpu = cpu_milli / max(1, real.cpu_milli)
    return (cpu + memory_mib / max(1, real.memory_mib)) / 2


def place(
    request: PlacementRequest,
    candidates: Sequence[Candidate],
    *,
    now: datetime,
    revision: int = 0,
    score: Score = bin_packing,
) -> Decision:
    """Return the worker with the highest score that fits, or why the request waits.

    Fits means: in every dimension, the reservations of the whole window plus the request
    never exceed the capacity. Of equal scores the first name wins. Call `never_fits` first:
    this function answers `waiting` also for a request that can never fit.
    """
    scan = Scan(request, now, score)
    scan.look(candidates)
    return scan.decision(revision)


class Scan:
    """The work of `place`, for a caller that looks at the candidates in several steps.

    The answer is that of one look at all of them, in whatever order they come.
    """

    def __init__(
        self, request: PlacementRequest, now: datetime, score: Score = bin_packing
    ) -> None:
        self._request = request
        self._now = now
        self._score = score
        self._wanted = vector(request.amounts)
        self._seen: list[Candidate] = []
        self._fitting: list[tuple[float, str]] = []
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
                self._fitting.append((-self._score(candidate), candidate.name))

    def decision(self, revision: int) -> Decision:
        """Return the decision on all that was looked at."""
        best = heapq.nsmallest(CANDIDATES, self._fitting)
        near = heapq.nsmallest(CANDIDATES - len(best), self._missing, key=_nearness)
        verdicts = tuple(fitting(value, name) for value, name in best)
        chosen = best[0][1] if best else None
        reason = "Fits" if chosen else str(_why(self._request, self._seen, self._counts))
        return Decision(
            outcome="assigned" if chosen else "waiting",
            reason=reason,
            message=_message(self._request, chosen, reason, near),
            at=self._now,
            revision=revision,
            requested=self._request.amounts,
            chosen=chosen,
            candidates=verdicts + tuple(each[3] for each in near),
            evaluated=len(self._seen),
            rejected_by_reason=dict(sorted(self._counts.items())),
        )


def fitting(value: float, name: str) -> Verdict:
    """Return the verdict on a worker that fits; `value` is its score, negative."""
    return Verdict(name=name, fits=True, score=round(-value, 6))


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
    if candidate.has is not None and not request.needs <= candidate.has:
        return "MissingDefinitions"
    product = candidate.product if candidate.licensed else None
    if request.licence_affinity and not serves(product, request.licence_affinity):
        return "LicenceMismatch"
    if candidate.real is None:
        return "CapacityUnknown"
    if not candidate.licensed and request.amounts.nodes > candidate.real.nodes:
        return "UnlicensedNodeLimit"
    return None


def never_fits(
    request: PlacementRequest, shapes: Iterable[WorkerShape], *, now: datetime, revision: int = 0
) -> Decision | None:
    """Return the refusal of a request that fits no worker that can exist, else None.

    `shapes` are empty workers: of the pools' templates, and of the existing workers. Without a
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
    allowed = serves(shape.product, request.licence_affinity)
    if shape.has is not None and not request.needs <= shape.has:
        return False
    return allowed and not ledger.shortages(request.amounts, shape.capacity, Amounts())


def shape(
    name: str, track: str, machine: Machine, has: frozenset[str] | None = None
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
        capacity=_with_nodes(machine.capacity, nodes),
        product=machine.licence.product if licensed else None,
        has=has,
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
    if candidate.has is not None and not request.needs <= candidate.has:
        return ("MissingDefinitions",), ()
    product = candidate.product if candidate.licensed else None
    if request.licence_affinity and not serves(product, request.licence_affinity):
        return ("LicenceMismatch",), ()
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


def _closed(request: PlacementRequest, candidate: Candidate) -> str | None:
    if candidate.closed is not None:
        return candidate.closed
    limit = candidate.closes_at
    if limit is not None and (request.end is None or request.end > limit):
        return "ScheduledEvent"
    if request.track not in {None, candidate.track}:
        return "TrackMismatch"
    return None


def _with_nodes(capacity: Amounts, nodes: int) -> Amounts:
    return Amounts(
        cpu_milli=capacity.cpu_milli,
        memory_mib=capacity.memory_mib,
        storage_mib=capacity.storage_mib,
        nodes=nodes,
        labs=capacity.labs,
        ports=capacity.ports,
        network_kbps=capacity.network_kbps,
    )


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
    "LicenceMismatch": "its licence is of another class",
    "CapacityUnknown": "its capacity is not known yet",
}
