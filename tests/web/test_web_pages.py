"""The pages as they come from the server: rows, escaping, roles, objects, errors."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import msgspec
import pytest
from browser import Browser, Reader, plain
from fleet_world import MACHINE, who

from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import Decision
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import (
    LabStatus,
    PortAllocation,
    Session,
    SessionPhase,
    SessionSpec,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.core.access import Principal, Role
from labfleet.service.verbs import objects, settings_verbs
from labfleet.service.verbs.retrying import retry
from labfleet.web import application as pages
from labfleet.web import overview, words

EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.asyncio
async def test_an_empty_fleet_says_what_to_do(browser: Browser) -> None:
    """Every table that is empty gives commands to copy, and no error."""
    reply = await browser.get("/live")
    assert reply.status == 200
    text = plain(reply)
    for said in ("No workers.", "No sessions.", "No clusters.", "No queues.", "labfleet demo"):
        assert said in text
    shown = [each for each in Reader(text).all("div") if "data-empty" in each]
    assert len(shown) == 5
    assert all("hidden" not in each for each in shown)


def test_a_server_without_our_licence_is_up() -> None:
    """Found servers rest in READY_UNLICENSED; the page said for ever that they start."""
    shown = words.state("Worker", "READY_UNLICENSED")
    assert (shown.group, shown.tone) == ("running", "warn")


def test_headings_are_words() -> None:
    """Titles of the terminal's tables read as the first page's do; what is always capital stays."""
    titles = {each.title for row in KINDS.values() for each in row.columns}
    shown = {title: words.label(title) for title in titles}
    assert shown["CPU-RESERVED%"] == "CPU reserved %"
    assert shown["MEMORY(MiB)"] == "Memory"
    assert shown["PRODUCT UUID"] == "Product UUID"
    assert (shown["USD/H"], shown["VERSION"]) == ("USD/h", "Version")
    for label in shown.values():
        capitals = set(re.findall(r"\b[A-Z]{2,}\b", label))
        assert label[0].isupper()
        assert capitals <= {"CML", "CPU", "ID", "URL", "USD", "UUID"}, label


@pytest.mark.asyncio
async def test_the_navigation_leads_to_pools_and_definitions(browser: Browser) -> None:
    """Their lists are one step away for those who may read them, with headings in words."""
    links = [each["href"] for each in (await browser.page("/", "operator")).all("a")]
    assert {"/pools", "/definitions"} <= set(links)
    theirs = [each["href"] for each in (await browser.page("/", "user")).all("a")]
    assert "/pools" not in theirs
    assert "/definitions" in theirs
    await browser.world.definition()
    assert re.search(
        r'<th scope="col"><a [^>]+>Version</a></th>', plain(await browser.get("/definitions"))
    )


@pytest.mark.asyncio
async def test_one_row_is_whole(browser: Browser) -> None:
    """A session's row has its name as a link, its state in words, and no gap is left blank."""
    await browser.world.definition()
    await browser.world.session("exam-1", owner="kim")
    page = await browser.page("/live")
    row = page.rows["Session/default/exam-1"]
    for said in ("exam-1", "PENDING", "two", "kim", "not placed", "not set"):
        assert said in row
    assert {"href": "/sessions/exam-1"} in page.all("a")


@pytest.mark.asyncio
async def test_attempts_of_a_session_link_to_each_other(browser: Browser) -> None:
    """A failed session's page leads to the next attempt, and that one's page back, by their uids."""
    await browser.world.definition()
    old = await browser.world.session("exam-1", owner="kim")
    old = await browser.world.status(old, phase=SessionPhase.FAILED)
    new = await retry(browser.world.services, who("admin"), "exam-1", "default")
    await browser.world.services.cache.reached(await browser.world.services.fresh())
    before, after = await browser.page("/sessions/exam-1"), await browser.page("/sessions/exam-1-2")
    assert {"href": f"/sessions/exam-1-2?uid={new.metadata.uid}"} in before.all("a")
    assert {"href": f"/sessions/exam-1?uid={old.metadata.uid}"} in after.all("a")


