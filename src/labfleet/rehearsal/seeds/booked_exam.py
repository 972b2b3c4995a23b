"""An exam that is booked two weeks ahead: `labfleet rehearse --book`.

Fifty callers ask at once for 200 sessions of one 09:00 slot, on a pool with one worker up whose
maximum holds exactly 180, and the server is killed while they ask. Boots are slow, but nothing
that was there is lost. So exactly 180 must be accepted and start on time, and the others must be
refused while they ask, with what is missing and the nearest slot that fits.

Nothing happens in the two weeks between, so the processes look at what is steady as seldom as in a
what-if (`controllers.pacing`) until an hour before the exam; then a server of the usual pace begins.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultPlan
from labfleet.rehearsal.people.people import topology
from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas.fleet_client import DirectClient
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.resources.session import Session
from labfleet.resources.worker import WorkerPhase

HOUR = 3600.0
SETTLED = HOUR
"""When the fleet is up and the callers come, in seconds."""
MINUTES = 90
LATEST = timedelta(seconds=60)
"""How long after the slot's start a session may begin and is on time: two looks at it."""
SLOW_BOOT = (600.0, 1200.0)
"""Seconds that CML takes to boot: metal takes 5 to 20 minutes (facts/aws.md#metal-times)."""
IDLE_LEASE, IDLE_PACE = 3600.0, 6 * HOUR
USUAL_LEASE = 15.0
AWAKE = HOUR
"""How long before the exam the usual pace begins: more than any head start."""


@dataclass(frozen=True, slots=True)
class Exam:
    """How large an exam is, and how many days after the first one it begins, at 09:00.

    The pool may have `workers`, and each of them holds `labs` sessions, so the rest is refused.
    """

    asked: int = 200
    callers: int = 50
    workers: int = 9
    labs: int = 20
    days: int = 14

    @property
    def held(self) -> int:
        """Return how many sessions the pool's maximum holds."""
        return self.workers * self.labs

    @property
    def start(self) -> float:
        """Return when it begins, in seconds."""
        return self.days * 24 * HOUR + 9 * HOUR


def stage_of(loop: Loop, seed: int) -> Stage:
    """Return a stage on which nothing goes wrong but that boots are slow."""
    stage = Stage(loop, seed, FaultPlan(), lease_seconds=IDLE_LEASE, pace=IDLE_PACE)
    stage.cml_servers.boot_range = SLOW_BOOT
    return stage


