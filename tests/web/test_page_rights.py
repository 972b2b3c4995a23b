"""What a page shows to somebody who may not read everything, and when there is no page."""

from __future__ import annotations

import pytest
from browser import Browser, Reader, plain

from labfleet.resources.session import SessionPhase


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/live", "/sessions/s1"])
async def test_a_name_is_a_link_for_those_who_may_read_it(browser: Browser, path: str) -> None:
    """A session's worker is a link for operators and text for its owner, who may not read it."""
    world = browser.world
    await world.template()
    await world.make("Worker", "w1", {"template": "metal"})
    await world.definition()
    made = await world.session("s1", owner="kim")
    await world.status(made, phase=SessionPhase.RUNNING, worker="w1")
    for role, linked in (("operator", True), ("user", False)):
        text = plain(await browser.get(path, role, "kim"))
        assert ({"href": "/workers/w1"} in Reader(text).all("a")) is linked
        assert ">w1<" in text


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "status"), [("/nope", 404), ("/workers/w1", 403),
                                              ("/workers", 403), ("/sessions/none", 404)])  # fmt: skip
async def test_an_error_leaves_everything_around_it(
    browser: Browser, path: str, status: int
) -> None:
    """Somebody who is signed in keeps navigation, theme and sign-out; what is wrong is said."""
    reply = await browser.get(path, "user", "kim")
    page = Reader(plain(reply))
    assert reply.status == status
    assert {"href": "/docs"} in page.all("a")
    assert {"href": "/sessions"} in page.all("a")
    assert {"href": "/workers"} not in page.all("a")
    assert [each["action"] for each in page.all("form") if each.get("method") == "post"] == [
        "/logout"
    ]
    assert "Theme: auto" in plain(reply)
    assert ("may not read workers" in plain(reply)) is (status == 403)


@pytest.mark.asyncio
async def test_an_error_shows_nothing_to_others(browser: Browser) -> None:
    """Without a token, and where the form came from elsewhere, there is no navigation."""
    for reply in (await browser.get("/static/none", None), await browser.post("/logout", {})):
        assert Reader(plain(reply)).all("form") == []
        assert "/sessions" not in plain(reply)
