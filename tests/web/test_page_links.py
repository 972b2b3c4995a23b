"""Links of the pages lead somewhere, for whoever reads them."""

from __future__ import annotations

import pytest
from browser import Browser, Reader, plain

from labfleet.resources.session import SessionPhase

PAGES = (
    "/", "/pools", "/regions", "/history", "/calendar", "/alerts", "/fleet", "/discovery",
    "/pools/exam", "/workers/w1?tab=machine", "/sessions/s1",
)  # fmt: skip
Found = tuple[int, frozenset[str], str]


async def found_at(browser: Browser, place: str, role: str) -> Found:
    """Return the status of a page, the ids in it, and the anchor of a redirect that led there."""
    reply, anchor = await browser.get(place, role), ""
    if reply.status == 303:
        place, _, anchor = reply.headers["location"].partition("#")
        reply = await browser.get(place, role)
    ids = (each.get("id") for _, each in Reader(plain(reply)).elements)
    return reply.status, frozenset(each for each in ids if each), anchor


@pytest.mark.asyncio
async def test_no_link_leads_to_a_dead_anchor(browser: Browser) -> None:
    """Each link is for its reader, and into a page it meets an element, also after a redirect."""
    await browser.world.template()
    await browser.world.make("Pool", "exam", {"template": "metal"})
    await browser.world.make("Worker", "w1", {"template": "metal"})
    await browser.world.definition()
    made = await browser.world.session("s1", owner="user")
    await browser.world.status(made, phase=SessionPhase.RUNNING, worker="w1")
    seen = 0
    for role in ("admin", "user"):
        known: dict[str, Found] = {}
        for path in PAGES:
            # The open tab is a link without an address.
            links = [
                each.get("href") for each in (Reader(plain(await browser.get(path, role)))).all("a")
            ]
            for href in {each for each in links if each}:
                place, _, anchor = href.partition("#")
                if (place or path) not in known:
                    known[place or path] = await found_at(browser, place or path, role)
                status, ids, led = known[place or path]
                wanted = led or anchor
                assert not wanted or wanted in ids, (role, path, href)
                assert status == 200 or not place, (role, path, href)
                seen += bool(wanted)
    assert seen > 40
