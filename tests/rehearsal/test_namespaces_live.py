"""A fleet in a namespace, with everything of the same names in a second one beside it.

The whole product runs on the rehearsal's stage, asked through its HTTP application: the main job
(template, pool, definition, session to RUNNING and COMPLETED), every verb, and then people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labfleet.adapters.aws.launches import WORKER
from labfleet.rehearsal.faults import NONE, FaultPlan
from labfleet.rehearsal.people.people import topology
from labfleet.rehearsal.replicas.http_client import HttpClient
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import indices

SPACES = ("exam", "default")
MACHINE = {
    "provider": {"kind": "aws", "amiId": "ami-1", "subnetIds": ["subnet-a"], "volumeSizeGib": 500},
    "cml": {"adminPassword": {"env": "CML_PASSWORD"}, "tls": {"mode": "off"}},
    "licence": {"product": "CML_Enterprise", "token": {"env": "CML_TOKEN"}},
}
SCALING = {"minWorkers": 1, "maxWorkers": 2, "emptySeconds": 86_400}
LAB = {
    "topology": topology("pair", ["alpine", "alpine"]),
    "track": "main",
    "defaultDurationMinutes": 20,
}
HOST = "w-main-001"


@dataclass
class Fleet:
    """What one namespace's people do and see."""

    stage: Stage
    replica: Replica
    space: str
    client: HttpClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = HttpClient(self.stage.watcher.bugs.append, self.space)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask one route; the client has methods only for what people ask."""
        # private _send: what people do not ask for has no method of the client's
        return await self.client._send(self.replica, method, f"/api/v1/{path}", body)

    async def make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Make an object; the same name and key are used in each namespace."""
        await self.client.create(kind, name, spec, f"make-{kind}-{name}")(self.replica)

    def get(self, kind: type[Any], name: str) -> Any:
        """Return an object of this namespace, None when there is none."""
        return self.replica.cache.get(kind, name, self.space)

    async def until(self, holds: Callable[[], object], hours: float = 3.0) -> None:
        """Wait in virtual time."""
        end = self.stage.loop.time() + hours * 3600
        while not holds():
            assert self.stage.loop.time() < end, [
                f"{each.key}: {each.status.phase} {each.status.message}"
                for kind in (Worker, Session)
                for each in self.replica.cache.all(kind)
            ]
            await asyncio.sleep(5)

    def phase(self, kind: type[Any], name: str) -> Any:
        """Return where an object stands."""
        found = self.get(kind, name)
        return None if found is None else found.status.phase

    async def begin(self) -> None:
        """Set up a pool of one worker, and wait for it."""
        await self.make("Template", "metal", {"machine": MACHINE})
        spec = {"template": "metal", "track": "main", "namePrefix": "w", "scaling": SCALING}
        await self.make("Pool", "main", spec)
        await self.make("Definition", "pair", LAB)
        await self.until(lambda: self.phase(Worker, HOST) is WorkerPhase.READY)

    async def runs(self, name: str) -> None:
        """Ask for a session and wait until it runs."""
        await self.make("Session", name, {"definition": "pair", "owner": "pat"})
        await self.until(lambda: self.phase(Session, name) is SessionPhase.RUNNING)


def played(story: Callable[[Fleet, Fleet], Any]) -> Stage:
    """Play a story in both namespaces of one fleet; no rule of the rehearsal may be broken."""
    stages: list[Stage] = []

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        stages.append(stage)
        replica = stage.begin("r1")
        await replica.cache.ready()
        exam, beside = (Fleet(stage, replica, space) for space in SPACES)
        await asyncio.gather(exam.begin(), beside.begin())
        await story(exam, beside)
        stage.invariants.patrol()
        stage.invariants.replay()

    loops.run(1, main)
    (stage,) = stages
    assert (stage.invariants.found, stage.watcher.bugs) == ([], [])
    return stage


def test_the_main_job_runs_in_both_namespaces() -> None:
    """Each session runs on its own namespace's worker, with its ports there, and completes."""

    async def story(exam: Fleet, beside: Fleet) -> None:
        await asyncio.gather(exam.runs("s1"), beside.runs("s1"))
        store = exam.replica.services.objects.store
        servers = {}
        for each in (exam, beside):
            worker, session = each.get(Worker, HOST), each.get(Session, "s1")
            assert (session.status.worker, worker.status.phase) == (HOST, WorkerPhase.ACTIVE)
            rows = await store.ports(f"{each.space}/{HOST}")
            assert {row.owner for row in rows} == {session.metadata.uid}
            assert len(rows) == len(session.status.ports) == 3
            vm = each.stage.cloud.vms[worker.status.machine.id]
            servers[each.space] = (vm.id, vm.tags[WORKER])
        assert servers["exam"][0] != servers["default"][0]
        assert [tag for _, tag in servers.values()] == [f"exam:{HOST}", HOST]
        ended = [
            each.until(lambda each=each: each.phase(Session, "s1") is SessionPhase.COMPLETED)
            for each in (exam, beside)
        ]
        await asyncio.gather(*ended)
        assert await store.ports() == ()
        await asyncio.sleep(900)
        keys = {Key("Worker", space, HOST) for space in SPACES}
        ran = {Key("Session", space, "s1") for space in SPACES}
        uids = {exam.replica.cache.at(each).metadata.uid for each in keys | ran}
        assert {each.uid for each in await store.series_owners()} == uids
        assert set(exam.replica.cache.keys(Worker)) == keys

    played(story)


