"""The first page in a real browser: all that asks is on the first screen, and comes by itself."""

from __future__ import annotations

import planted
import pytest
from screen import Screen

from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

pytestmark = pytest.mark.real
LOWEST = "Math.max(...[...document.querySelectorAll('.summary')].map(each =>each.getBoundingClientRect().bottom))"


@pytest.mark.asyncio
async def test_five_facts_fit_on_a_laptops_first_screen(screen: Screen) -> None:
    """At 1280 by 800 nothing of the head is below the fold; a new alert appears without a click."""
    await planted.fleet(screen.browser)
    tab = await screen.signed_in("/")
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=1280, height=800, deviceScaleFactor=1, mobile=False,
    )  # fmt: skip
    assert await tab.run("document.querySelectorAll('.asking li').length") == 4
    assert await tab.run(LOWEST) <= 800
    assert await tab.run("document.documentElement.scrollWidth") <= 1280
    now = screen.browser.world.clock.now()
    silent = planted.fact(WorkerCondition.SILENT, WorkerReason.UNREACHABLE, "no answer", now)
    made = planted.worker(screen.browser, "w-silent", conditions=(silent,))
    await planted.store(screen.browser, made)
    await tab.until("document.querySelector('.asking li').innerText.includes('w-silent')")
    assert "critical" in await tab.run("document.querySelector('.asking li').innerText")
