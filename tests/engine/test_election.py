"""Two candidates, one lease, and everything that may go wrong between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from engine_fakes import BadDays, HandClock, MemoryLeases, cause, cluster, memory_store, pump

from labfleet.engine.election import (
    RENEWALS,
    TRUST,
    AlwaysLeader,
    Election,
    ElectionObserver,
)
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.kernel import errors


class Candidate:
    """An election with its own store connection and its own, stoppable, time."""

    def __init__(
        self,
        leases: stores.LeaseStore,
        name: str,
        observer: ElectionObserver | None = None,
    ) -> None:
        self.clock = HandClock()
        self.store = BadDays(leases, self.clock)
        self.election = Election(
            self.store, "leader", name, machine=self.clock.monotonic, pause=self.clock.sleep,
            observer=observer,
        )  # fmt: skip
        self.lead = self.election.leadership
        self.task = asyncio.create_task(self.election.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def advance(seconds: float, candidates: Iterable[Candidate]) -> None:
    """Let time pass for these candidates, second by second."""
    for _ in range(round(seconds)):
        for each in candidates:
            await each.clock.advance(1)


async def write(store: stores.Store, name: str, fence: stores.Fence | None) -> None:
    await Objects(store).save(cluster(name), cause=cause(), fence=fence)


@pytest.mark.asyncio
async def test_first_candidate_leads_and_stays() -> None:
    """Alone it leads at once and keeps leading under one token."""
    one = Candidate(MemoryLeases(), "one")
    await one.lead.wait_held()
    fence = one.lead.fence
    await advance(100, [one])
    assert one.lead.held
    assert one.lead.fence == fence == stores.Fence("leader", 1)
    assert 0 < one.lead.remaining() <= 15 * TRUST
    await one.stop()


@pytest.mark.asyncio
async def test_never_two_leaders() -> None:
    """While the first renews, the second waits, however long."""
    leases = MemoryLeases()
    one, two = Candidate(leases, "one"), Candidate(leases, "two")
    for _ in range(60):
        await advance(1, [one, two])
        assert one.lead.held
        assert not two.lead.held
    await one.stop()
    await two.stop()


@pytest.mark.asyncio
async def test_paused_leader_is_followed_and_its_fence_refused() -> None:
    """A leader paused past its lease finds its place taken and its writes refused."""
    store = await memory_store(HandClock())
    one = Candidate(store, "one")
    await one.lead.wait_held()
    old = one.lead.fence
    two = Candidate(store, "two")
    await advance(25, [two])  # `one` stands still meanwhile, as if its host were asleep
    assert two.lead.held
    with pytest.raises(errors.Fenced):
        await write(store, "late", old)
    await write(store, "fine", two.lead.fence)
    await advance(10, [one, two])
    assert not one.lead.held
    assert one.lead.fence is None
    assert two.lead.held
    await one.stop()
    await two.stop()


@pytest.mark.asyncio
async def test_successor_waits_the_whole_lease() -> None:
    """A lease left by a killed leader is taken after its length by the watcher's own time."""
    leases = MemoryLeases()
    await leases.acquire("leader", "dead", seen=None)
    two = Candidate(leases, "two")
    await advance(14, [two])
    assert not two.lead.held
    await advance(5, [two])
    assert two.lead.held
    await two.stop()


@pytest.mark.asyncio
async def test_orderly_stop_lets_the_next_one_in_at_once() -> None:
    """A released lease needs no waiting out."""
    leases = MemoryLeases()
    one, two = Candidate(leases, "one"), Candidate(leases, "two")
    await advance(1, [one, two])
    await one.stop()
    assert not one.lead.held
    await advance(4, [two])
    assert two.lead.held
    await two.stop()


@pytest.mark.asyncio
@pytest.mark.parametrize("hanging", [{"renew"}, {"renew", "lease"}])
async def test_hanging_store_ends_leadership_by_local_time(hanging: set[str]) -> None:
    """When the store hangs, the leader stops believing before its lease is over."""
    one = Candidate(MemoryLeases(), "one")
    await one.lead.wait_held()
    one.store.hang |= hanging
    lost = asyncio.create_task(one.lead.wait_lost())
    await advance(13, [one])
    assert one.lead.held
    assert not lost.done()
    await advance(1, [one])
    assert not one.lead.held
    assert one.lead.remaining() == 0
    assert lost.done()
    await one.stop()


@pytest.mark.asyncio
async def test_short_trouble_costs_nothing() -> None:
    """A store that fails for some seconds is asked again, and the same term goes on."""
    one = Candidate(MemoryLeases(), "one")
    await one.lead.wait_held()
    one.store.fail["renew"] = errors.Temporary("busy")
    await advance(9, [one])
    del one.store.fail["renew"]
    await advance(20, [one])
    assert one.lead.fence == stores.Fence("leader", 1)
    await one.stop()


