"""Courses on pages: in the list, and with their dates."""

from __future__ import annotations

import pytest
from browser import Browser, Reader, plain

pytestmark = pytest.mark.asyncio


async def test_a_course_stands_in_the_list_and_has_its_dates_on_its_page(browser: Browser) -> None:
    """The list names it, its page says which group each date is and how it stands."""
    world = browser.world
    await world.definition("weekly")
    slot = {"start": "2027-03-22T09:00", "end": "2027-03-22T10:00", "zone": "Europe/Zurich"}
    spec = {"definition": "weekly", "size": 1, "slot": slot, "repeat": "FREQ=WEEKLY;COUNT=2"}
    await world.make("Course", "ccnp", spec)
    listed = plain(await browser.get("/courses"))
    assert "ccnp" in listed
    assert "weekly" in listed
    shown = plain(await browser.get("/courses/ccnp"))
    for text in ("ccnp-2027-03-22", "ccnp-2027-03-29", "FREQ=WEEKLY;COUNT=2", "ahead"):
        assert text in shown


async def test_a_course_leads_to_its_groups_and_classes(browser: Browser) -> None:
    """Each date is a row with links; the page of a date's group leads back to the course."""
    world = browser.world
    await world.definition("weekly")
    slot = {"start": "2027-03-22T09:00", "end": "2027-03-22T10:00", "zone": "Europe/Zurich"}
    spec = {"definition": "weekly", "size": 1, "slot": slot, "repeat": "FREQ=WEEKLY;COUNT=2"}
    await world.make("Course", "ccnp", spec)
    shown = plain(await browser.get("/courses/ccnp"))
    links = [each.get("href") or "" for each in Reader(shown).all("a")]
    assert "/class/ccnp-2027-03-22" in links
    assert any(each.startswith("/groups/ccnp-2027-03-29?uid=") for each in links)
    assert "2027-03-29 09:00 Europe/Zurich (07:00Z)" in shown
    for where in ("/groups/ccnp-2027-03-22", "/class/ccnp-2027-03-22"):
        back = [each.get("href") for each in (await browser.page(where)).all("a")]
        assert "/courses/ccnp" in back
