"""Measured use beside what is reserved: as the server draws it, and as the page keeps it current."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from browser import Browser, plain
from fleet_world import MACHINE
from loop_time import seen
from screen import Screen
from test_page_in_chromium import COMPARE, cells

from labfleet.resources.telemetry import Room, Sample, SystemStats

KEY = "Worker/default/w"


def measured(browser: Browser, cpu: float) -> None:
    """Measure the worker now, in this process."""
    stats = SystemStats(cpu_percent=cpu, memory=Room(total=200, used=50))
    at = browser.world.clock.now()
    browser.world.services.samples.put(Sample(worker="w", at=at, boot="i-1", stats=stats))


def row_of(page: str) -> list[str]:
    """Return the texts of the worker's cells."""
    row = re.search(rf'<tr data-key="{KEY}".*?</tr>', page, re.DOTALL)
    assert row is not None
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row[0], re.DOTALL)
    return [re.sub(r"<[^>]+>", "", each).strip() for each in found]


@pytest.mark.asyncio
async def test_the_table_shows_what_is_used_with_its_age_or_why_nobody_knows(
    browser: Browser,
) -> None:
    """A number with its age; unknown with the reason before the first and after the last sample."""
    await browser.world.make("Worker", "w", {"machine": MACHINE})
    await browser.world.services.fresh()
    page = plain(await browser.get("/live"))
    before = row_of(page)
    assert sum("use unknown" in each for each in before) == 2
    assert 'title="unknown: no sample: w is PENDING, and was not measured so far"' in page
    measured(browser, 12.34)
    browser.world.clock.forward(20)
    shown = row_of(plain(await browser.get("/live")))
    used = [found[0] for each in shown if (found := re.findall(r"[0-9.]+ % used \d+ s ago", each))]
    assert used == ["12.3 % used 20 s ago", "25 % used 20 s ago"]
    browser.world.clock.forward(timedelta(hours=1).total_seconds())
    assert 'title="unknown: last measured 3620 s ago"' in plain(await browser.get("/live"))


@pytest.mark.real
@pytest.mark.asyncio
async def test_the_page_follows_measurements_in_every_tab(screen: Screen) -> None:
    """One connection brings them to both tabs, without an event, as the server would draw them."""
    await screen.browser.world.make("Worker", "w", {"machine": MACHINE})
    first = await screen.signed_in()
    second = await screen.signed_in()
    unknown = f"{cells(KEY)}?.includes('use unknown')"
    for tab in (first, second):
        await tab.until(unknown)
    events = (await screen.browser.world.store.head()).revision
    measured(screen.browser, 12.5)
    for tab in (first, second):
        await tab.until(f"{cells(KEY)}.includes('12.5 %')")
    measured(screen.browser, 77.5)
    for tab in (first, second):
        await tab.until(f"{cells(KEY)}.includes('77.5 %')")
    assert screen.browser.app.streams.clients == 1
    assert (await screen.browser.world.store.head()).revision == events
    shown, drawn = await first.run(COMPARE)
    assert drawn == shown


@pytest.mark.real
@pytest.mark.asyncio
async def test_a_tab_that_nobody_sees_rests_and_another_takes_over(screen: Screen) -> None:
    """The leader, hidden for a minute, lets go; the other tab connects; when both rest nobody does."""
    await screen.browser.world.make("Worker", "w", {"machine": MACHINE})
    first = await screen.signed_in()
    second = await screen.signed_in()
    streams = screen.browser.app.streams
    hide = (
        "((real) => { window.setTimeout = (work, wait) => real(work, wait >= 60000 ? 20 : wait);"
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange')); })(window.setTimeout)"
    )
    await first.run(hide)
    await first.until("document.getElementById('mark').dataset.state === 'reconnecting'")
    measured(screen.browser, 12.5)
    await second.until(f"{cells(KEY)}.includes('12.5 %')")
    assert streams.clients == 1
    await second.run(hide)
    await seen(lambda: streams.clients == 0)
    frames = screen.browser.app.events.latest.kept.values()
    await seen(lambda: not any(each.state.ready for each in frames))
    measured(screen.browser, 77.5)
    await first.run(
        "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    await first.until(f"{cells(KEY)}.includes('77.5 %')")
    assert streams.clients == 1


@pytest.mark.real
@pytest.mark.asyncio
async def test_a_page_that_hears_nothing_comes_again_with_padding(screen: Screen) -> None:
    """After a minute of silence on an open connection the next one asks for full bursts."""
    tab = await screen.signed_in()
    await tab.run(
        "window.asked = []; const real = window.fetch;"
        "window.fetch = (address, how) => { window.asked.push(String(address));"
        " return real(address, how); };"
        "const now = performance.now.bind(performance);"
        "performance.now = () => now() + 61000"
    )
    await tab.until("window.asked.some((each) => each.includes('padding=8192'))")
    await tab.until("document.getElementById('mark').dataset.state === 'live'")
