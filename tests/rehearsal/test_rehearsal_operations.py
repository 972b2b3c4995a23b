"""The rule on calls of another process, judged by hand-made commits, and the fault that tests it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from labfleet.interfaces.store import Fence
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.replicas.leases import CutLeases
from labfleet.rehearsal.rules.operations import Operations
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect, Metadata
from labfleet.resources.session import Session, SessionSpec, SessionStatus
from labfleet.resources.worker import Worker, WorkerSpec, WorkerStatus

LAUNCH = Effect(id="e-1", kind="launch", begun=EPOCH, expires=EPOCH + timedelta(seconds=20))
IMPORT = msgspec.structs.replace(LAUNCH, id="e-2", kind="import")
FENCE = Fence("worker-controller", 1)


class Judged:
    """A rule with a clock, a holder of the lease, and what it found."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holder = "a.1/worker-controller"
        self.found: list[str] = []
        self.workers: dict[str, Worker] = {}
        inner = SimpleNamespace(sql={"lease": ""}, rows=lambda *_: [("", self.holder, 1, 1)])
        shared: Any = SimpleNamespace(inner=inner)
        self.rule = Operations(self.broken, shared, lambda: self.now, self.workers)

    def broken(self, rule: str, text: str) -> None:
        assert rule == "operation"
        self.found.append(text)

    def worker(self, effect: Effect | None, machine: str | None = None) -> None:
        status = WorkerStatus(effect=effect, machine=MachineStatus(id=machine))
        spec = WorkerSpec(template="t")
        self.rule.take(Worker(metadata=Metadata(name="w"), spec=spec, status=status), FENCE)

    def session(self, effect: Effect | None, worker: str | None) -> None:
        status = SessionStatus(effect=effect, worker=worker)
        spec = SessionSpec(definition="d", owner="o")
        self.rule.take(Session(metadata=Metadata(name="s"), spec=spec, status=status), FENCE)


@pytest.mark.parametrize(
    ("holder", "after", "machine", "again", "broken"),
    [
        ("b.1/worker-controller", 19.9, None, False, True),
        ("b.1/worker-controller", 19.9, None, True, True),
        ("b.1/worker-controller", 20.0, None, False, False),
        ("b.1/worker-controller", 1.0, "i-1", False, False),
        ("a.1/worker-controller", 1.0, None, False, False),
    ],
)
def test_another_process_waits_for_a_launch_or_finds_it(
    holder: str, after: float, machine: str | None, again: bool, broken: bool
) -> None:
    """Dropped or repeated too early is broken; found, late, or by the same process is not."""
    judged = Judged()
    judged.worker(LAUNCH)
    assert judged.rule.under_way("a.1")
    assert not judged.rule.under_way("b.1")
    judged.worker(LAUNCH)  # another field was written meanwhile
    judged.now, judged.holder = after, holder
    judged.worker(msgspec.structs.replace(LAUNCH, attempt=2) if again else None, machine)
    assert bool(judged.found) is broken
    assert judged.rule.under_way("b.1") is again


@pytest.mark.parametrize(("state", "broken"), [("running", True), ("gone", False)])
def test_an_import_on_a_machine_that_is_gone_is_over(state: Any, broken: bool) -> None:
    """A lab cannot appear where nothing runs."""
    judged = Judged()
    status = WorkerStatus(machine=MachineStatus(id="i-1", state=state))
    judged.workers["w"] = Worker(
        metadata=Metadata(name="w"), spec=WorkerSpec(template="t"), status=status
    )
    judged.session(IMPORT, "w")
    judged.holder = "b.1/lab-controller"
    judged.session(None, None)
    assert bool(judged.found) is broken


@pytest.mark.asyncio
async def test_a_cut_process_reaches_no_lease_and_others_do() -> None:
    """Renewing and taking fail while the fault holds; reading and giving up go on."""

    class Leases:
        async def renew(self, lease: Any) -> Any:
            return lease

        async def acquire(self, name: str, holder: str, *, seen: int | None) -> Any:
            return (name, holder, seen)

        async def lease(self, name: str) -> Any:
            return name

        async def release(self, lease: Any) -> None:
            return

    injector = FaultInjector(FaultPlan(), SeededRng("x"))
    one, two = object(), object()
    cut, whole = (CutLeases(Leases(), injector, each) for each in (one, two))  # type: ignore[arg-type]
    end = injector.begin("lead_lost", one)
    with pytest.raises(errors.Temporary):
        await cut.renew("l")  # type: ignore[arg-type]
    with pytest.raises(errors.Temporary):
        await cut.acquire("n", "h", seen=None)
    assert await cut.lease("n") == "n"  # type: ignore[comparison-overlap]
    await cut.release("l")  # type: ignore[arg-type]
    assert await whole.renew("l") == "l"  # type: ignore[arg-type, comparison-overlap]
    end()
    assert await cut.renew("l") == "l"  # type: ignore[arg-type, comparison-overlap]
