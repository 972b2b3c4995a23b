"""The pages of operators: alerts, the map of the fleet, discovery, garbage, replicas."""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec
import planted
import pytest
from browser import Browser, Reader, plain, visible

from labfleet.resources.group import Group, GroupSpec, GroupStatus
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.region import Deed, Region, RegionStatus, Scan, Suspect
from labfleet.resources.worker import Origin
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

EVIL = "<img src=x onerror=alert(1)>"
PAGES = ("/alerts", "/fleet", "/discovery", "/garbage", "/replicas")


@pytest.mark.asyncio
@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_for_who_may_read_it(browser: Browser, path: str) -> None:
    """Operators have it, with words for an empty fleet; a user is refused and told why."""
    said = visible(plain(await browser.get(path, "operator")))
    assert re.search(r"Nothing|No |None|Nobody", said)
    refused = await browser.get(path, "user", "kim")
    assert refused.status == 403
    assert "Role user may not read" in plain(refused)
    names = [each.get("href") for each in (await browser.page("/", "user", "kim")).all("a")]
    assert path not in names


@pytest.mark.asyncio
async def test_alerts_are_chosen_by_severity_kind_and_text(browser: Browser) -> None:
    """Each choice has an address; what is chosen alone is listed, with its remedy; odd words: 400."""
    await planted.fleet(browser, workers=4, waiting=0)
    html = plain(await browser.get("/alerts", "operator"))
    said = visible(html)
    assert "LicenceExpiring" in said
    assert "ClassDoesNotFit" in said
    assert "labfleet describe worker w-licence" in said
    assert 'href="/alerts?kind=group"' in html
    groups = visible(plain(await browser.get("/alerts?kind=group", "operator")))
    assert "ccnp-monday" in groups
    assert "w-licence" not in groups
    drift = visible(plain(await browser.get("/alerts?q=PORTDRIFT&severity=warning", "operator")))
    assert "w-drift" in drift
    assert "w-stuck" not in drift
    none = visible(plain(await browser.get("/alerts?severity=critical", "operator")))
    assert "Nothing of that. All 4 are at /alerts." in none
    assert (await browser.get("/alerts?severity=odd", "operator")).status == 400


@pytest.mark.asyncio
async def test_what_is_grave_comes_first_then_what_hits_first(browser: Browser) -> None:
    """A class with seats in danger would come first; among warnings the nearest end leads."""
    await planted.fleet(browser, workers=4, waiting=0)
    now = browser.world.clock.now()
    silent = planted.fact(WorkerCondition.SILENT, WorkerReason.UNREACHABLE, "no answer", now)
    await planted.store(browser, planted.worker(browser, "w-silent", conditions=(silent,)))
    rows = re.findall(r'<th scope="row">(.*?)</th>', plain(await browser.get("/alerts")))
    names = [re.sub(r"<[^>]+>", "", each) for each in rows]
    assert names[:3] == ["worker w-silent", "group ccnp-monday", "worker w-licence"]


@pytest.mark.asyncio
async def test_a_class_that_is_over_asks_for_nobody(browser: Browser) -> None:
    """Only groups whose end is ahead are named; one that has begun hits already."""
    now = browser.world.clock.now()
    for name, since, until in (("over", -9, -1), ("begun", -1, 1)):
        times = {"start": now + timedelta(hours=since), "end": now + timedelta(hours=until)}
        await planted.store(
            browser,
            Group(
                metadata=planted.meta(browser, name),
                spec=GroupSpec(definition="two", owner="ines", size=2),
                status=GroupStatus(asked=2, booked=1, **times),
            ),
        )
    said = visible(plain(await browser.get("/alerts", "operator")))
    assert "group begun ▲ warning ClassDoesNotFit already" in said
    assert "group over" not in said


@pytest.mark.asyncio
@pytest.mark.parametrize("many", [1, 40, 1000])
async def test_the_map_has_a_cell_for_each_worker(browser: Browser, many: int) -> None:
    """By pool and region, with all numbers in words; large fleets get small cells, tables pages."""
    await planted.store(browser, *(planted.worker(browser, f"w-{n:04d}") for n in range(many)))
    await planted.store(browser, planted.session(browser, "run-1", "w-0000"))
    planted.measure(browser, "w-0000")
    page = await browser.page("/fleet", "operator")
    cells = [each for each in page.all("a") if str(each.get("href")).startswith("/workers/")]
    assert len(cells) == many
    assert cells[0]["title"] == (
        "w-0000; READY; health Healthy; 1 session; Memory: 16 of 188 GiB reserved, 172 free; used "
        "72 GiB, 37.5 % of the host (cml, now); CPU: 4 of 48 CPU reserved, 44 free; used 18 CPU, "
        "37.5 % of the host (cml, now)"
    )
    drawn = len([each for each in page.all("rect") if each.get("class") == "part"])
    assert drawn == (2 if many <= 80 else 0)
    assert "us-east-1" in visible(plain(await browser.get("/fleet?by=region", "operator")))
    table = plain(await browser.get("/fleet?view=table", "operator"))
    assert table.count('<th scope="row"><a href="/workers/') == min(many, 200)
    assert ("/fleet?view=table&amp;page=2" in table) is (many > 200)


