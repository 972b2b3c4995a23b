"""The tabs of a worker's page show what is known of its server, machine, ports and past."""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec
import planted
import pytest
from api_caller import Reply
from browser import Browser, plain, visible

from labfleet.resources.hosted_labs import HostedLab, IgnoredLab
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Worker
from labfleet.web.panels.worker_sessions import PAST


@pytest.mark.asyncio
async def test_the_servers_tab_shows_all_that_cml_said(browser: Browser) -> None:
    """Version, use, each flag of each compute, and the licence; a gap says why it is one."""
    await planted.detailed(browser)
    said = visible(plain(await browser.get("/workers/w-000?tab=cml", "operator")))
    for told in (
        "Version 2.9.0", "Ready ● yes", "72 of 192 GiB (37.5 %)", "12 CPUs, 48 GiB", "7 of 9 run",
        "3.50, 3.25, 3.00", "Fabric ✕ no", "Memory overload ● no", "Admission READY",
        "Smart account Exam School", "Authorization ends 2027-02-01 10:00:00",
        "CML node expansion 50", "Nodes allowed 200",
        "stats.controller_disk the account is no admin",
    ):  # fmt: skip
        assert told in said, told
    assert "Core connected unknown the server does not tell" in said


@pytest.mark.asyncio
async def test_a_server_that_was_not_measured_says_so(browser: Browser) -> None:
    """Without a sample no number is shown, and the reason is."""
    await planted.store(browser, planted.worker(browser, "w-1"))
    said = visible(plain(await browser.get("/workers/w-1?tab=cml", "operator")))
    assert "Numbers unknown no sample: w-1 is READY, and was not measured so far" in said
    assert "Use of the host" not in said


@pytest.mark.asyncio
async def test_a_curve_is_broken_where_nobody_measured(browser: Browser) -> None:
    """Two hours with an hour's gap between: two lines, the gap in words, figures with the source."""
    await planted.detailed(browser)
    html = plain(await browser.get("/workers/w-000?tab=monitoring", "operator"))
    assert html.count("<polyline") == 2
    said = visible(html)
    assert "CPU, as CML says" in said
    assert "source: cml" in said
    assert "least 20 % mean 23 % greatest 26 %" in said
    assert re.search(r"Gap: nothing measured \S+ \S+ to \S+ \S+, and 1 shorter", said)
    assert "Not measured in this time: CPU, as CloudWatch says, Memory" in said
    assert 'href="/workers/w-000?tab=monitoring&amp;since=35d"' in html
    wrong = await browser.get("/workers/w-000?tab=monitoring&since=9y", "operator")
    assert wrong.status == 400


@pytest.mark.asyncio
async def test_the_machines_tab_shows_instance_checks_and_costs(browser: Browser) -> None:
    """What the provider said, each unknown with its reason, and what an hour costs."""
    await planted.detailed(browser)
    said = visible(plain(await browser.get("/workers/w-000?tab=machine", "operator")))
    for told in (
        "Provider AWS", "Region us-east-1", "State ● running", "Type m5zn.metal", "Image ami-1",
        "The host&#39;s ● ok", "Public 203.0.113.7", "Private 10.0.0.7", "Volume vol-1",
        "While it runs 4.36 USD/h", "4 h at that price 17.44 USD",
        "Disk as wanted 712.50 USD/month",
        "Network in unknown CloudWatch is not asked, or has no points",
    ):  # fmt: skip
        assert told in said, told


@pytest.mark.asyncio
async def test_the_ports_tab_shows_allocated_observed_and_quarantined(browser: Browser) -> None:
    """A port of a session with what was seen of it, and one that a lab holds unasked."""
    await planted.detailed(browser)
    said = visible(plain(await browser.get("/workers/w-000?tab=ports", "operator")))
    assert "tcp/2001 ● allocated r1 ran-1 kim ▲ changed: 2099" in said
    assert "tcp/5041 to 5043 ▲ quarantined" in said
    assert "lab lab-9 names it and was not given it" in said
    assert "tcp, quarantined 3" in said


