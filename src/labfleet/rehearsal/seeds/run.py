"""One rehearsal: a seed, a fleet, some hours, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from labfleet.rehearsal import faults
from labfleet.rehearsal.people.learned_labs import LearnedLabs
from labfleet.rehearsal.people.people import Demand, People
from labfleet.rehearsal.people.run_scripts import RunScripts
from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas import http_client
from labfleet.rehearsal.replicas.fleet_client import DirectClient, FleetClient
from labfleet.rehearsal.rules import convergence
from labfleet.rehearsal.rules.invariants import Violation
from labfleet.rehearsal.rules.learned import Learned
from labfleet.rehearsal.seeds import booked_exam
from labfleet.rehearsal.stage import scheduled_faults
from labfleet.rehearsal.stage.stage import Stage, told
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.worlds.static_servers import SITE
from labfleet.resources.meta import DEFAULT_NAMESPACE

RARELY = (50_000, 20, 100)
"""Thresholds of Python's garbage collector during a run, which makes little garbage: the default
ones cost a quarter of the CPU time (measured). What is left is collected at the end."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a seed is played; a seed with the same options gives the same run.

    Each of `namespaces` has people, a pool and workers of its own, all of the same names. The
    first also has `static` workers on people's own servers. `simulations` are run scripts a day,
    always in the namespace `default`; `learned` are sessions a day that are counted with what past
    ones used, in that namespace too. With `book` an exam that is booked two weeks ahead is played
    instead (`booked_exam`), and nothing else here counts.
    """

    hours: float = 24.0
    workers: int = 8
    sessions: int = 40
    exam: int = 0
    replicas: int = 2
    harshness: str = faults.HARSH
    without: tuple[str, ...] = ()
    keep: tuple[int, ...] | None = None
    wire: bool = False
    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    static: int = 0
    simulations: int = 0
    learned: int = 0
    book: booked_exam.Exam | None = None


@dataclass(slots=True)
class Report:
    """The result of one seed. `tripped`: how often a pool paused itself.

    `log` is the hash of the event log, `schedule` that of the order in which steps ran.
    `runs` is what became of run scripts, `simulations` what the rules of simulations looked at,
    `booked` what became of who booked an exam, `learned` how sessions of learned demand were counted.
    """

    seed: int
    violations: list[Violation] = field(default_factory=list)
    log: str = ""
    schedule: str = ""
    virtual_hours: float = 0.0
    settle_hours: float = 0.0
    seconds: float = 0.0
    commits: int = 0
    steps: int = 0
    tripped: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    simulations: Counter[str] = field(default_factory=Counter)
    booked: Counter[str] = field(default_factory=Counter)
    learned: Counter[str] = field(default_factory=Counter)


def plan_of(seed: int, options: Options) -> faults.FaultPlan:
    """Return the fault plan of a seed, less what the options exclude."""
    plan = faults.draw(
        seed, options.hours, harshness=options.harshness, runs=options.simulations > 0
    ).without(options.without)
    return plan if options.keep is None else plan.keeping(options.keep)


def rehearse(seed: int, options: Options) -> Report:
    """Play one seed to its end, or to its first violation."""
    report = Report(seed)
    begun = time.process_time()
    stages: list[Stage] = []

    async def main(loop: loops.Loop) -> None:
        if options.book is not None:
            stages.append(booked_exam.stage_of(loop, seed))
            await _play_exam(stages[0], options.book, report)
            return
        stage = Stage(loop, seed, plan_of(seed, options), wire=options.wire, static=options.static)
        stages.append(stage)
        await _play(stage, options, report)

    with _rarely_collected():
        try:
            loops.run(seed, main)
        except (loops.Deadlock, loops.Livelock) as problem:
            at = stages[0].loop.time()
            report.violations.append(Violation(type(problem).__name__.lower(), at, str(problem)))
        _sum_up(report, stages[0])
        stages.clear()
    report.seconds = time.process_time() - begun
    return report


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect garbage rarely, then once at the end, and only what was made meanwhile.

    What was there before is mostly modules; to look through them took a twentieth of a short run.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(*RARELY)
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.collect()
        if not frozen:
            gc.unfreeze()


async def _play(stage: Stage, options: Options, report: Report) -> None:
    over = asyncio.Event()
    stage.stop_asked = over.set
    for number in range(options.replicas):
        stage.begin(f"r{number + 1}")
    crowds = [_people(stage, options, number) for number in range(len(options.namespaces))]
    stage.settle_strangers()

    async def main() -> None:
        try:
            await _acts(stage, crowds, options, report)
        finally:
            over.set()

    stage.named("the play itself", main())
    await over.wait()


async def _play_exam(stage: Stage, asked: booked_exam.Exam, report: Report) -> None:
    """Play an exam that is booked two weeks ahead, or up to the first broken rule."""
    over = asyncio.Event()
    stage.stop_asked = over.set
    stage.begin("r1")
    exam = booked_exam.BookedExam(stage, asked, report.booked, lambda: _look(stage))

    async def main() -> None:
        try:
            await exam.play()
            stage.invariants.replay()
        finally:
            over.set()

    stage.named("the exam", main())
    await over.wait()


def _people(stage: Stage, options: Options, number: int) -> People:
    """Return the people of one namespace."""
    namespace = options.namespaces[number]
    client: FleetClient = DirectClient(namespace)
    if options.wire:
        client = http_client.HttpClient(stage.watcher.bugs.append, namespace)
    demand = Demand(options.workers, options.sessions, options.exam, options.hours)
    rng = stage.rng.stream("people" if number == 0 else f"people of {namespace}")
    people = People(demand, rng, stage.living, client, adopted=stage.invariants.adopted)
    people.operators.put_up = stage.server_at_an_address
    if options.static and not number:
        people.operators.own_servers, people.operators.own_site = options.static, SITE
    return people


def _scripts(stage: Stage, options: Options, report: Report) -> RunScripts:
    """Return the run scripts, which are in one namespace: upstream 004's routes know no other."""
    client: FleetClient = DirectClient()
    if options.wire:
        client = http_client.HttpClient(stage.watcher.bugs.append)
    return RunScripts(
        count=round(options.simulations * options.hours / 24),
        hours=options.hours,
        rng=stage.rng.stream("run scripts"),
        replicas=stage.living,
        client=client,
        world=stage.clusters,
        injector=stage.injector,
        fates=report.runs,
    )


