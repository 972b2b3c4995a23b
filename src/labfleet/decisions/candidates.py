"""What is to be placed, and the workers that may take it: records for `placement` and its index."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from labfleet.decisions import ledger, strategies
from labfleet.decisions.cml_versions import Versions
from labfleet.resources.amounts import Amounts, Reservation, vector
from labfleet.resources.strategy import Strategy

UNLICENSED_NODES = 5
"""Running nodes that CML allows without a licence (facts/cml.md#licensing)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What is to be placed, for [start, end); `end` None means until it is ended.

    `track` None accepts any track, `licence_affinity` empty any licence, `licensed` none but
    licensed workers. `needs` are the node and image definitions that the lab names (`catalogues`),
    `versions` the CML versions that it runs under, None for any.
    """

    amounts: Amounts
    start: datetime
    end: datetime | None = None
    track: str | None = None
    licence_affinity: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    licensed: bool = False
    versions: Versions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One worker as the snapshot shows it.

    `capacity` None means not seen yet. `free_ports` counts the ports of the range held neither
    by our sessions nor by the quarantine now; None when that was not read.
    `closed` is the word for what keeps sessions away (`lifecycle.worker.phases.closure`); at
    `closes_at` the provider takes the machine away, so no placement may last beyond it. `has` are
    the definitions that servers of its image have, None when none was seen: then it may have all.
    `version` is CML's, None when not seen. `strategy` is its pool's, `rank` when the pool's turn
    comes, `placed` the last placement there as `strategies.placed_at` counts.
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
    version: str | None = None
    strategy: Strategy = Strategy.PACKED
    rank: strategies.Rank = strategies.ANYWHERE
    placed: int = 0
    booked: Amounts = field(init=False)
    real: Amounts | None = field(init=False)
    room: tuple[int, ...] = field(init=False)
    fill: float = field(init=False)

    def __post_init__(self) -> None:
        # Computed once, since many requests are checked against a candidate.
        booked = ledger.total(self.reservations)
        real = self.capacity
        if real is not None and not self.licensed:
            real = with_nodes(real, self.unlicensed_nodes)
        room = () if real is None else vector(ledger.less(real, booked))
        object.__setattr__(self, "booked", booked)
        object.__setattr__(self, "real", real)
        object.__setattr__(self, "room", room)
        object.__setattr__(self, "fill", _fill(booked, real))

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the booked shares of CPU, memory and storage."""
        held = self.booked
        return strategies.shares_of(held.cpu_milli, held.memory_mib, held.storage_mib, self.real)

    @property
    def last_end(self) -> int:
        """Return when the last reservation ends, as `strategies.Load` has it."""
        return max((strategies.seconds(each.end) for each in self.reservations), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShape:
    """A worker that could be created: an empty, licensed one of a pool's template.

    `has` as a candidate's, `version` too, but that an unknown one may be any.
    """

    name: str
    track: str
    capacity: Amounts
    product: str | None = None
    has: frozenset[str] | None = None
    version: str | None = None


def _fill(booked: Amounts, real: Amounts | None) -> float:
    if real is None:
        return 0.0
    return strategies.fill_of(booked.cpu_milli, booked.memory_mib, real)


def with_nodes(capacity: Amounts, nodes: int) -> Amounts:
    """Return a capacity with another node limit."""
    return Amounts(
        cpu_milli=capacity.cpu_milli,
        memory_mib=capacity.memory_mib,
        storage_mib=capacity.storage_mib,
        nodes=nodes,
        labs=capacity.labs,
        ports=capacity.ports,
        network_kbps=capacity.network_kbps,
    )
