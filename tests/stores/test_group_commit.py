"""The queue in front of the one writer, with a writer made of plain futures."""

from __future__ import annotations

import asyncio

import pytest
from store_places import commit, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores import rules
from labfleet.stores.group_commit import GroupCommit, commit_each

pytestmark = pytest.mark.asyncio


class Writer:
    """Hands out futures and lets the test end them."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.futures: list[asyncio.Future[list[rules.Outcome]]] = []

    def start(self, commits: list[s.Commit]) -> asyncio.Future[list[rules.Outcome]]:
        self.batches.append(len(commits))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def finish(self) -> None:
        done = [s.Committed((), n) for n in range(self.batches[-1])]
        self.futures[-1].set_result(list(done))


async def test_who_waits_joins_the_next_batch() -> None:
    """While one batch is written, all others queue and become the next one."""
    writer = Writer()
    group = GroupCommit(writer.start, batch_limit=4)
    futures = [group.submit(commit(put("w")))]
    await asyncio.sleep(0)
    futures += [group.submit(commit(put("w"))) for _ in range(6)]
    for _ in range(3):
        writer.finish()
        await asyncio.sleep(0.001)
    assert writer.batches == [1, 4, 2]
    assert all(future.done() for future in futures)


async def test_bounded_queue() -> None:
    """A caller past the bound is refused at once, and the waiting ones are not."""
    writer = Writer()
    group = GroupCommit(writer.start, queue_limit=2)
    futures = [group.submit(commit(put("w"))) for _ in range(2)]
    with pytest.raises(errors.Throttled):
        group.submit(commit(put("w")))
    await asyncio.sleep(0)
    writer.finish()
    assert await asyncio.gather(*futures)


async def test_failed_batch() -> None:
    """A batch that fails as a whole fails each of its callers, and the next one is started."""
    writer = Writer()
    group = GroupCommit(writer.start)
    futures = [group.submit(commit(put("w"))) for _ in range(2)]
    await asyncio.sleep(0)
    writer.futures[-1].set_exception(errors.Ambiguous("lost", reason="Odd"))
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert [getattr(each, "reason", None) for each in found] == ["Odd", "Odd"]
    assert found[0] is not found[1]
    last = group.submit(commit(put("w")))
    await asyncio.sleep(0.001)
    writer.finish()
    await last


async def test_each_alone_after_a_failure() -> None:
    """A failing batch is done one by one, unless that cannot help."""
    calls: list[int] = []
    error: errors.LabfleetError = errors.OutOfCapacity("full")

    def run(commits: list[s.Commit]) -> list[rules.Outcome]:
        calls.append(len(commits))
        if len(commits) > 1 or calls == [3, 1, 1]:
            raise error
        return [s.Committed((), 1)]

    outcomes = commit_each(run, [commit(put("w"))] * 3)
    assert calls == [3, 1, 1, 1]
    assert outcomes[1] is error
    for error in (errors.Ambiguous("?"), errors.Temporary("busy", reason="StoreBusy")):
        calls.clear()
        with pytest.raises(type(error)):
            commit_each(run, [commit(put("w"))] * 3)
        assert calls == [3]