def _learned_labs(stage: Stage, options: Options) -> LearnedLabs:
    """Return the people whose labs are counted with what past ones used."""
    client: FleetClient = DirectClient()
    if options.wire:
        client = http_client.HttpClient(stage.watcher.bugs.append)
    rng = stage.rng.stream("learned labs")
    return LearnedLabs(
        count=round(options.learned * options.hours / 24),
        hours=options.hours,
        workers=options.workers,
        rng=rng,
        client=client,
        sender=Sender(stage.rng.stream("learned labs' desk"), stage.living),
        world=stage.cml_servers,
    )


async def _acts(stage: Stage, crowds: list[People], options: Options, report: Report) -> None:
    loop, gone = stage.loop, asyncio.Event()
    here = {stage.named("the crowd", people.run()) for people in crowds}
    if options.simulations:
        here.add(stage.named("the run scripts", _scripts(stage, options, report).run()))
    learned = None
    if options.learned:
        learned = Learned(
            stage.shared, stage.cloud, stage.cml_servers, stage.invariants.broken, report.learned
        )
        here.add(stage.named("the learned labs", _learned_labs(stage, options).run()))

    def went(crowd: asyncio.Task[None]) -> None:
        here.discard(crowd)
        if not here:
            gone.set()

    for crowd in tuple(here):
        crowd.add_done_callback(went)
    for each in stage.plan.scheduled:
        stage.named(f"{each.word} (happening {each.number})", scheduled_faults.play(stage, each))
    watch = stage.named("the patrol", _patrol(stage, learned))
    cares = [stage.named("the caretaker", people.operators.care()) for people in crowds]
    await asyncio.sleep(options.hours * 3600)
    await gone.wait()
    stage.injector.stop()
    report.faults = Counter(stage.injector.counts)
    # A fault that still holds (a process that is down, a paused one) ends by itself.
    quiet = loop.time()
    rest = 0
    moving: list[str] = []
    least = sum(min(people.least, options.workers) for people in crowds)
    while loop.time() - quiet < convergence.SETTLE_HOURS * 3600:
        await asyncio.sleep(60)
        most = options.workers * (len(crowds) + bool(options.learned))
        moving = convergence.unsettled(stage.invariants, least=least, most=most)
        moving += stage.simulations.unsettled()
        rest = 0 if moving else rest + 1
        if rest == 2:
            break
    report.settle_hours = (loop.time() - quiet) / 3600
    if moving:
        stage.invariants.broken("liveness", "; ".join(moving[:8]))
    stage.invariants.replay()
    stage.simulations.end()
    stage.start_ranges.end()
    _look(stage)
    watch.cancel()
    for caretaker in cares:
        caretaker.cancel()


async def _patrol(stage: Stage, learned: Learned | None) -> None:
    while True:
        await asyncio.sleep(60)
        if learned is not None:
            learned.patrol()
        _look(stage)


def _look(stage: Stage) -> None:
    invariants = stage.invariants
    invariants.patrol()
    stage.promises.excuses.patrol()
    stage.simulations.patrol(stage.living())
    for bug in (*stage.watcher.bugs[:1], *stage.loop.troubles[:1]):
        invariants.broken("bug", bug)
    for replica in stage.living():
        if replica.task is not None and replica.task.done():
            invariants.broken("bug", f"{replica.name} ended: {told(replica.task.exception())}")


def _sum_up(report: Report, stage: Stage) -> None:
    report.violations += stage.invariants.found
    report.virtual_hours = stage.loop.time() / 3600
    report.commits = stage.shared.commits
    report.schedule = f"{stage.loop.digest:016x}"
    report.steps = stage.loop.steps
    report.log = log_hash(stage)
    report.tripped = stage.invariants.pauses.tripped
    report.outcomes = stage.watcher.outcomes
    report.faults = report.faults or stage.injector.counts
    report.calls = stage.calls()
    report.simulations = Counter(stage.simulations.figures() if stage.clusters.scripts else {})
    report.phases = Counter(str(each.status.phase) for each in stage.invariants.sessions.values())


def log_hash(stage: Stage) -> str:
    """Return the hash of the whole event log: what happened, in which order."""
    digest = hashlib.blake2b(digest_size=16)
    database, after = stage.shared.inner, 0
    while True:
        rows = database.rows(database.sql["events"], (after, 1000))
        found = [row[3:] for row in rows if row[3] is not None]
        for row in found:
            digest.update(repr(row).encode())
        if len(found) < 1000:
            return digest.hexdigest()
        after = found[-1][0]
