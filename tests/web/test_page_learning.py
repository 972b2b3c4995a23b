"""The page of what was learned, the graphics of the history, and the tabs of a simulation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from browser import Browser, plain
from test_page_history import keep, run
from test_page_simulations import active, cluster
from test_page_simulations import keep as store
from test_page_simulations import run as simulation

from labfleet.interfaces.store import SeriesRow
from labfleet.resources import series
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.simulation import SimulationPhase

PAGE = "/learning"
EVIL = "<img src=x onerror=alert(1)>"


def measured(number: int, cpu: float, **more: Any) -> Run:
    """Return a run of fifty nodes whose CPU was measured."""
    use = {"cpu_milli": Use(peak=cpu), "memory_mib": Use(peak=2048.0)}
    about = {"parameters": {"nodecount": 50.0}, "use": use, "name": f"r{number}"}
    return run(f"u{number}-{more.get('family', '')}{more.get('kind', '')}", **{**about, **more})


@pytest.mark.asyncio
async def test_without_runs_it_says_how_to_begin(browser: Browser) -> None:
    """No empty table; the command that brings earlier runs in is there."""
    page, text = await browser.page(PAGE), plain(await browser.get(PAGE))
    assert [each for each in page.all("table") if each.get("class") != "keys"] == []
    assert "No bound was judged yet" in text
    assert "labfleet history import runs.csv" in text


@pytest.mark.asyncio
async def test_a_family_has_figures_drift_and_evidence(browser: Browser) -> None:
    """Median, 95 % and drift of what was used; its link tells what the next run would need."""
    await keep(browser, *(measured(n, 2000.0 if n < 5 else 3000.0) for n in range(10)))
    page = await browser.page(PAGE)
    row = page.rows["Simulation/default/waku"]
    for said in ("10", "2 CPU, 95 % 3 CPU", "+50%", "+0%", "not judged"):
        assert said in row
    text = plain(await browser.get("/learning?kind=Simulation&family=waku&namespace=default"))
    assert "Next run of waku" in text
    assert "10 runs of waku" in text
    assert 'href="/history?kind=Simulation&amp;family=waku&amp;namespace=default"' in text


@pytest.mark.asyncio
async def test_bounds_are_told_with_what_was_achieved(browser: Browser) -> None:
    """Each kind and resource has a share for each stated one; few runs are not judged."""
    await keep(browser, *(measured(n, 2000.0 + n) for n in range(10)))
    row = (await browser.page(PAGE)).rows["Simulation/cpu_milli"]
    assert "CPU" in row
    assert "○" in row
    assert "%" in row


@pytest.mark.asyncio
async def test_bounds_of_a_family_are_judged_by_its_own_runs(browser: Browser) -> None:
    """Ended simulations whose use is known say how many bounds held, and how wide they were."""
    await cluster(browser)
    await keep(browser, measured(1, 2000.0))
    now = browser.world.clock.now()
    ended = {"completed_at": now, "decided_at": now - timedelta(hours=1)}
    use = [{"cpu_milli": Use(peak=3500.0)}, {"cpu_milli": Use(peak=14000.0)}]
    await store(browser, *(
        simulation(browser, f"d{n}", SimulationPhase.COMPLETED, used=use[n], **ended)
        for n in range(2)
    ))  # fmt: skip
    row = (await browser.page(PAGE)).rows["Simulation/default/waku"]
    assert "1 of 2" in row
    assert "1.25 times what was used" in row


@pytest.mark.asyncio
async def test_nobody_learns_of_runs_of_others(browser: Browser) -> None:
    """A runner is shown its own families; people without simulations are refused."""
    mine = measured(1, 2000.0, owner="bot")
    await keep(browser, mine, measured(2, 2000.0, owner="ann", family="secret"))
    text = plain(await browser.get(PAGE, role="runner", owner="bot"))
    assert "secret" not in text
    assert (await browser.get(f"{PAGE}?family=secret", "runner", "bot")).status == 404
    assert (await browser.get(PAGE, role="user")).status == 403
    assert (await browser.get(f"{PAGE}?kind=Lab")).status == 400


@pytest.mark.asyncio
async def test_names_of_families_are_text(browser: Browser) -> None:
    """A family of any name is shown and linked without becoming markup."""
    await keep(browser, *(measured(n, 2000.0, family=EVIL) for n in range(3)))
    for target in (PAGE, f"{PAGE}?family=%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E"):
        page = await browser.page(target)
        assert page.all("img") == []
        assert EVIL in page.rows[f"Simulation/default/{EVIL}"]


@pytest.mark.asyncio
async def test_the_history_draws_one_family(browser: Browser) -> None:
    """A dot for each measured run, median and 95 % across; of all runs nothing is drawn."""
    await keep(browser, *(measured(n, 2000.0) for n in range(6)), run("x"))
    assert (await browser.page("/history")).all("figure") == []
    page = await browser.page("/history?family=waku")
    assert len(page.all("figure")) == 2
    assert len([each for each in page.all("circle") if each.get("r") == "3"]) == 1 + 6 + 6
    text = plain(await browser.get("/history?family=waku&namespace=other"))
    assert "No past runs pass this filter." in text


@pytest.mark.asyncio
async def test_a_run_is_compared_with_its_prediction(browser: Browser) -> None:
    """A passed bound is said, a kept one too, and what nobody measured cannot be told."""
    await cluster(browser)
    use = {"cpu_milli": Use(peak=7700.0, mean=5000.0)}
    made = active(browser, "r1", used=use)
    await store(browser, made)
    page = await browser.page("/simulations/r1?tab=compared")
    assert "passed (110% of it)" in page.rows["cpu_milli"]
    assert "cannot be told" in page.rows["memory_mib"]
    assert "nothing known" in page.rows["storage_mib"]
    text = plain(await browser.get("/simulations/r1?tab=compared"))
    assert "No minutes of its use are kept" in text


@pytest.mark.asyncio
async def test_measured_minutes_are_drawn_with_bound_and_expectation(browser: Browser) -> None:
    """A curve with both levels, broken where nobody measured."""
    await cluster(browser)
    begun = browser.world.clock.now() - timedelta(minutes=25)
    made = active(browser, "r1", decided_at=begun)
    await store(browser, made)
    rows = [
        SeriesRow(series.Owner("Simulation", made.metadata.uid), 60,
                  series.bucket_start(begun, 60) + timedelta(minutes=minute),
                  series.pack("Simulation", series.single("Simulation", {"cpu": 3000.0})))
        for minute in (0, 1, 2, 20, 21)
    ]  # fmt: skip
    await browser.world.services.series.merge_series(rows)
    page = await browser.page("/simulations/r1?tab=compared")
    assert len(page.all("polyline")) == 2
    text = plain(await browser.get("/simulations/r1?tab=compared"))
    assert "bound 7 CPU" in text
    assert "expected 5 CPU" in text


@pytest.mark.asyncio
async def test_evidence_names_past_runs_and_parameters(browser: Browser) -> None:
    """The sentence of each forecast, and parameters of strangers as text."""
    await cluster(browser)
    await store(browser, active(browser, "r1", params={"chart": EVIL, "nodecount": 50}))
    page = await browser.page("/simulations/r1?tab=evidence")
    text = plain(await browser.get("/simulations/r1?tab=evidence"))
    assert "From 3 runs of waku." in text
    assert page.all("img") == []
    assert ">nodecount<" in text
    assert RunKind.SIMULATION.value in text
