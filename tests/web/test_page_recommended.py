"""The tab of a definition's observation says what it should ask for, to those who look after definitions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from browser import Browser, plain

from labfleet.interfaces import store as stores
from labfleet.resources.history import Run, RunKind, Use

TAB = "/definitions/campus?tab=observation"
OURS = "What may be applied"


async def past(browser: Browser, count: int) -> None:
    """A definition that asks for four times what its nodes reserve, and past sessions of it."""
    world = browser.world
    await world.definition("campus", resources={"cpu": 8, "memory": "4Gi"})
    use = {"cpu_milli": Use(peak=500.0), "memory_mib": Use(peak=700.0)}
    writes = tuple(
        stores.Teach(
            Run(
                kind=RunKind.SESSION, uid=f"u{number}", family="campus", use=use,
                duration_seconds=3600.0, ended_at=world.clock.now() - timedelta(hours=1),
            )
        )
        for number in range(count)
    )  # fmt: skip
    if writes:
        await world.store.commit(stores.Commit(stores.Cause("t", world.clock.now()), writes))
    await world.services.fresh()


@pytest.mark.asyncio
async def test_the_panel_has_figures_choices_and_the_command(browser: Browser) -> None:
    """What is configured, what was used, what follows, and how an admin applies it."""
    await past(browser, 6)
    assert OURS not in plain(await browser.get("/definitions/campus"))
    text = plain(await browser.get(TAB))
    assert OURS in text
    for each in (
        "4 GiB",
        "700 MiB",
        "0 of the last 6",
        "no pool serves its track",
        "6 past sessions",
    ):
        assert each in text
    assert "labfleet recommend definition/campus --apply bound" in text


@pytest.mark.asyncio
async def test_without_sessions_the_panel_says_what_is_not_known(browser: Browser) -> None:
    """No figure is 0 where nobody measured, and nothing can be applied."""
    await past(browser, 0)
    text = plain(await browser.get(TAB))
    assert '<span class="unknown"' in text
    assert "0 past sessions" in text
    assert "--apply" not in text


@pytest.mark.asyncio
async def test_people_do_not_see_what_others_used(browser: Browser) -> None:
    """A user has no such tab; an operator may only propose."""
    await past(browser, 6)
    assert (await browser.get(TAB, role="user")).status == 404
    text = plain(await browser.get(TAB, role="operator"))
    assert "--propose bound" in text
    assert "--apply" not in text