@pytest.mark.asyncio
async def test_unknown_use_is_said_with_its_reason(browser: Browser) -> None:
    """A worker that nobody measured has no line of use, and its title says why."""
    await planted.store(browser, planted.worker(browser, "w-1"))
    page = await browser.page("/fleet", "operator")
    assert not [each for each in page.all("rect") if each.get("class") == "used"]
    title = next(str(each["title"]) for each in page.all("a") if each.get("title"))
    assert "use unknown: no sample: w-1 is READY, and was not measured so far" in title


@pytest.mark.asyncio
async def test_found_servers_say_what_became_of_them(browser: Browser) -> None:
    """Adopted, observed only, deleted by a person, of another installation: each with the reason."""
    now = browser.world.clock.now()
    for name, managed in (("found-1", False), ("mine-1", True)):
        made = planted.worker(browser, name)
        origin = Origin(
            kind="imported", instance_id=f"i-{name}", region="us-east-1", managed=managed,
            source="discovery",
        )  # fmt: skip
        spec = msgspec.structs.replace(made.spec, origin=origin, pool=None)
        await planted.store(browser, msgspec.structs.replace(made, spec=spec))
    scan = Scan(
        runs=3, discovered=4, imported=2, foreign=1, foreign_ids=("i-other",), last_run_at=now
    )
    status = RegionStatus(ignored=("i-gone",), scan=scan)
    await planted.store(browser, Region(metadata=planted.meta(browser, "us-east-1"), status=status))
    said = visible(plain(await browser.get("/discovery", "operator")))
    assert re.search(
        r"found-1 us-east-1 i-found-1 ● READY observed only .*found by discovery", said
    )
    assert re.search(r"mine-1 us-east-1 i-mine-1 ● READY adopted", said)
    assert "i-gone us-east-1 not looked at left alone a person deleted" in said
    assert "i-other us-east-1 not looked at left alone its owner tag is another" in said
    assert "us-east-1 now 4 2 1 1 0" in said


@pytest.mark.asyncio
async def test_garbage_tells_what_comes_next_and_what_leaked(browser: Browser) -> None:
    """A suspect with its due time, what was ended, and a licence to free by hand."""
    now = browser.world.clock.now()
    suspect = Suspect(
        kind="volume", id="vol-9", name="old", since=now - timedelta(hours=1), why="no worker has it",
        next="it is ended after its grace", due=now + timedelta(hours=2),
    )  # fmt: skip
    deed = Deed(at=now, kind="instance", id="i-9", why="belongs to no worker")
    status = RegionStatus(suspects=(suspect,), deeds=(deed,), ended=7)
    await planted.store(
        browser,
        Region(metadata=planted.meta(browser, "us-east-1"), status=status),
        Leak(
            metadata=planted.meta(browser, "w-1-leak"),
            spec=LeakSpec(worker="w-1", since=now, why="the machine ended first"),
        ),
    )
    said = visible(plain(await browser.get("/garbage", "operator")))
    assert "vol-9 volume old us-east-1 60 min ago no worker has it" in said
    assert "it is ended after its grace in 2 h" in said
    assert "i-9 instance none now belongs to no worker" in said
    assert "Ended so far 7" in said
    assert re.search(r"w-1-leak w-1 now .*the machine ended first", said)


@pytest.mark.asyncio
async def test_what_others_wrote_stays_text(browser: Browser) -> None:
    """Messages with markup are escaped on the first page, among alerts, and on discovery's page."""
    now = browser.world.clock.now()
    evil = planted.fact(WorkerCondition.SILENT, WorkerReason.UNREACHABLE, EVIL, now)
    made = planted.worker(browser, "w-evil", conditions=(evil,))
    origin = Origin(kind="imported", region=EVIL, source=EVIL)
    spec = msgspec.structs.replace(made.spec, origin=origin)
    await planted.store(browser, msgspec.structs.replace(made, spec=spec))
    for path in (
        "/",
        "/alerts",
        "/discovery",
        "/fleet",
        "/fleet?by=region",
        "/workers/w-evil?tab=yaml",
    ):
        html = plain(await browser.get(path, "operator"))
        assert EVIL not in html, path
        assert Reader(html).all("img") == [], path
