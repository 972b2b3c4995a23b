"""What is said of what has neither phase nor message of its own, and of what is not seen."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, START, world

from labfleet.resources import conditions
from labfleet.resources.kinds import KINDS
from labfleet.resources.lab_orders import LabOrder, LabOrderProgress
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.worker import CmlStatus, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.kinds import left_behind, worker_explained
from labfleet.service.reads.explain import explain


@pytest.mark.asyncio
async def test_a_leak_says_why_and_how_it_is_closed() -> None:
    """The command carries the leak's own name; a lost answer is told as doubt."""
    async with world() as w:
        spec = LeakSpec(worker="w-1", since=START, why="the answer was lost", certain=False)
        leak = Leak(metadata=Metadata(name="w-1-x", creation_timestamp=START), spec=spec)
        await w.services.objects.save(leak, cause=w.services.cause(ADMIN, "Lost"))
        told = (await explain(w.services, ADMIN, KINDS["Leak"], "w-1-x", "default")).summary
        assert told.startswith("the answer was lost (it may have gone back after all)")
        assert told.endswith("labfleet resolve w-1-x")


@pytest.mark.asyncio
async def test_a_webhook_says_how_its_deliveries_go() -> None:
    """Counts at least; while it fails, the error and the next try."""
    async with world() as w:
        made = await w.make("Webhook", "h", {"url": "https://example.com/"})
        row = KINDS["Webhook"]
        assert (
            await explain(w.services, ADMIN, row, "h", "default")
        ).summary == "0 delivered, 0 dropped"
        again = START + timedelta(minutes=5)
        status = msgspec.structs.replace(
            made.status, failures=3, last_error="the connection was refused", retry_at=again
        )
        bad = msgspec.structs.replace(made, status=status)
        await w.services.objects.save(bad, cause=w.services.cause(ADMIN, "Failed"))
        told = (await explain(w.services, ADMIN, row, "h", "default")).summary
        assert "3 failures in a row: the connection was refused; next try at " in told


@pytest.mark.asyncio
@pytest.mark.parametrize("fact", [None, "True", "Unknown", "False"])
@pytest.mark.parametrize("ready", [True, False, None])
async def test_a_worker_that_is_not_shown_is_left_alone_while_its_cml_answers(
    fact: conditions.Status | None, ready: bool | None
) -> None:
    """Only where the fact and the last look both say so; else it waits for the provider's word."""
    async with world() as w:
        made = await w.make("Worker", "w", {"machine": MACHINE})
        name = WorkerCondition.CML_READY
        facts = () if fact is None else conditions.put((), name, fact, "R", now=START)
        machine = MachineStatus(id="i-1", absent_since=START)
        cml = CmlStatus(ready=ready)
        await w.status(made, phase=WorkerPhase.READY, machine=machine, conditions=facts, cml=cml)
        await w.services.fresh()
        [found] = left_behind.suspects(w.services.cache, START + timedelta(minutes=2))
        assert (found.suspect.name, found.age_seconds) == ("i-1", 120)
        answers = fact == "True" and ready is True
        assert found.suspect.next.startswith("nothing while") is answers
        assert found.suspect.next.startswith("ended when") is not answers


@pytest.mark.asyncio
async def test_a_worker_says_how_far_the_order_of_a_lab_there_is() -> None:
    """As `labfleet lab` tells people to ask, until it is done: waiting, or refused in CML's words."""
    async with world() as w:
        made = await w.make("Worker", "w", {"machine": MACHINE})
        order = LabOrder(id="2", verb="stop", lab="l-1", node="r1", at=START, until=START, by="op")
        spec = msgspec.structs.replace(made.spec, lab_order=order)
        for number, state, told in (
            ("1", "done", "waiting"), ("2", "refused", "refused (no such node)"), ("2", "done", ""),
        ):  # fmt: skip
            known = LabOrderProgress(id=number, state=state, at=START, message="no such node")  # type: ignore[arg-type]
            status = msgspec.structs.replace(made.status, lab_order=known)
            found = msgspec.structs.replace(made, spec=spec, status=status)
            line = f"Stop of node r1 of lab l-1, as op ordered: {told}."
            assert worker_explained.of_worker(found).more == ((line,) if told else ())
