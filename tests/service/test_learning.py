"""Learning begins with the last runs, and reads older ones of a family when it is asked about."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_world import START, World, who

from labfleet.decisions.prediction import learner as learners
from labfleet.decisions.prediction.learner import Learner
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.history import KeptRun, Run, RunKind, Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import Simulation
from labfleet.service.core import learning
from labfleet.service.core.learning import Learning
from labfleet.service.verbs import admission

PROGRAM = who("runner", "runner")


async def teach(world: World, count: int, family: str) -> None:
    """Keep so many runs of a family, which used 500 mCPU."""
    runs = [
        Run(
            kind=RunKind.SIMULATION, uid=f"{family}-{number}", name=f"{family}-{number}",
            family=family, use={"cpu_milli": Use(peak=500.0)}, duration_seconds=60.0,
            started_at=START - timedelta(hours=1), ended_at=START,
        )
        for number in range(count)
    ]  # fmt: skip
    for first in range(0, count, 100):
        writes = tuple(stores.Teach(each) for each in runs[first : first + 100])
        await world.store.commit(stores.Commit(stores.Cause("past", START), writes))


async def ask(world: World, family: str, **body: object) -> Simulation:
    """Ask for a run of a family."""
    asked = {"params": {"chart": family}, "durationSeconds": 60, **body}
    return await admission.request_run(world.services, PROGRAM, asked, namespace="default")


def known(run: Simulation) -> int:
    """Return how many past runs stand behind what a run will need of CPU."""
    found = None if run.status.prediction is None else run.status.prediction.of("cpu_milli")
    return 0 if found is None else found.known


@pytest.mark.asyncio
async def test_a_process_begins_with_the_last_runs_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is; a family that ran before is read once, when it is asked about."""
    await teach(world, 40, "old")
    await teach(world, 30, "young")
    monkeypatch.setattr(learning, "FIRST", 20)
    learned: list[str] = []
    plain = Learner.learn

    def counted(self: Learner, kept: KeptRun) -> None:
        learned.append(kept.run.family)
        plain(self, kept)

    monkeypatch.setattr(Learner, "learn", counted)
    made = Learning(world.services.history)
    await made.current()
    assert learned == ["young"] * 20
    await made.read([("default", "old", ""), ("default", "none", "ada")])
    assert learned[20:] == ["old"] * 40
    await made.read([("default", "old", ""), ("default", "none", "ada")])
    assert len(learned) == 60
    assert not made.waits


@pytest.mark.asyncio
async def test_a_decision_knows_a_family_that_ran_long_ago(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart the first request of it rests on all its runs, and not on none."""
    monkeypatch.setattr(learning, "FIRST", 5)
    await teach(world, 30, "old")
    await teach(world, 10, "young")
    await world.make("Cluster", "default", {"capacity": {"cpu": 10, "memory": "64Gi"}})
    assert [known(await ask(world, each)) for each in ("old", "young", "new")] == [30, 10, 0]


@pytest.mark.asyncio
async def test_a_request_that_waits_starts_by_what_is_known_of_its_family(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though others have taken its family's room meanwhile."""
    monkeypatch.setattr(learners, "FAMILIES", 1)
    await teach(world, 30, "old")
    await teach(world, 3, "young")
    await world.make("Cluster", "default", {"capacity": {"cpu": 1, "memory": "64Gi"}})
    first = await ask(world, "young", cost={"cpu": "600m"})
    waits = await ask(world, "old", queue="default")
    assert (waits.status.phase, known(waits)) == ("QUEUED", 30)
    assert (await ask(world, "young", cost={"cpu": "600m"})).status.phase == "DENIED"
    await admission.simulation_complete(world.services, PROGRAM, first.name, "default")
    await world.services.fresh()
    found = await world.services.awaited.until(
        KINDS["Simulation"], waits.key, 5, lambda run: run.status.phase == "QUEUED"
    )
    assert isinstance(found, Simulation)
    assert (found.status.phase, known(found)) == ("APPROVED", 30)


@pytest.mark.asyncio
async def test_what_could_not_be_read_is_read_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is away for a moment leaves nothing taken for known."""
    monkeypatch.setattr(learning, "FIRST", 1)
    await teach(world, 5, "old")
    made = Learning(world.services.history)
    await made.current()
    real = world.services.history.newest_runs

    async def away(**_: object) -> tuple[KeptRun, ...]:
        raise errors.Temporary("the store is away")

    monkeypatch.setattr(world.services.history, "newest_runs", away)
    with pytest.raises(errors.Temporary):
        await made.read([("default", "old", "")])
    assert made.waits
    monkeypatch.setattr(world.services.history, "newest_runs", real)
    await made.read([])
    assert not made.waits
    assert made.known is not None
    assert made.known.unread(RunKind.SIMULATION, "default", "old") == []
