"""The pages of classes: a grid of seats for whoever booked them, and a list to print."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from browser import Browser, Reader, plain, text
from fleet_world import who
from test_service_claims import MORNING, at, fleet

from labfleet.resources.session import Session

pytestmark = pytest.mark.asyncio
TEACHER = who("user", "teacher")


async def exam(browser: Browser, size: int = 3) -> None:
    """A class of the teacher: ana and ben have seats, the others are nobody's yet."""
    await fleet(browser.world)
    seats = [{"person": "ana"}, {"person": "ben", "factor": 1.5}][:size]
    spec = {"definition": "two", "slot": {**at(), "zone": "Europe/Warsaw"}, "size": size,
            "seats": seats}  # fmt: skip
    await browser.world.make("Group", "exam", spec, TEACHER)


async def seat(browser: Browser, name: str, **status: Any) -> None:
    found = await browser.world.services.objects.get(Session, f"exam-{name}", "default")
    await browser.world.status(found, **status)


async def room(
    browser: Browser, query: str = "", role: str = "user", owner: str = "teacher"
) -> str:
    await browser.world.services.fresh()
    return plain(await browser.get(f"/class/exam{query}", role, owner))


def tiles(html: str) -> list[str]:
    found = re.findall(r'<li class="lab[^>]*>(.*?)</li>\n(?=<li class="lab|</ul>)', html, re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", " ", each).split()) for each in found]


async def test_whoever_booked_a_class_sees_who_is_there_and_who_is_late(browser: Browser) -> None:
    """Once the slot has begun: one runs and is here, one is late, one failed; each has its act."""
    await exam(browser)
    now = MORNING + timedelta(minutes=10)
    browser.world.clock.forward((now - browser.world.clock.now()).total_seconds())
    await seat(browser, "001", phase="RUNNING", started_at=MORNING, checked_in_at=now)
    await seat(browser, "003", phase="FAILED", ended_at=now)
    page = await room(browser)
    first, second, third = tiles(page)
    assert first.startswith("001 ana ● running 50 min left")
    assert "✓ here since now" in first
    assert second.startswith("002 ben")
    assert "▲ late" in second
    assert "not checked in" in second
    assert third.startswith("003 nobody named ✕ failed")
    for act in ("/act/extend/sessions/exam-001?", "/act/retry/sessions/exam-003?"):
        assert act in page
    assert "late 1" in text(page).lower()
    assert [each[:3] for each in tiles(await room(browser, "?show=late"))] == ["002"]
    assert [each[:3] for each in tiles(await room(browser, "?show=failed"))] == ["003"]
    assert (await browser.get("/class/exam?show=bad", "user", "teacher")).status == 400


async def test_the_list_to_print_has_every_seat_and_room_to_sign(browser: Browser) -> None:
    """Seat, person, session, state and end in the class's own zone with UTC beside it."""
    await exam(browser)
    rows = re.findall(r'<tr data-key="00.">(.*?)</tr>', await room(browser))
    assert len(rows) == 3
    assert "ben" in rows[1]
    # With a factor of 1.5 a seat lasts half an hour longer than the class.
    assert "11:30 Europe/Warsaw (10:30Z)" in rows[1]
    assert rows[2].count('class="signs"') == 1


async def test_only_whoever_booked_it_and_operators_see_a_class(browser: Browser) -> None:
    """Who sits there, and who does not, finds no class; operators do."""
    await exam(browser, 1)
    assert (await browser.get("/class/exam", "user", "ana")).status == 404
    assert (await browser.get("/class/exam", "user", "eve")).status == 404
    assert (await browser.get("/class/exam", "operator", "o")).status == 200
    assert (await browser.get("/class/none", "user", "teacher")).status == 404
    assert (await browser.get("/class", "runner")).status == 403


async def test_classes_that_are_not_over_are_listed(browser: Browser) -> None:
    """Nothing, one, and none again once it is over; another person's are not there."""
    assert "No class is ahead." in plain(await browser.get("/class", "user", "teacher"))
    await exam(browser)
    await browser.world.services.fresh()
    page = plain(await browser.get("/class", "user", "teacher"))
    assert list(Reader(page).rows) == ["/class/exam"]
    assert "3 of 3" in page
    assert "No class is ahead." in plain(await browser.get("/class", "user", "eve"))
    browser.world.clock.forward(timedelta(days=15).total_seconds())
    assert "No class is ahead." in plain(await browser.get("/class", "user", "teacher"))


async def test_a_seat_without_a_session_says_so(browser: Browser) -> None:
    """A class that was booked as far as it fits has seats without room, and hostile names are text."""
    await fleet(browser.world)
    spec = {"definition": "two", "slot": at(), "size": 12, "whenFull": "some",
            "seats": [{"person": "<b>x</b>"}]}  # fmt: skip
    await browser.world.make("Group", "exam", spec, TEACHER)
    page = await room(browser)
    assert sum("no room" in each for each in tiles(page)) == 2
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x" in page