@pytest.mark.asyncio
async def test_long_trouble_starts_a_new_term_under_a_new_token() -> None:
    """After its lease ran out unanswered it competes again and writes under a newer token."""
    one = Candidate(MemoryLeases(), "one")
    await one.lead.wait_held()
    one.store.fail["renew"] = errors.Temporary("busy")
    await advance(20, [one])
    del one.store.fail["renew"]
    await advance(5, [one])
    assert one.lead.held
    assert one.lead.fence is not None
    assert one.lead.fence.token > 1
    await one.stop()


@pytest.mark.asyncio
async def test_unanswered_acquisition_is_taken_up() -> None:
    """A lease that was given though the answer was lost is ours without waiting it out."""
    leases = MemoryLeases()
    one = Candidate(leases, "one")

    async def lose() -> None:
        raise errors.Ambiguous("no answer")

    one.store.after["acquire"] = lose
    await advance(2, [one])
    assert one.lead.held
    await one.stop()


@pytest.mark.asyncio
async def test_late_renewal_does_not_revive_a_lost_term() -> None:
    """A renewal answered after the local end begins a new term; the old one stays lost."""
    leases = MemoryLeases()
    one = Candidate(leases, "one")
    await one.lead.wait_held()

    async def slow() -> None:
        await one.clock.sleep(14)

    one.store.after["renew"] = slow
    lost = asyncio.create_task(one.lead.wait_lost())
    await advance(20, [one])
    assert lost.done()
    assert one.lead.fence == stores.Fence("leader", 2)
    await one.stop()


@pytest.mark.asyncio
async def test_always_leader_leads() -> None:
    """The leadership for one process is held without end."""
    lead = AlwaysLeader(stores.Fence("x", 1))
    await lead.wait_held()
    waiting = asyncio.create_task(lead.wait_lost())
    await pump()
    assert lead.held
    assert lead.remaining() > 1e9
    assert not waiting.done()
    waiting.cancel()


class Told:
    """Notes what an election tells."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []

    def lead_taken(self, name: str, token: int) -> None:
        assert name == "leader"
        self.said.append(("taken", token))

    def lead_lost(self, name: str, token: int) -> None:
        assert name == "leader"
        self.said.append(("lost", token))


@pytest.mark.asyncio
async def test_a_killed_leader_is_followed_within_the_lease_and_a_look() -> None:
    """Whenever it is killed: a lease of 15 s means 15, of which its last renewal took some."""
    waited = []
    for killed_after in range(10, 30):
        leases = MemoryLeases()
        one, two = Candidate(leases, "one"), Candidate(leases, "two")
        await advance(killed_after, [one, two])
        assert one.lead.held
        one.task.cancel()
        one.store.hang |= {"release"}  # killed: nothing is put in order
        seconds = 0.0
        while not two.lead.held:
            await two.clock.advance(0.25)
            seconds += 0.25
        waited.append(seconds)
        await two.stop()
    assert max(waited) <= 16
    assert sorted(waited)[len(waited) // 2] <= 15
    assert min(waited) >= 15 * TRUST - 15 / RENEWALS, "nobody may lead while another believes to"


@pytest.mark.asyncio
@pytest.mark.parametrize(("left_by", "lease"), [("dead", 15), ("two", 0), ("", 0)])
@pytest.mark.parametrize("refused", [0, 40, 240])
async def test_a_term_knows_how_long_nobody_led(left_by: str, lease: int, refused: int) -> None:
    """As long as the lease was free and could not be taken, whoever had left it, and how."""
    leases = MemoryLeases()
    row = await leases.acquire("leader", left_by or "one", seen=None)
    if not left_by:
        await leases.release(row)
    two = Candidate(leases, "two")
    two.store.fail["acquire"] = errors.Temporary("the disk is full")
    await advance(lease + refused, [two])
    assert not two.lead.held
    del two.store.fail["acquire"]
    await advance(3, [two])
    assert two.lead.held
    assert refused - 1 <= two.lead.vacant <= refused + 3
    await two.stop()


@pytest.mark.asyncio
async def test_where_no_lease_was_nobody_had_to_lead() -> None:
    """The first leader of all follows nobody, and one that goes on under its lease neither."""
    one = Candidate(MemoryLeases(), "one")
    await one.lead.wait_held()
    assert one.lead.vacant == 0
    await advance(100, [one])
    assert one.lead.vacant == 0
    await one.stop()


@pytest.mark.asyncio
async def test_a_lost_lead_is_told_once_and_an_orderly_end_is_none() -> None:
    """Begin and loss of each term, by time or by another's lease."""
    told = Told()
    store = MemoryLeases()
    one = Candidate(store, "one", observer=told)
    await one.lead.wait_held()
    await advance(20, [one])
    assert told.said == [("taken", 1)]
    down = errors.Temporary("the store is down")
    one.store.fail |= {"renew": down, "lease": down, "acquire": down}
    await advance(25, [one])
    assert told.said == [("taken", 1), ("lost", 1)]
    one.store.fail.clear()
    await advance(20, [one])
    assert told.said == [("taken", 1), ("lost", 1), ("taken", 2)]
    await one.stop()
    assert told.said[-1] == ("taken", 2)
