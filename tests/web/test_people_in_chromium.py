"""The pages of people in a real browser: time left by the fleet's clock, and pages that follow."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from chromium import Tab
from fleet_world import who
from screen import Screen
from test_page_in_chromium import STUCK, TIGHT, UNTOLD
from test_service_claims import MORNING, at, fleet

pytestmark = pytest.mark.real
KIM = who("user", "kim")
# A laptop whose clock is 90 s ahead: what is left is counted by the fleet's clock all the same.
WRONG = "const right = Date.now.bind(Date); Date.now = () => right() + 90000;"


async def signed_in(screen: Screen, path: str) -> Tab:
    """Open a tab of kim, who lands on her labs, and go to a page."""
    tab = await screen.chromium.open()
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=WRONG)
    await tab.call("Emulation.setTimezoneOverride", timezoneId="Europe/Minsk")
    await tab.go(screen.url + "/login")
    token = json.dumps(await screen.browser.token("user", "kim"))
    await tab.run(
        f"document.getElementById('token').value = {token};"
        "document.querySelector('form.card button').click()"
    )
    await tab.until("location.pathname === '/my-labs'")
    if path != "/my-labs":
        await tab.go(screen.url + path)
    await tab.until("document.getElementById('mark')?.dataset.state === 'live'")
    return tab


@pytest.mark.asyncio
async def test_time_left_is_the_fleets_and_what_changes_appears(screen: Screen) -> None:
    """A lab that starts appears without a reload, counts down, and warns when little is left."""
    world = screen.browser.world
    await world.definition()
    made = await world.session("lab", KIM)
    tab = await signed_in(screen, "/my-labs")
    assert await tab.run("document.querySelector('main').innerText.includes('waits for room')")
    now = world.clock.now()
    end = now + timedelta(minutes=20)
    await world.status(made, phase="RUNNING", start=now, started_at=now, end=end)
    await tab.until("document.querySelector('.left')?.innerText.startsWith('19 min')")
    assert await tab.run("document.querySelector('.near').innerText") == ""
    soon = now + timedelta(minutes=4, seconds=30)
    await world.status(made, end=soon)
    await tab.until("document.querySelector('.near').innerText.startsWith('Less than 5 minutes')")
    left = await tab.run("document.querySelector('.left b').innerText")
    assert left.startswith(("4 min", "3 min"))
    await tab.until(f"document.querySelector('.left b').innerText !== {json.dumps(left)}")


@pytest.mark.asyncio
async def test_the_calendar_offers_the_readers_own_zone(screen: Screen) -> None:
    """The button beside the field takes the browser's zone into the address."""
    tab = await signed_in(screen, "/calendar?view=day")
    await tab.run(
        "[...document.querySelectorAll('button')]"
        ".find((each) => each.innerText === 'Use Europe/Minsk').click()"
    )
    await tab.until("location.search.includes('zone=Europe%2FMinsk')")
    await tab.until("document.querySelector('h1')?.innerText.includes('Europe/Minsk')")


@pytest.mark.asyncio
async def test_a_telephone_shows_them_whole(screen: Screen) -> None:
    """Nothing is wider than the screen, out of reach, too near its neighbour or told by colour alone."""
    world = screen.browser.world
    await fleet(world)
    spec = {"definition": "two", "slot": at(), "seats": [{"person": "kim"}, {"person": "x" * 60}]}
    await world.make("Group", "exam", spec, KIM)
    await world.session("waits", KIM)
    tab = await signed_in(screen, "/my-labs")
    await tab.call("Emulation.setDeviceMetricsOverride",
                   width=390, height=844, deviceScaleFactor=1, mobile=False)  # fmt: skip
    day = f"/calendar?view=day&date={MORNING:%Y-%m-%d}&zone=Europe/Warsaw"
    for path in (
        "/my-labs",
        "/class",
        "/class/exam",
        "/queue",
        day,
        "/sessions/waits?tab=decision",
    ):
        await tab.go(screen.url + path)
        await tab.until("document.getElementById('mark')?.dataset.state === 'live'")
        assert await tab.run("document.documentElement.scrollWidth") <= 390, path
        for script in (STUCK, UNTOLD, TIGHT):
            assert await tab.run(script) == [], path
