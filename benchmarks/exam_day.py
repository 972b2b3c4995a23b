"""An exam morning that is known a day ahead, played on seeded days with boots that scatter and fail.

200 sessions from 09:00 to 12:00 of 4 CPU and 16 GiB on workers of 48 CPU and 188 GiB. A boot takes a
log-normal time, half of them within 12 and 95 in 100 within 20 minutes; one in 20 never comes up,
which is seen after 30 minutes. The pool knows the boots of earlier days, as its history keeps them,
and nothing of the day's own. A day is late when one session has no worker that is up at 09:00.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.pool_days import BEGIN, Boot
from labfleet.decisions import scaling
from labfleet.decisions.claims import growth, lead
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims, claim_of
from labfleet.decisions.placement import PlacementRequest, WorkerShape
from labfleet.decisions.scaling import PoolView, PoolWorker
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.history import ENDED, Run, RunKind
from labfleet.resources.machine import CmlSettings, Machine
from labfleet.resources.meta import SecretRef
from labfleet.resources.pool import Lead, PoolPhase, PoolSpec, Scaling
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.worker import WorkerPhase

SESSIONS = 200
START, END = BEGIN + timedelta(hours=9), BEGIN + timedelta(hours=12)
ONE = Amounts(cpu_milli=4000, memory_mib=16 * 1024, labs=1)
SIZE = Amounts(cpu_milli=48_000, memory_mib=188 * 1024, labs=10_000)
TICK = timedelta(seconds=20)
"""How often a pool is looked at."""
HALF, MOST = 12 * 60.0, 20 * 60.0
FAILS, SEEN = 0.05, 30 * 60
KNOWN = 100
"""Boots that the history has of the days before."""
BOUND = 19 * 3.2
"""Worker-hours: 19 workers that hold 11 each, for three hours and the median boot."""
METAL = Machine(
    provider=AwsSettings(region="eu-west-1"),
    cml=CmlSettings(admin_password=SecretRef(file="/run/secret")),
)


@dataclass(slots=True)
class Booted:
    """One worker of the day."""

    name: str
    made: datetime
    boot: Boot
    promised: bool
    unused: bool
    phase: WorkerPhase = WorkerPhase.STARTING
    since: datetime | None = None
    held: tuple[Reservation, ...] = ()

    @property
    def over(self) -> datetime:
        """Return when it is up, or seen to have failed."""
        return self.made + timedelta(seconds=self.boot.seconds)


def drawn(rng: random.Random) -> Boot:
    """Return how one boot goes."""
    spread = math.log(MOST / HALF) / 1.6448536
    seconds = round(HALF * math.exp(spread * rng.gauss(0, 1)))
    return Boot(SEEN, failed=True) if rng.random() < FAILS else Boot(seconds)


class Morning:
    """One exam day; `history` has the boots before it, the newest first, and takes those of it."""

    def __init__(self, rng: random.Random, history: deque[Run], rules: Scaling) -> None:
        self.rng = rng
        self.history = history
        self.spec = PoolSpec(template="t", name_prefix="w", scaling=rules)
        self.shape = WorkerShape(name="t", track="default", capacity=SIZE)
        self.workers: dict[str, Booted] = {}
        self.claims = promises(self.shape, rules.max_workers)
        self.bound: dict[str, str] = {}
        self.hours = 0.0
        self.late = False
        self._last: dict[str, datetime | None] = {"up": None, "down": None}
        self._made = 0
        self._begun = False

    def play(self) -> tuple[float, bool]:
        """Return the worker-hours of the day, and whether a session began late."""
        boots = lead.boot_times(self.history, METAL)
        told = lead.lead(self.spec.scaling, boots)
        now = START - lead.early(told) - TICK
        while now < END or self.workers:
            self._come_up(now)
            if now < END:
                self._bind(now, told)
            if not self._begun and now >= START:
                self._begun, self.late = True, len(self.bound) < SESSIONS
            if now >= END:
                for each in self.workers.values():
                    if each.held:
                        each.held, each.since, each.phase = (), now, WorkerPhase.READY
            self._decide(now, boots, told)
            self.hours += len(self.workers) * TICK.total_seconds() / 3600
            now += TICK
        return self.hours, self.late

    def _come_up(self, now: datetime) -> None:
        for each in self.workers.values():
            if each.phase is WorkerPhase.STARTING and each.over <= now:
                failed = each.boot.failed
                each.phase = WorkerPhase.FAILED if failed else WorkerPhase.READY
                each.since = None if failed else now
                self._note(each, now, "BootTimeout" if failed else "")

    def _note(self, worker: Booted, now: datetime, censored: str) -> None:
        """Keep a boot that is over, as the product's history does."""
        self.history.appendleft(
            boot_run((now - worker.made).total_seconds(), censored, worker.name)
        )

    def _bind(self, now: datetime, told: Lead) -> None:
        """Give each place that has no worker yet one that is up and serves none."""
        if now < START - lead.early(told):
            return
        homes = {self.claims.place_of(name) for name in self.workers} - {None}
        free = [
            name for name in sorted(self.workers)
            if self.workers[name].phase is WorkerPhase.READY and not self.workers[name].held
        ]  # fmt: skip
        wanting = {each.claim.place for each in self.claims.claims() if each.worker is None}
        for place, name in zip(sorted(wanting - homes), free, strict=False):
            here = [each for each in self.claims.claims() if each.claim.place == place]
            worker = self.workers[name]
            worker.held = tuple(_reservation(each) for each in here)
            worker.phase, worker.since, worker.unused = WorkerPhase.ACTIVE, None, False
            for each in here:
                self.bound[each.uid] = name
                self.claims.add(Claimed(uid=each.uid, claim=each.claim, worker=name))

    def _decide(self, now: datetime, boots: lead.BootTimes, told: Lead) -> None:
        decision = scaling.decide_pool(self._view(now, boots, told), now)
        kinds = {each.kind for each in decision.events}
        self._last["up"] = now if kinds - {"scale_down"} else self._last["up"]
        self._last["down"] = now if "scale_down" in kinds else self._last["down"]
        for each in decision.retire:
            gone = self.workers.pop(each.name)
            if gone.held:
                raise AssertionError(f"{gone.name} was taken away under its sessions")
            if gone.phase is WorkerPhase.STARTING:
                self._note(gone, now, ENDED)
        for name in decision.create:
            self.workers[name] = Booted(
                name, now, drawn(self.rng), *[decision.purpose == "Promised"] * 2
            )
        self._made = decision.created_workers

    def _view(self, now: datetime, boots: lead.BootTimes, told: Lead) -> PoolView:
        self.claims.now = now
        return PoolView(
            name="p",
            spec=self.spec,
            phase=PoolPhase.READY,
            workers=tuple(_seen(each) for each in self.workers.values()),
            shape=self.shape,
            created_workers=self._made,
            last_scale_up=self._last["up"],
            last_scale_down=self._last["down"],
            promised=growth.promised(self.claims, now + lead.early(told)),
            lead=lead.early(told),
            odds=boots.odds,
        )


