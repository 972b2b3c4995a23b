"""What is promised for a later day costs nothing until it comes near, and is not forgotten."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from virtual_time import play
from world import World, later, world

from labfleet.controllers import pacing
from labfleet.controllers.requests import Requests
from labfleet.controllers.scheduler import KEY, QUIET, Scheduler
from labfleet.engine.controller import Again
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.pool import Pool, PoolPhase, PoolSpec, PoolStatus, Scaling
from labfleet.resources.session import Session
from labfleet.service.kinds.pool_leads import Leads

DAY = 24 * 60


async def _booked(w: World, many: int, minutes: float) -> None:
    for number in range(many):
        await w.session(f"b{number}", slot={"start": later(w, minutes)})
    await w.services.fresh()


def test_a_step_does_not_look_at_each_far_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool's and the scheduler's second look at twelve slots of next week read none of them."""
    looked = 0
    before = Leads.looked_for

    def counted(self: Any, session: Any) -> Any:
        nonlocal looked
        looked += 1
        return before(self, session)

    async def story() -> None:
        async with world() as w:
            await w.start()
            assert w.process is not None
            await w.pool(scaling={"maxWorkers": 1})
            await w.definition()
            await _booked(w, 12, 7 * DAY)
            await w.let_pass(60)
            context = w.process.contexts["scheduler"]
            asked, now = Requests(context), context.clock.now()
            pool = w.cache.all(Pool)[0]
            monkeypatch.setattr(Leads, "looked_for", counted)
            assert asked.due_in(pool, now) == []
            first = looked
            assert asked.due_in(pool, now) == []
            assert looked == first == 12
            monkeypatch.setattr(Leads, "looked_for", before)
            soon = now + timedelta(days=7)
            assert len(asked.due_in(pool, soon)) == 12
            scheduler = Scheduler(context, w.store)
            assert await scheduler.reconcile(KEY) == Again(QUIET)
            monkeypatch.setattr(Requests, "due", None)
            assert await scheduler.reconcile(KEY) == Again(QUIET)

    play(story)


def test_the_scheduler_is_there_when_a_slot_comes_in_reach() -> None:
    """While nothing waits it looks seldom, but at the instant from which a worker is looked for."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            assert w.process is not None
            await w.definition()
            await _booked(w, 1, 180)
            (session,) = w.cache.all(Session)
            due = Leads(w.cache).looked_for(session)
            assert due is not None
            await w.let_pass((due - w.clock.now()).total_seconds() - 25)
            scheduler = Scheduler(w.process.contexts["scheduler"], w.store)
            told = await scheduler.reconcile(KEY)
            assert isinstance(told, Again)
            assert 20 < told.after <= 26

    play(story)


def _pool(**status: Any) -> Pool:
    spec = PoolSpec(template="t", scaling=Scaling(min_workers=1, max_workers=3, lead_seconds=3600))
    return Pool(
        metadata=Metadata(name="p"),
        spec=spec,
        status=PoolStatus(phase=PoolPhase.READY, **{"workers": 1, "ready": 1, **status}),
    )


@pytest.mark.parametrize(
    ("status", "days", "hours"),
    [
        ({}, [], float("inf")),
        ({}, [3, 2], 38.0),
        ({}, [0, 2], None),
        ({"workers": 2, "ready": 2}, [2], None),
        ({"booting": 1, "ready": 0}, [2], None),
        ({"waiting_sessions": 1}, [2], None),
    ],
)
def test_a_steady_pool_rests_until_its_first_promise(
    status: dict[str, Any], days: list[int], hours: float | None
) -> None:
    """In a what-if it rests to the head start of the first day with a promise, or not at all."""
    now = EPOCH + timedelta(hours=9)
    pool, key = _pool(**status), Key("Pool", "default", "p").path
    found = [(key, now.toordinal() + day) for day in days] + [("default/other", 1)]
    cache: Any = SimpleNamespace(values=lambda _: found)
    rest = pacing.pool_rest(cache)(pool, now)
    assert rest == (None if hours is None else hours * 3600)
