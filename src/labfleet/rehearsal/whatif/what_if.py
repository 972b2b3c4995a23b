"""Plays a plan: the same product in virtual time, with the plan's fleet and demand.

One `Case` is one variant, a plain value that can be sent to a child process. Faults are off
unless the plan asks for them; the invariants are checked in any case. The product polls idle
workers only every few virtual minutes (controllers.pacing), so that ten days take minutes.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec

from cml_simulator.core.profile import Machine as Hardware
from labfleet.controllers.worker.observer import MEMORY_RESERVE_MIB
from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.figures import tally
from labfleet.rehearsal.plans import demand
from labfleet.rehearsal.plans.demand import Act, Crowd, PlannedSession
from labfleet.rehearsal.plans.plan import Fidelity, Timings
from labfleet.rehearsal.rules.invariants import Violation
from labfleet.rehearsal.stage import scheduled_faults
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.whatif import breakdown
from labfleet.rehearsal.whatif.retrying_client import ADMIN, RetryingClient
from labfleet.rehearsal.worlds import cml, ec2
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import Machine
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.pool import Scaling
from labfleet.resources.scheduling import Scheduling
from labfleet.resources.session import TERMINAL
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects

AFTER_SECONDS = 86400.0
"""How long sessions may go on after the period, so that what they still cost is known."""
ROUND_SECONDS = 600.0
COMPACT_SECONDS = 6 * 3600.0
LOG_KEPT = 20_000
LEASE_SECONDS = 900.0
"""Long, because with one process and no faults nobody waits for a lease, and with a usual lease
renewals would be most of the writes."""
GARBAGE_THRESHOLD = 200_000
WAITERS = 20
MIB = 2**20
Progress = Callable[[float], None]
Fleet = list[tuple[str, str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One variant to play with one seed.

    `begin` is the warm-up in seconds: nothing before it counts. `limit` is the longest wait that
    counts as in time, in seconds.
    """

    name: str
    seed: int
    fleet: Fleet
    crowd: Crowd
    fidelity: Fidelity = field(default_factory=Fidelity)
    timings: Timings = field(default_factory=Timings)
    begin: float = 0.0
    limit: float = tally.LIMIT_SECONDS


@dataclass(slots=True)
class Answer:
    """What came of one variant in one draw; `log` is the hash of everything that was written.

    `settings` are the pools as they were played; `details` are figures by pool, lab and day.
    """

    name: str
    seed: int
    settings: dict[str, dict[str, Any]]
    figures: tally.Figures
    waiters: list[dict[str, Any]]
    reasons: dict[str, list[dict[str, Any]]]
    details: dict[str, Any]
    violations: list[Violation]
    log: str
    commits: int
    steps: int
    virtual_hours: float
    seconds: float
    faults: dict[str, int]
    refusals: dict[str, int]


def play(case: Case, progress: Progress) -> Answer:
    """Play one variant to its end. `progress` gets the share of the period that is over."""
    begun = time.process_time()
    runs: list[Run] = []
    rare = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, *rare[1:])

    async def main(loop: loops.Loop) -> None:
        run = Run(stage_of(loop, case), case, progress)
        runs.append(run)
        await run.whole()

    violations = []
    try:
        loops.run(case.seed, main)
    except (loops.Deadlock, loops.Livelock) as problem:
        at = runs[0].stage.loop.time()
        violations.append(Violation(type(problem).__name__.lower(), at, str(problem)))
    finally:
        gc.set_threshold(*rare)
    return _answer(runs[0], violations, time.process_time() - begun)


def _answer(run: Run, violations: list[Violation], seconds: float) -> Answer:
    """Return what came of a run."""
    stage, case, away = run.stage, run.case, run.client.turned_away
    begin, end, limit = case.begin, case.begin + case.crowd.seconds, case.limit
    found, known = run.tally, stage.loop.time()
    stage.start_ranges.end()
    broken = [*stage.invariants.found, *violations]
    if broken:
        end = max(begin, min(end, known))  # nothing was played of the time after that
    return Answer(
        name=case.name,
        seed=case.seed,
        settings=settings(case.fleet),
        figures=tally.figures(found, end, begin=begin, refused=len(away), limit=limit,
                              known=known),
        waiters=[
            *(_turned_away(each.wish, each.message, begin) for each in away[:WAITERS]),
            *breakdown.waiters(found, end, WAITERS, begin=begin, limit=limit),
        ],
        reasons=breakdown.reasons(
            found, end, begin=begin, turned_away=Counter((x.reason, x.message) for x in away)
        ),
        details=breakdown.details(
            found, end, begin=begin, limit=limit, away=[each.wish for each in away]
        ),
        violations=broken,
        log=run.digest.hexdigest(),
        commits=stage.shared.commits,
        steps=stage.loop.steps,
        virtual_hours=known / 3600,
        seconds=seconds,
        faults=dict(stage.injector.counts),
        refusals=dict(run.client.refused),
    )  # fmt: skip