def test_a_namespace_without_room_borrows_none() -> None:
    """A session waits beside another namespace's idle worker, and grows no pool of others."""

    async def story(exam: Fleet, beside: Fleet) -> None:
        await exam.call("POST", f"workers/{HOST}/cordon", {})
        await exam.call("POST", "pools/main/pause", {"reason": "test"})
        await exam.make("Session", "s1", {"definition": "pair"})
        await asyncio.sleep(600)
        waiting = exam.get(Session, "s1")
        assert waiting.status.phase is SessionPhase.PENDING
        assert [each.reasons for each in waiting.status.decision.candidates] == [("Cordoned",)]
        assert beside.get(Pool, "main").status.waiting_sessions == 0
        assert len(exam.replica.cache.by(indices.WORKERS_OF_POOL, "default/main")) == 1
        await exam.call("POST", f"workers/{HOST}/uncordon", {})
        await exam.until(lambda: exam.phase(Session, "s1") is SessionPhase.RUNNING)
        assert beside.phase(Worker, HOST) is WorkerPhase.READY

    played(story)


def verbs_of(exam: Fleet) -> list[tuple[str, Any, Callable[[], object]]]:
    """Every verb that leaves things running: its path, its body, and what holds after it."""
    worker, session, late = (
        f"workers/{HOST}",
        "sessions/s1",
        {"deadline": "2026-11-28T09:00:00Z"},
    )
    end = exam.get(Session, "s1").status.end
    return [
        (f"{worker}/cordon", {}, lambda: exam.get(Worker, HOST).spec.cordoned),
        (f"{worker}/uncordon", {}, lambda: not exam.get(Worker, HOST).spec.cordoned),
        (f"{worker}/drain", late, lambda: exam.get(Worker, HOST).spec.drain),
        (
            f"{worker}/change-drain",
            {"deadline": "2026-11-28T10:00:00Z"},
            lambda: exam.get(Worker, HOST).spec.drain.deadline.hour == 10,
        ),
        (f"{worker}/cancel-drain", {}, lambda: exam.get(Worker, HOST).spec.drain is None),
        (
            f"{worker}/idle-detection",
            {"enabled": False},
            lambda: not exam.get(Worker, HOST).spec.idle_detection,
        ),
        (
            f"{session}/extend",
            {"bySeconds": 600},
            lambda: exam.get(Session, "s1").status.end > end,
        ),
        (
            f"{session}/observe",
            {},
            lambda: exam.get(Session, "s1").status.observed_at is not None,
        ),
        (
            "pools/main/pause",
            {"reason": "test"},
            lambda: exam.get(Pool, "main").spec.paused,
        ),
        ("pools/main/resume", {}, lambda: not exam.get(Pool, "main").spec.paused),
    ]


def test_every_verb_reaches_its_own_namespace() -> None:
    """What is asked of exam's objects changes nothing of those with the same names beside them."""

    async def story(exam: Fleet, beside: Fleet) -> None:
        await asyncio.gather(exam.runs("s1"), beside.runs("s1"))
        before = [
            beside.get(kind, name).spec
            for kind, name in ((Worker, HOST), (Session, "s1"), (Pool, "main"))
        ]
        worker, session = f"workers/{HOST}", "sessions/s1"
        for path, body, holds in verbs_of(exam):
            await exam.call("POST", path, body)
            await exam.until(holds, hours=0.2)
        for path in ("", "/explain", "/events", "/idle", "/telemetry", "/series", "/logs"):
            assert await exam.call("GET", f"{worker}{path}")
        told = await exam.call("GET", f"{session}/explain")
        assert told["phase"] == "RUNNING"
        await exam.call("POST", f"{session}/cancel", {"reason": "done"})
        await exam.until(lambda: exam.phase(Session, "s1") is SessionPhase.CANCELLED)
        await exam.call("POST", f"{worker}/desired", {"desired": "Stopped"})
        await exam.until(lambda: exam.phase(Worker, HOST) is WorkerPhase.STOPPED)
        await exam.call("POST", f"{worker}/desired", {"desired": "Ready"})
        await exam.until(lambda: exam.phase(Worker, HOST) is WorkerPhase.READY)
        await exam.call("DELETE", f"{worker}")
        await exam.until(lambda: exam.get(Worker, HOST) is None)
        assert beside.phase(Session, "s1") in {SessionPhase.RUNNING, SessionPhase.COMPLETED}
        after = [
            beside.get(kind, name).spec
            for kind, name in ((Worker, HOST), (Session, "s1"), (Pool, "main"))
        ]
        assert after == before

    played(story)


def test_people_live_in_two_namespaces() -> None:
    """Two crowds with all names in common play an hour, and no rule breaks."""
    options = Options(hours=1.0, workers=2, sessions=48, harshness=NONE, namespaces=SPACES)
    report = rehearse(1, options)
    assert report.violations == []
    assert report.phases[SessionPhase.COMPLETED] + report.phases[SessionPhase.RUNNING] >= 2
