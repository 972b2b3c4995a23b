"""The page of a group and of its seats: who sits there, what is in danger, and the way between them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser import Browser, Reader, plain
from fleet_world import ADMIN, who
from test_service_claims import at, fleet

from labfleet.resources.kinds import KINDS
from labfleet.service.verbs import objects

TEACHER = who("user", "teacher")


async def exam(browser: Browser, size: int = 3) -> Any:
    """A class of the teacher on a pool of one worker; ana sits on the first seat."""
    await fleet(browser.world)
    spec = {"definition": "two", "slot": at(), "size": size, "seats": [{"person": "ana"}]}
    made = await browser.world.make("Group", "exam", spec, TEACHER)
    await browser.world.services.fresh()
    return made


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [1, 3])
async def test_a_group_shows_a_row_for_each_seat(browser: Browser, size: int) -> None:
    """Each with its state and who sits there, and a link to its page."""
    await exam(browser, size)
    page = plain(await browser.get("/groups/exam", role="user", owner="teacher"))
    rows = [row for key, row in Reader(page).rows.items() if key and key.startswith("Session/")]
    assert len(rows) == size
    assert "exam-001" in rows[0]
    assert "ana" in rows[0]
    links = [each.get("href") or "" for each in Reader(page).all("a")]
    assert any(each.startswith("/sessions/exam-001") for each in links)
    assert "Seats" in page


@pytest.mark.asyncio
async def test_a_group_whose_seats_are_gone_says_so(browser: Browser) -> None:
    """Once the records of its seats are gone there is no empty table."""
    await exam(browser, 1)
    services = browser.world.services
    session = await services.objects.get(KINDS["Session"].type, "exam-001", "default")
    await browser.world.status(session, phase="CANCELLED", ended_at=services.clock.now())
    await services.fresh()
    await objects.delete(services, ADMIN, KINDS["Session"], "exam-001", "default")
    await services.fresh()
    page = plain(await browser.get("/groups/exam", role="user", owner="teacher"))
    assert "It has no seat any more." in page


@pytest.mark.asyncio
async def test_a_seat_leads_to_its_group_for_those_who_see_it(browser: Browser) -> None:
    """Booker and operator follow a link; whoever sits there reads the name. The start stands once."""
    await exam(browser)
    for role, owner, linked in (("user", "teacher", True), ("operator", "o", True),
                                ("user", "ana", False)):  # fmt: skip
        reply = await browser.get("/sessions/exam-001", role=role, owner=owner)
        page = plain(reply)
        links = [each.get("href") for each in Reader(page).all("a")]
        assert ("/groups/exam" in links) is linked
        assert "exam" in page
        assert page.count("<dt>Starts</dt>") == 1
        assert "<dt>Start</dt>" not in page
        assert "<dt>End</dt>" not in page


@pytest.mark.asyncio
async def test_a_group_names_its_seats_in_danger_everywhere(browser: Browser) -> None:
    """On its page and in its explanation, with the pool and what it lacks; others are not named."""
    await exam(browser, 3)
    assert "In danger" not in plain(await browser.get("/groups/exam"))
    services = browser.world.services
    off = {"spec": {"enabled": False}}
    await objects.patch(services, ADMIN, KINDS["Template"], "metal", off, namespace="default")
    await services.fresh()
    told = await browser.get("/api/v1/groups/exam/explain")
    (said,) = told.json["more"]
    assert said.startswith("In danger: 3 seats are promised by pool exam (")
    assert said.endswith("its template is missing or disabled): 001, 002, 003.")
    assert said in told.json["lines"]
    page = await browser.get("/groups/exam", role="user", owner="teacher")
    assert said in re.sub("<[^>]+>", "", plain(page))
