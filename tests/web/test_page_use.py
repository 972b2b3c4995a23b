"""What a run and a cluster used, on their pages: figures and curves, and unknown where nobody saw."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, Reader, plain

from labfleet.interfaces.store import SeriesRow
from labfleet.resources import series
from labfleet.resources.history import Use
from labfleet.resources.meta import Key
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.web import charts


async def run_of(browser: Browser, phase: SimulationPhase, **status: object) -> Simulation:
    """A run of a phase, an hour after it was decided."""
    at = browser.world.clock.now() - timedelta(hours=1)
    made = {"asked_at": at, "decided_at": at, "phase": phase, **status}
    await browser.many(Simulation, 1, SimulationSpec(), SimulationStatus(**made))
    await browser.world.services.fresh()
    found = browser.world.services.cache.at(Key("Simulation", "default", "x0000"))
    assert isinstance(found, Simulation)
    return found


@pytest.mark.asyncio
async def test_a_measured_run_has_its_figures_and_a_curve_with_its_holes(browser: Browser) -> None:
    """What was recorded of it, the newest minute, and two lines where half an hour is missing."""
    used = {"cpu_milli": Use(peak=1500, mean=750.4, median=700, p95=1400),
            "network_in_kbps": Use(peak=8000)}  # fmt: skip
    run = await run_of(browser, SimulationPhase.RUNNING, used=used)
    begin = browser.world.clock.now() - timedelta(hours=1)
    rows = [
        SeriesRow(
            series.Owner("Simulation", run.metadata.uid), 60,
            series.bucket_start(begin + timedelta(minutes=minute), 60),
            series.pack("Simulation", series.single("Simulation", {"cpu": 25.0 * minute})),
        )
        for minute in (*range(10), *range(40, 59))
    ]  # fmt: skip
    await browser.world.services.series.merge_series(rows)
    text = plain(await browser.get("/simulations/x0000"))
    assert "1.5 CPU" in text
    assert "1.45 CPU" in text
    assert "1 MB/s" in text
    assert "no longer kept" in text
    assert len(Reader(text).all("polyline")) == 2
    assert text.count('<span class="unknown">unknown</span>') == 4


@pytest.mark.asyncio
async def test_a_run_that_nobody_measured_says_so_and_a_denied_one_has_no_use(
    browser: Browser,
) -> None:
    """Its use is unknown and no 0; of what never began there is nothing to say."""
    await run_of(browser, SimulationPhase.COMPLETED, completed_at=browser.world.clock.now())
    assert "its use is unknown" in plain(await browser.get("/simulations/x0000"))
    await browser.world.make("Cluster", "c1", {"capacity": {"cpu": 1}})
    assert "its use is unknown" in plain(await browser.get("/clusters/c1"))


@pytest.mark.asyncio
async def test_what_never_began_has_no_use(browser: Browser) -> None:
    """A denied run's page says nothing of it."""
    await run_of(browser, SimulationPhase.DENIED)
    text = plain(await browser.get("/simulations/x0000"))
    assert 'id="use"' not in text


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [("millicores", 250, "0.25 CPU"), ("MiB", 900, "900 MiB"), ("MiB", 5120, "5 GiB"),
     ("bytes/s", 0, "0 B/s"), ("bytes/s", 1250, "1.25 kB/s"), ("bytes/s", 3e10, "30 GB/s"),
     ("pods", 3, "3")],
)  # fmt: skip
def test_amounts_are_read_at_a_glance(unit: str, value: float, text: str) -> None:
    """Three digits and a unit that people use."""
    assert charts.amount(unit, value) == text
