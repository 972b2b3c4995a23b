"""Queues: what may be written, who may use one, what is told of it, and what it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, World, world

from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts
from labfleet.resources.kinds import KINDS
from labfleet.resources.queue import Queue, QueueOrder
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, Refused
from labfleet.service.kinds import queue as rules
from labfleet.service.kinds import queue_users
from labfleet.service.kinds.queue_users import Users
from labfleet.service.reads.explain import explain
from labfleet.service.verbs import objects

ROW = KINDS["Queue"]
CLUSTER = {"capacity": {"cpu": 10, "memory": "64Gi"}}


def used(monkeypatch: pytest.MonkeyPatch, *names: str, running: int = 0) -> None:
    """Let these requests wait in every queue, and so many runs hold a CPU each."""
    held = Amounts(cpu_milli=1000 * running)
    found = Users(len(names), running, held)
    monkeypatch.setattr(queue_users, "of", lambda services, queue: found)
    monkeypatch.setattr(queue_users, "waiting", lambda services, queue: len(names))
    monkeypatch.setattr(queue_users, "names", lambda services, queue: list(names))


async def queue(w: World, **spec: Any) -> Queue:
    """A queue of the cluster `default`."""
    made = await w.make("Queue", "research", spec)
    assert isinstance(made, Queue)
    return made


@pytest.mark.asyncio
async def test_a_queue_needs_nothing_but_a_name() -> None:
    """It then has no quota of its own, weight 1, FIFO, and anybody may use it."""
    async with world() as w:
        spec = (await queue(w)).spec
        assert (spec.cluster, spec.cohort, spec.quota) == ("default", None, Amounts())
        assert (spec.weight, spec.order, spec.borrowing_limit) == (1, QueueOrder.FIFO, None)


@pytest.mark.asyncio
async def test_quotas_are_rounded_down() -> None:
    """A quota is supply: half a mebibyte is none."""
    async with world() as w:
        spec = (await queue(w, cohort="c", quota={"cpu": "2500m", "memory": "1.5Mi"},
                            borrowingLimit={"cpu": 1})).spec  # fmt: skip
        assert spec.quota == Amounts(cpu_milli=2500, memory_mib=1)
        assert spec.borrowing_limit == Amounts(cpu_milli=1000)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "where", "reason", "told"),
    [
        ({"roles": ["runer"]}, "spec.roles[0]", "UnknownRole", "did you mean runner?"),
        ({"owners": ["a", "a"]}, "spec.owners", "Invalid", "names one twice"),
        ({"borrowingLimit": {"cpu": 1}}, "spec.borrowingLimit", "Invalid", "spec.cohort"),
        ({"quota": {"cpu": 11}}, "spec.quota.cpuMilli", "OverCapacity", "cluster default has 10"),
        ({"quota": {"labs": 1}}, "spec.quota.labs", "OverCapacity", "has none of it"),
    ],
)
async def test_what_cannot_be_is_refused(
    spec: dict[str, Any], where: str, reason: str, told: str
) -> None:
    """The field, what is wrong with it, what to do; when it is made and when it is changed."""
    async with world() as w:
        await w.make("Cluster", "default", CLUSTER)
        with pytest.raises(errors.Invalid) as made:
            await queue(w, **spec)
        await queue(w)
        with pytest.raises(errors.Invalid) as changed:
            await objects.patch(
                w.services, ADMIN, ROW, "research", {"spec": spec}, namespace="default"
            )
        for each in (made.value, changed.value):
            assert each.reason == reason
            assert f"{where}: " in str(each)
            assert told in str(each)


@pytest.mark.asyncio
async def test_a_queue_may_come_before_its_cluster_and_says_so() -> None:
    """Manifests are applied in any order; until then nothing of it can start."""
    async with world() as w:
        made = await queue(w, quota={"cpu": 500})
        assert rules.RULES.warns is not None
        [told] = rules.RULES.warns(w.services, made)
        assert told == "its cluster default is not there, so nothing of it can start"
        await w.make("Cluster", "default", CLUSTER)
        await w.services.fresh()
        assert rules.RULES.warns(w.services, made) == ()


@pytest.mark.asyncio
async def test_a_queue_that_is_waited_in_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requests are named; once none waits it goes, whatever runs."""
    async with world() as w:
        await queue(w)
        used(monkeypatch, "sim-1", "sim-2")
        with pytest.raises(Refused, match="used by 2 waiting requests: sim-1, sim-2") as told:
            await objects.delete(w.services, ADMIN, ROW, "research", "default")
        assert told.value.reason == "InUse"
        used(monkeypatch, running=3)
        await objects.delete(w.services, ADMIN, ROW, "research", "default")


@pytest.mark.asyncio
async def test_who_uses_it_is_counted_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its status, which is never stored, and in its explanation."""
    async with world() as w:
        made = await queue(w)
        told = (await explain(w.services, ADMIN, ROW, "research", "default")).summary
        assert told == "0 requests wait"
        used(monkeypatch, "sim-1", running=2)
        status = rules.shown(w.services, made).status
        assert (status.waiting, status.running, status.held.cpu_milli) == (1, 2, 2000)
        told = (await explain(w.services, ADMIN, ROW, "research", "default")).summary
        assert told == "1 request waits; its 2 runs hold 2 CPU"
        stored = await w.services.objects.get(Queue, "research", "default")
        assert stored is not None
        assert stored.status.waiting is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "role", "owner", "may"),
    [
        ({}, Role.RUNNER, "", True),
        ({"roles": ["operator"]}, Role.RUNNER, "kim", False),
        ({"roles": ["runner"]}, Role.RUNNER, "", True),
        ({"owners": ["kim"]}, Role.RUNNER, "eve", False),
        ({"owners": ["kim"]}, Role.RUNNER, "kim", True),
        ({"roles": ["operator"], "owners": ["kim"]}, Role.RUNNER, "kim", True),
    ],
)
async def test_whoever_is_named_may_use_it(
    spec: dict[str, Any], role: Role, owner: str, may: bool
) -> None:
    """By role or by owner; where nobody is named, anybody."""
    async with world() as w:
        made = await queue(w, **spec)
        caller = Caller(Principal("t", role, owner))
        if may:
            rules.demand_use(w.services, caller, made, owner)
            return
        with pytest.raises(errors.Denied, match="queue research is for others") as told:
            rules.demand_use(w.services, caller, made, owner)
        assert told.value.reason == "Forbidden"


@pytest.mark.asyncio
async def test_a_full_queue_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every queue has a bound; the refusal says which."""
    async with world() as w:
        made = await queue(w, maxWaiting=2)
        used(monkeypatch, "sim-1")
        rules.demand_use(w.services, ADMIN, made, "")
        used(monkeypatch, "sim-1", "sim-2")
        with pytest.raises(Refused, match=r"2 requests wait in queue research.*maxWaiting") as told:
            rules.demand_use(w.services, ADMIN, made, "")
        assert told.value.reason == "QueueFull"