@pytest.mark.asyncio
async def test_a_thousand_rows_are_bounded(browser: Browser) -> None:
    """The first 200 rows are there, the rest is counted, and the counts are of all."""
    await browser.many(Session, 1000, SessionSpec(definition="two", owner="kim"))
    page = await browser.page("/live")
    rows = [key for key in page.rows if key.startswith("Session/")]
    assert len(rows) == words.ROWS
    text = plain(await browser.get("/live"))
    assert "<b>800</b> more are not shown" in text
    assert "<b>1000</b> waiting" in text


@pytest.mark.asyncio
async def test_nothing_of_a_user_becomes_markup(browser: Browser) -> None:
    """Names, owners, messages and titles with markup or script ends show as text everywhere."""
    await browser.world.definition(title=EVIL)
    made = await browser.world.session("s1", owner=EVIL)
    await browser.world.status(
        made, message=f"{EVIL}</script><script>alert(2)</script>", reason='"><b onmouseover=x>'
    )
    paths = ("/", "/sessions/s1", "/definitions/two", f"/sessions/{EVIL}", f"/{EVIL}")
    for path in paths:
        text = plain(await browser.get(path))
        page = Reader(text)
        assert page.all("img") == []
        assert "<img" not in text
        for script in page.all("script"):
            assert script.get("src", "").startswith("/static/") or script["type"].endswith("json")
        for _, attributes in page.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]


@pytest.mark.asyncio
async def test_a_javascript_link_cannot_be_made(browser: Browser) -> None:
    """What people name things never becomes an address of its own."""
    await browser.many(Session, 1, SessionSpec(definition="javascript:alert(1)"))
    links = [each["href"] for each in (await browser.page("/")).all("a")]
    assert "/definitions/javascript%3Aalert%281%29" in links
    assert not [link for link in links if not str(link).startswith(("/", "#"))]


@pytest.mark.asyncio
async def test_no_page_needs_what_the_policy_forbids(browser: Browser) -> None:
    """The policy allows nothing inline, and the pages have nothing inline."""
    for path in ("/", "/login", "/sessions/none", "/logout"):
        reply = await browser.get(path)
        assert reply.headers["content-security-policy"].startswith("default-src 'self'")
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-frame-options"] == "DENY"
        page = Reader(plain(reply))
        assert page.all("style") == []
        inline = [each for each in page.all("script") if "src" not in each]
        assert all(each["type"] == "application/json" for each in inline)


@pytest.mark.asyncio
async def test_the_address_of_every_kind_is_a_list(browser: Browser) -> None:
    """`/<plural>` is a list of the kind for whoever may read it; nobody lands on nothing."""
    await browser.world.template()
    await browser.world.make("Pool", "exam", {"template": "metal"})
    await browser.world.make("Webhook", "h", {"url": "https://x.example", "types": ["worker.*"]})
    for role in ("admin", "user"):
        readable = overview.readable(Principal("t", Role(role), role))
        for row in KINDS.values():
            reply = await browser.get(f"/{row.plural}", role)
            assert reply.status == (200 if row.plural in readable else 403)
    page = await browser.page("/pools")
    assert "exam" in page.rows["Pool/default/exam"]
    assert {"href": "/pools/exam"} in page.all("a")
    assert "worker.* https://x.example 0 0" in " ".join(
        (await browser.page("/webhooks")).rows["Webhook/default/h"].split()
    )
    assert (await browser.get("/nothing")).status == 404


@pytest.mark.asyncio
async def test_a_waiting_sessions_page_says_what_helps(browser: Browser) -> None:
    """The advice of its reason, in the reader's words, as explain has it."""
    world = browser.world
    await world.definition()
    made = await world.session("mine", owner="kim")
    at = world.clock.now()
    decided = Decision(outcome="waiting", reason="MissingDefinitions", message="no iosv", at=at)
    await world.status(made, decision=decided)
    text = " ".join(unescape(plain(await browser.get("/sessions/mine"))).split())
    assert "If it lasts: Install what the decision names on the workers' machine image" in text
    assert "It waits for a worker that has its node and image definitions" in text
    theirs = plain(await browser.get("/sessions/mine", "user", "kim"))
    assert "If it lasts: Use a definition whose topology names what workers have" in theirs


