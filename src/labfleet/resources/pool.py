"""Pool: the workers of one lab track, with a scaling policy."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from labfleet.resources.conditions import Condition
from labfleet.resources.learned_demand import DemandRule
from labfleet.resources.meta import Record, Resource, Text
from labfleet.resources.pool_windows import WINDOWS, Thresholds, Window, WorkersWindow
from labfleet.resources.strategy import Strategy

FINALIZER_WORKERS = "labfleet/pool-workers"
EVENTS_KEPT = 50
LOSSES_KEPT = 20
EARLIER_LEAD = 2100
"""The default lead of earlier versions, in seconds. They stored and exported it with every pool, so
nobody can tell it from a choice (docs/decisions/0030-lead-from-measured-boots.md)."""
PAUSED_MARK = "labfleet.dev/paused"
"""Annotation: why it is paused, by whom and since when, in a sentence for people."""


class PoolPhase(StrEnum):
    """Where a pool stands (upstream 001's nine)."""

    PENDING = "PENDING"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    SCALING_UP = "SCALING_UP"
    SCALING_DOWN = "SCALING_DOWN"
    DRAINING = "DRAINING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"


class ScalingPolicy(StrEnum):
    """How a pool chooses its size (docs/how-to/choose-a-policy.md)."""

    NONE = "NONE"
    NEED_BASED = "NEED_BASED"
    CAPACITY_BASED = "CAPACITY_BASED"
    LAB_COUNT_BASED = "LAB_COUNT_BASED"
    SCHEDULED = "SCHEDULED"
    HYBRID = "HYBRID"


class Scaling(Record, frozen=True, kw_only=True):
    """Bounds and pace of a pool; seconds are fleet time.

    policy: How the wanted number of workers is found.
    enabled: Whether the pool grows and shrinks by itself.
    min_workers: Least number of workers.
    max_workers: Greatest number of workers; each is a machine that is paid for.
    cooldown_up_seconds: Least time between two growths.
    cooldown_down_seconds: Least time between two shrinkings.
    empty_seconds: How long a worker above the minimum must have been empty before it goes.
    lead_seconds: How long before a promised lab's head start its worker is made; null measures it
    from the pool's boots, and so does 2100, the default of earlier versions.
    sure_percent: With what probability all workers that a promised slot needs shall be up in time, by
    the boots that were measured; NEED_BASED makes as many more as that takes, and gives them back.
    spare_workers: Empty workers that NEED_BASED keeps ready beyond what is needed; each is paid for.
    spare_times: Times at which it keeps another number of them.
    hours: Times at which the policy may add and remove workers; none means always. The minimum, the
    maximum and what failed are seen to at all times.
    timetable: Least number of workers by time, for SCHEDULED and HYBRID; of several that are open the
    largest counts, and the minimum where none is.
    thresholds: Loads at which CAPACITY_BASED, LAB_COUNT_BASED and HYBRID act.
    """

    policy: ScalingPolicy = ScalingPolicy.NEED_BASED
    enabled: bool = True
    min_workers: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    max_workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    cooldown_up_seconds: Annotated[int, msgspec.Meta(ge=0)] = 60
    cooldown_down_seconds: Annotated[int, msgspec.Meta(ge=0)] = 300
    empty_seconds: Annotated[int, msgspec.Meta(ge=0)] = 600
    lead_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None
    sure_percent: Annotated[float, msgspec.Meta(ge=50, le=99.99)] = 99.5
    spare_workers: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    spare_times: Annotated[tuple[WorkersWindow, ...], msgspec.Meta(max_length=WINDOWS)] = ()
    hours: Annotated[tuple[Window, ...], msgspec.Meta(max_length=WINDOWS)] = ()
    timetable: Annotated[tuple[WorkersWindow, ...], msgspec.Meta(max_length=WINDOWS)] = ()
    thresholds: Thresholds = Thresholds()

    def __post_init__(self) -> None:
        if self.lead_seconds == EARLIER_LEAD:
            msgspec.structs.force_setattr(self, "lead_seconds", None)
        if self.min_workers > self.max_workers:
            raise ValueError("minWorkers is greater than maxWorkers")


class Disruption(Record, frozen=True, kw_only=True):
    """How many of a pool's workers may be taken out of service at once by automatic actions.

    The larger of the two counts, but never more than there are. Source:
    facts/aws.md#disruption-budget.

    max_percent: Share of the serving workers, rounded down.
    max_workers: Number of workers.
    """

    max_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10
    max_workers: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1


class PoolBudget(Record, frozen=True, kw_only=True):
    """The most that a pool may cost by what it starts by itself, in US dollars.

    At 80 % of a bound people are told; at all of it no worker is made or started any more, whoever
    waits. What runs goes on, and what people start themselves is not held.

    usd_per_hour: Most that an hour of its workers may cost; null bounds nothing.
    usd_per_month: Most that a month of UTC may cost; null bounds nothing.
    """

    usd_per_hour: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    usd_per_month: Annotated[float, msgspec.Meta(gt=0, le=1e8)] | None = None


class PoolSpec(Record, frozen=True, kw_only=True):
    """What people want of a pool. `paused` stops every automatic action on it and its workers.

    template: Name of the template of new workers.
    track: Lab track whose sessions its workers host.
    name_prefix: Beginning of the names of its workers.
    scaling: Bounds and pace of its size.
    labels: Labels that its workers get.
    annotations: Annotations that its workers get.
    desired: State that people want of the whole pool.
    paused: Whether every automatic action on it and its workers rests.
    disruption: How many workers may be out of service at once.
    strategy: By what a worker is chosen for a session among those of the pool that fit; null means
    the fleet's, `scheduling.strategy`.
    demand: With what sessions are counted whose definition does not say: what is declared, or a bound
    of what past ones used; `bound` counts where all pools of the track say it.
    budget: The most that it may cost by what it starts by itself; null bounds nothing.
    """

    template: Text
    track: Text = "default"
    name_prefix: Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")] = (
        "lab-worker"
    )
    scaling: Scaling = Scaling()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    desired: Literal["Ready", "Draining", "Terminated"] = "Ready"
    paused: bool = False
    disruption: Disruption = Disruption()
    strategy: Strategy | None = None
    demand: DemandRule = "declared"
    budget: PoolBudget | None = None


