"""The page of what waits: place, reason and help for each role, with none, one and a thousand rows."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from browser import Browser, Reader, plain, text
from fleet_world import who
from test_service_claims import at, booked, fleet

from labfleet.resources.amounts import Shortage
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.session import Session, SessionSpec, Slot
from labfleet.resources.simulation import Simulation, SimulationSpec, SimulationStatus

pytestmark = pytest.mark.asyncio
KIM = who("user", "kim")


async def queue(browser: Browser, query: str = "", role: str = "admin", owner: str = "ada") -> str:
    await browser.world.services.fresh()
    return plain(await browser.get(f"/queue{query}", role, owner))


def full(browser: Browser) -> Decision:
    """A decision that found no room: the nearest worker lacks memory."""
    lack = Shortage(dimension="memory_mib", wanted=2048, free=1024)
    return Decision(
        outcome="waiting", reason="NoCapacityAvailable", message="needs 2 GiB; w1 is short 1 GiB",
        at=browser.world.clock.now(), evaluated=14,
        candidates=(Verdict(name="w1", fits=False, reasons=("MemoryShort",), shortages=(lack,)),),
    )  # fmt: skip


async def test_nothing_waits(browser: Browser) -> None:
    """No empty table, and where to look instead."""
    page = await queue(browser)
    assert "Nothing waits." in text(page)
    assert "Nothing waits of yours." in text(await queue(browser, "", "user", "kim"))
    assert Reader(page.partition("<main")[2].partition("</main")[0]).all("table") == []


async def test_one_waits_with_its_reason_and_what_would_help_its_reader(browser: Browser) -> None:
    """Operators read of pools, a student what they may do; each worker says what it is short of."""
    await fleet(browser.world)
    made = await browser.world.session("s1", KIM)
    await browser.world.status(made, decision=full(browser))
    page = await queue(browser)
    (row,) = Reader(page).rows.values()
    assert "1 of 1" in row
    assert "w1 is short 1 GiB" in row
    assert "NoCapacityAvailable: 1 looked at of 14" in " ".join(row.split())
    assert "and 13 more, further off" in text(page)
    assert re.search(r"<li><b>w1</b> .*1 GiB", page)
    theirs = text(await queue(browser, "", "user", "kim"))
    assert "Or ask for another slot" in theirs
    assert "maxWorkers" not in theirs
    assert "Nothing waits of yours" in text(await queue(browser, "", "user", "lea"))


async def test_a_slot_without_a_promise_waits_on_a_list(browser: Browser) -> None:
    """What is promised is not in the queue; what waits for a promise says its place on the list."""
    await fleet(browser.world)
    await booked(browser.world, 10)
    await browser.world.session("extra", KIM, slot=at(), whenFull="wait")
    page = await queue(browser)
    assert list(Reader(page).rows) == ["Session/default/extra"]
    assert "waiting list" in page
    assert "Nothing is promised to its slot yet" in text(page)


async def test_a_thousand_rows_come_page_by_page(browser: Browser) -> None:
    """200 rows a page without one twice or lost; filters keep their place in the address."""
    await browser.world.definition()
    await browser.many(Session, 600, SessionSpec(definition="two", owner="ann"))
    await browser.world.session("mine", KIM)
    seen = list[str]()
    for number in (1, 2, 3, 4):
        rows = Reader(await queue(browser, f"?page={number}")).rows
        seen += rows
    assert (len(seen), len(set(seen))) == (601, 601)
    page = await queue(browser, "?owner=kim")
    assert list(Reader(page).rows) == ["Session/default/mine"]
    assert "1 of 601 waits" in text(page)
    assert '<option value="kim" selected>' in page
    assert "Nothing that waits is like that." in text(await queue(browser, "?owner=nobody"))
    assert "page=2" in await queue(browser, "?owner=ann")
    for wrong in ("0", "x", "-1", "9999999"):
        assert (await browser.get(f"/queue?page={wrong}")).status == 400


async def test_a_run_that_waits_stands_beside_sessions(browser: Browser) -> None:
    """With its cluster and queue, why it waits, and help for who may change clusters; runners' own."""
    decision = Decision(
        outcome="waiting", reason="NoRoom", message="needs 2 CPU, 1 is free",
        at=browser.world.clock.now(),
    )  # fmt: skip
    spec = SimulationSpec(cluster="eu", queue="batch", owner="runner", family="waku")
    status = SimulationStatus(asked_at=browser.world.clock.now(), decision=decision)
    await browser.many(Simulation, 2, spec, status)
    page = await queue(browser, "?kind=Simulation")
    assert list(Reader(page).rows) == ["Simulation/default/x0000", "Simulation/default/x0001"]
    row = " ".join(Reader(page).rows["Simulation/default/x0000"].split())
    assert "waku, runner unknown eu/batch" in row
    assert "needs 2 CPU, 1 is free" in row
    assert "A higher target of cluster eu" in row
    theirs = text(await queue(browser, "", "runner", "runner"))
    assert "2 wait" in theirs
    assert "A higher target" not in theirs
    assert "Nothing waits" in text(await queue(browser, "", "runner", "other"))


async def test_what_is_ahead_does_not_wait(browser: Browser) -> None:
    """A session whose worker is looked for later is no row; hostile text is text."""
    await browser.world.definition()
    now = browser.world.clock.now()
    later = Slot(start=now + timedelta(days=5), end=now + timedelta(days=5, hours=1))
    await browser.many(Session, 1, SessionSpec(definition="two", owner="x", slot=later))
    await browser.world.session("s1", owner="<b>x</b>")
    page = await queue(browser)
    assert list(Reader(page).rows) == ["Session/default/s1"]
    assert "<b>x</b>" not in page


async def test_a_runner_sees_runs_and_a_stranger_signs_in(browser: Browser) -> None:
    """Machines read of what they may read; without a token there is the form."""
    assert (await browser.get("/queue", "runner")).status == 200
    assert (await browser.get("/queue", None)).status == 303
