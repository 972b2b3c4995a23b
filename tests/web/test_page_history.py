"""The page of past runs: any number of rows, whoever reads it, whatever the runs are called."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from browser import Browser, Reader, plain
from fleet_world import START

from labfleet.interfaces.store import COMMIT_LIMIT, Cause, Commit, Teach
from labfleet.resources.history import Run, RunKind, Source, Use
from labfleet.web import words

EVIL = "<img src=x onerror=alert(1)>"


async def keep(browser: Browser, *runs: Run) -> None:
    """Keep runs, as many as there are."""
    for first in range(0, len(runs), COMMIT_LIMIT):
        writes = tuple(Teach(run) for run in runs[first : first + COMMIT_LIMIT])
        await browser.world.store.commit(Commit(Cause("controller", START), writes))


def run(uid: str, **more: Any) -> Run:
    """Return a simulation's run that ended two hours ago."""
    given = {"kind": RunKind.SIMULATION, "uid": uid, "family": "waku", **more}
    return Run(**given, ended_at=START - timedelta(hours=2))


@pytest.mark.asyncio
async def test_without_runs_it_says_so(browser: Browser) -> None:
    """No empty table, and the commands are there; the navigation leads here."""
    reply = await browser.get("/history")
    assert reply.status == 200
    assert "No past runs." in plain(reply)
    assert "labfleet history export" in plain(reply)
    tables = Reader(plain(reply)).all("table")
    assert [each for each in tables if each.get("class") != "keys"] == []
    links = [each.get("href") for each in (await browser.page("/")).all("a")]
    assert "/history" in links
    assert (await browser.get("/history", role=None)).status == 303


@pytest.mark.asyncio
async def test_a_row_tells_what_is_known_and_what_is_not(browser: Browser) -> None:
    """Chart, nodes, duration, CPU, memory, when and by whose word; names of strangers are text."""
    use = {"cpu_milli": Use(peak=1500.0), "memory_mib": Use(peak=2560.0)}
    about = {"parameters": {"nodecount": 50.0}, "use": use, "duration_seconds": 300.0}
    known = run("a", name="r-1", source=Source.REPORTED, **about)
    await keep(browser, run("b", family=EVIL, censored=EVIL, name=EVIL), known)
    reply = await browser.get("/history")
    page = Reader(plain(reply))
    text = " ".join(page.rows["2"].split())
    ended = "2 h ago 2026-11-27 07:00:00 UTC"
    assert text == f"waku 50 5 min 1.50 2.5 GiB {ended} r-1 Simulation reported its own"
    assert page.rows["1"].count("not measured") == 3
    assert "not told" in page.rows["1"]
    assert page.all("img") == []
    assert EVIL in page.rows["1"]


@pytest.mark.asyncio
async def test_a_thousand_runs_are_read_page_by_page(browser: Browser) -> None:
    """Each once, the newest first, by the link to older ones; a choice of kind stays chosen."""
    await keep(browser, *(run(f"u{n}") for n in range(1000)))
    await keep(browser, run("boot", kind=RunKind.BOOT, family="metal"))
    seen: list[int] = []
    target = "/history?kind=Simulation"
    while target:
        page = await browser.page(target)
        seen += [int(key) for key in page.rows]
        assert len(page.rows) == words.ROWS
        older = [each["href"] for each in page.all("a") if "cursor=" in (each["href"] or "")]
        target = (older or [""])[0] or ""
        if len(seen) == 1000:
            break
    assert seen == list(range(1000, 0, -1))
    [boot] = (await browser.page("/history?kind=WorkerBoot")).rows.values()
    assert "metal" in boot
    assert len((await browser.page("/history?family=metal")).rows) == 1


@pytest.mark.asyncio
async def test_people_see_their_own_and_nonsense_is_refused(browser: Browser) -> None:
    """One kind needs no choice of kinds; a query that means nothing is 400, another's kind 403."""
    await keep(browser, run("a", kind=RunKind.SESSION, owner="ann", family="bgp"), run("b"))
    page = await browser.page("/history", role="user", owner="ann")
    assert len(page.rows) == 1
    assert [each for each in page.all("nav") if each.get("aria-label") == "Kinds of runs"] == []
    assert (await browser.get("/history?kind=Lab")).status == 400
    assert (await browser.get("/history?cursor=x")).status == 400
    assert (await browser.get("/history?kind=WorkerBoot", role="user")).status == 403


@pytest.mark.asyncio
async def test_a_run_leads_to_its_object_while_that_is_there(browser: Browser) -> None:
    """By the object itself and not by its name: another one may have it now."""
    await browser.world.definition()
    made = await browser.world.session("s1", owner="ann")
    about = {"kind": RunKind.SESSION, "family": "two", "owner": "ann", "name": "s1"}
    await keep(browser, run(made.metadata.uid, **about), run("other", **about))
    await browser.world.services.fresh()
    links = [each.get("href") for each in (await browser.page("/history")).all("a")]
    assert links.count("/sessions/s1") == 1
