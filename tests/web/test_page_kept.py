"""A session's page: the kept lab, with a link for whom it is for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, plain
from fleet_world import who

from labfleet.resources.kept_work import KeptWork
from labfleet.resources.session import SessionPhase

LINK = {"href": "/api/v1/sessions/mine/kept-lab?namespace=default"}


@pytest.mark.asyncio
async def test_a_page_leads_to_the_kept_lab_those_whom_it_is_for(browser: Browser) -> None:
    """The owner and operators; of one for operators its owner sees only until when, later nobody."""
    await browser.world.definition(keep="owner")
    made = await browser.world.session("mine", who("user", "kim"))
    assert "nothing is kept" in plain(await browser.get("/sessions/mine", "user", "kim"))
    now = browser.world.clock.now()
    for readers, links in (("owner", (True, True)), ("operators", (False, True))):
        work = KeptWork(readers=readers, at=now, until=now + timedelta(days=7))
        await browser.world.status(made, phase=SessionPhase.COMPLETED, kept=work)
        for caller, there in zip((("user", "kim"), ("operator", "")), links, strict=True):
            page = await browser.page("/sessions/mine", *caller)
            assert (LINK in page.all("a")) == there, (readers, caller)
            assert "Kept until" in plain(await browser.get("/sessions/mine", *caller))
    browser.world.clock.forward(8 * 24 * 3600.0)
    assert LINK not in (await browser.page("/sessions/mine", "operator", "")).all("a")