@pytest.mark.asyncio
async def test_a_user_sees_only_own_sessions(browser: Browser) -> None:
    """Role user gets own sessions and their events, and no word of workers or of others."""
    await browser.world.definition()
    await browser.world.session("mine", who("user", "kim"))
    await browser.world.session("other", who("user", "lee"))
    await browser.many(Worker, 1, WorkerSpec(pool="secret-pool"))
    text = plain(await browser.get("/", "user", "kim"))
    assert "/sessions/mine" in text
    for hidden in ("/sessions/other", "secret-pool", "/workers/", "x0000", "No clusters"):
        assert hidden not in text
    assert (await browser.get("/sessions/mine", "user", "kim")).status == 200
    assert (await browser.get("/sessions/other", "user", "kim")).status == 404
    assert (await browser.get("/workers/x0000", "user", "kim")).status == 403


@pytest.mark.asyncio
async def test_no_secret_is_on_a_page(browser: Browser) -> None:
    """Neither the token nor where the CML password lies is written into any page."""
    token = await browser.token()
    await browser.world.template()
    await browser.many(Worker, 1, msgspec.convert({"machine": MACHINE}, WorkerSpec))
    for path in ("/", "/workers/x0000", "/templates/metal", "/login"):
        text = plain(await browser.get(path))
        assert token not in text
        assert "CML_PASSWORD" not in text


@pytest.mark.asyncio
async def test_a_worker_shows_what_is_held_of_it(browser: Browser) -> None:
    """Reservations of live sessions are summed beside the capacity; an unseen one is unknown."""
    capacity = Amounts(cpu_milli=96000, memory_mib=196608, nodes=20)
    status = WorkerStatus(phase=WorkerPhase.ACTIVE, capacity=capacity)
    await browser.many(Worker, 1, WorkerSpec(), status)
    await browser.world.make("Worker", "unseen", {"machine": MACHINE})
    await browser.world.definition()
    for name, phase in (("a", SessionPhase.RUNNING), ("b", SessionPhase.COMPLETED)):
        made = await browser.world.session(name)
        held = Reservation(
            holder="x0000", amounts=Amounts(cpu_milli=24500, nodes=5), start=made.status.start
            or browser.world.clock.now(),
        )  # fmt: skip
        await browser.world.status(made, phase=phase, worker="x0000", reservation=held)
    page = await browser.page("/live")
    row = page.rows["Worker/default/x0000"]
    assert "24.5 of 96" in row
    assert "5 of 20" in row
    assert "unknown not seen yet" in " ".join(page.rows["Worker/default/unseen"].split())
    detail = plain(await browser.get("/workers/x0000"))
    assert "24.5 of 96" in detail
    assert "/sessions/a" not in detail
    tab = plain(await browser.get("/workers/x0000?tab=sessions"))
    assert "/sessions/a" in tab
    assert 'On it now <span class="total">1<' in tab


@pytest.mark.asyncio
async def test_live_rows_come_first_and_the_newest_end_next(browser: Browser) -> None:
    """Waiting, then running, then what is over with the newest end first."""
    await browser.world.definition()
    world = browser.world
    for name, phase in (
        ("old", SessionPhase.COMPLETED),
        ("new", SessionPhase.COMPLETED),
        ("runs", SessionPhase.RUNNING),
        ("waits", SessionPhase.PENDING),
    ):
        await world.clock.sleep(60)
        made = await world.session(name)
        await world.status(made, phase=phase, phase_since=world.clock.now())
    keys = [key for key in (await browser.page("/live")).rows if key.startswith("Session/")]
    assert [key.rpartition("/")[2] for key in keys] == ["waits", "runs", "new", "old"]


@pytest.mark.asyncio
async def test_a_decision_is_on_the_page_of_what_it_was_about(browser: Browser) -> None:
    """A denied simulation's row and page say why, and the page by how much it was short."""
    await browser.world.make("Cluster", "lab", {"capacity": {"cpu": 10, "memory": "10Gi"}})
    asked = {"cluster": "lab", "cost": {"cpu": 90, "memory": "1Gi"}}
    answer = await browser.ask("/request_run", asked)
    assert answer.json["decision"] == "denied"
    name = answer.json["record"]
    row = (await browser.page("/live")).rows[f"Simulation/default/{name}"]
    assert "DENIED" in row
    assert "short 82 CPU" in row
    detail = plain(await browser.get(f"/simulations/{name}"))
    assert "does not fit" in detail
    assert "<td>82 CPU</td>" in detail


