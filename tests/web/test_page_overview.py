"""The first page answers an operator's questions without a click."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import planted
import pytest
from browser import Browser, plain, visible
from fleet_world import MACHINE, who

from labfleet.resources.machine import Machine
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.reads import costs
from labfleet.web import overview, words
from labfleet.web.views import home, summary


def words_of(html: str) -> str:
    """Return the text of the head of the first page, as somebody reads it."""
    return visible(html[html.index('class="summary"') : html.index('<section id="events">')])


@pytest.mark.asyncio
async def test_five_facts_are_read_without_a_click(browser: Browser) -> None:
    """Licence, drift, stuck phase, class and costs stand on the first page, with their remedies."""
    await planted.fleet(browser)
    said = words_of(plain(await browser.get("/", "operator")))
    assert "worker w-licence LicenceExpiring hits 2026-11-29 09:00 UTC, in 2 d" in said
    assert "register a new token" in said
    assert "lab two names tcp/5041 unasked" in said
    assert "STARTING for 2 h, limit 25 min" in said
    assert "12 of its 30 seats have no place" in said
    assert "Raise spec.scaling.maxWorkers of its pool" in said
    assert "An hour now 214.00 USD/h" in said
    assert "30 × two" in said
    assert "no worker has room: the nearest is short of 4 CPU" in said


@pytest.mark.asyncio
async def test_the_head_is_for_who_may_read_workers(browser: Browser) -> None:
    """Operators get no table that a script fills; a user gets the tables of what is theirs."""
    await planted.fleet(browser, workers=4, waiting=2)
    theirs = await browser.page("/", "operator")
    assert not [each for each in theirs.all("table") if "data-kind" in each]
    assert {"href": "/live", "aria-current": "page"} not in theirs.all("a")
    (live,) = [each for each in theirs.all("div") if each.get("id") == "live"]
    assert "alerts" in str(live["data-follows"]).split(",")
    for path, role in (("/", "user"), ("/live", "user"), ("/live", "operator")):
        tables = (await browser.page(path, role, "kim")).all("table")
        assert "Session" in [each.get("data-kind") for each in tables], (path, role)
    assert "214" not in plain(await browser.get("/", "user", "kim"))


@pytest.mark.asyncio
async def test_a_price_that_is_not_known_is_no_zero(browser: Browser) -> None:
    """Machines without a price are counted and named, and alone they make the sum unknown."""
    strange = planted.worker(browser, "w-odd")
    machine = msgspec.structs.replace(strange.status.machine, type="x9.odd")
    status = msgspec.structs.replace(strange.status, machine=machine)
    provider = {**MACHINE["provider"], "region": "eu-west-1"}  # where no disk has a price either
    spec = msgspec.structs.replace(
        strange.spec, machine=msgspec.convert({**MACHINE, "provider": provider}, Machine)
    )
    await planted.store(browser, msgspec.structs.replace(strange, spec=spec, status=status))
    said = words_of(plain(await browser.get("/", "operator")))
    assert "An hour now unknown no price is known of 1 machine" in said
    await planted.store(browser, planted.worker(browser, "w-1"))
    said = words_of(plain(await browser.get("/", "operator")))
    assert "An hour now 5.35 USD/h" in said
    assert "Not counted unknown no price known: w-odd" in said


@pytest.mark.asyncio
async def test_an_hour_is_what_the_terminal_says_of_it(browser: Browser) -> None:
    """With a machine that comes up, one that stops and one that is stopped: as `labfleet cost`."""
    now, made = browser.world.clock.now(), []
    for number, state in enumerate(("running", "booting", "stopping", "stopped")):
        worker = planted.worker(browser, f"w-{number}")
        status, paid = worker.status, worker.status.paid
        assert paid is not None
        if state in {"booting", "stopped"}:
            paid = msgspec.structs.replace(paid, running_since=None, ready_at=None, until=now)
        machine = msgspec.structs.replace(status.machine, state=state)
        status = msgspec.structs.replace(status, machine=machine, paid=paid)
        made.append(msgspec.structs.replace(worker, status=status))
    await planted.store(browser, *made)
    hour = costs.hour_now(browser.world.services)
    assert 2 * 4.3605 < hour.usd < 3 * 4.3605
    said = words_of(plain(await browser.get("/", "operator")))
    assert f"An hour now {hour.usd:.2f} USD/h" in said
    assert f"Without sessions {hour.idle:.2f} USD/h" in said
    assert f"Disks of stopped machines {hour.stopped:.2f} USD/h" in said
    assert "Machines on 2" in said


@pytest.mark.asyncio
async def test_programs_that_read_workers_see_no_costs(browser: Browser) -> None:
    """What the fleet costs is for who may change pools, as at the terminal."""
    await planted.store(browser, planted.worker(browser, "w-1"))
    theirs = await summary.read(browser.world.services, who("controller"))
    assert theirs is not None
    assert theirs.costs == ()


@pytest.mark.asyncio
async def test_what_has_ended_makes_the_head_no_dearer(browser: Browser) -> None:
    """Alerts, waits, costs and counts look at live objects alone, however many have ended."""
    await planted.fleet(browser, workers=4, waiting=2)
    now = browser.world.clock.now()
    over = SessionStatus(phase=SessionPhase.COMPLETED, ended_at=now, worker="w-000")
    await browser.many(Session, 300, SessionSpec(definition="two", owner="kim"), over)
    await browser.world.services.fresh()
    services, looked = browser.world.services, list[str]()
    sees = access.sees

    def counting(principal: Principal, obj: Resource) -> bool:
        looked.append(obj.kind)
        return sees(principal, obj)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "sees", counting)
        await summary.read(services, who("operator"))
        home.vitals(services, who("operator"))
    assert looked.count("Session") <= 2 * 5 + 10


@pytest.mark.asyncio
async def test_what_has_ended_is_not_put_in_order_one_by_one(browser: Browser) -> None:
    """Live tables look up each state once for all that are in it, and show the newest ended first."""
    now, looked = browser.world.clock.now(), list[str]()
    ended = [
        planted.session(
            browser, f"past-{number:03}", "w1", phase=SessionPhase.COMPLETED,
            ended_at=now - timedelta(seconds=number),
        )
        for number in range(2 * words.ROWS)
    ]  # fmt: skip
    live, section, state = planted.session(browser, "live"), words.section("Session"), words.state
    assert section is not None

    def counting(kind: str, phase: str | None) -> words.State:
        looked.append(kind)
        return state(kind, phase)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "state", counting)
        made = overview.table(section, [*reversed(ended), live], now, {}, ())
    assert looked.count("Session") <= 4 * words.ROWS
    names = [row.key.rpartition("/")[2] for row in made.rows]
    assert names == ["live", *(each.name for each in ended[: words.ROWS - 1])]
    assert made.total == 2 * words.ROWS + 1
