"""The tables of pages and of tabs: whoever is led somewhere arrives, and nobody else is led there."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Browser, plain
from fleet_world import who

from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import navigation, panel_table
from labfleet.web.view import Asked, Panel


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["admin", "operator", "user", "runner", "controller"])
async def test_the_navigation_leads_only_where_one_may_go(browser: Browser, role: str) -> None:
    """Every link in the navigation of a role answers that role with a page."""
    page = await browser.get("/", role)
    if page.status != 200:
        return
    links = [each["href"] for each in (await browser.page("/", role)).all("a") if "href" in each]
    inner = {each for each in links if each.startswith("/") and not each.startswith("/static")}
    assert "/" in inner
    for href in sorted(inner):
        reply = await browser.get(href, role)
        assert reply.status in {200, 303}, (href, reply.status)


def test_somebody_with_labs_of_their_own_is_led_there_first() -> None:
    """Role user begins with My labs, and is not led to a second Overview or queues of clusters."""
    groups = dict(navigation.shown(who("user", "kim").principal))
    assert groups["Now"][0].title == "My labs"
    theirs = {each.href for links in groups.values() for each in links}
    assert {"/queue", "/calendar", "/definitions"} <= theirs
    assert not {"/live", "/queues"} & theirs
    operators = dict(navigation.shown(who("operator", "olga").principal))
    assert operators["Now"][0].href == "/"
    assert {"/live", "/queues"} <= {each.href for links in operators.values() for each in links}


def test_every_heading_is_known() -> None:
    """A kind stands under a heading that the navigation has."""
    assert set(navigation.OF_KIND.values()) <= set(navigation.GROUPS)


@pytest.mark.asyncio
async def test_a_tab_has_an_address(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tab is opened by its address, is made for that address alone, and an unknown one is 404."""
    made: list[str] = []

    async def make(_s: ServiceContext, _c: Caller, obj: Resource, _a: Asked) -> Any:
        made.append(obj.name)
        return "seen"

    panels = (Panel("Definition", "extra", "More of it", "cells.html", make),)
    monkeypatch.setattr(panel_table, "PANELS", panels)
    await browser.world.definition()
    first = await browser.get("/definitions/two", "admin")
    assert 'href="/definitions/two?tab=extra"' in plain(first)
    assert made == []
    opened = await browser.get("/definitions/two?tab=extra", "admin")
    assert (opened.status, made) == (200, ["two"])
    assert (await browser.get("/definitions/two?tab=other", "admin")).status == 404
