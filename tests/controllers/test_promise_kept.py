"""A session's record says whether its promise was kept, and what kept it from that."""

from __future__ import annotations

from virtual_time import play
from world import ADMIN, World, later, world

from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.session_conditions import SessionCondition, SessionReason
from labfleet.service.verbs import settings_verbs


def fact(w: World, name: str) -> Condition | None:
    facts = w.get_session(name).status.conditions
    return conditions.find(facts, SessionCondition.PROMISE_KEPT)


def test_a_promise_that_is_kept_says_so() -> None:
    """A slot that begins in time has the condition True; a session at once has none."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"maxWorkers": 1})
            await w.definition()
            await w.session("booked", slot={"start": later(w, 60)})
            await w.session("now")
            await w.until(w.in_phase("booked", "RUNNING"))
            found = fact(w, "booked")
            assert found is not None
            assert (found.status, found.reason) == ("True", SessionReason.IN_TIME)
            assert fact(w, "now") is None

    play(story)


def test_a_pause_that_broke_a_promise_is_named() -> None:
    """While a pool is paused no worker comes: the slot expires, and the pause is the cause."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"maxWorkers": 1})
            await w.definition()
            await w.session("booked", slot={"start": later(w, 60)})
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", reason="firmware")
            await w.until(w.in_phase("booked", "EXPIRED"))
            found = fact(w, "booked")
            assert found is not None
            assert (found.status, found.reason) == ("False", SessionReason.AUTOMATION_PAUSED)

    play(story)