def promises(shape: WorkerShape, most: int) -> PoolClaims:
    """Return what a pool has promised once all sessions of the exam were accepted."""
    claims = PoolClaims(Extent(pool="p", places=most, shape=shape), BEGIN)
    asked = PlacementRequest(amounts=ONE, start=START, end=END)
    for number in range(SESSIONS):
        place = claims.find(asked)
        if not isinstance(place, int):
            raise AssertionError("the exam does not fit the pool")
        claims.add(Claimed(uid=f"s{number}", claim=claim_of("p", place, asked)))
    return claims


def boot_run(seconds: float, censored: str, uid: str) -> Run:
    """Return a boot as the history keeps it."""
    return Run(
        kind=RunKind.BOOT, uid=uid, family="t", censored=censored, duration_seconds=seconds,
        parameters={"region": METAL.provider.region, "type": "m5zn.metal"}, ended_at=BEGIN,
    )  # fmt: skip


def days(many: int, rules: Scaling | None = None, seed: int = 1) -> dict[str, float]:
    """Return what so many days cost in the mean, against the bound, and how many began late."""
    rng, history = random.Random(seed), deque[Run](maxlen=KNOWN)
    for number in range(KNOWN):
        boot = drawn(rng)
        told = "BootTimeout" if boot.failed else ""
        history.appendleft(boot_run(boot.seconds, told, f"before-{number}"))
    found = [
        Morning(rng, history, rules or Scaling(max_workers=60)).play() for _ in range(many)
    ]  # fmt: skip
    hours = sum(each for each, _ in found) / many
    return {
        "bound_worker_hours": BOUND,
        "worker_hours": round(hours, 2),
        "ratio": round(hours / BOUND, 3),
        "late_days": sum(late for _, late in found),
        "days": many,
    }


def _reservation(claimed: Claimed) -> Reservation:
    claim = claimed.claim
    return Reservation(holder=claimed.uid, amounts=claim.amounts, start=claim.start, end=claim.end)


def _seen(each: Booted) -> PoolWorker:
    return PoolWorker(
        name=each.name, phase=each.phase, phase_since=each.over, capacity=None,
        reservations=each.held, empty_since=each.since, boot_since=each.made,
        for_promises=each.promised, unused=each.unused,
    )  # fmt: skip
