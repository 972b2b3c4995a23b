"""What happens in a rehearsal's story: nothing dies in silence, and what struck is what counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from product_breaks import leak_for_nothing

from labfleet.interfaces.compute import LaunchRequest
from labfleet.rehearsal import faults
from labfleet.rehearsal.faults import FaultInjector, FaultPlan, ScheduledFault, Window
from labfleet.rehearsal.people.operators import Operators
from labfleet.rehearsal.people.people import People
from labfleet.rehearsal.rules.fault_record import BEFORE_SECONDS, FaultRecord
from labfleet.rehearsal.rules.finalizers import Finalizers
from labfleet.rehearsal.rules.impairment import CALL_SECONDS, Impairment
from labfleet.rehearsal.rules.invariants import Invariants
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.rehearsal.stage import scheduled_faults
from labfleet.rehearsal.stage.scheduled_faults import play
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import FINALIZER_WORKERS, Pool, PoolSpec
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus

Patch = pytest.MonkeyPatch
BRIEF = Options(hours=1)


async def _trip(*_: object) -> bool:
    raise KeyError("a slip of the rehearsal's own")


@pytest.mark.parametrize(
    ("place", "name", "whose"),
    [
        (Operators, "care", "the caretaker died"),
        (Operators, "_often", "the crowd died"),
        (People, "_visit", "the crowd died"),
    ],
)
def test_no_part_of_the_story_dies_in_silence(
    place: type, name: str, whose: str, monkeypatch: Patch
) -> None:
    """An error in people, operators or the caretaker is a bug with the name of the part."""
    monkeypatch.setattr(place, name, _trip)
    report = rehearse(3, BRIEF)
    assert [each.rule for each in report.violations] == ["bug"]
    assert report.violations[0].text.startswith(f"{whose}: KeyError")


def test_a_dead_patrol_is_told(monkeypatch: Patch) -> None:
    """Who watches the rules is watched too."""

    def patrol(self: Invariants) -> None:
        raise KeyError("a slip of the checker")

    monkeypatch.setattr(Invariants, "patrol", patrol)
    assert rehearse(3, BRIEF).violations[0].text.startswith("the patrol died: KeyError")


def test_a_dead_happening_is_told(monkeypatch: Patch) -> None:
    """A fault that trips over its own feet is a bug with the fault's word."""
    for word in scheduled_faults.ACTS:
        monkeypatch.setitem(scheduled_faults.ACTS, word, _trip)
    (found, *_) = rehearse(3, BRIEF).violations
    assert found.rule == "bug"
    assert "(happening 0) died: KeyError" in found.text


def _machine(stage: Stage, worker: str, state: str = "running") -> FakeInstance:
    """Return a machine that was launched for a worker."""
    vm = stage.cloud.launch(
        LaunchRequest(
            region="", token=f"t-{worker}", worker=worker, worker_uid=f"u-{worker}", attempt=0,
            choice={"image": "ami-1", "type": "m5zn.metal", "subnet": "subnet-a"}, settings=AwsSettings(),
        ),
        "us",
    )  # fmt: skip
    # private _set: a state at once, without the minutes that lead to it
    stage.cloud._set(vm, state)  # type: ignore[arg-type]
    return vm


def _staged(story: Any) -> None:
    """Play a story on an empty stage."""

    async def main(loop: loops.Loop) -> None:
        await story(Stage(loop, 1, FaultPlan()))

    loops.run(1, main)


def test_a_start_from_the_console_may_be_refused() -> None:
    """While the quota is full a person at the console gets an error, and the story goes on."""

    async def story(stage: Stage) -> None:
        vm = _machine(stage, "w1", "stopped")
        vm.turn += 1
        stage.injector.begin("quota_full", None)
        await play(stage, ScheduledFault(0, "console_start", 1.0, 0.0, 0.5))
        assert vm.state == "stopped"
        assert stage.injector.counts["console_start"] == 0
        assert stage.injector.counts["quota_full"] == 1

    _staged(story)


def test_a_window_counts_when_it_strikes() -> None:
    """What holds for nobody who asks is not counted; what has two parts is counted once."""
    injector = FaultInjector(FaultPlan(), _no_dice())
    end = injector.begin("no_stock", "subnet-a")
    assert not injector.holds("no_stock", "subnet-b")
    assert injector.counts["no_stock"] == 0
    end()
    both = Window("zone_down")
    injector.begin("no_stock", "subnet-a", both)
    injector.begin("server_unreachable", "10.0.0.1", both)
    for _ in range(2):
        assert injector.holds("no_stock", "subnet-a")
        assert injector.holds("server_unreachable", "10.0.0.1")
    assert injector.counts == {"zone_down": 1}


def _no_dice() -> Any:
    return None


