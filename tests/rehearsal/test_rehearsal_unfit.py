"""What answers and is wrong: CML's core, the host under a machine, a host's wall clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from cml_simulator.core.world import Server, can_start
from labfleet.rehearsal.faults import FaultPlan, ScheduledFault
from labfleet.rehearsal.rules.silence import UNREACHED_SECONDS
from labfleet.rehearsal.rules.unfit import CHECK, CORE, STALE_SECONDS, Unfit
from labfleet.rehearsal.stage.scheduled_faults import play
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.judged_clock import JudgedClock
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect, Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

ANYBODY, LASTING = 0.0, 0.001
"""Numbers of a plan with which a fault takes any machine; with the first one it is for ever."""


@pytest.mark.parametrize("rate", [1.0, 60.0])
def test_a_wall_clock_that_jumps_is_followed_only_when_it_is_little(rate: float) -> None:
    """Minutes are NTP's; a day is not believed, whatever the rate, until people say so."""
    at = [0.0]
    clock = JudgedClock(1.5, rate, lambda: at[0])
    assert clock.now() == EPOCH + timedelta(seconds=1.5)
    clock.jump = 200.0 * rate
    assert clock.now() == clock.host_now()
    clock.jump, at[0] = 86400.0 * rate, 60.0
    assert (clock.now() - EPOCH).total_seconds() == pytest.approx(61.5 + 200.0 * rate)
    assert clock.apart == pytest.approx(86200.0)
    assert clock.apart_since is not None
    clock.confirm()
    assert (clock.now(), clock.apart_since) == (clock.host_now(), None)
    clock.doubt(EPOCH + timedelta(seconds=60))
    assert clock.now() == EPOCH + timedelta(seconds=60)


def _begin(stage: Stage) -> tuple[FakeInstance, Server]:
    """Return a machine of the account, and its server."""
    vm = stage.cloud.foreign(tags={})
    return vm, stage.cml_servers.fleet.servers[vm.server_id]


def test_a_core_that_is_down_starts_nothing_until_it_is_mended() -> None:
    """Its server answers meanwhile, and says that it is not ready."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        vm, server = _begin(stage)
        await asyncio.sleep(600)
        assert can_start(server, stage.cml_servers.now())
        acting = loop.create_task(play(stage, ScheduledFault(0, "core_down", 0.0, 900.0, LASTING)))
        await asyncio.sleep(60)
        assert not can_start(server, stage.cml_servers.now())
        assert stage.invariants.unfit.holds(vm.id, CORE)
        await acting
        assert can_start(server, stage.cml_servers.now())
        assert not stage.invariants.unfit.any(CORE)

    loops.run(1, main)


def test_an_impaired_host_stays_so_until_the_machine_is_on_another() -> None:
    """Another fault's end does not mend it, nor does time; a stop and a start do."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        vm, _ = _begin(stage)
        await asyncio.sleep(600)
        fault = ScheduledFault(0, "host_impaired", 0.0, 60.0, ANYBODY)
        acting = loop.create_task(play(stage, fault))
        await play(stage, ScheduledFault(1, "check_impaired", 10.0, 300.0, ANYBODY))
        await asyncio.sleep(40_000)
        assert vm.system_check == "impaired"
        assert stage.invariants.unfit.holds(vm.id, CHECK)
        stage.cloud.begin_stop(vm, "console")
        await acting
        assert vm.system_check == "ok"
        assert not stage.invariants.unfit.any(CHECK)

    loops.run(1, main)


def _worker(status: WorkerStatus) -> Worker:
    return Worker(metadata=Metadata(name="w1"), spec=WorkerSpec(track="default"), status=status)


def _shown(status: str) -> Worker:
    """Return a worker on machine i-1 whose record says this of its checks."""
    facts = conditions.put(
        (), WorkerCondition.INSTANCE_CHECKS_PASSED, status, WorkerReason.IMPAIRED, "",  # type: ignore[arg-type]
        now=EPOCH, generation=1,
    )  # fmt: skip
    shown = MachineStatus(id="i-1", state="running")
    return _worker(WorkerStatus(phase=WorkerPhase.READY, machine=shown, conditions=facts))