@dataclass(slots=True)
class BookedExam:
    """One play of it; `figures` counts what became of the requests, `look` judges now and then."""

    stage: Stage
    exam: Exam
    figures: Counter[str]
    look: Callable[[], None]
    client: DirectClient = field(default_factory=DirectClient)
    rng: SeededRng = field(init=False)
    sender: Sender = field(init=False)
    _refused: list[errors.LabfleetError] = field(default_factory=list)
    _left: int = 0
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.rng = self.stage.rng.stream("booked exam")
        self._left = 1 + self.rng.below(self.exam.asked - self.exam.callers)
        self.sender = Sender(self.rng, self.stage.living, on_refusal=self._refused.append)

    async def play(self) -> None:
        """Play it to shortly after its start, and judge it."""
        await self._set_up()
        await asyncio.sleep(SETTLED)
        phases = [each.status.phase for each in self.stage.invariants.workers.values()]
        if phases != [WorkerPhase.READY]:
            raise AssertionError(f"one worker is to be up, and there are {phases}")
        watch = self.stage.named("the one who kills", self._kill())
        async with asyncio.TaskGroup() as group:
            for caller in range(self.exam.callers):
                group.create_task(self._calls(caller))
        await watch
        self._judge_answers()
        await self._until(self.exam.start - AWAKE)
        self._awake()
        await self._until(self.exam.start + LATEST.total_seconds() + 60)
        self._judge_starts()

    async def _until(self, at: float) -> None:
        """Wait, with a look at the rules that go by the hour."""
        loop = self.stage.loop
        while loop.time() < at:
            await asyncio.sleep(min(HOUR, at - loop.time()))
            self.look()

    async def _set_up(self) -> None:
        machine = {
            "provider": {"kind": "aws", "amiId": "ami-1", "subnetIds": ["subnet-a", "subnet-b"]},
            "cml": {"adminPassword": {"env": "CML_PASSWORD"}, "tls": {"mode": "off"}},
            "licence": {"product": "CML_Enterprise", "token": {"env": "CML_TOKEN"}},
            "capacity": {
                "cpuMilli": 48000, "memoryMib": 192512, "storageMib": 180000,
                "labs": self.exam.labs, "ports": 6000,
            },
        }  # fmt: skip
        await self._make("Template", "metal", {"machine": machine})
        scaling = {"minWorkers": 1, "maxWorkers": self.exam.workers}
        spec = {"template": "metal", "track": "exam", "namePrefix": "w", "scaling": scaling}
        await self._make("Pool", "exam", spec)
        lab = {"topology": topology("pair", ["alpine", "alpine"]), "track": "exam"}
        await self._make("Definition", "pair", lab)

    async def _make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        if await self.sender.send(self.client.create(kind, name, spec, name)) is None:
            raise AssertionError(f"{kind} {name} was refused: {self._refused}")

    async def _calls(self, caller: int) -> None:
        """Play one caller: asks for some of the sessions, one after another."""
        exam, start = self.exam, EPOCH + timedelta(seconds=self.exam.start)
        slot = {"start": start.isoformat(), "end": (start + timedelta(minutes=MINUTES)).isoformat()}
        for number in range(caller, exam.asked, exam.callers):
            spec = {"definition": "pair", "owner": f"p{number}", "slot": slot}
            name = f"exam-{number:03d}"
            made = await self.sender.send(self.client.create("Session", name, spec, name))
            self.figures["accepted"] += made is not None
            self._left -= 1
            if not self._left:
                self._due.set()

    async def _kill(self) -> None:
        """Kill the server when some are answered and others are not; another one begins."""
        await self._due.wait()
        for replica in self.stage.living():
            self.stage.kill(replica)
        await asyncio.sleep(self.rng.between(1, 60))
        self.stage.begin("r1")

    def _awake(self) -> None:
        """Have a server of the usual pace take over."""
        for replica in self.stage.living():
            self.stage.kill(replica)
        self.stage.pace, self.stage.lease_seconds = None, USUAL_LEASE
        self.stage.begin("r1")

    def _judge_answers(self) -> None:
        """Report another number than has room, and a refusal that does not help."""
        exam, seen = self.exam, self.figures
        seen["refused"] = len(self._refused)
        if (seen["accepted"], seen["refused"]) != (exam.held, exam.asked - exam.held):
            self._broken(f"of {exam.asked} that ask so many are let in or not: {dict(seen)}")
        for each in self._refused:
            fits = [what for where, what in getattr(each, "problems", ()) if where == "spec.slot"]
            if each.reason != "NoCapacity" or "pool exam" not in each.message or not fits:
                self._broken(f"a refusal does not help: {each.reason}: {each.message}")

    def _judge_starts(self) -> None:
        """Report each accepted session that does not run since its slot's start."""
        start = EPOCH + timedelta(seconds=self.exam.start)
        for key, session in sorted(self.stage.invariants.sessions.items()):
            if key.kind != Session.__name__:
                continue
            began = session.status.started_at
            if began is None or began > start + LATEST:
                self.figures["late"] += 1
                told = f"{session.status.phase}: {session.status.message}"
                self._broken(f"{key} began at {began or 'no time'}, and is {told}")
            else:
                self.figures["on time"] += 1

    def _broken(self, text: str) -> None:
        self.stage.invariants.broken("booked", text)