@pytest.mark.asyncio
async def test_the_labs_tab_shows_whose_each_lab_is(browser: Browser) -> None:
    """Of a session with its link, nobody's, and ignored; unknown before a look."""
    now = browser.world.clock.now()
    made = planted.worker(browser, "w-1")
    told = visible(plain(await labs_of(browser, made)))
    assert "Unknown: no look has seen the labs on its server yet, or it is over." in told
    labs = (
        HostedLab(
            id="lab-1", title="their own", owner="mallory", state="STARTED", nodes=3, running=1,
            since=now,
        ),
        HostedLab(
            id="lab-2", title="kept", owner="ann", state="STOPPED", nodes=2, running=0, since=now
        ),
    )  # fmt: skip
    word = IgnoredLab(id="lab-2", by="ada", at=now, reason="hers")
    spec = msgspec.structs.replace(made.spec, ignored_labs=(word,))
    status = msgspec.structs.replace(made.status, hosted_labs=labs)
    found = browser.world.services.cache.get(Worker, "w-1", "default")
    assert found is not None
    told = visible(
        plain(await labs_of(browser, msgspec.structs.replace(found, spec=spec, status=status)))
    )
    assert "lab-1 ▲ nobody&#39;s none mallory their own STARTED 3 1" in told
    assert "lab-2 ○ ignored none ann kept STOPPED 2 0" in told
    assert "ignored by ada: hers" in told


async def labs_of(browser: Browser, made: Worker) -> Reply:
    """Store a worker, and return the tab of its labs."""
    await planted.store(browser, made)
    return await browser.get(f"/workers/{made.name}?tab=labs", "operator")


@pytest.mark.asyncio
async def test_sessions_now_and_before_events_and_yaml(browser: Browser) -> None:
    """What runs and what ended stand apart; YAML is what the API gives, and holds no secret."""
    await planted.detailed(browser)
    said = visible(plain(await browser.get("/workers/w-000?tab=sessions", "operator")))
    assert said.index("On it now") < said.index("ran-1") < said.index("Ended here")
    assert said.index("Ended here") < said.index("over-1")
    said = visible(plain(await browser.get("/workers/w-000?tab=events", "operator")))
    assert "created" in said
    html = plain(await browser.get("/workers/w-000?tab=yaml", "operator"))
    assert "adminPassword:\n        env: CML_PASSWORD" in html.replace("&#34;", '"')
    assert "labfleet get worker/w-000 -o yaml" in html


@pytest.mark.asyncio
async def test_of_many_that_ended_here_the_newest_are_listed(browser: Browser) -> None:
    """More than the tab lists ended on one day: the oldest are left out, and the tab says so."""
    await planted.store(browser, planted.worker(browser, "w-000"))
    now, over = browser.world.clock.now(), SessionPhase.COMPLETED
    await planted.store(
        browser,
        *(
            planted.session(
                browser, f"past-{number:02}", "w-000", phase=over, reservation=None, ports=(),
                ended_at=now - timedelta(seconds=number),
            )
            for number in range(PAST + 2)
        ),
    )  # fmt: skip
    html = plain(await browser.get("/workers/w-000?tab=sessions", "operator"))
    listed = re.findall(r">(past-\d\d)<", html)
    assert listed == [f"past-{number:02}" for number in range(PAST)]
    assert f"The newest {PAST}." in visible(html)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "tab", ["cml", "monitoring", "machine", "labs", "sessions", "ports", "events", "yaml"]
)
async def test_who_may_not_read_workers_sees_no_tab_of_one(browser: Browser, tab: str) -> None:
    """A user is refused on every tab, as on the page."""
    await planted.store(browser, planted.worker(browser, "w-1"))
    reply = await browser.get(f"/workers/w-1?tab={tab}", "user", "kim")
    assert reply.status == 403
    assert (await browser.get(f"/workers/w-1?tab={tab}", "operator")).status == 200
