"""Who leads, as another process reads it from the leases, without comparing clocks."""

from __future__ import annotations

import asyncio

import pytest
from engine_fakes import HandClock, MemoryLeases

from labfleet.engine.election import AlwaysLeader
from labfleet.engine.leader_watch import LeaderWatch
from labfleet.kernel import errors


class Kit:
    """Leases of two roles, and a watch in a process that leads none of them."""

    def __init__(self) -> None:
        self.leases, self.clock = MemoryLeases(), HandClock()
        self.asked, self.broken = 0, False
        self.watch = LeaderWatch(
            self, ("scheduler", "lab-controller"), seconds=15, machine=self.clock.monotonic
        )  # type: ignore[arg-type]

    async def lease(self, role: str):
        self.asked += 1
        if self.broken:
            raise errors.Unreachable("down")
        return await self.leases.lease(role)

    async def states(self, after: float = 0.0) -> list[str]:
        await self.clock.advance(after)
        await self.watch.look()
        return [each.state.value for each in self.watch.leaders]


@pytest.mark.asyncio
async def test_a_leader_is_named_with_its_term_until_its_lease_runs_out() -> None:
    """Renewed it leads; unchanged for the lease's length it is silent; released, nobody leads."""
    kit = Kit()
    assert await kit.states() == ["nobody", "nobody"]
    lease = await kit.leases.acquire("scheduler", "host-a/7", seen=None)
    assert await kit.states(5) == ["led", "nobody"]
    first = kit.watch.leaders[0]
    assert (first.holder, first.term, first.here, first.renewed) == ("host-a/7", 1, False, 0.0)
    assert await kit.states(14) == ["led", "nobody"]
    assert kit.watch.leaders[0].renewed == 14.0
    lease = await kit.leases.renew(lease)
    assert await kit.states(5) == ["led", "nobody"]
    assert await kit.states(15) == ["silent", "nobody"]
    await kit.leases.acquire("scheduler", "host-b/9", seen=lease.version)
    assert await kit.states(1) == ["led", "nobody"]
    second = kit.watch.leaders[0]
    assert (second.holder, second.term) == ("host-b/9", 2)


@pytest.mark.asyncio
async def test_a_leader_that_gave_up_leads_no_more() -> None:
    """A released lease says that nobody leads, at the next look."""
    kit = Kit()
    lease = await kit.leases.acquire("scheduler", "host-a/7", seen=None)
    assert await kit.states() == ["led", "nobody"]
    await kit.leases.release(lease)
    assert await kit.states(2) == ["nobody", "nobody"]


@pytest.mark.asyncio
async def test_an_unreadable_store_makes_it_unknown_and_not_nobody() -> None:
    """Error and absence are two things; what this process leads itself it still knows."""
    kit = Kit()
    await kit.leases.acquire("scheduler", "host-a/7", seen=None)
    kit.watch.own = {"lab-controller": AlwaysLeader()}
    assert await kit.states() == ["led", "nobody"]
    kit.broken = True
    assert await kit.states(5) == ["unknown", "unknown"]
    assert [each.here for each in kit.watch.leaders] == [False, True]
    kit.broken = False
    assert await kit.states(5) == ["led", "nobody"]


@pytest.mark.asyncio
async def test_many_who_ask_cost_one_look_a_second() -> None:
    """A hundred pages at once read the leases once."""
    kit = Kit()
    await asyncio.gather(*(kit.watch.look() for _ in range(100)))
    assert kit.asked == 2
    await kit.states(1)
    assert kit.asked == 4
