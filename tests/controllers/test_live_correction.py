"""A lab that uses more than was learned keeps what it has, and its worker takes the fewer others."""

from __future__ import annotations

from typing import Any

from fleet_cases import ready
from virtual_time import play
from world import ADMIN, World, world

from cml_simulator.core import use_curves
from cml_simulator.core.use_curves import UseCurve, UsePoint
from labfleet.interfaces import store as stores
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.kinds import KINDS
from labfleet.service.reads.explain import explain

DECLARED, RESERVED = 100_000, 1024
"""MiB of memory that the lab declares, and that its nodes' ram reserves."""
LITTLE, MUCH = 300, 60_000
"""MiB of disk that a node takes, as labs did before and as these do."""


async def fleet(w: World, disk: int) -> None:
    """A worker that was ready, a lab that was learned to take little, and whose nodes take `disk`."""
    await ready(w)
    resources = {"memoryMib": DECLARED}
    await w.definition("disky", demand="bound", defaultDurationMinutes=120, resources=resources)
    w.hosts.of("w1").use_curves = use_curves.checked(
        [UseCurve(points=(UsePoint(at=0, cpu=5, ram=100, disk=disk),))]
    )
    now = w.clock.now()
    use: dict[str, Any] = {"storage_mib": Use(peak=2.0 * LITTLE), "memory_mib": Use(peak=200.0)}
    runs = [
        Run(kind=RunKind.SESSION, uid=f"p{n}", family="disky", use=use, ended_at=now)
        for n in range(5)
    ]
    writes = tuple(stores.Teach(each) for each in runs)
    await w.store.commit(stores.Commit(stores.Cause("tester", now), writes))


async def measured(w: World, session: str) -> None:
    """Wait until what a session's lab uses was measured and recorded."""
    await w.until(w.in_phase(session, "RUNNING"))
    await w.let_pass(6 * 60)


def test_what_a_lab_really_uses_closes_its_worker_early() -> None:
    """The second lab waits although by the bound there is room for many; the first one is kept."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, MUCH)
            await w.session("s1", definition="disky")
            await measured(w, "s1")
            first = w.get_session("s1")
            capacity = w.get_worker("w1").status.capacity
            assert capacity is not None
            assert first.status.demand is not None
            assert first.status.decision is not None
            assert first.status.decision.demand == first.status.demand
            assert first.status.decision.requested == first.status.demand.amounts
            assert first.status.demand.amounts.storage_mib < MUCH
            big = {"resources": {"storageMib": capacity.storage_mib - 2 * MUCH + 1}}
            await w.definition("big", **big)
            await w.session("s2", definition="big")
            await w.let_pass(10 * 60)
            assert w.phase("s2") == "PENDING"
            assert w.get_session("s2").status.message.endswith("w1 is short 1 MiB disk")
            told = await explain(w.services, ADMIN, KINDS["Session"], "s1", "default")
            assert any(f"used {2 * MUCH:,} MiB storage" in each for each in told.lines)
            assert w.phase("s1") == "RUNNING"
            assert w.get_session("s1").status.reservation == first.status.reservation
            await w.until(w.in_phase("s1", "COMPLETED"))
            await w.until(w.in_phase("s2", "RUNNING"))
            w.check()

    play(story)


def test_a_lab_within_its_bound_leaves_the_rest_to_others() -> None:
    """What would not fit beside a lab as declared fits beside one that is known to take little."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, LITTLE)
            await w.session("s1", definition="disky")
            await measured(w, "s1")
            capacity = w.get_worker("w1").status.capacity
            assert capacity is not None
            assert capacity.memory_mib > DECLARED
            await w.definition("big", resources={"memoryMib": capacity.memory_mib - RESERVED})
            await w.session("s2", definition="big")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert w.phase("s1") == "RUNNING"
            w.check()

    play(story)