def _turned_away(wish: PlannedSession, message: str, begin: float) -> dict[str, Any]:
    return {
        "session": wish.name,
        "owner": wish.owner,
        "definition": wish.definition,
        "slot": wish.start is not None,
        "asked_hours": round((wish.due - begin) / 3600, 3),
        "wait_seconds": 0.0,
        "outcome": "REFUSED",
        "ran": False,
        "never_ran": True,
        "reason": message,
    }


def settings(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return how each pool of a fleet scales and places, and its template."""
    usual = {"strategy": str(Scheduling().strategy), **msgspec.to_builtins(Scaling())}
    return {
        name: {
            "template": spec.get("template"),
            **usual,
            **({"strategy": str(spec["strategy"])} if spec.get("strategy") else {}),
            **spec.get("scaling", {}),
        }
        for kind, name, spec in fleet
        if kind == "Pool"
    }


def stage_of(loop: loops.Loop, case: Case) -> Stage:
    """Return the stage with the plan's machines and times."""
    fidelity, timings = case.fidelity, case.timings
    hours = (case.begin + case.crowd.seconds) / 3600
    plan = faults.draw(case.seed, hours, harshness=fidelity.faults)
    pace = fidelity.telemetry_minutes * 60 or None
    stage = Stage(loop, case.seed, plan, pace=pace, rate=fidelity.clock_factor)
    if fidelity.faults == faults.NONE:
        stage.lease_seconds = LEASE_SECONDS
    stage.slowest_write = fidelity.store_seconds
    stage.cml_servers.boot_range = timings.boot_seconds
    stage.cloud.launch_range = timings.launch_seconds
    stage.cloud.stop_range = timings.stop_seconds
    workers = stage.invariants.workers
    stage.cloud.built = lambda request: hardware_of(workers[request.worker].spec.machine)
    if fidelity.call_seconds is not None:
        low, high = fidelity.call_seconds
        for call_profile in (ec2.CALL_PROFILE, cml.CALL_PROFILE):
            stage.wires[call_profile.name] = Wire(
                loop, stage.rng.stream(call_profile.name), stage.injector,
                replace(call_profile, low=low, high=high),
            )  # fmt: skip
    return stage


def hardware_of(machine: Machine | None) -> Hardware:
    """Return a server on which the product measures just the capacity that a machine states.

    The product subtracts memory for CML itself, and takes the disk space free at its first look
    as storage.
    """
    usual = Hardware()
    if machine is None:
        return usual
    size = machine.capacity
    memory = (size.memory_mib + MEMORY_RESERVE_MIB) * MIB
    return replace(
        usual,
        cpus=max(1, size.cpu_milli // 1000) if size.cpu_milli else usual.cpus,
        memory_bytes=memory if size.memory_mib else usual.memory_bytes,
        # CML and its images take a quarter of a disk (cml_simulator.core.usage).
        disk_bytes=-(-size.storage_mib * MIB * 4 // 3) or usual.disk_bytes,
    )


class Run:
    """One variant while it is played."""

    def __init__(self, stage: Stage, case: Case, progress: Progress) -> None:
        self.stage, self.case = stage, case
        self.tally = tally.Tally(EPOCH)
        self.client = RetryingClient(stage, stage.rng.stream("desk"))
        self.digest = hashlib.blake2b(digest_size=16)
        self._progress = progress
        self._over = asyncio.Event()
        self._crowd = demand.later(case.crowd, case.begin)
        self._end = case.begin + case.crowd.seconds
        self._compact = COMPACT_SECONDS
        stage.stop_asked = self._over.set
        # After the invariants, which have read the objects by then.
        stage.shared.heard.append(self._heard)

    def _heard(self, commits: list[store.Commit], _: list[Any]) -> None:
        now, seen = self.stage.loop.time(), self.stage.invariants
        for commit in commits:
            for write in commit.writes:
                if isinstance(write, store.Put):
                    self.digest.update(write.doc)
                    if write.key.kind == "Session":
                        self.tally.session(seen.sessions[write.key], now)
                    elif write.key.kind == "Worker":
                        self.tally.worker(seen.workers[write.key.label], now)

    async def whole(self) -> None:
        """Play everything, or up to the first broken rule."""
        loop = self.stage.loop
        self.stage.begin("r1")
        act = loop.create_task(self._play())
        act.add_done_callback(lambda _: self._over.set())
        await self._over.wait()
        if act.done():
            await act

    async def _play(self) -> None:
        stage, loop = self.stage, self.stage.loop
        await self._found()
        for each in stage.plan.scheduled:
            stage.named(
                f"{each.word} (happening {each.number})", scheduled_faults.play(stage, each)
            )
        come = loop.create_task(self._come())
        while loop.time() < self._end:
            await asyncio.sleep(min(ROUND_SECONDS, self._end - loop.time()))
            await self._round()
        stage.injector.stop()
        until = self._end + AFTER_SECONDS
        while loop.time() < until and (not come.done() or self._unfinished()):
            await asyncio.sleep(ROUND_SECONDS)
            await self._round()
        if come.done():
            await come

    async def _found(self) -> None:
        """Set the fleet up; a plan whose fleet is refused is wrong."""
        made = [("Definition", name, spec) for name, spec in self.case.crowd.definitions]
        for kind, name, spec in [*self.case.fleet, *made]:
            problem = await self.client.make(kind, name, spec)
            if problem is not None:
                why = f"{problem.reason}: {problem.message}"
                raise errors.Invalid(f"{kind} {name} was refused: {why}", reason="BadPlan")

    async def _round(self) -> None:
        """Do the periodic work: time-based rules, the log's size, progress."""
        stage = self.stage
        stage.invariants.patrol()
        for trouble in [*stage.watcher.bugs, *stage.loop.troubles]:
            stage.invariants.broken("bug", trouble)
            return
        self._progress(min(1.0, stage.loop.time() / self._end))
        keeper, due = stage.living(), stage.loop.time() >= self._compact
        if keeper and due:
            self._compact = stage.loop.time() + COMPACT_SECONDS
            await keeper[0].around.store.compact(
                EPOCH + timedelta(seconds=stage.loop.time()), keep=LOG_KEPT
            )

    def _unfinished(self) -> bool:
        return any(each.phase not in TERMINAL for each in self.tally.stays.values())

    async def _come(self) -> None:
        """Let everybody come at their time."""
        loop = self.stage.loop
        async with asyncio.TaskGroup() as group:
            for wish in self._crowd.wishes:
                await asyncio.sleep(max(0.0, wish.at - loop.time()))
                group.create_task(self._person(wish))

    async def _person(self, wish: PlannedSession) -> None:
        if not await self.client.wish(wish, demand.spec(wish, EPOCH)):
            return
        for act in wish.acts:
            if act.at > self._end + AFTER_SECONDS:
                return  # nobody plays so far
            await asyncio.sleep(max(0.0, act.at - self.stage.loop.time()))
            await self._act(wish.name, act)

    async def _act(self, name: str, act: Act) -> None:
        ask = self.client.ask
        if act.word == "cancel":
            await ask(
                lambda services: verbs.cancel(
                    services, ADMIN, name, DEFAULT_NAMESPACE, reason="as asked"
                )
            )
        elif act.word == "extend":
            longer, key = timedelta(seconds=act.seconds), f"{name}/{act.at}"
            await ask(
                lambda services: verbs.extend(
                    services, ADMIN, name, DEFAULT_NAMESPACE, by=longer, key=key
                )
            )
        elif act.word == "observe":
            await ask(lambda services: verbs.observe(services, ADMIN, name, DEFAULT_NAMESPACE))
        else:
            await ask(
                lambda services: objects.delete(
                    services, ADMIN, KINDS["Session"], name, DEFAULT_NAMESPACE
                )
            )
