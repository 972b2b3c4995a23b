"""axe over every view of the console, its lists and one page of each kind, in a real Chromium.

Each address is looked at without rows and with many, once each: theme, width and role take turns so
that each value meets every other. `LABFLEET_WEB_ALL=1` (`make web-all`) looks at the whole product.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from planted import detailed, fleet
from screen import Screen

from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionSpec
from labfleet.web.view_table import VIEWS

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
ROLES = ("admin", "user")
# What must hold at once: rules of WCAG 2.2 A and AA, and axe's own best practices.
RUN = """axe.run(document, {resultTypes: ['violations']}).then((found) =>
  found.violations.flatMap((each) => each.nodes.slice(0, 3).map((node) =>
    `${each.id}: ${node.html.slice(0, 160)}`)))"""


@dataclass(frozen=True)
class Look:
    """One way to look at a page."""

    theme: str
    width: int
    role: str


LOOKS = tuple(
    Look(theme, width, role)
    for theme, width, role in itertools.product(("light", "dark"), (1280, 390), ROLES)
)


def pages() -> list[str]:
    """Return the addresses of all views without a name in them, and of the lists of all kinds."""
    views = [view.path for view in VIEWS if not view.path.endswith("/") or view.path == "/"]
    return [*views, *(f"/{row.plural}" for row in KINDS.values() if f"/{row.plural}" not in views)]


def chosen(number: int) -> tuple[Look, ...]:
    """Return how the page of this number is looked at: all looks, or one that differs from others'."""
    if os.environ.get("LABFLEET_WEB_ALL"):
        return LOOKS
    # 3 has no common divisor with 8: eight pages after each other have every look once.
    return (LOOKS[number * 3 % len(LOOKS)],)


async def found(screen: Screen, paths: list[str], first: int) -> list[str]:
    """Return what axe finds on the pages, with where it was found."""
    script, problems = AXE.read_text(encoding="utf-8"), []
    for role in ROLES:
        tab = await screen.signed_in("/login", role)
        for number, path in enumerate(paths, first):
            for look in (each for each in chosen(number) if each.role == role):
                await tab.call(
                    "Emulation.setDeviceMetricsOverride",
                    width=look.width, height=900, deviceScaleFactor=1, mobile=False,
                )  # fmt: skip
                await tab.go(screen.url + path)
                await tab.run(f"document.documentElement.dataset.theme = {json.dumps(look.theme)}")
                await tab.run(script)
                problems += [f"{path} {look}: {each}" for each in await tab.run(RUN)]
        await tab.call("Network.clearBrowserCookies")
        # Pages that say "not for you" are looked at too; the console calls their status an error.
        allowed = ("status of 403", "status of 404") if role == "user" else ()
        problems += [
            each for each in screen.chromium.problems if not any(said in each for said in allowed)
        ]
        screen.chromium.problems.clear()
    return problems


@pytest.mark.asyncio
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here: sh scripts/javascript.sh")
async def test_axe_finds_nothing_on_any_page_without_rows(screen: Screen) -> None:
    """An empty installation: what to do stands there, and everybody can read and reach it."""
    assert await found(screen, pages(), 0) == []


@pytest.mark.asyncio
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here: sh scripts/javascript.sh")
async def test_axe_finds_nothing_on_any_page_with_many_rows(screen: Screen) -> None:
    """A fleet with things to see, a list of more than one page, and one object of each kind."""
    await fleet(screen.browser)
    await detailed(screen.browser, "w-detailed")
    await screen.browser.many(Session, 230, SessionSpec(definition="two", owner="user"))
    cache = screen.browser.world.services.cache
    await screen.browser.world.services.fresh()
    ones = [f"/{row.plural}/{keys[0].name}"
            for row in KINDS.values() if (keys := cache.keys(row.type))]  # fmt: skip
    assert await found(screen, [*pages(), *ones, "/search?q=x0"], 4) == []