@pytest.mark.asyncio
async def test_what_is_gone_keeps_its_history(browser: Browser) -> None:
    """A deleted object's page says so and lists its events; a name never used is not found."""
    await browser.world.template("old")
    await objects.delete(
        browser.world.services, who("admin", "ada"), KINDS["Template"], "old", "default"
    )
    text = plain(await browser.get("/templates/old"))
    assert "no longer exists" in text
    assert "deleted" in text
    assert (await browser.get("/templates/never")).status == 404
    assert (await browser.get("/nonsense")).status == 404


@pytest.mark.asyncio
async def test_a_link_leads_to_the_object_and_not_to_the_next_of_its_name(browser: Browser) -> None:
    """An event's link names the uid: its page stays its own when the name is given again."""
    world = browser.world
    first = await world.make("Worker", "old", {"machine": MACHINE})
    await objects.delete(world.services, who("admin", "ada"), KINDS["Worker"], "old", "default")
    second = await world.make("Worker", "old", {"machine": MACHINE})
    links = re.findall(r'href="(/workers/old[^"]*)"', (await browser.get("/")).raw.decode())
    uids = [first.metadata.uid, second.metadata.uid]
    assert {f"/workers/old?uid={uid}" for uid in uids} <= set(links)
    gone = plain(await browser.get(f"/workers/old?uid={uids[0]}"))
    assert "no longer exists" in gone
    assert "Another worker has its name now" in gone
    assert uids[1] not in gone
    present = plain(await browser.get(f"/workers/old?uid={uids[1]}"))
    assert "no longer exists" not in present
    assert present.count("deleted") == plain(await browser.get("/workers/old")).count("deleted")


@pytest.mark.asyncio
async def test_times_are_relative_and_exact(browser: Browser) -> None:
    """Each time reads relative to the fleet's clock and holds the absolute one with its zone."""
    await browser.world.definition()
    await browser.world.session()
    await browser.world.clock.sleep(300)
    text = plain(await browser.get("/"))
    assert ">5 min ago<" in text
    assert 'title="2026-11-27 09:00:00 UTC"' in text
    assert 'data-now="2026-11-27T09:05:00.000Z" data-rate="1.0"' in text


@pytest.mark.asyncio
async def test_tables_are_real_tables(browser: Browser) -> None:
    """Every table has a caption, every heading a scope, every state a word beside its colour."""
    await browser.world.definition()
    await browser.world.session()
    for path in ("/", "/sessions/s1"):
        page = await browser.page(path)
        assert len(page.all("caption")) == len(page.all("table")) > 0
        assert {each.get("scope") for each in page.all("th")} == {"col", "row"}


@pytest.mark.asyncio
async def test_pages_are_only_read(browser: Browser) -> None:
    """HEAD has no body, other methods are refused, and a busy store is a page with Retry-After."""
    head = await browser.get("/", method="HEAD")
    assert (head.status, head.raw) == (200, b"")
    assert (await browser.get("/", method="DELETE")).status == 405
    for task in browser.world.listeners:
        task.cancel()
    await browser.world.definition()
    away = await browser.get("/")
    assert away.status == 503
    assert away.headers["retry-after"] == "1"
    assert "Service Unavailable" in plain(away)


@pytest.mark.asyncio
async def test_static_files_are_a_closed_list(browser: Browser) -> None:
    """A file is kept for ever under its version; no path leads out of the list."""
    page = await browser.page("/", role="user")
    named = [str(each["src"]) for each in page.all("script") if "src" in each]
    named += [str(each["href"]) for each in page.all("link")]
    assert len(named) > 3
    for address in named:
        reply = await browser.get(address, None)
        assert reply.status == 200
        assert "immutable" in reply.headers["cache-control"]
    for path in ("/static/app.js", "/static/app.css", "/static/app.css?v=other"):
        assert (await browser.get(path, None)).headers["cache-control"] == "no-cache"
    for path in ("/static/../words.py", "/static/..%2fwords.py", "/static/", "/static/base.html"):
        assert (await browser.get(path, None)).status == 404


