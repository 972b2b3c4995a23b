"""The tabs of a pool's page: workers by state, sessions, history with reasons, promises."""

from __future__ import annotations

import planted
import pytest
from browser import Browser, plain, visible
from fleet_world import MACHINE

from labfleet.resources.declaration import OVER
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import Loss, PoolPhase, ScalingEvent
from labfleet.resources.worker import WorkerPhase


async def pool(browser: Browser) -> None:
    """Make a pool that grew once and lost a worker, with workers and a session."""
    world = browser.world
    await world.make("Template", "metal", {"machine": MACHINE})
    made = await world.make("Pool", "exam", {"template": "metal"})
    now = world.clock.now()
    grew = ScalingEvent(
        at=now, kind="scale_up", reason="3 sessions wait for 2 workers", before=1, after=2, worker="w-2"
    )  # fmt: skip
    lost = Loss(worker="w-0", at=now, why="CML never answered")
    await world.status(made, events=(grew,), losses=(lost,), message="grows to 2 workers")
    await planted.store(
        browser,
        planted.worker(browser, "w-1"),
        planted.worker(browser, "w-2", phase=WorkerPhase.STARTING),
        planted.session(browser, "run-1", "w-1"),
    )


@pytest.mark.asyncio
async def test_workers_stand_by_state(browser: Browser) -> None:
    """Each group of states has its table; one state alone has an address."""
    await pool(browser)
    html = plain(await browser.get("/pools/exam?tab=workers", "operator"))
    said = visible(html)
    assert "starting 1 running 1" in said
    assert said.index("w-2") < said.index("w-1")
    assert 'href="/pools/exam?tab=workers&amp;state=running"' in html
    alone = visible(plain(await browser.get("/pools/exam?tab=workers&state=running", "operator")))
    assert "w-1" in alone
    assert "w-2" not in alone


@pytest.mark.asyncio
async def test_history_has_reasons_and_numbers(browser: Browser) -> None:
    """Why it grew, from how many to how many, and which worker was lost and why."""
    await pool(browser)
    said = visible(plain(await browser.get("/pools/exam?tab=history", "operator")))
    assert "grew 1 2 w-2 3 sessions wait for 2 workers" in said
    assert "w-0 CML never answered" in said
    assert "Says grows to 2 workers" in said


@pytest.mark.asyncio
async def test_sessions_promises_events_and_yaml(browser: Browser) -> None:
    """What runs on its workers; times that it has promised; what happened; the object as text."""
    await pool(browser)
    said = visible(plain(await browser.get("/pools/exam?tab=sessions", "operator")))
    assert "run-1 ● RUNNING" in said
    assert "None is promised." in said
    said = visible(plain(await browser.get("/pools/exam?tab=promises", "operator")))
    assert "Free workers" in said
    assert "labfleet calendar --pool exam" in said
    assert "created" in visible(plain(await browser.get("/pools/exam?tab=events", "operator")))
    assert "kind: Pool" in plain(await browser.get("/pools/exam?tab=yaml", "operator"))


@pytest.mark.asyncio
async def test_a_pools_state_has_a_word_a_shape_and_a_tone(browser: Browser) -> None:
    """Every phase of a pool has its own, and none leaves the list: the filter offers them all."""
    await browser.world.template()
    made = await browser.world.make("Pool", "exam", {"template": "metal"})
    await browser.world.status(made, phase=PoolPhase.FAILED)
    row = '<span class="state bad" title="FAILED"><i aria-hidden="true">✕</i> FAILED</span>'
    for path in ("/pools", "/pools/exam", "/"):
        assert row in plain(await browser.get(path, "operator")), path
    assert set(KINDS["Pool"].states) == set(PoolPhase)
    assert all(each.order < OVER for each in KINDS["Pool"].states.values())
    listed = plain(await browser.get("/pools"))
    assert all(f"<option>{phase}</option>" in listed for phase in PoolPhase)