def test_a_placement_is_judged_from_when_the_record_says_what_is_the_matter() -> None:
    """A process may believe the record before for five minutes, and a new boot begins anew."""
    at, told = [0.0], []
    unfit = Unfit(lambda rule, text: told.append((rule, text)), lambda: at[0])
    end = unfit.begin("i-1", CHECK)
    session = Session(metadata=Metadata(name="s"), spec=SessionSpec(definition="d"))
    unfit.worker(_shown("Unknown"))
    at[0] = 600.0
    unfit.placed(session, _shown("Unknown"))
    unfit.worker(_shown("False"))
    at[0] += STALE_SECONDS
    unfit.placed(session, _shown("False"))
    assert told == []
    at[0] += 60.0
    unfit.placed(session, _shown("False"))
    assert [rule for rule, _ in told] == ["unfit"]
    assert "for 16 min" in told[0][1]
    down = WorkerStatus(phase=WorkerPhase.STOPPED, machine=_shown("False").status.machine)
    unfit.worker(_worker(down))
    unfit.placed(session, _shown("Unknown"))
    end()
    unfit.placed(session, _shown("False"))
    assert len(told) == 1


def test_two_faults_of_one_machine_end_each_by_itself() -> None:
    """What begins alike and goes on unlike is not mistaken for the other one (seed 19)."""
    unfit = Unfit(lambda rule, text: None, lambda: 0.0)
    first, second = unfit.begin("i-1", CHECK), unfit.begin("i-1", CHECK)
    second()
    unfit.worker(_shown("False"))
    first()
    assert not unfit.any(CHECK)


@pytest.mark.parametrize(("pick", "core"), [(ANYBODY, True), (LASTING, False)])
def test_a_server_goes_away_in_the_moment_of_a_placement(pick: float, *, core: bool) -> None:
    """Its core or the way to it is gone before an import, and is back when the fault is over."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        vm, server = _begin(stage)
        await asyncio.sleep(600)
        fault = ScheduledFault(0, "cut_before_import", 0.0, 900.0, pick)
        acting = loop.create_task(play(stage, fault))
        await asyncio.sleep(60)
        [placed] = stage.invariants.silence.at_placement
        placed(vm)
        placed(vm)
        await asyncio.sleep(60)
        assert stage.invariants.silence.at_placement == []
        assert can_start(server, stage.cml_servers.now()) is not core
        assert stage.injector.holds("server_unreachable", vm.public_ip) is not core
        await acting
        assert can_start(server, stage.cml_servers.now())
        assert not stage.injector.holds("server_unreachable", vm.public_ip)

    loops.run(1, main)


def _waiting(phase: SessionPhase, reason: str = "") -> Session:
    """Return a session on w1 to which nothing was imported."""
    status = SessionStatus(phase=phase, worker="w1", reason=reason)
    meta = Metadata(name="s", uid="u")
    return Session(metadata=meta, spec=SessionSpec(definition="d"), status=status)


@pytest.mark.parametrize("imported", [False, True])
def test_who_stays_with_a_silent_server_is_judged_by_what_was_sent_there(*, imported: bool) -> None:
    """Nothing sent: it must leave in time; sent: it may wait. Neither may be called too slow."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        vm, _ = _begin(stage)
        await asyncio.sleep(600)
        silence, told = stage.invariants.silence, stage.invariants.found
        machine = MachineStatus(id=vm.id, state="running")
        worker = _worker(WorkerStatus(phase=WorkerPhase.READY, machine=machine))
        workers = {worker.key.label: worker}
        begun = _waiting(SessionPhase.INSTANTIATING)
        if imported:
            now = EPOCH + timedelta(seconds=loop.time())
            effect = Effect(id="e", kind="import", begun=now, expires=now)
            status = msgspec.structs.replace(begun.status, effect=effect)
            begun = msgspec.structs.replace(begun, status=status)
        silence.session(begun, workers)
        end = silence.begin(vm)
        await asyncio.sleep(UNREACHED_SECONDS - 60)
        silence.patrol(workers)
        assert told == []
        await asyncio.sleep(120)
        silence.patrol(workers)
        assert [each.rule for each in told] == ([] if imported else ["unreached"])
        late = _waiting(SessionPhase.STOPPING, PhaseReason.BOOT_TIMEOUT)
        silence.session(begun, workers)
        silence.session(late, workers)
        assert told[-1].rule == "boot-limit"
        end()
        assert silence.lasts(worker) == 0.0

    loops.run(1, main)
