"""What is said of who waits goes by why, and by who reads it: sessions, and pools that grow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World, who, world

from labfleet.decisions.lifecycle.session.decide import SessionObservation, decide
from labfleet.resources import runbook
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import PoolPhase
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.session import SessionPhase
from labfleet.resources.session_conditions import NEED_A_WORKER, Holdup, WaitReason
from labfleet.resources.worker import WorkerPhase
from labfleet.service.reads.explain import Explanation, explain
from labfleet.service.verbs import settings_verbs

USER = who("user", "ada")
CAPACITY = ("labfleet resume", "maxWorkers", "end a session")


async def told(w: World, caller: Any = ADMIN) -> tuple[Explanation, str]:
    """Return the explanation of the session, and what helps."""
    await w.services.cache.reached(await w.services.fresh())
    found = await explain(w.services, caller, KINDS["Session"], "s1", "default")
    assert found.runbook is not None
    return found, found.runbook.fix


async def waiting(w: World, reason: str, **spec: Any) -> Any:
    """Make a session, and the decision that it waits for this reason."""
    await w.definition()
    made = await w.session(**spec)
    decided = Decision(outcome="waiting", reason=reason, message="why", at=w.clock.now())
    return await w.status(made, decision=decided)


async def pool(w: World, **spec: Any) -> Any:
    """Make a template and a pool of the session's track."""
    await w.template()
    scaling = {"enabled": True, "policy": "NEED_BASED", "minWorkers": 0, "maxWorkers": 1}
    return await w.make("Pool", "p", {"template": "metal", "scaling": scaling, **spec})


def test_each_word_that_says_why_a_session_waits_has_its_own_advice() -> None:
    """No reason of a decision falls back on advice that was written for another."""
    rows = [each for each in KINDS["Session"].advice if each.subject == SessionPhase.PENDING]
    assert sorted(each.reason for each in rows) == sorted([*WaitReason, *Holdup])
    fixes = [each.cause for each in rows]
    assert len(set(fixes)) == len(fixes)


@pytest.mark.asyncio
@pytest.mark.parametrize("reason", sorted({*WaitReason} - NEED_A_WORKER))
async def test_who_waits_for_something_else_than_a_worker_is_not_sent_for_one(reason: str) -> None:
    """Missing definitions, a later slot and ports are mended elsewhere than at the pool."""
    async with world() as w:
        await pool(w, paused=True)
        start = (w.clock.now() + timedelta(days=61)).isoformat()
        slot = {"slot": {"start": start}} if reason == WaitReason.SLOT_AHEAD else {}
        await waiting(w, reason, **slot)
        found, fix = await told(w)
        assert not [each for each in CAPACITY if each in fix], fix
        assert "capacity" not in " ".join(found.waiting_for)
        if reason == WaitReason.MISSING_DEFINITIONS:
            assert "Install what the decision names" in fix
            assert "node_definition" in fix
        if reason == WaitReason.SLOT_AHEAD:
            assert fix == "Nothing: a worker is looked for in time."
            assert "a worker is looked for from 2027-01-27 08:16:20Z" in found.waiting_for[0]


@pytest.mark.asyncio
async def test_before_the_first_look_nothing_is_short() -> None:
    """A session nobody has looked at is told when that is late, not to ask for less."""
    async with world() as w:
        await w.definition()
        made = await w.session()
        found, fix = await told(w)
        assert found.waiting_for == ("the scheduler's first look",)
        assert "labfleet leaders" in fix
        before = Decision(outcome="assigned", reason="Fits", message="w", at=w.clock.now())
        await w.status(made, decision=before)
        found, _ = await told(w)
        assert found.waiting_for == ("the scheduler's next look",)


@pytest.mark.asyncio
@pytest.mark.parametrize("reason", sorted(NEED_A_WORKER))
async def test_who_waits_for_a_worker_is_told_what_keeps_it_from_coming(reason: str) -> None:
    """No pool, one at its maximum, one without template, a pause: each names its own way out."""
    async with world() as w:
        await waiting(w, reason)
        assert "Make a pool of its track" in (await told(w))[1]
        made = await pool(w)
        plain = runbook.of_phase("Session", "PENDING", reason)
        assert plain is not None
        assert (await told(w))[1] == plain.fix
        lack = Condition(
            type=PoolCondition.DEMAND_MET, status="False", reason="NoTemplate",
            last_transition_time=w.clock.now(),
        )  # fmt: skip
        await w.status(made, conditions=(lack,))
        assert "Enable the template that pool p names" in (await told(w))[1]
        await w.status(made, workers=1, conditions=())
        assert "Raise spec.scaling.maxWorkers of pool p" in (await told(w))[1]
        await settings_verbs.pause_pool(w.services, ADMIN, "p", "default")
        found, fix = await told(w)
        assert fix.startswith("`labfleet resume --pool p`")
        assert found.waiting_for[-1] == "its pool to be resumed"
        await settings_verbs.pause(w.services, ADMIN)
        found, fix = await told(w)
        assert fix.startswith("`labfleet resume`")
        assert found.waiting_for[-1] == "automatic actions to be resumed"


