"""The pages of who did what, and of settings with who changed each last."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Browser, plain
from fleet_world import ADMIN, START, who

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.session import SessionPhase
from labfleet.service.reads import audit
from labfleet.service.reads.audit import AuditQuery
from labfleet.service.verbs import objects, settings_verbs

PAGE = "/audit"
EVIL = "<img src=x onerror=alert(1)>"


def hrefs(page: Any) -> list[str]:
    """Return where a page's links lead."""
    return [each.get("href") or "" for each in page.all("a")]


def leak() -> LeakSpec:
    """Return what a leak says at least."""
    return LeakSpec(worker="w1", since=START, why="lost", fix="ask Cisco")


async def session(browser: Browser) -> None:
    """A session that olga booked for kim and a controller brought up."""
    await browser.world.definition()
    made = await browser.world.session("s1", owner="kim", caller=who("operator", "olga"))
    await browser.world.status(made, phase=SessionPhase.RUNNING, message="the lab is up")


@pytest.mark.asyncio
async def test_what_people_asked_for_is_told_first(browser: Browser) -> None:
    """The product's own steps are left out until everything is asked for."""
    await session(browser)
    rows = [*(await browser.page(PAGE)).rows.values()]
    assert len(rows) == 2
    assert "olga" in rows[0]
    assert "controller" not in " ".join(rows)
    everything = [*(await browser.page(f"{PAGE}?by=all")).rows.values()]
    assert len(everything) == 3
    assert "the lab is up" in everything[0]


@pytest.mark.asyncio
@pytest.mark.parametrize(("query", "count"), [
    ("actor=olga", 1), ("kind=Definition", 1), ("kind=Session&name=s1", 2), ("change=ADDED", 2),
    ("reason=OBSERVED", 1), ("actor=nobody", 0), ("namespace=other", 0),
])  # fmt: skip
async def test_a_filter_is_an_address(browser: Browser, query: str, count: int) -> None:
    """Each filter alone finds what it says, and an empty answer leads out of it."""
    await session(browser)
    page = await browser.page(f"{PAGE}?by=all&{query}")
    assert len(page.rows) == count
    assert (">Clear it<" in plain(await browser.get(f"{PAGE}?by=all&{query}"))) is (count == 0)


@pytest.mark.asyncio
async def test_a_change_is_told_field_by_field(browser: Browser) -> None:
    """The link of a row leads to what was before and after, and to the changes before it."""
    await session(browser)
    page = await browser.page(f"{PAGE}?by=all&kind=Session&name=s1")
    [changed] = [each for each in hrefs(page) if each.startswith(f"{PAGE}/")][:1]
    text = plain(await browser.get(changed))
    for said in ("status.phase", ">PENDING<", ">RUNNING<", "the lab is up"):
        assert said in text
    assert "metadata.resourceVersion" not in text
    [earlier] = [each for each in hrefs(await browser.page(changed)) if "before=" in each]
    assert len((await browser.page(earlier)).rows) == 1
    assert (await browser.get(f"{PAGE}/999?kind=Session&name=s1")).status == 404
    assert (await browser.get(f"{PAGE}/x")).status == 404


@pytest.mark.asyncio
async def test_another_object_of_the_name_is_no_before(browser: Browser) -> None:
    """What is made again under a name is created, whatever had the name before."""
    world = browser.world
    for _ in range(2):
        await world.make("Queue", "q", {"weight": 3})
        await objects.delete(world.services, ADMIN, KINDS["Queue"], "q", "default")
    page = await browser.page(f"{PAGE}?kind=Queue&name=q")
    targets = [each for each in hrefs(page) if each.startswith(f"{PAGE}/")]
    deleted, created = [plain(await browser.get(each)) for each in targets[:2]]
    assert "no longer there" in deleted
    assert "not there" in created
    assert "spec.weight" in created


@pytest.mark.asyncio
async def test_a_thousand_changes_are_read_page_by_page(browser: Browser) -> None:
    """Each once, the newest first, by the link to earlier ones, past the log's pages."""
    await browser.many(Leak, 2300, leak())
    seen: list[int] = []
    target = f"{PAGE}?by=all&kind=Leak"
    while target:
        page = await browser.page(target)
        seen += [int(key) for key in page.rows]
        links = [each for each in hrefs(page) if "before=" in each]
        target = PAGE + links[0] if links else ""
    assert len(seen) == len(set(seen)) == 2300
    assert seen == sorted(seen, reverse=True)


