"""Leases, fencing tokens, and writes under a fence."""

from __future__ import annotations

import asyncio

import pytest
from store_places import commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors

pytestmark = pytest.mark.asyncio


async def test_tokens_grow(leases: s.LeaseStore) -> None:
    """Each holder gets a higher token than the one before, also after a release."""
    first = await leases.acquire("lead", "a", seen=None)
    second = await leases.acquire("lead", "b", seen=first.version)
    await leases.release(second)
    free = await leases.lease("lead")
    assert free is not None
    assert free.holder == ""
    third = await leases.acquire("lead", "c", seen=free.version)
    await leases.release(third)
    fourth = await leases.acquire("lead", "d", seen=None)
    assert [each.token for each in (first, second, third, fourth)] == [1, 2, 3, 4]


async def test_version_moves_on_renewal(leases: s.LeaseStore) -> None:
    """Renewal moves the version and not the token; a taker who saw the old version loses."""
    lease = await leases.acquire("lead", "a", seen=None)
    renewed = await leases.renew(lease)
    assert (renewed.token, renewed.version) == (lease.token, lease.version + 1)
    with pytest.raises(errors.Conflict, match=r"held by a: expected version 1, found 2"):
        await leases.acquire("lead", "b", seen=lease.version)
    with pytest.raises(errors.Conflict, match="held by a"):
        await leases.acquire("lead", "b", seen=None)
    assert await leases.lease("lead") == renewed


async def test_unseen_lease(leases: s.LeaseStore) -> None:
    """A version of a lease that was never there is a Conflict."""
    with pytest.raises(errors.Conflict):
        await leases.acquire("lead", "a", seen=7)


async def test_lost_lease(store: s.Store) -> None:
    """Who lost a lease can neither renew nor release nor write under it."""
    old = await store.acquire("lead", "a", seen=None)
    new = await store.acquire("lead", "b", seen=old.version)
    with pytest.raises(errors.Fenced):
        await store.renew(old)
    await store.release(old)
    assert await store.lease("lead") == new
    with pytest.raises(errors.Fenced, match="b holds it now with token 2"):
        await store.commit(commit(put("w1"), fence=s.Fence("lead", old.token)))
    await store.commit(commit(put("w2"), fence=s.Fence("lead", new.token)))
    assert await store.get(key("w1")) is None


async def test_fence_of_no_lease(store: s.Store) -> None:
    """A fence of a lease that nobody holds is refused, a released one too."""
    with pytest.raises(errors.Fenced):
        await store.commit(commit(put("w1"), fence=s.Fence("lead", 1)))
    lease = await store.acquire("lead", "a", seen=None)
    await store.release(lease)
    with pytest.raises(errors.Fenced, match="nobody holds it"):
        await store.commit(commit(put("w1"), fence=s.Fence("lead", lease.token)))


async def test_one_taker_of_many(leases: s.LeaseStore) -> None:
    """Of ten who take a lease at once one gets it."""
    results = await asyncio.gather(
        *(leases.acquire("lead", f"h{n}", seen=None) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(result, s.Lease) for result in results) == 1


async def test_leases_make_no_events(store: s.Store) -> None:
    """Leases and tokens are no objects: the log does not grow."""
    lease = await store.acquire("lead", "a", seen=None)
    await store.renew(lease)
    assert (await store.head()).revision == 0


async def test_an_installation_keeps_the_first_identity(store: s.Store) -> None:
    """Whoever names the installation second gets the first one's name, for ever."""
    assert await store.installation("first") == "first"
    assert await store.installation("second") == "first"
