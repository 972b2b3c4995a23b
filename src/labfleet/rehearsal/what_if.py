"""Plays a plan: the same product in virtual time, with somebody's fleet and demand.

One `Case` is one variant, a plain value that a child process can be given. Faults are off
unless the plan asks for them; the invariants watch all the same. Idle looks come every so many
virtual minutes (controllers.pacing), which is what makes ten days a matter of minutes.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from cml_simulator.core.profile import Machine as Hardware
from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.rehearsal import demand, faults, happenings, tally
from labfleet.rehearsal import loop as loops
from labfleet.rehearsal.demand import Act, Crowd, Wish
from labfleet.rehearsal.dice import EPOCH, Dice
from labfleet.rehearsal.invariants import Violation
from labfleet.rehearsal.plan import Fidelity, Timings
from labfleet.rehearsal.stage import Stage
from labfleet.rehearsal.worlds import cml, ec2
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import TERMINAL
from labfleet.service import objects, verbs
from labfleet.service.access import Principal, Role
from labfleet.service.parts import Caller, Parts

T = TypeVar("T")
ADMIN = Caller(Principal("admin", Role.ADMIN, "what-if"))
AFTER_SECONDS = 86400.0
"""How long sessions may go on after the period, so that the last ones too come to an end."""
ROUND_SECONDS = 600.0
COMPACT_SECONDS = 6 * 3600.0
LOG_KEPT = 20_000
LEASE_SECONDS = 900.0
"""One process and no faults: nobody waits for a lease, and renewals are most of the writes."""
GARBAGE_THRESHOLD = 200_000
PATIENCE, TRIES = 60.0, 50
MIB = 2**20
Progress = Callable[[float], None]
Fleet = list[tuple[str, str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One variant to play. `begin` is the warm-up in seconds: nothing before it counts."""

    name: str
    seed: int
    fleet: Fleet
    crowd: Crowd
    fidelity: Fidelity = field(default_factory=Fidelity)
    timings: Timings = field(default_factory=Timings)
    begin: float = 0.0


@dataclass(slots=True)
class Answer:
    """What came of one variant; `log` is the hash of everything that was written."""

    name: str
    figures: tally.Figures
    waiters: list[dict[str, object]]
    violations: list[Violation]
    log: str
    commits: int
    steps: int
    virtual_hours: float
    seconds: float
    faults: dict[str, int]
    refusals: dict[str, int]


def play(case: Case, progress: Progress) -> Answer:
    """Play one variant to its end. `progress` hears the share of the period that is over."""
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
    run = runs[0]
    stage, end = run.stage, case.begin + case.crowd.seconds
    refusals = dict(run.desk.refused)
    return Answer(
        name=case.name,
        figures=tally.figures(run.tally, end, begin=case.begin, refused=run.desk.turned_away),
        waiters=tally.waiters(run.tally, end, 20),
        violations=[*stage.invariants.found, *violations],
        log=run.digest.hexdigest(),
        commits=stage.shared.commits,
        steps=stage.loop.steps,
        virtual_hours=stage.loop.time() / 3600,
        seconds=time.process_time() - begun,
        faults=dict(stage.luck.counts),
        refusals=refusals,
    )


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
    stage.racks.boot_range = timings.boot_seconds
    stage.cloud.launch_range = timings.launch_seconds
    stage.cloud.stop_range = timings.stop_seconds
    stage.cloud.hardware = dict(_hardware(spec) for kind, _, spec in case.fleet
                                if kind == "Template")  # fmt: skip
    if fidelity.call_seconds is not None:
        low, high = fidelity.call_seconds
        for manners in (ec2.MANNERS, cml.MANNERS):
            stage.wires[manners.name] = Wire(
                loop, stage.dice.stream(manners.name), stage.luck,
                replace(manners, low=low, high=high),
            )  # fmt: skip
    return stage


