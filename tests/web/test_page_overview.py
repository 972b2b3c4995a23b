"""The first page answers an operator's questions without a click."""

from __future__ import annotations

import re

import planted
import pytest
from browser import Browser, plain


def words_of(html: str) -> str:
    """Return the text of the head of the first page, as somebody reads it."""
    head = html[html.index('class="summary"') : html.index('<section id="workers">')]
    head = re.sub(r'<span class="vh">[^<]*</span>', "", head)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", head))


@pytest.mark.asyncio
async def test_five_facts_are_read_without_a_click(browser: Browser) -> None:
    """Licence, drift, stuck phase, class and costs stand on the first page, with their remedies."""
    await planted.fleet(browser)
    said = words_of(plain(await browser.get("/", "operator")))
    assert "worker w-licence LicenceExpiring hits 2026-11-29 09:00 UTC, in 2 d" in said
    assert "register a new token" in said
    assert "lab two names tcp/5041 unasked" in said
    assert "STARTING for 2 h, limit 25 min" in said
    assert "12 of its 30 seats have no place" in said
    assert "Raise spec.scaling.maxWorkers of its pool" in said
    assert "174.42 USD/h" in said
    assert "30 × two" in said
    assert "no worker has room: the nearest is short of 4 CPU" in said
