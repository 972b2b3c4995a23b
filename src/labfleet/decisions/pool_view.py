"""What a pool's size is decided from, and what is decided: the records of `scaling`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.decisions import placement
from labfleet.decisions.claims.growth import Promised
from labfleet.decisions.claims.lead import DEFAULT as DEFAULT_LEAD
from labfleet.decisions.pools.boot_odds import BootOdds
from labfleet.decisions.pools.windows import Zones
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.pool import PoolPhase, PoolSpec, ScalingEvent
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.worker import WorkerPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWorker:
    """One worker of the pool as the snapshot shows it.

    `leaving`: its end, stop or drain was requested. `parked`: the idle rule stopped it or is
    about to, so it may be started again. `capacity` None means not seen yet; the template's is
    assumed. `empty_since` None means that it hosts something. `in_use`: nodes run there that
    belong to no session, so a person may be at work. `ill`: the provider's host under it is
    impaired; `retired`: the provider takes that machine away; `unlaunched`: there was no room for one
    so far; `boot_since`: since when it boots, None while that is unknown. `for_promises`: made for
    what was promised; `unused`: made for that, and nothing was ever hosted on it. `has` as a placement candidate's.
    """

    name: str
    phase: WorkerPhase
    phase_since: datetime | None = None
    leaving: bool = False
    parked: bool = False
    cordoned: bool = False
    unreachable: bool = False
    ill: bool = False
    retired: bool = False
    capacity: Amounts | None = None
    reservations: tuple[Reservation, ...] = ()
    empty_since: datetime | None = None
    in_use: bool = False
    has: frozenset[str] | None = None
    unlaunched: bool = False
    boot_since: datetime | None = None
    for_promises: bool = False
    unused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """The input. `shape` is an empty worker of the template, None when there is none.

    `waiting` are the sessions of this pool that wait for capacity, longest first. `taken` are
    names of workers outside the pool: two pools may share a prefix and track. `promised` is what
    claims soon need, within `lead`; `odds` are how boots of such workers went; `zones` are those that
    its windows name.
    """

    name: str
    spec: PoolSpec
    phase: PoolPhase
    workers: tuple[PoolWorker, ...]
    waiting: tuple[placement.PlacementRequest, ...] = ()
    shape: placement.WorkerShape | None = None
    deleting: bool = False
    created_workers: int = 0
    last_scale_up: datetime | None = None
    last_scale_down: datetime | None = None
    taken: Container[str] = frozenset()
    promised: Promised = Promised()
    lead: timedelta = DEFAULT_LEAD
    odds: BootOdds = BootOdds()
    zones: Zones = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One worker that shall go, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDecision:
    """What to change. `created_workers` is the new name counter; it never decreases.

    `drain` are workers to empty and keep; `retire` are workers whose end is asked for (also
    when it was asked for before), and TERMINATED ones whose record may go; `start` are parked ones
    that shall serve again; `unmet` says why the pool lacks workers and may not add one; `purpose` is
    the word for what `create` is for.
    """

    phase: PoolPhase
    message: str
    create: tuple[str, ...] = ()
    retire: tuple[Retirement, ...] = ()
    drain: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    created_workers: int = 0
    events: tuple[ScalingEvent, ...] = ()
    ready: int = 0
    booting: int = 0
    draining: int = 0
    failed: int = 0
    stopped: int = 0
    unmet: PoolReason | None = None
    purpose: str = ""
