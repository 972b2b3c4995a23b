"""A session's page: what its owner was told, and the way into a calendar."""

from __future__ import annotations

from html import unescape

import pytest
from browser import Browser, plain
from fleet_world import who

from labfleet.resources.session import SessionPhase


@pytest.mark.asyncio
async def test_a_sessions_page_tells_what_its_owner_was_told(browser: Browser) -> None:
    """The sentences of the notices, escaped, the newest first, for owner and operator alike."""
    await browser.world.definition()
    made = await browser.world.session("mine", who("user", "kim"))
    said = "<img src=x onerror=alert(1)> is gone"
    await browser.world.status(made, phase=SessionPhase.FAILED, message=said)
    for caller in (("user", "kim"), ("operator", "")):
        reply = await browser.get("/sessions/mine", *caller)
        text = " ".join(unescape(plain(reply)).split())
        failed = text.index("Your lab two (mine) did not start: <img src=x")
        assert failed < text.index("Your lab two (mine) is booked: as soon as there is room")
        assert b"<img src=x" not in reply.raw


@pytest.mark.asyncio
async def test_a_sessions_page_leads_to_the_calendar_file(browser: Browser) -> None:
    """A link that the browser's own sign-in opens."""
    await browser.world.definition()
    await browser.world.session("mine", who("user", "kim"))
    page = await browser.page("/sessions/mine")
    assert {"href": "/api/v1/calendar.ics"} in page.all("a")
