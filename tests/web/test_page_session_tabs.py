"""The tabs of a session's page and its life line: what is known, what is not, and for whom."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import planted
import pytest
from browser import Browser, Reader, plain, text
from fleet_world import who

from labfleet.decisions import port_drift
from labfleet.interfaces.store import SeriesRow
from labfleet.resources import documents, series
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.history import Use
from labfleet.resources.session import PortAllocation, SessionPhase
from labfleet.web import life_line

KIM = who("user", "kim")


async def tab(browser: Browser, name: str, role: str = "user", owner: str = "kim") -> str:
    await browser.world.services.fresh()
    return plain(await browser.get(f"/sessions/exam-1?tab={name}", role, owner))


async def session(browser: Browser, **status: Any) -> Any:
    """A session of kim that was placed, started and runs, an hour in steps of ten minutes."""
    world = browser.world
    await world.definition()
    made = await world.session("exam-1", KIM)
    for phase, fields in (
        ("SCHEDULED", {"scheduled_at": 10, "start": 0}),
        ("INSTANTIATING", {}),
        ("READY", {"ready_at": 30}),
        ("RUNNING", {"started_at": 40, "end": 120}),
    ):
        world.clock.forward(600)
        begun = made.metadata.creation_timestamp
        known = {name: begun + timedelta(minutes=at) for name, at in fields.items()}
        made = await world.status(made, phase=phase, phase_since=world.clock.now(), **known)
    return await world.status(made, **status)


@pytest.mark.asyncio
async def test_the_life_line_says_when_each_step_began_and_how_long_it_took(
    browser: Browser,
) -> None:
    """Steps that are over have a length, the one of now counts on, and the end is ahead."""
    await session(browser)
    browser.world.clock.forward(300)
    await browser.world.services.fresh()
    page = plain(await browser.get("/sessions/exam-1", "user", "kim"))
    steps = re.findall(r'<li class="([a-z-]+)">(.*?)</li>', page.partition('<ol class="life">')[2],
                       re.DOTALL)  # fmt: skip
    told = [(stands, " ".join(re.sub("<[^>]+>", " ", body).split())) for stands, body in steps]
    assert [stands for stands, _ in told] == ["done"] * 5 + ["now", "ahead", "ahead"]
    starts, runs, ends = told[3][1], told[5][1], told[6][1]
    assert starts.startswith("✓ Starts its lab , done 25 min ago")
    assert starts.endswith("10 min")
    assert runs.endswith("for 5 min 00 s")
    assert "in 75 min" in ends
    assert "1 h 15 min left" in text(page)


@pytest.mark.asyncio
async def test_a_session_that_lost_its_place_begins_its_steps_again(browser: Browser) -> None:
    """What it had begun on the first worker is no step of its present life."""
    made = await session(browser)
    made = await browser.world.status(made, phase=SessionPhase.PENDING)
    events = await browser.world.store.events_of(made.key)
    found = life_line.entered(events[::-1], made.metadata.uid)
    assert list(found) == ["PENDING"]


@pytest.mark.asyncio
async def test_access_says_that_there_is_none_or_where(browser: Browser) -> None:
    """Without a lab nothing is shown to click."""
    await session(browser)
    page = await tab(browser, "access")
    assert "The lab is not up now" in page
    assert "labfleet describe session exam-1" in page


@pytest.mark.asyncio
async def test_drift_is_a_diff_with_what_differs_first(browser: Browser) -> None:
    """Given and seen stand side by side; a hostile name is text, an unseen lab is unknown."""
    ports = tuple(
        PortAllocation(name=f"{node}_serial", node=node, kind="serial", number=number)
        for number, node in enumerate(("r1", "r2", "r3"), 2001)
    )
    made = await session(browser, ports=ports)
    assert "Nobody has looked at its lab yet" in await tab(browser, "ports")
    seen = {"r1_serial": 2001, "r2_serial": 2099, "<b>x</b>_serial": 5041}
    status = port_drift.noted(made.status, seen, browser.world.clock.now())
    await browser.world.status(
        made, **{name: getattr(status, name) for name in status.__struct_fields__}
    )
    page = await tab(browser, "ports")
    assert "<b>x</b>" not in page
    assert page.count('<tr class="differs">') == 3
    assert text(page).index("tcp/2002 2099 ▲ changed") < text(page).index("tcp/2001 2001 ● same")
    assert "tcp/2003 not there ▲ removed" in text(page)


@pytest.mark.asyncio
async def test_use_stands_against_what_it_is_counted_with(browser: Browser) -> None:
    """Declared, counted, measured and their share; a curve under a dashed line; unknown is no 0."""
    at = browser.world.clock.now()
    held = Reservation(holder="w", amounts=Amounts(cpu_milli=4000, memory_mib=2048), start=at)
    made = await session(browser, reservation=held, used={"cpu_milli": Use(peak=3000, mean=900)})
    row = SeriesRow(
        series.Owner("Session", made.metadata.uid), 60,
        series.bucket_start(at + timedelta(minutes=35), 60),
        series.pack("Session", series.single("Session", {"cpu": 900.0})),
    )  # fmt: skip
    await browser.world.services.series.merge_series([row])
    page = await tab(browser, "use")
    cpu = " ".join(re.findall(r"<tr><th scope=\"row\">CPU.*?</tr>", page))
    told = " ".join(re.sub("<[^>]+>", " ", cpu).split())
    assert told == "CPU 2 CPU 4 CPU 0.9 CPU 0.9 CPU unknown 3 CPU 75 %"
    assert len(Reader(page).all("polyline")) == 1
    assert [each["class"] for each in Reader(page).all("line")] == ["counted"]


@pytest.mark.asyncio
async def test_a_user_sees_what_workers_lacked_and_no_scores(browser: Browser) -> None:
    """The tab names each candidate with its reasons for all, and its rank for who runs the fleet."""
    decision = Decision(
        outcome="assigned", reason="Fits", message="it fits w1", at=browser.world.clock.now(),
        candidates=(Verdict(name="w1", fits=True, score=0.625),
                    Verdict(name="w2", fits=False, reasons=("NoRoom",))),
        chosen="w1", evaluated=2, strategy="PACKED", parts={"dollarsAnHour": 4.36},
    )  # fmt: skip
    await planted.store(
        browser, planted.worker(browser, "w1"),
        planted.session(browser, "ranked", "w1", decision=decision),
    )  # fmt: skip
    for role, told in (("operator", True), ("user", False)):
        said = text(plain(await browser.get("/sessions/ranked?tab=decision", role, "kim")))
        assert "w2 ▲ does not fit" in said
        assert "NoRoom" in said
        for word in ("Score", "0.625", "PACKED", "dollarsAnHour"):
            assert (word in said) == told, (role, word)


@pytest.mark.asyncio
async def test_decision_events_and_yaml(browser: Browser) -> None:
    """The whole explanation, what happened, and the object as YAML that reads back the same."""
    made = await session(browser)
    assert "Session exam-1: RUNNING" in text(await tab(browser, "decision"))
    assert "labfleet events session/exam-1" in await tab(browser, "events")
    assert "INSTANTIATING" in await tab(browser, "events")
    page = await tab(browser, "yaml")
    shown = page.partition('<pre class="yaml"')[2].partition(">")[2].partition("</pre>")[0]
    for name, mark in (("&#34;", '"'), ("&#39;", "'"), ("&gt;", ">"), ("&lt;", "<")):
        shown = shown.replace(name, mark)
    (read,) = documents.read(shown)
    assert read.value["status"]["phase"] == "RUNNING"
    assert read.value["metadata"]["uid"] == made.metadata.uid


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["access", "use", "ports", "decision", "events", "yaml"])
async def test_no_tab_shows_a_session_to_others(browser: Browser, name: str) -> None:
    """Another person of role user gets the page of an unknown name, as on the first tab."""
    await session(browser)
    reply = await browser.get(f"/sessions/exam-1?tab={name}", "user", "lea")
    assert reply.status == 404
