"""The pages of labs, runs and upkeep in a real browser: nothing breaks, nothing is cut, all is live."""

from __future__ import annotations

import pytest
from fleet_world import ADMIN
from screen import Screen
from test_page_learning import measured
from test_page_simulations import active, cluster, keep
from test_page_simulations import run as waiting
from test_page_topology import lab

from labfleet.interfaces.store import Cause, Commit, Teach
from labfleet.resources.simulation import SimulationPhase
from labfleet.service.verbs import settings_verbs

pytestmark = pytest.mark.real
PAGES = (
    "/definitions/lab?tab=topology", "/definitions/lab?tab=versions", "/simulations", "/learning",
    "/simulations/r1?tab=compared", "/simulations/r1?tab=evidence", "/clusters/lab?tab=runs",
    "/history?family=waku", "/audit?by=all", "/settings?show=changed",
)  # fmt: skip
CUT = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """[...document.querySelectorAll('main a, main button, main select, main input')]
  .filter((each) => each.offsetParent && !each.closest('table, p, li, .tabs'))
  .filter((each) => each.getBoundingClientRect().height < 24).map((each) => each.outerHTML)"""


@pytest.mark.asyncio
async def test_every_page_fits_a_phone_and_breaks_no_policy(screen: Screen) -> None:
    """At 390 pixels no page is wider than the screen; targets are high enough; the console is still.

    Whatever the strict policy refuses, such as a style in the page, is an error on the console.
    """
    browser = screen.browser
    await browser.world.make("Definition", "lab", lab(20))
    await cluster(browser)
    await keep(browser, active(browser, "r1"), waiting(browser, "w1", SimulationPhase.QUEUED))
    runs = tuple(Teach(measured(number, 2000.0 + number)) for number in range(6))
    await browser.world.store.commit(Commit(Cause("t", browser.world.clock.now()), runs))
    await settings_verbs.change(browser.world.services, ADMIN, {"idle.enabled": True})
    tab = await screen.signed_in()
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    await tab.call("Emulation.setDeviceMetricsOverride", **size)
    for path in PAGES:
        await tab.go(screen.url + path)
        assert await tab.run(CUT) <= 0, path
        assert await tab.run(SMALL) == [], path


@pytest.mark.asyncio
async def test_the_page_of_simulations_is_live(screen: Screen) -> None:
    """A run that asks and starts while somebody looks comes and moves without a reload."""
    browser = screen.browser
    browser.world.decides.clear()  # it waits until the test lets it start
    await cluster(browser)
    tab = await screen.signed_in("/simulations")
    await tab.until("document.querySelector('#waiting .empty') !== null")
    made = waiting(browser, "w1", SimulationPhase.QUEUED)
    await keep(browser, made)
    await tab.until("document.querySelector('#waiting tbody')?.innerText.includes('w1')")
    await browser.world.status(made, phase=SimulationPhase.RUNNING)
    await tab.until("document.querySelector('#active tbody')?.innerText.includes('w1')")
    assert await tab.run("document.querySelector('#waiting tbody')") is None
