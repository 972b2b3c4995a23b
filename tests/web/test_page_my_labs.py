"""The page of one's own labs: what a student reads, clicks and may do, and nothing of others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from browser import ORIGIN, Browser, Reader, plain, text
from fleet_world import ADMIN, who
from test_service_claims import at, booked, fleet

from labfleet.resources.hand_over import SessionOffer
from labfleet.resources.session import LabStatus
from labfleet.service.verbs import lifecycle, settings_verbs

pytestmark = pytest.mark.asyncio
KIM = who("user", "kim")
EVIL = "<img src=x onerror=alert(1)>"


async def mine(browser: Browser, owner: str = "kim") -> str:
    await browser.world.services.fresh()
    return plain(await browser.get("/my-labs", "user", owner))


async def up(browser: Browser, minutes: float, **status: Any) -> Any:
    """A lab of kim that runs and ends in so many minutes."""
    world = browser.world
    made = await world.session("lab", KIM)
    now = world.clock.now()
    end = now + timedelta(minutes=minutes)
    return await world.status(made, phase="RUNNING", start=now, started_at=now, end=end, **status)


async def test_without_a_lab_it_says_how_to_get_one(browser: Browser) -> None:
    """No empty tables: a command to book, and that what a teacher books appears by itself."""
    page = await mine(browser)
    assert "You have no lab." in page
    assert page.count("Book one") == 1
    assert "labfleet apply -f session.yaml" in page
    assert Reader(page).all("article") == []


async def test_people_begin_here(browser: Browser) -> None:
    """Who signs in with role user is led to their labs, whoever runs the fleet to the overview."""
    for role, where in (("user", "/my-labs"), ("admin", "/")):
        secret = await browser.token(role, "kim")
        reply = await browser.post("/login", {"token": secret}, Origin=ORIGIN)
        assert reply.headers["location"] == where
        brand = next(
            each["href"]
            for each in (await browser.page("/", role, "kim")).all("a")
            if each.get("class") == "brand"
        )
        assert brand == where


async def test_machines_have_no_labs(browser: Browser) -> None:
    """A runner may not read sessions, and is told so."""
    assert (await browser.get("/my-labs", "runner")).status == 403


async def test_a_running_lab_says_how_long_it_lasts_and_where_to_click(browser: Browser) -> None:
    """The end for the script that counts, what is left in words, and a warning when that is little."""
    await browser.world.definition(title="Routing 1")
    lab = await up(browser, 42)
    page = await mine(browser)
    (left,) = [each for each in Reader(page).all("p") if "data-ends" in each]
    assert left["data-ends"] == lab.status.end.isoformat()
    assert left["data-minutes"] == "15,5"
    assert "Routing 1" in text(page)
    assert "42 min left" in text(page)
    assert "Less than" not in text(page)
    acts = [each["href"] or "" for each in Reader(page).all("a") if each.get("class", "")]
    for verb in ("check-in", "extend", "hand-over", "cancel"):
        (where,) = [each for each in acts if each.startswith(f"/act/{verb}/sessions/lab?")]
        assert (await browser.get(where, "user", "kim")).status == 200
    browser.world.clock.forward(timedelta(minutes=38).total_seconds())
    assert "Less than 5 minutes left: save your work" in text(await mine(browser))


async def test_what_is_booked_and_what_waits_says_what_comes(browser: Browser) -> None:
    """A booked slot stands under Next with both zones; what waits names its place in the line."""
    world = browser.world
    await fleet(world)
    await world.session("later", KIM, slot={**at(), "zone": "Europe/Warsaw"})
    await world.session("first")
    await world.session("soon", KIM)
    shown = text(await mine(browser))
    now, _, ahead = shown.partition("Next 1")
    assert "waits for room" in now
    assert "You are 2 of 2 who wait." in now
    assert "booked later" in ahead
    assert "Europe/Warsaw (" in ahead
    for word in ("PENDING", "priority", "maxWorkers", "pool"):
        assert word not in shown


async def test_a_seat_is_the_bookers_to_change(browser: Browser) -> None:
    """Who sits there reads who booked it, and is offered nothing that would be refused."""
    await fleet(browser.world)
    spec = {"definition": "two", "slot": at(), "seats": [{"person": "kim"}, {"person": "lea"}]}
    await browser.world.make("Group", "exam", spec, who("user", "teacher"))
    page = await mine(browser)
    assert "teacher booked it; ask them for another time." in text(page)
    assert "/sessions/exam-001?" in page
    assert "/act/extend" not in page
    assert "/act/cancel" not in page
    assert len(Reader(page).all("article")) == 1
    assert Reader(await mine(browser, "teacher")).all("article") == []


async def test_an_offer_says_whose_and_how_to_take_it(browser: Browser) -> None:
    """To whom a lab is offered reads what their notice says, and no page of it."""
    await fleet(browser.world)
    (one,) = await booked(browser.world, 1)
    offer = SessionOffer(to="kim", by="ada", at=browser.world.clock.now())
    await browser.world.status(one, offer=offer)
    page = await mine(browser)
    assert "ada offers it to you." in text(page)
    assert "/act/take/sessions/s000" in page
    assert (await browser.get("/act/take/sessions/s000", "user", "kim")).status == 200
    assert 'href="/sessions/' not in page
    assert "offered" not in text(await mine(browser, "lea"))


async def test_what_is_over_says_why_and_what_may_follow(browser: Browser) -> None:
    """A failed lab can be tried again; the newest of many are shown and the rest counted."""
    world = browser.world
    await world.definition()
    for number in range(22):
        made = await world.session(f"old-{number:02d}", KIM)
        ended = world.clock.now() + timedelta(minutes=number)
        await world.status(made, phase="FAILED", ended_at=ended, outcome_message=EVIL)
    page = await mine(browser)
    assert len(Reader(page).all("article")) == 20
    assert "2 older ones are not shown here" in text(page)
    assert "/act/retry/sessions/old-21?" in page
    assert "old-01" not in page
    assert EVIL not in page
    assert "&lt;img src=x" in page


async def test_why_a_lab_cannot_be_reached_is_said_without_settings(browser: Browser) -> None:
    """Neither the name of a setting nor that of a worker; one that is being ended says so."""
    world = browser.world
    await world.template()
    await world.make("Worker", "w1", {"template": "metal"})
    await world.definition()
    lab = LabStatus(title="t", marker="m", id="l1")
    made = await up(browser, 60, worker="w1", ready_at=world.clock.now(), lab=lab)
    assert "It cannot be reached just now" in text(await mine(browser))
    await settings_verbs.change(world.services, ADMIN, {"access.userSees": "nothing"})
    shown = text(await mine(browser))
    assert "Whoever runs your class says where it is reached." in shown
    assert "userSees" not in shown
    assert "w1" not in shown
    await lifecycle.cancel(world.services, KIM, made.name, "default")
    assert "is being ended" in text(await mine(browser))


async def test_who_gives_a_lab_away_is_back_at_their_labs(browser: Browser) -> None:
    """After the offer they see their own labs, and their session names no group that it has not."""
    await browser.world.definition()
    await up(browser, 42)
    page = text((await browser.get("/sessions/lab", "user", "kim")).raw.decode())
    assert "Group none Seat none" in page
    where = "/act/hand-over/sessions/lab"
    sent = await browser.send(where, {"to": "eve"}, "user", "kim")
    assert (sent.status, sent.headers["location"]) == (303, "/my-labs")