def _hardware(template: dict[str, Any]) -> tuple[str, Hardware]:
    """Return the instance type of a template and the server that such a machine is."""
    machine = template["machine"]
    size = machine.get("capacity") or {}
    kind = (machine.get("aws") or {}).get("instanceTypes", ["m5zn.metal"])[0]
    usual = Hardware()
    memory = size.get("memoryMib", 0) * MIB
    return kind, replace(
        usual,
        cpus=size.get("cpuMilli", 0) // 1000 or usual.cpus,
        memory_bytes=memory or usual.memory_bytes,
        disk_bytes=max(size.get("storageMib", 0) * MIB * 2, usual.disk_bytes),
    )


@dataclass(slots=True)
class _Desk:
    """Sends people's requests to a living process until they are answered."""

    stage: Stage
    dice: Dice
    refused: Counter[str] = field(default_factory=Counter)
    turned_away: int = 0

    async def ask(self, verb: Callable[[Parts], Awaitable[T]]) -> T | None:
        """Return the answer; None when it was no for good (counted by its reason)."""
        for attempt in range(TRIES):
            living = self.stage.living()
            if not living:
                await asyncio.sleep(5.0)
                continue
            replica = living[self.dice.below(len(living))]
            try:
                async with asyncio.timeout(PATIENCE):
                    await replica.cache.ready()
                    return await replica.ask(verb)
            except (TimeoutError, errors.Temporary, errors.Ambiguous):
                pass
            except errors.LabfleetError as problem:
                if isinstance(problem, errors.Conflict) and problem.reason == "Conflict":
                    continue
                self.refused[problem.reason] += 1
                return None
            await asyncio.sleep(min(2.0 * (attempt + 1), 30.0))
        self.refused["GaveUp"] += 1
        return None

    async def make(self, kind: str, name: str, spec: dict[str, Any]) -> bool:
        """Create an object; False when it was refused."""
        body = {"metadata": {"name": name}, "spec": spec}
        made = await self.ask(
            lambda parts: objects.create(parts, ADMIN, KINDS[kind], body, key=f"{kind}/{name}")
        )
        return made is not None


class Run:
    """One variant while it is played."""

    def __init__(self, stage: Stage, case: Case, progress: Progress) -> None:
        self.stage, self.case = stage, case
        self.tally = tally.Tally(EPOCH)
        self.desk = _Desk(stage, stage.dice.stream("desk"))
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
                        self.tally.worker(seen.workers[write.key.name], now)

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
        for each in stage.plan.happenings:
            loop.create_task(happenings.play(stage, each))
        come = loop.create_task(self._come())
        while loop.time() < self._end:
            await asyncio.sleep(min(ROUND_SECONDS, self._end - loop.time()))
            await self._round()
        stage.luck.stop()
        await come
        until = self._end + AFTER_SECONDS
        while loop.time() < until and self._unfinished():
            await asyncio.sleep(ROUND_SECONDS)
            await self._round()

    async def _found(self) -> None:
        """Set the fleet up; a plan whose fleet is refused is wrong."""
        made = [("Definition", name, spec) for name, spec in self.case.crowd.definitions]
        for kind, name, spec in [*self.case.fleet, *made]:
            if not await self.desk.make(kind, name, spec):
                why = ", ".join(self.desk.refused)
                raise errors.Invalid(f"{kind} {name} was refused: {why}", reason="BadPlan")

    async def _round(self) -> None:
        """Do now and then what need not be done often: rules of time, the log's size, progress."""
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

    async def _person(self, wish: Wish) -> None:
        if not await self.desk.make("Session", wish.name, demand.spec(wish, EPOCH)):
            self.desk.turned_away += 1
            return
        for act in wish.acts:
            await asyncio.sleep(max(0.0, act.at - self.stage.loop.time()))
            await self._act(wish.name, act)

    async def _act(self, name: str, act: Act) -> None:
        ask = self.desk.ask
        if act.word == "cancel":
            await ask(lambda parts: verbs.cancel(parts, ADMIN, name, reason="as asked"))
        elif act.word == "extend":
            longer, key = timedelta(seconds=act.seconds), f"{name}/{act.at}"
            await ask(lambda parts: verbs.extend(parts, ADMIN, name, by=longer, key=key))
        elif act.word == "observe":
            await ask(lambda parts: verbs.observe(parts, ADMIN, name))
        else:
            await ask(lambda parts: objects.delete(parts, ADMIN, KINDS["Session"], name))
