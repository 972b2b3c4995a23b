"""Two installations in one account, two replicas of one: numbers 46 and 47 of facts/aws-bugs.md."""

from __future__ import annotations

from typing import Any

import pytest
from bug_world import BugWorld, bugs
from replicas import two
from virtual_time import play

from labfleet.resources import conditions
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Refused


def owned(w: BugWorld) -> list[str]:
    """Return the living instances that carry an installation's owner tag."""
    return [
        str(each["id"])
        for each in w.cloud.instances()
        if each["tags"].get("labfleet:owner") == w.installation
    ]


def ready(w: BugWorld) -> int:
    """Return how many workers are up."""
    return sum(each.status.phase == "READY" for each in w.cache.all(Worker))


def test_46_two_installations_with_equal_names_leave_each_other_alone() -> None:
    """Number 46: the owner's id decides: neither sees, sweeps, stops nor ends what is theirs."""

    async def story() -> None:
        async with bugs() as a, bugs(beside=a) as b:
            for w in (a, b):
                await w.start()
                await w.pool(scaling={"minWorkers": 2, "maxWorkers": 2})
                await w.worker("w1")
            await a.until(lambda: ready(a) == ready(b) == 3)
            assert len(owned(a)) == len(owned(b)) == 3
            ours = a.get_worker("w1").status.machine.id
            [first] = [each for each in a.cloud.instances("w1") if each["id"] == ours]
            lost = a.cloud.stray({**first["tags"], "labfleet:worker-uid": "lost"})
            assert b.process is not None
            b.process.kill()  # nobody there looks after what is theirs meanwhile
            await a.until(lambda: lost not in owned(a), hours=1)
            await a.let_pass(3600)
            assert len(owned(b)) == 3
            await b.start()
            await b.let_pass(1200)
            await a.desire("w1", "Terminated")
            await a.until(a.in_phase("w1", "TERMINATED"))
            await a.let_pass(600)
            assert (len(owned(a)), len(owned(b))) == (2, 3)
            assert ready(b) == 3
            a.check()
            b.check()

    play(story)


def test_46_what_another_installation_owns_cannot_be_adopted() -> None:
    """Number 46: a record that names their machine never stops, tags or ends it."""

    async def story() -> None:
        async with bugs() as a, bugs(beside=a) as b:
            await a.start()
            await a.worker("w1")
            await a.until(a.in_phase("w1", "READY"))
            [theirs] = owned(a)
            await b.start()
            origin = {"kind": "imported", "instanceId": theirs, "region": "us-east-1"}
            spec = {"machine": b.machine(), "origin": {**origin, "managed": True}}
            await b.make("Worker", "w1", spec)
            await b.let_pass(600)
            fact = conditions.find(b.get_worker("w1").status.conditions, "Adopted")
            assert fact is not None
            assert (fact.status, fact.reason) == ("False", "OwnedByAnother")
            with pytest.raises(Refused):
                await b.desire("w1", "Terminated")
            await b.delete("Worker", "w1")
            await b.let_pass(3600)
            assert owned(a) == [theirs]
            assert a.phase("w1") == "READY"
            a.check()
            b.check()

    play(story)


def test_47_of_two_replicas_one_scales() -> None:
    """Number 47: a pool of three is launched once, and another leader launches nothing."""

    async def story() -> None:
        async with bugs() as w, two(w) as (first, second):
            await w.pool(scaling={"minWorkers": 3, "maxWorkers": 5})
            await w.until(lambda: ready(w) == 3)
            assert not any(each.leadership.held for each in second.elections.values())
            first.kill()
            await w.until(lambda: second.leads, hours=0.1)
            await w.let_pass(1800)
            assert w.cloud.calls("RunInstances") == len(owned(w)) == 3
            w.check()

    play(story)


@pytest.mark.parametrize("believes", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6, 7, 8])
def test_47_a_leader_that_stood_still_past_its_lease_does_nothing_twice(
    nth: int,
    believes: bool,
) -> None:
    """Number 47: frozen at any step, awake a minute after its lease, its writes are refused."""

    async def story() -> None:
        async with bugs() as w, two(w) as (first, second):
            w.cloud.config(lags={"instance": 5.0}, times={"metal": {"pending": 60.0}})
            await w.let_pass(30)
            first.freeze_at = nth + first.changes
            if believes:
                first.believe()
            await w.pool(scaling={"minWorkers": 2, "maxWorkers": 5})
            await w.until(lambda: not first.awake.is_set(), hours=0.2)
            await w.until(lambda: ready(w) == 2)
            await w.until(first.awake.is_set)
            await w.let_pass(600)
            assert [str(each.status.phase) for each in w.cache.all(Worker)] == ["READY"] * 2
            assert len(owned(w)) == 2
            total: Any = w.cloud.ask("GET", "summary")["instances_total"]
            assert total == 2
            assert second.leads
            if believes:  # it goes on as if it led, beside the one who does
                first.outcomes.clear()
                await w.worker("w9")
                await w.until(w.in_phase("w9", "READY"))
                assert "fenced" in {outcome for _, _, outcome, _ in first.outcomes}
                assert len(owned(w)) == 3
            w.check()

    play(story)


@pytest.mark.parametrize("believes", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_47_a_leader_that_stood_still_ends_a_worker_in_order_or_not_at_all(
    nth: int,
    believes: bool,
) -> None:
    """Number 47: frozen on the way down, its late calls end nothing before its licence is back."""

    async def story() -> None:
        async with bugs() as w, two(w) as (first, second):
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            first.freeze_at = nth + first.changes
            if believes:
                first.believe()
            await w.desire("w1", "Terminated")
            await w.until(lambda: not first.awake.is_set(), hours=0.2)
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.until(first.awake.is_set)
            await w.let_pass(600)
            assert second.leads
            assert w.phase("w1") == "TERMINATED"
            assert owned(w) == []
            assert w.hosts.licences_left() == []
            assert w.cloud.calls("TerminateInstances") <= 2
            w.check()

    play(story)