@pytest.mark.asyncio
async def test_scripts_of_two_versions_never_meet(browser: Browser) -> None:
    """What a script imports has the page's version in its address; another version is not there."""
    page = await browser.page("/")
    entry = next(str(each["src"]) for each in page.all("script") if "src" in each)
    loaded = {str(each["href"]) for each in page.all("link") if each["rel"] == "modulepreload"}
    reached: set[str] = set()
    waiting = [entry]
    while waiting:
        address = waiting.pop()
        reached.add(address)
        text = plain(await browser.get(address, None))
        imported = re.findall(r'(?:from |await import\()"([^"]+)"', text)
        waiting += {urljoin(address, name) for name in imported} - reached
    assert reached == loaded
    files = {each.name for each in (Path(pages.__file__).parent / "static").glob("*.js")}
    assert {each.rpartition("/")[2] for each in reached} == files
    folder = entry.split("/")[2]
    other = entry.replace(folder, "0" * len(folder))
    assert (await browser.get(other, None)).status == 404


def test_every_colour_of_text_can_be_read() -> None:
    """In both themes each text colour stands out from each ground by 4.5 to 1 (WCAG AA)."""
    css = (Path(pages.__file__).parent / "static" / "app.css").read_text()
    light = tokens(css.split(":root {")[1])
    dark = tokens(css.split(':root[data-theme="dark"] {')[1])
    assert tokens(css.split(':root[data-theme="auto"] {')[1]) == dark
    texts = ("text", "quiet", "link", "good", "busy", "wait", "warn", "bad", "calm")
    for theme in (light, dark):
        for ground in ("page", "card", "soft"):
            for text in texts:
                assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground, theme[text])


def tokens(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block.partition("}")[0]))


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    bright, dim = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.asyncio
async def test_a_pause_stands_on_every_page(browser: Browser) -> None:
    """Operators see who paused what, why and how it ends, on each page; users see nothing."""
    await browser.world.template()
    await browser.world.make("Pool", "exam", {"template": "metal"})
    assert "banner" not in plain(await browser.get("/"))
    await settings_verbs.pause(browser.world.services, who("operator", "otto"), reason=EVIL)
    await settings_verbs.pause_pool(
        browser.world.services, who("operator", "otto"), "exam", "default"
    )
    for path in ("/", "/pools/exam", "/settings/fleet"):
        text = plain(await browser.get(path, "operator"))
        assert "Automatic actions are paused since 2026-11-27 09:00Z by otto: &lt;img" in text
        assert "labfleet resume --pool exam" in text
        assert EVIL not in text
    assert "paused" not in plain(await browser.get("/", "user", "kim"))


@pytest.mark.asyncio
async def test_a_sessions_page_says_where_its_lab_is(browser: Browser) -> None:
    """The operator's has links to lab, CML and consoles; a stopped worker's says so instead."""
    world = browser.world
    await world.definition()
    worker = await world.make("Worker", "w1", {"machine": MACHINE})
    shown = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
    worker = await world.status(worker, phase=WorkerPhase.ACTIVE, machine=shown)
    session = await world.session("exam-1", owner="kim")
    ports = (
        PortAllocation(name="r1_serial", node="r1", kind="serial", number=2001),
        PortAllocation(name="r1_own", node="r1", kind="pat", inner=9000, number=2002),
    )
    lab = LabStatus(title="t", marker="m", id="lab-1", state="STARTED")
    up = {"worker": "w1", "lab": lab, "ports": ports, "ready_at": world.clock.now()}
    await world.status(session, phase=SessionPhase.RUNNING, **up)
    await world.services.fresh()
    page = await browser.page("/sessions/exam-1")
    links = {each.get("href") for each in page.all("a")}
    assert {"https://198.51.100.7", "https://198.51.100.7/lab/lab-1"} <= links
    page = await browser.page("/sessions/exam-1?tab=access")
    links = {each.get("href") for each in page.all("a")}
    assert "telnet://198.51.100.7:2001" in links
    text = plain(await browser.get("/sessions/exam-1?tab=access"))
    assert "tcp://198.51.100.7:2002" in text
    assert "tcp://198.51.100.7:2002" not in links
    halted = msgspec.structs.replace(shown, state="stopped", public_address=None)
    await world.status(worker, machine=halted)
    await world.services.fresh()
    assert "198.51.100.7" not in plain(await browser.get("/sessions/exam-1?tab=access"))
    text = plain(await browser.get("/sessions/exam-1"))
    assert "198.51.100.7" not in text
    assert "its address is told when it runs" in text
