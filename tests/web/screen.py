"""A real browser before a real listener of one installation, for tests of the live pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio
from browser import Browser
from chromium import Chromium, Tab
from chromium import chromium as started

from labfleet.app import serving
from labfleet.app.settings import Settings

# The folder of the page's scripts; from there a test gets the page's own modules, not copies.
SCRIPT = "document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')"


@dataclass
class Screen:
    """The browser, the installation that it looks at, and where that is."""

    chromium: Chromium
    browser: Browser
    url: str

    async def signed_in(self, path: str = "/live", role: str = "admin") -> Tab:
        """Open a tab and sign in through the form, as a person does."""
        tab = await self.chromium.open()
        await tab.go(self.url + path)
        if await tab.run("location.pathname === '/login'"):
            token = json.dumps(await self.browser.token(role))
            await tab.run(
                f"document.getElementById('token').value = {token};"
                "document.querySelector('form.card button').click()"
            )
        await tab.until("document.getElementById('mark')?.dataset.state === 'live'")
        fleet = json.dumps(await tab.run(SCRIPT) + "fleet.js")
        # Only tables that the script draws need every object of the fleet.
        await tab.until(
            f"import({fleet}).then((fleet) => fleet.isWhole()"
            " || !document.querySelector('table[data-kind], table[data-events]'))"
        )
        return tab


@pytest_asyncio.fixture
async def screen(browser: Browser, tmp_path: Path) -> AsyncIterator[Screen]:
    """A browser before the installation's listener; any error on its console fails the test."""
    settings = Settings(port=0)
    bound = serving.listen(settings)
    listener = serving.server(browser.app, settings)
    serve = asyncio.get_running_loop().create_task(listener.serve(sockets=[bound]))
    try:
        async with started(tmp_path / "profile") as chromium:
            yield Screen(chromium, browser, f"http://127.0.0.1:{bound.getsockname()[1]}")
            assert chromium.problems == []
    finally:
        browser.app.shutdown()
        listener.should_exit = True
        await serve
        bound.close()
