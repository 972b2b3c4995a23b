"""The page of simulations: clusters against targets, who waits, what runs and what has ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from browser import Browser, plain

from labfleet.interfaces import store as stores
from labfleet.interfaces.store import SeriesRow
from labfleet.resources import series
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.cluster import Cluster
from labfleet.resources.decision import Decision
from labfleet.resources.history import Use
from labfleet.resources.meta import Metadata
from labfleet.resources.prediction import Evidence, Forecast, Prediction
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.web import words

EVIL = "<img src=x onerror=alert(1)>"
PAGE = "/simulations"


def forecast(resource: str, expected: float, bound: float) -> Forecast:
    """Return a forecast that rests on the closest run."""
    return Forecast(
        resource=resource, expected=expected, bound=bound, coverage=0.95,
        evidence=Evidence.CLOSEST, known=3, sentence="From 3 runs of waku.",
    )  # fmt: skip


def run(browser: Browser, name: str, phase: SimulationPhase, **more: Any) -> Simulation:
    """Return a run of cluster `lab` that asked an hour ago."""
    now = browser.world.clock.now()
    asked = {"cluster": "lab", "owner": more.pop("owner", "ann"),
             "params": more.pop("params", {"chart": "waku", "nodecount": 50})}  # fmt: skip
    decision = Decision(
        outcome="waiting", reason="NoCapacityAvailable", message="needs 7 CPU; lab is short of 2 CPU",
        at=now, revision=1, requested=Amounts(cpu_milli=7000, memory_mib=2048),
    )  # fmt: skip
    predicted = Prediction(
        family="waku",
        forecasts=(forecast("cpu_milli", 5000, 7000), forecast("memory_mib", 1024, 2048)),
    )
    status = SimulationStatus(
        phase=phase, prediction=predicted, asked_at=now - timedelta(hours=1),
        **{"decision": decision, **more},
    )  # fmt: skip
    return Simulation(
        metadata=Metadata(name=name, uid=browser.world.ids.uid(), creation_timestamp=now),
        spec=SimulationSpec(**asked), status=status,
    )  # fmt: skip


def active(browser: Browser, name: str, **more: Any) -> Simulation:
    """Return a run that holds seven CPUs."""
    now = browser.world.clock.now()
    amounts = Amounts(cpu_milli=7000, memory_mib=2048)
    held = Reservation(holder="lab", amounts=amounts, start=now, end=now + timedelta(hours=1))
    given = {"reservation": held, "decided_at": now, **more}
    return run(browser, name, SimulationPhase.RUNNING, **given)


async def keep(browser: Browser, *runs: Simulation) -> None:
    """Store runs as the decider does."""
    cause = stores.Cause("test", browser.world.clock.now(), reason="Made")
    for first in range(0, len(runs), stores.COMMIT_LIMIT):
        chosen = runs[first : first + stores.COMMIT_LIMIT]
        await browser.world.services.objects.save(*chosen, cause=cause)
    await browser.world.services.fresh()


async def cluster(browser: Browser, name: str = "lab", **more: Any) -> Cluster:
    """Make a cluster of ten CPUs."""
    made = await browser.world.make(
        "Cluster", name, {"capacity": {"cpu": 10, "memory": "8Gi"}, **more}
    )
    assert isinstance(made, Cluster)
    return made


@pytest.mark.asyncio
async def test_an_empty_page_helps(browser: Browser) -> None:
    """Without clusters and runs there is no empty table, but commands to begin with."""
    page = await browser.page(PAGE)
    text = plain(await browser.get(PAGE))
    assert [each for each in page.all("table") if each.get("class") != "keys"] == []
    assert "labfleet apply -f cluster.yaml" in text
    assert "Nothing waits." in text
    assert "labfleet admit" in text
    assert len([each for each in page.all("a") if each.get("href") == PAGE]) == 1


@pytest.mark.asyncio
async def test_a_cluster_is_shown_against_its_targets(browser: Browser) -> None:
    """Predicted and really used lie in one bar with the target; the words say the same numbers."""
    made = await cluster(browser)
    await keep(browser, active(browser, "r1"))
    at = series.bucket_start(browser.world.clock.now() - timedelta(minutes=1), 60)
    data = series.pack("Cluster", series.single("Cluster", {"cpu": 4100.0, "memory": 900.0}))
    row = SeriesRow(series.Owner("Cluster", made.metadata.uid), 60, at, data)
    await browser.world.services.series.merge_series([row])
    text = plain(await browser.get(PAGE))
    for said in ("7 CPU predicted for runs", "4.1 CPU really used", "target 80 %: 8 CPU", "of 10 CPU",
                 "what pods of no run take is unknown", "nobody says what it has"):  # fmt: skip
        assert said in text
    assert 'class="gauge bad"' not in text
    await keep(browser, active(browser, "r2"))
    assert 'class="gauge bad"' in plain(await browser.get(PAGE))


@pytest.mark.asyncio
async def test_a_cluster_that_nobody_measures_says_so(browser: Browser) -> None:
    """Without a measured minute its use is unknown, not nothing."""
    await cluster(browser)
    text = plain(await browser.get(PAGE))
    assert "not measured in the last minutes" in text
    assert "really used" not in text


@pytest.mark.asyncio
async def test_who_waits_is_told_place_range_and_reason(browser: Browser) -> None:
    """Requests stand by their place, with what is predicted of them and why they wait."""
    await cluster(browser)
    first = run(browser, "w1", SimulationPhase.QUEUED)
    await keep(browser, first, run(browser, "w2", SimulationPhase.QUEUED, params={"chart": EVIL}))
    page = await browser.page(PAGE)
    row = page.rows["Simulation/default/w1"]
    assert "1 of 2" in row
    assert "lab is short of 2 CPU" in row
    assert "5 CPU, at most 7 CPU" in row
    assert "nodecount=50" in row
    assert "2 of 2" in page.rows["Simulation/default/w2"]
    assert page.all("img") == []


@pytest.mark.asyncio
async def test_a_run_tells_predicted_and_used(browser: Browser) -> None:
    """Average, peak and median so far stand beside the prediction; what is not known is unknown."""
    await cluster(browser)
    use = {"cpu_milli": Use(mean=4000.0, peak=6000.0, median=None)}
    await keep(browser, active(browser, "r1", used=use))
    row = (await browser.page(PAGE)).rows["Simulation/default/r1"]
    assert "4 CPU / 6 CPU / ?" in row
    assert row.count("unknown") == 3


@pytest.mark.asyncio
async def test_a_thousand_ended_runs_are_read_page_by_page(browser: Browser) -> None:
    """The newest first, each once; the further ones are an address."""
    await cluster(browser)
    now = browser.world.clock.now()
    done = [
        run(browser, f"d{n:04}", SimulationPhase.COMPLETED, completed_at=now - timedelta(minutes=n))
        for n in range(1000)
    ]
    await keep(browser, *done)
    seen: list[str] = []
    target = PAGE
    for _ in range(5):
        page = await browser.page(target)
        seen += list(page.rows)
        assert len(page.rows) == words.ROWS
        links = [each.get("href") or "" for each in page.all("a")]
        target = PAGE + next((each for each in links if f"ended={len(seen)}" in each), "")
    assert seen == [f"Simulation/default/d{n:04}" for n in range(1000)]
    assert target == PAGE


@pytest.mark.asyncio
async def test_one_cluster_is_chosen_by_address(browser: Browser) -> None:
    """With several clusters each has a link, and its page has its runs alone."""
    await cluster(browser)
    await cluster(browser, "edge")
    await keep(browser, active(browser, "r1"))
    text = plain(await browser.get(PAGE))
    assert 'href="?on=edge"' in text
    assert "Simulation/default/r1" in (await browser.page(f"{PAGE}?on=lab")).rows
    assert (await browser.page(f"{PAGE}?on=edge")).rows == {}


@pytest.mark.asyncio
async def test_the_list_has_the_same_address(browser: Browser) -> None:
    """With a filter or an order of lists it is the list, which keeps its form and headings."""
    await cluster(browser)
    await keep(browser, active(browser, "r1"))
    for query in ("show=all", "q=r1", "cluster=lab", "sort=metadata.name"):
        text = plain(await browser.get(f"{PAGE}?{query}"))
        assert "Clusters <span" not in text, query
        assert ">r1<" in text
    assert 'href="/simulations?show=all"' in plain(await browser.get(PAGE))


@pytest.mark.asyncio
async def test_a_runner_sees_its_own(browser: Browser) -> None:
    """Runs of others are neither listed nor counted; people without simulations are refused."""
    await cluster(browser)
    await keep(browser, active(browser, "mine", owner="bot"), active(browser, "theirs"))
    page = await browser.page(PAGE, role="runner", owner="bot")
    assert list(page.rows) == ["Simulation/default/mine"]
    reply = await browser.get(PAGE, role="user")
    assert reply.status == 403


@pytest.mark.asyncio
async def test_the_page_names_what_it_follows(browser: Browser) -> None:
    """The live part says which kinds and frames change it."""
    page = await browser.page(PAGE)
    [live] = [each for each in page.all("div") if each.get("id") == "live"]
    assert "Simulation" in (live["data-follows"] or "").split(",")