@pytest.mark.asyncio
async def test_a_silent_provider_is_named_and_not_the_pools_maximum() -> None:
    """Workers that the provider holds up cannot be helped by more of them."""
    async with world() as w:
        await waiting(w, WaitReason.NO_WORKERS)
        made = await pool(w)
        await w.status(made, workers=1)
        worker = await w.make("Worker", "w1", {"template": "metal", "pool": "p"})
        silent = Condition(
            type="ProviderAnswers", status="False", reason="Silent", message="AWS is silent",
            last_transition_time=w.clock.now(),
        )  # fmt: skip
        await w.status(worker, conditions=(silent,))
        found, fix = await told(w)
        assert found.waiting_for[-1] == "the provider of its workers"
        assert "labfleet alerts" in fix


@pytest.mark.asyncio
@pytest.mark.parametrize("reason", [*WaitReason, *Holdup])
async def test_a_reader_is_sent_to_nothing_that_the_role_may_not_do(reason: str) -> None:
    """A user changes no pool, pauses nothing, licenses nothing and reads no workers."""
    row = runbook.of_phase("Session", "PENDING", reason)
    assert row is not None
    fix = runbook.for_others(row).fix
    assert "labfleet " not in fix
    assert "spec." not in fix
    assert runbook.for_others(msgspec.structs.replace(row, fix="of POOL")).fix != "of POOL" or (
        reason == WaitReason.SLOT_AHEAD
    )


@pytest.mark.asyncio
async def test_the_explanation_goes_by_its_reader() -> None:
    """Owner and operator read the same state and different ways out."""
    async with world() as w:
        await waiting(w, WaitReason.NO_CAPACITY, owner="ada")
        await w.status(await pool(w), workers=1)
        assert "Raise spec.scaling.maxWorkers" in (await told(w))[1]
        found, fix = await told(w, USER)
        assert "ask whoever runs the fleet for more workers" in fix
        assert found.waiting_for[0] == "capacity (NoCapacityAvailable)"


@pytest.mark.asyncio
async def test_a_pool_that_grows_names_what_waits_and_the_workers_on_their_way() -> None:
    """Its message counts only what is ready; the explanation has the rest."""
    async with world() as w:
        made = await pool(w)
        boots = {"w2": WorkerPhase.PROVISIONING_EC2, "w3": WorkerPhase.STARTING}
        for name, phase in {"w1": WorkerPhase.READY, **boots}.items():
            worker = await w.make("Worker", name, {"template": "metal", "pool": "p"})
            await w.status(worker, phase=phase, message="booting" if name == "w3" else "")
        await w.status(made, phase=PoolPhase.SCALING_UP, message="1 ready", waiting_sessions=1)
        await w.services.cache.reached(await w.services.fresh())
        found = await explain(w.services, ADMIN, KINDS["Pool"], "p", "default")
        assert found.summary == "1 ready; 1 session waits for capacity"
        assert found.waiting_for == (
            "worker w2 to boot (PROVISIONING_EC2)",
            "worker w3 to boot (STARTING: booting)",
        )
        assert found.runbook is not None
        assert found.runbook.fix.startswith("Nothing while its workers boot")
        held = "2 sessions wait for capacity; at the maximum of 1 worker"
        await w.status(made, message=held, waiting_sessions=2, stopped=1)
        found = await explain(w.services, ADMIN, KINDS["Pool"], "p", "default")
        assert found.summary == f"{held}; 1 worker is stopped; their disks cost money"


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", [SessionPhase.PENDING, SessionPhase.SCHEDULED])
@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (60, None), (60, 240), (60, 80), (None, 90)], ids=str
)
async def test_the_deadline_that_is_told_is_the_one_that_ends_it(
    start: int | None, end: int | None, phase: SessionPhase
) -> None:
    """Minutes of a slot's start and end: a session waits until then, and not a second longer."""
    async with world() as w:
        await w.definition(graceMinutes=30)
        told = {"start": start, "end": end}
        slot = {
            name: (w.clock.now() + timedelta(minutes=each)).isoformat()
            for name, each in told.items()
            if each is not None
        }
        made = await w.status(await w.session(slot=slot), phase=phase)
        definition = await w.services.objects.get(Definition, "two", "default")
        await w.services.fresh()
        said = (await explain(w.services, ADMIN, KINDS["Session"], "s1", "default")).next_deadline
        assert said is not None
        seen = SessionObservation(definition=definition)
        phases = [
            decide(made, seen, said.at - timedelta(seconds=early)).status.phase for early in (1, 0)
        ]
        assert phases[0] is not SessionPhase.EXPIRED
        assert phases[1] is SessionPhase.EXPIRED
