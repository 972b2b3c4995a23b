"""The search of the command box: what it finds, for whom, and how much at most."""

from __future__ import annotations

import pytest
from browser import Browser, Reader, plain

from labfleet.resources.session import Session, SessionSpec

EVIL = '"><img src=x onerror=alert(1)>'


async def found(browser: Browser, text: str, role: str = "admin", owner: str = "") -> list[str]:
    """Return the addresses of the hits in their order."""
    reply = await browser.get(f"/search?q={text}", role, owner)
    assert reply.status == 200
    shown = plain(reply).partition('id="hits"')[2].partition("</ul>")[0]
    return [str(each["href"]) for each in Reader(shown).all("a")]


@pytest.mark.asyncio
async def test_the_nearest_names_come_first(browser: Browser) -> None:
    """A name that is the text, then those that begin with it, then the rest; a kind narrows."""
    await browser.world.definition()
    await browser.world.template()
    for name in ("my-exam", "exam-12", "exam"):
        await browser.world.session(name)
    await browser.world.make("Pool", "exam", {"template": "metal"})
    sessions = ["/sessions/exam", "/sessions/exam-12", "/sessions/my-exam"]
    assert await found(browser, "session+exam") == sessions
    assert await found(browser, "EXAM+sessions") == sessions
    assert await found(browser, "sessions/exam-12") == ["/sessions/exam-12"]
    assert set((await found(browser, "exam"))[:2]) == {"/pools/exam", "/sessions/exam"}
    assert await found(browser, "exam+my") == ["/sessions/my-exam"]


@pytest.mark.asyncio
async def test_a_verb_finds_what_may_be_done(browser: Browser) -> None:
    """`cancel s1` leads to the act on the session, for those who may do it; pages are found too."""
    await browser.world.definition()
    await browser.world.session("s1", owner="kim")
    first = (await found(browser, "cancel+s1"))[0]
    assert first.startswith("/act/cancel/sessions/s1?")
    assert (await found(browser, "cancel+s1", "user", "kim"))[0] == first
    assert await found(browser, "cancel+s1", "user", "eve") == []
    assert await found(browser, "calend") == ["/calendar"]


@pytest.mark.asyncio
async def test_nobody_finds_what_they_may_not_see(browser: Browser) -> None:
    """A user finds their own sessions and no worker or pool, whatever its name."""
    await browser.world.definition()
    await browser.world.template()
    await browser.world.make("Pool", "exam-pool", {"template": "metal"})
    for name, owner in (("exam-kim", "kim"), ("exam-ada", "ada")):
        await browser.world.session(name, owner=owner)
    assert await found(browser, "exam", "user", "kim") == ["/sessions/exam-kim"]
    assert (await browser.get("/search?q=exam", None)).status == 303


@pytest.mark.asyncio
async def test_hits_are_bounded(browser: Browser) -> None:
    """Twenty of many, an answer without hits, and a text that is too long is refused."""
    await browser.many(Session, 300, SessionSpec(definition="two", owner="kim"))
    assert len(await found(browser, "x0")) == 20
    assert len(await found(browser, "session")) == 21  # the page of sessions too
    assert "No object of this name" in plain(await browser.get("/search?q=nothing-of-it"))
    assert (await browser.get("/search?q=" + "x" * 201)).status == 400
    assert Reader(plain(await browser.get(f"/search?q={EVIL}"))).all("img") == []
