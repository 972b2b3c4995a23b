"""The page of the calendar: what is promised, and to whom it names others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, Reader, plain
from fleet_world import ADMIN
from test_service_claims import MORNING, at, booked, fleet

from labfleet.kernel.clock import format_instant
from labfleet.resources.kinds import KINDS
from labfleet.service.verbs import objects

EXAM = format_instant(MORNING)[:10]
DAY = (
    f"/calendar?from={format_instant(MORNING - timedelta(hours=9))}"
    f"&to={format_instant(MORNING + timedelta(hours=14))}"
)


@pytest.mark.asyncio
async def test_without_pools_it_says_so(browser: Browser) -> None:
    """No empty table; the command is there, the navigation leads here, strangers sign in first."""
    reply = await browser.get("/calendar?namespace=elsewhere")
    assert reply.status == 200
    assert "No pools." in plain(reply)
    assert "labfleet calendar" in plain(reply)
    links = [each.get("href") for each in (await browser.page("/")).all("a")]
    assert "/calendar" in links
    assert (await browser.get("/calendar", role=None)).status == 303


@pytest.mark.asyncio
async def test_an_exam_is_a_row_between_free_ones(browser: Browser) -> None:
    """Ten sessions on one of two workers, with the group that one was booked with."""
    await fleet(browser.world, workers=2)
    await booked(browser.world, 9)
    body = {"definition": "two", "slot": at(), "size": 1}
    await browser.world.make("Group", "ccnp-monday", body)
    page = Reader(plain(await browser.get(DAY)))
    free, exam, after = (" ".join(each.split()) for each in page.rows.values())
    assert "2 0 0 of 2 0 nothing" in free
    assert exam.endswith("1 10 1 of 2 0 two 9, ccnp-monday 1")
    assert f"{EXAM} 08:51 UTC, in 13 d" in exam
    assert "nothing" in after


@pytest.mark.asyncio
async def test_a_candidate_sees_only_what_is_free(browser: Browser) -> None:
    """Columns of others are not there, and neither is what their sessions are of."""
    await fleet(browser.world)
    await booked(browser.world, 10)
    page = await browser.page(DAY, role="user", owner="ann")
    exam = [" ".join(each.split()) for each in page.rows.values()][1]
    assert "two" not in exam
    assert exam.endswith(" d 0 0")


@pytest.mark.asyncio
async def test_what_nobody_knows_and_what_is_wrong_is_said(browser: Browser) -> None:
    """A pool without its template has no rows; a span that means nothing is an error page."""
    await fleet(browser.world)
    off = {"spec": {"enabled": False}}
    services = browser.world.services
    await objects.patch(services, ADMIN, KINDS["Template"], "metal", off, namespace="default")
    await services.fresh()
    page = plain(await browser.get("/calendar"))
    assert "Nobody knows what pool exam can hold" in page
    assert Reader(page).all("table") == []
    assert (await browser.get("/calendar?from=yesterday")).status == 400