class ScalingEvent(Record, frozen=True, kw_only=True):
    """One change of a pool's size, with its reason.

    at: When it was.
    kind: Whether it grew, shrank or replaced a worker.
    reason: Why, in a sentence.
    before: Number of workers before.
    after: Number of workers after.
    worker: Name of the worker that came or went.
    """

    at: datetime
    kind: Literal["scale_up", "scale_down", "replace"]
    reason: str
    before: int
    after: int
    worker: str


class Loss(Record, frozen=True, kw_only=True):
    """One worker of the pool that others ended, or that never came up.

    worker: Name of the worker.
    at: When it was lost.
    why: Why it failed to boot or to be licensed; empty when its machine was ended from outside.
    """

    worker: str
    at: datetime
    why: str = ""


class LeadSource(StrEnum):
    """What a pool's lead rests on."""

    MEASURED = "measured"
    STATED = "stated"
    DEFAULT = "default"


class Lead(Record, frozen=True, kw_only=True):
    """How early a pool makes the workers for what it has promised, and what that rests on.

    seconds: How long before a promised lab's head start its worker is made.
    source: Whether boots were measured, the spec states it, or it is the default.
    boots: How many boots of such machines were measured, of the newest.
    within_seconds: How long a boot takes at most, with this coverage; null while too few were measured.
    coverage: Share of boots that stay within that.
    sentence: What is known of these boots, for people.
    """

    seconds: int
    source: LeadSource = LeadSource.DEFAULT
    boots: int = 0
    within_seconds: int | None = None
    coverage: float = 0.95
    sentence: str = ""


class PoolStatus(Record, frozen=True, kw_only=True):
    """What was observed of a pool; counts are of its workers by stage.

    `stopped` workers take no place of the pool's maximum, but their disks cost money.

    phase: Where the pool stands.
    phase_since: When the phase was entered (fleet time).
    conditions: Facts about it, each with its reason.
    workers: Ready, booting, draining and failed workers together.
    ready: Workers that can host sessions.
    booting: Workers on their way to that.
    draining: Workers that are being emptied.
    failed: Workers that failed.
    stopped: Workers that are stopped.
    waiting_sessions: Sessions of its track that wait for a worker.
    last_scale_up: When it last grew.
    last_scale_down: When it last shrank.
    created_workers: Workers made since the pool exists; the next name is counted from it.
    events: The newest changes of its size.
    losses: Workers lost lately, each once.
    tripped_at: When losses made it pause itself; null when they did not.
    promised: Sessions to which a place is promised and that no worker hosts yet.
    endangered: Promised sessions that are in danger; condition PromisesKept says why.
    lead: How early it makes workers for what is promised; null until its controller has looked.
    budget_workers: How many workers its hourly budget lets run at a time; null when it bounds none.
    message: Sentence for people on where it stands.
    observed_generation: Generation of the spec that this status is about.
    """

    phase: PoolPhase = PoolPhase.PENDING
    phase_since: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    workers: int = 0
    ready: int = 0
    booting: int = 0
    draining: int = 0
    failed: int = 0
    stopped: int = 0
    waiting_sessions: int = 0
    last_scale_up: datetime | None = None
    last_scale_down: datetime | None = None
    created_workers: int = 0
    events: tuple[ScalingEvent, ...] = ()
    losses: tuple[Loss, ...] = ()
    tripped_at: datetime | None = None
    promised: int = 0
    endangered: int = 0
    lead: Lead | None = None
    budget_workers: int | None = None
    message: str = ""
    observed_generation: int = 0


class Pool(Resource, frozen=True, kw_only=True):
    """The workers of one lab track (facts/upstream.md#pools)."""

    spec: PoolSpec
    status: PoolStatus = PoolStatus()
    kind: str = "Pool"
