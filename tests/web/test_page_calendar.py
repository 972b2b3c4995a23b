"""The page of the calendar: what is promised, and to whom it names others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, Reader, plain
from fleet_world import ADMIN, who
from test_service_claims import MORNING, at, booked, fleet

from labfleet.kernel.clock import format_instant, parse_instant
from labfleet.resources.kinds import KINDS
from labfleet.service.verbs import objects
from labfleet.web import calendar_times

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
    assert Reader(page.partition("<main")[2].partition("</main")[0]).all("table") == []
    assert (await browser.get("/calendar?from=yesterday")).status == 400


@pytest.mark.asyncio
async def test_a_day_is_that_of_the_zone_in_the_address(browser: Browser) -> None:
    """The day begins at midnight there, each instant stands in both zones, and views lead on."""
    await fleet(browser.world)
    await booked(browser.world, 2)
    query = f"?view=day&date={EXAM}&zone=Europe/Warsaw"
    text = plain(await browser.get(f"/calendar{query}"))
    assert f"{EXAM} 00:00 Europe/Warsaw" in text
    assert f"{EXAM} 09:51 Europe/Warsaw (08:51Z)" in text
    hrefs = [str(each.get("href")) for each in Reader(text).all("a")]
    assert any("view=week" in each and "zone=Europe%2FWarsaw" in each for each in hrefs)
    assert sum("view=day" in each for each in hrefs) == 2
    ticks = [each for each in Reader(text).all("line") if "tick" in (each.get("class") or "")]
    assert len(ticks) == 8


@pytest.mark.asyncio
@pytest.mark.parametrize(("zone", "day", "hours"), [
    ("America/New_York", "2027-03-14", 23), ("America/New_York", "2026-12-11", 24),
])  # fmt: skip
async def test_a_day_on_which_clocks_change_has_its_own_length(
    browser: Browser, zone: str, day: str, hours: int
) -> None:
    """From midnight to midnight by the wall, whatever the clocks do between."""
    now = browser.world.clock.now()
    found = calendar_times.of({"view": "day", "date": day, "zone": zone}, now, "/calendar")
    length = parse_instant(found.end) - parse_instant(found.start)
    assert length == timedelta(hours=hours)


@pytest.mark.asyncio
async def test_what_an_address_cannot_mean_is_said(browser: Browser) -> None:
    """A zone, view or day that there is not is 400; a day that is over says that it is."""
    wrong = ("zone=Mars", "zone=../etc/passwd", "zone=Europe", "view=year", "date=x",
             "date=9999-12-31")  # fmt: skip
    for query in wrong:
        assert (await browser.get(f"/calendar?{query}")).status == 400, query
    assert "That time is over" in plain(await browser.get("/calendar?view=day&date=2026-01-01"))


@pytest.mark.asyncio
async def test_the_timeline_shows_demand_danger_and_when_workers_are_made(browser: Browser) -> None:
    """A group links to its class, its marks say from when workers come; students see no marks."""
    await fleet(browser.world, workers=2)
    body = {"definition": "two", "slot": at(), "size": 12}
    await browser.world.make("Group", "exam", body, who("user", "teacher"))
    text = plain(await browser.get(DAY))
    assert "on for 12 sessions of " in text
    assert 'href="/class/exam"' in text
    bars = [each.get("class") for each in Reader(text).all("rect")]
    assert bars.count("full") == 1
    theirs = plain(await browser.get(DAY, "user", "ann"))
    assert "made ready" not in theirs
    assert "exam 12" not in theirs
    own = plain(await browser.get(DAY, "user", "teacher"))
    assert '<a href="/class/exam">class exam</a>' in own
    assert "mine" in [each.get("class") for each in Reader(own).all("rect")]
    scaling = {"spec": {"scaling": {"maxWorkers": 1}}}
    services = browser.world.services
    await objects.patch(services, ADMIN, KINDS["Pool"], "exam", scaling, namespace="default")
    await services.fresh()
    text = plain(await browser.get(DAY))
    assert "danger" in [each.get("class") for each in Reader(text).all("rect")]
    assert "2 of 12 on places that are gone, or too small for them" in text