@pytest.mark.asyncio
async def test_strangers_words_are_text(browser: Browser) -> None:
    """Reasons, actors and names of any kind never become markup, in list and difference."""
    services = browser.world.services
    await settings_verbs.change(services, who("admin", EVIL), {"idle.timeoutMinutes": 7},
                                reason=EVIL)  # fmt: skip
    page = await browser.page(PAGE)
    assert page.all("img") == []
    [changed] = [each for each in hrefs(page) if each.startswith(f"{PAGE}/")]
    assert (await browser.page(changed)).all("img") == []
    assert (await browser.page("/settings")).all("img") == []


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["user", "runner", "controller"])
async def test_only_those_who_answer_for_the_fleet_read_it(browser: Browser, role: str) -> None:
    """Others are refused and told whom to ask; the navigation does not lead there."""
    await session(browser)
    for target in (PAGE, f"{PAGE}/1?kind=Session&name=s1"):
        reply = await browser.get(target, role)
        assert reply.status == 403
        assert "ask an operator" in plain(reply)
        assert f'href="{PAGE}"' not in plain(reply)
    assert (await browser.get(f"{PAGE}?kind=Nonsense")).status == 400


@pytest.mark.asyncio
async def test_behind_the_logs_horizon_objects_are_asked(browser: Browser) -> None:
    """Where the log is no longer kept whole, what is kept is told, and how to read on."""
    world = browser.world
    await browser.many(Leak, 40, leak())
    head = await world.services.log.head()
    real = world.store.events

    async def events(after: stores.Cursor, *, limit: int = stores.PAGE_LIMIT) -> stores.EventPage:
        if after.revision < head.revision - 15:
            raise errors.TooOld("the log begins later")
        return await real(after, limit=limit)

    world.store.events = events  # type: ignore[method-assign]  # a log that begins later
    found = await audit.read(world.services, ADMIN, AuditQuery(), limit=100)
    assert (len(found.found), found.before, found.horizon) == (15, None, True)
    assert "name a kind and a name" in plain(await browser.get(f"{PAGE}?by=all"))


@pytest.mark.asyncio
async def test_settings_say_value_source_meaning_and_who(browser: Browser) -> None:
    """Each setting has all of it; what is back at its default still says who changed it."""
    services = browser.world.services
    await settings_verbs.change(services, ADMIN, {"idle.timeoutMinutes": 30, "idle.enabled": True})
    await settings_verbs.change(services, who("admin", "eve"), {}, ["idle.enabled"])
    rows = (await browser.page("/settings")).rows
    for said in ("30 minutes", "set here", "60 minutes", "ada", "no sign of use"):
        assert said in rows["idle.timeoutMinutes"]
    assert "eve" in rows["idle.enabled"]
    assert "default" in rows["idle.enabled"]
    assert "no change is kept" in rows["garbage.enabled"]
    assert [*(await browser.page("/settings?show=changed")).rows] == ["idle.timeoutMinutes"]


@pytest.mark.asyncio
async def test_settings_are_refused_to_people(browser: Browser) -> None:
    """A user may not read them; an operator does, without the commands that change them."""
    assert (await browser.get("/settings", role="user")).status == 403
    text = plain(await browser.get("/settings", role="operator"))
    assert "settings -o wide" in text
    assert "settings set" not in text
    assert "/act/set/settings" not in text
    assert "/act/pause/settings" in text
    services = browser.world.services
    await settings_verbs.change(services, ADMIN, {"idle.timeoutMinutes": 30})
    page = await browser.page("/settings")
    undo = [each for each in hrefs(page) if each.startswith("/act/unset/settings?")]
    assert undo == ["/act/unset/settings?setting=idle.timeoutMinutes"]
    assert "/act/set/settings?setting=idle.timeoutMinutes" in hrefs(page)
    form = await browser.page("/act/set/settings?setting=idle.timeoutMinutes")
    assert {"value": "idle.timeoutMinutes", "selected": None} in form.all("option")
