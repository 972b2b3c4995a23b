"""The tabs of clusters, queues and webhooks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, plain
from fleet_world import who
from test_page_simulations import active, cluster, keep, run

from labfleet.resources.simulation import Simulation, SimulationPhase, SimulationSpec

EVIL = "<img src=x onerror=alert(1)>"


def in_queue(made: Simulation, queue: str) -> Simulation:
    """Return a run that asked for a queue."""
    spec = SimulationSpec(cluster="lab", owner=made.spec.owner, queue=queue)
    return Simulation(metadata=made.metadata, spec=spec, status=made.status)


@pytest.mark.asyncio
async def test_a_cluster_has_its_own_runs(browser: Browser) -> None:
    """What runs and waits elsewhere is not told there."""
    await cluster(browser)
    await cluster(browser, "edge")
    await keep(browser, active(browser, "r1"), run(browser, "w1", SimulationPhase.QUEUED))
    page = await browser.page("/clusters/lab?tab=runs")
    assert sorted(page.rows) == ["Simulation/default/r1", "Simulation/default/w1"]
    assert "7 CPU predicted for runs" in plain(await browser.get("/clusters/lab?tab=runs"))
    assert (await browser.page("/clusters/edge?tab=runs")).rows == {}


@pytest.mark.asyncio
async def test_a_queue_tells_quota_and_what_it_borrows(browser: Browser) -> None:
    """What is held of the quota, what is borrowed beyond it, and the queues that lend it."""
    await cluster(browser)
    both = {"cluster": "lab", "cohort": "all"}
    await browser.world.make("Queue", "night", {**both, "quota": {"cpu": 5}})
    await browser.world.make("Queue", "day", {**both, "quota": {"cpu": 4}})
    await keep(browser, in_queue(active(browser, "r1"), "night"), active(browser, "r2"))
    page = await browser.page("/queues/night?tab=use")
    text = plain(await browser.get("/queues/night?tab=use"))
    for said in ("5 CPU held of its quota", "2 CPU borrowed", "quota 5 CPU", "at most 9 CPU",
                 "cohort all"):  # fmt: skip
        assert said in text
    assert "Queue/default/day" in page.rows
    assert "Simulation/default/r1" in page.rows
    assert "Simulation/default/r2" not in page.rows


@pytest.mark.asyncio
async def test_a_queue_alone_lends_and_borrows_nothing(browser: Browser) -> None:
    """Without cohort and quota there is no bar, and the page says what limits it."""
    await browser.world.make("Queue", "alone", {})
    text = plain(await browser.get("/queues/alone?tab=use"))
    assert "the cluster alone is the limit" in text
    assert "it can borrow nothing" in text
    assert "Nothing waits." in text


@pytest.mark.asyncio
async def test_people_without_simulations_have_no_such_tab(browser: Browser) -> None:
    """A user may read queues, but not whose runs are in them."""
    await browser.world.make("Queue", "q", {})
    assert "tab=use" not in plain(await browser.get("/queues/q", role="user"))
    assert (await browser.get("/queues/q?tab=use", role="user")).status == 404


@pytest.mark.asyncio
async def test_deliveries_are_told_as_they_went(browser: Browser) -> None:
    """The newest first: what arrived, what failed with which answer, when it is tried again."""
    world, now = browser.world, browser.world.clock.now()
    hook = await world.make("Webhook", "hook", {"url": "https://example.org/x"})
    before = plain(await browser.get("/webhooks/hook?tab=deliveries"))
    assert "Nothing was delivered yet" in before
    assert "nothing sent yet" in before
    await world.status(hook, delivered=12, last_status=200, last_delivered_at=now)
    retry = now + timedelta(minutes=3)
    await world.status(hook, failures=2, last_status=503, last_error=EVIL, retry_at=retry)
    page = await browser.page("/webhooks/hook?tab=deliveries")
    text = plain(await browser.get("/webhooks/hook?tab=deliveries"))
    assert page.all("img") == []
    assert text.index("HTTP 503") < text.index("HTTP 200")
    for said in ("failing", "+12", "in 3 min"):
        assert said in text
    await world.status(hook, failures=0, last_status=200, last_error="", retry_at=None,
                       delivered=14)  # fmt: skip
    assert "arrives again" in plain(await browser.get("/webhooks/hook?tab=deliveries"))


@pytest.mark.asyncio
async def test_a_webhooks_key_is_nowhere(browser: Browser) -> None:
    """Whether it is signed is told, not with what; another person's webhook is not there."""
    world = browser.world
    spec = {"url": "https://example.org/x", "secret": {"env": "THE_KEY_OF_HOOKS"}}
    await world.make("Webhook", "signed", spec)
    text = plain(await browser.get("/webhooks/signed?tab=deliveries"))
    assert ">yes</dd>" in text
    assert "THE_KEY_OF_HOOKS" not in text
    await world.make("Webhook", "anns", {"url": "https://example.org/a"}, who("user", "ann"))
    assert (await browser.get("/webhooks/anns?tab=deliveries", "user", "ann")).status == 200
    assert (await browser.get("/webhooks/anns?tab=deliveries", "user", "kim")).status == 404
