"""The tabs of a definition: what its sessions used, which run, its versions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, plain
from fleet_world import ADMIN
from test_page_recommended import past

from labfleet.interfaces import store as stores
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import SessionPhase
from labfleet.service.verbs import objects

EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.asyncio
async def test_what_was_used_is_drawn_and_told(browser: Browser) -> None:
    """Figures with their number of sessions, coverage stated, a dot each, and what follows."""
    await past(browser, 6)
    page = await browser.page("/definitions/campus?tab=observation")
    text = plain(await browser.get("/definitions/campus?tab=observation"))
    assert len([each for each in page.all("circle") if each.get("r") == "3"]) == 1 + 6 + 6
    for said in ("6 past sessions looked at, 200 at most", "configured 4 GiB", "0.5 CPU",
                 "with this 0 of the last 6 would have exceeded", "no pool serves its track",
                 "labfleet recommend definition/campus --apply bound"):  # fmt: skip
        assert said in text


@pytest.mark.asyncio
async def test_sessions_of_other_versions_can_be_left_out(browser: Browser) -> None:
    """The figures of this version alone are an address of their own."""
    await past(browser, 6)
    world = browser.world
    use = {"cpu_milli": Use(peak=9000.0)}
    old = Run(kind=RunKind.SESSION, uid="old", family="campus", name=EVIL, use=use,
              parameters={"definition": "campus"},
              ended_at=world.clock.now() - timedelta(days=1))  # fmt: skip
    cause = stores.Cause("t", world.clock.now())
    await world.store.commit(stores.Commit(cause, (stores.Teach(old),)))
    alone = "/definitions/campus?tab=observation&of=version"
    assert "1 past session looked at" in plain(await browser.get(alone))
    assert (await browser.page("/definitions/campus?tab=observation")).all("img") == []


@pytest.mark.asyncio
async def test_without_sessions_nothing_is_claimed(browser: Browser) -> None:
    """No figure is 0 where nobody measured; nothing is drawn."""
    await past(browser, 0)
    page = await browser.page("/definitions/campus?tab=observation")
    text = plain(await browser.get("/definitions/campus?tab=observation"))
    assert page.all("figure") == []
    assert "too few sessions" in text
    assert "no past session to tell by" in text


@pytest.mark.asyncio
async def test_figures_are_for_those_who_look_after_definitions(browser: Browser) -> None:
    """A user has neither the tab nor its address; an operator may propose, not apply."""
    await past(browser, 6)
    text = plain(await browser.get("/definitions/campus", role="user"))
    assert "tab=observation" not in text
    assert (await browser.get("/definitions/campus?tab=observation", role="user")).status == 404
    text = plain(await browser.get("/definitions/campus?tab=observation", role="operator"))
    assert "--propose bound" in text
    assert "--apply" not in text


@pytest.mark.asyncio
async def test_live_sessions_are_listed_and_all_linked(browser: Browser) -> None:
    """A user sees the own ones alone; without any the page says how to ask for one."""
    world = browser.world
    await world.definition()
    empty = plain(await browser.get("/definitions/two?tab=sessions"))
    assert "labfleet apply -f session.yaml" in empty
    assert 'href="/sessions?definition=two&amp;show=all"' in empty
    for owner in ("kim", "ann"):
        made = await world.session(f"of-{owner}", owner=owner)
        await world.status(made, phase=SessionPhase.RUNNING)
    assert len((await browser.page("/definitions/two?tab=sessions")).rows) == 2
    mine = await browser.page("/definitions/two?tab=sessions", role="user", owner="kim")
    assert list(mine.rows) == ["Session/default/of-kim"]


@pytest.mark.asyncio
async def test_versions_of_a_family_stand_in_their_order(browser: Browser) -> None:
    """The newest first, with who applied what; the one that the family means is named."""
    world = browser.world
    await world.definition("lab", family="lab")
    await world.definition("lab-v2", family="lab", version="1.10.0")
    await world.definition("lab-v3", family="lab", version="1.9.0", deprecated=True)
    page = await browser.page("/definitions/lab?tab=versions", role="user")
    assert [key.rpartition("/")[2] for key in page.rows] == ["lab-v2", "lab-v3", "lab"]
    assert "(this one)" in page.rows["Definition/default/lab"]
    text = plain(await browser.get("/definitions/lab?tab=versions"))
    assert "Who names the family gets lab-v2" in text
    for name in ("lab", "lab-v2"):
        await objects.patch(
            world.services, ADMIN, KINDS["Definition"], name, {"spec": {"deprecated": True}},
            namespace="default",
        )  # fmt: skip
    assert "Every version is deprecated" in plain(
        await browser.get("/definitions/lab?tab=versions")
    )