@pytest.mark.parametrize("word", ["instance_death", "console_stop", "console_terminate"])
def test_ours_are_struck_rather_than_strangers(word: str) -> None:
    """A stranger's machine that comes first is passed over; the strike counts."""

    async def story(stage: Stage) -> None:
        stranger = stage.cloud.foreign()
        stage.cloud._set(stranger, "running")
        vm = _machine(stage, "w1")
        await play(stage, ScheduledFault(0, word, 1.0, 0.0, 0.25))
        assert stranger.state in {"running", "booting"}
        assert vm.state in {"stopping", "ending"}
        assert stage.injector.counts[word] == 1
        assert [each.who for each in stage.invariants.fault_record.strikes] == [vm.id]

    _staged(story)


def test_an_excuse_is_of_a_machine_and_of_a_time() -> None:
    """What struck another machine, or was over long before, excuses no leak."""

    async def story(stage: Stage) -> None:
        one, other = _machine(stage, "w1"), _machine(stage, "w2")
        now = [0.0]
        fault_record = FaultRecord(lambda: now[0])
        end = fault_record.begin("licence_unreachable", one.id)
        now[0] = 600.0
        assert fault_record.of(one, 600.0) == "licence_unreachable"
        assert fault_record.of(other, 600.0) is None
        end()
        assert fault_record.of(one, 600.0 + BEFORE_SECONDS) == "licence_unreachable"
        assert fault_record.of(one, 601.0 + BEFORE_SECONDS) is None
        fault_record.begin("zone_down", "subnet-a")
        assert fault_record.of(other, 1e6) == "zone_down"
        assert fault_record.of(None, 1e6) is None
        fault_record.begin("ec2_down", None)
        assert fault_record.of(None, 1e6) == "ec2_down"
        assert (fault_record.judged, fault_record.accepted.total()) == (3, 4)

    _staged(story)


def _worker(phase: WorkerPhase, desired: Any = "Ready", pool: str | None = "main") -> Worker:
    return Worker(
        metadata=Metadata(name="w1"),
        spec=WorkerSpec(track="t", pool=pool, desired=desired),
        status=WorkerStatus(phase=phase),
    )


def test_nobody_goes_down_for_an_impaired_check() -> None:
    """A stop under the wish Ready breaks the rule; one that was wished for does not."""

    async def story(stage: Stage) -> None:
        found: list[str] = []
        now = [0.0]
        rule = Impairment(lambda word, _: found.append(word), lambda: now[0])
        vm = _machine(stage, "w1")
        ready = _worker(WorkerPhase.READY)
        rule.worker(None, ready)
        now[0] = CALL_SECONDS + 1
        rule.acted("stopping", vm, ready)
        assert found == []
        rule.held[vm.id, "system_check"] += 1
        rule.acted("stopping", vm, ready)
        assert found == ["impaired"]
        wished = _worker(WorkerPhase.STOPPING, "Stopped")
        rule.worker(ready, wished)
        rule.acted("stopping", vm, wished)
        again = _worker(WorkerPhase.STOPPING)
        rule.worker(wished, again)
        rule.acted("stopping", vm, again)
        assert found == ["impaired"]

    _staged(story)


def test_a_pool_that_is_gone_has_no_worker() -> None:
    """A finalizer that goes before the last worker ended breaks the rule."""

    async def story(stage: Stage) -> None:
        found: list[str] = []
        rule = Finalizers(lambda word, _: found.append(word), stage.cml_servers)
        held = Metadata(name="main", finalizers=(FINALIZER_WORKERS,))
        spec, living = PoolSpec(template="metal"), _worker(WorkerPhase.STOPPING)
        rule.pool(Pool(metadata=held, spec=spec), [living])
        assert found == []
        rule.pool(Pool(metadata=Metadata(name="main"), spec=spec), [living])
        assert found == ["pool-finalizer"]
        rule.pool_gone("main", [_worker(WorkerPhase.TERMINATED)])
        rule.pool_gone("main", [_worker(WorkerPhase.READY, pool="other")])
        assert found == ["pool-finalizer"]

    _staged(story)


@pytest.mark.timeout(600)
def test_leaks_of_harsh_short_seeds_are_judged(monkeypatch: Patch) -> None:
    """Of four harsh seeds in which licences are leaked for nothing, half and more say so."""
    leak_for_nothing(monkeypatch)
    told = (rehearse(seed, Options(hours=6)).violations for seed in range(1, 5))
    says = (found for found in told if any(each.rule == "leak" for each in found))
    assert len(list(itertools.islice(says, 2))) == 2


def test_every_happening_has_its_act() -> None:
    """What a plan may hold can be made to happen."""
    assert {*faults.SCHEDULED, *faults.RUN_SCHEDULED} == set(scheduled_faults.ACTS)
