"""A page of many objects in a real browser: it follows what it names, and holds still for hands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from screen import SCRIPT, Screen

from labfleet.resources.pool import Pool

pytestmark = pytest.mark.real
NAMES = "[...document.querySelectorAll('tr[data-key] th')].map((each) => each.innerText)"
WAITS = "document.querySelector('.waiting')"


@pytest.mark.asyncio
async def test_a_list_follows_its_kind_and_holds_still_under_the_focus(screen: Screen) -> None:
    """Rows come by themselves; under the focus they wait for R, and what stands is filled."""
    world = screen.browser.world
    await world.template()
    tab = await screen.signed_in("/pools")
    await world.make("Pool", "m", {"template": "metal"})
    # The first row of all comes with the form that its box is for.
    await tab.until("document.querySelector('.pick input')?.form?.id === 'several'")
    await world.make("Pool", "b", {"template": "metal"})
    await tab.until(f"{NAMES}.length === 2")
    await tab.run("[...document.querySelectorAll('tr[data-key] th a')][1].focus()")
    pool = await world.services.objects.get(Pool, "m", "default")
    await world.status(pool, workers=7)
    await world.make("Pool", "a", {"template": "metal"})
    await tab.until(f"!{WAITS}.hidden && {WAITS}.innerText === '1 change – press R'")
    await tab.until("document.querySelector('main').innerText.includes('7')")
    assert await tab.run(NAMES) == ["b", "m"]
    await tab.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'r'}))")
    assert await tab.run(NAMES) == ["a", "b", "m"]
    assert await tab.run("document.activeElement.textContent") == "m"
    assert await tab.run(f"{WAITS}.hidden")


@pytest.mark.asyncio
async def test_a_page_asks_the_stream_for_what_it_shows_only(screen: Screen) -> None:
    """A list asks for its kind and no snapshot; a second tab that needs more gets it from the same."""
    world = screen.browser.world
    await world.template()
    await world.definition()
    await world.session("s1")
    first = await screen.signed_in("/pools")
    asks = json.dumps(await first.run(SCRIPT) + "asks.js")
    asked = f"import({asks}).then((asks) => asks.reached.by)"
    assert "kinds=Pool,Settings&frames=objects&snapshot=false&pace=250" in await first.run(asked)
    second = await screen.signed_in("/live")
    assert await second.run(asked) == ""
    await second.until("document.querySelector('table[data-kind=Session] tbody').rows.length === 1")
    assert "snapshot=false" not in await first.run(asked)
    assert screen.browser.app.streams.clients == 1
    await world.session("s2")
    await second.until("document.querySelector('[data-total=Session]').innerText === '2'")


@pytest.mark.asyncio
async def test_the_keyboard_goes_everywhere_and_can_be_switched_off(screen: Screen) -> None:
    """Rows, choosing, pages, the filter, the command box and help; off, single keys do nothing."""
    world = screen.browser.world
    await world.definition()
    for name in ("a", "b"):
        await world.session(name)
    tab = await screen.signed_in("/sessions")
    focus = "document.activeElement.textContent"

    async def press(*keys: str) -> None:
        for key in keys:
            text: dict[str, Any] = {"text": key} if len(key) == 1 else {}
            if key == "Escape":  # closes a dialog by its code alone
                text = {"windowsVirtualKeyCode": 27}
            await tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            await tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    await press("j", "j", "x")
    assert await tab.run(focus) == "b"
    chosen = "[...document.querySelectorAll('.pick input:checked')].map((each) => each.value)"
    assert await tab.run(chosen) == ["default/b"]
    await press("k", "/")
    assert await tab.run("document.activeElement.name") == "q"
    await press("j")
    assert await tab.run("document.activeElement.value") == "j"
    await press("Escape", "?")
    assert await tab.run("document.getElementById('keys').open")
    await press("Escape")
    assert not await tab.run("document.getElementById('keys').open")
    await tab.call("Input.dispatchKeyEvent", type="keyDown", key="k", modifiers=2)
    await tab.call("Input.insertText", text="session b")
    await tab.until("document.querySelector('#found a')?.textContent.startsWith('b')")
    await press("ArrowDown")
    assert await tab.run("document.activeElement.getAttribute('href')") == "/sessions/b"
    await press("Escape", "g", "d")
    await tab.until("location.pathname === '/definitions'")
    await tab.until("document.getElementById('help')?.hidden === false")
    await tab.run(
        "document.getElementById('help').click(); document.getElementById('keys-on').click()"
    )
    await tab.go(f"{screen.url}/sessions")
    await tab.until("document.getElementById('help')?.hidden === false")
    await press("j", "?", "g", "d")
    assert await tab.run("document.activeElement === document.body")
    assert await tab.run("location.pathname") == "/sessions"
