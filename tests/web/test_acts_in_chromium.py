"""Acting by clicking alone, in a real browser (Debian's chromium)."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from api_caller import ADMIN
from screen import SCRIPT, Screen

from labfleet.resources.session import Session
from labfleet.resources.worker import Worker, WorkerPhase

pytestmark = pytest.mark.real
SAID = "document.querySelector('.said')?.innerText"


def click(text: str, tag: str = "a") -> str:
    return f"[...document.querySelectorAll('main {tag}')].find((e) => e.innerText === '{text}').click()"


@pytest.mark.asyncio
async def test_a_worker_is_drained_and_opened_again_by_clicks(screen: Screen) -> None:
    """From its page a worker is drained, the page says what the server said, and it is taken back."""
    world = screen.browser.world
    await world.template()
    made = await world.make("Worker", "w1", {"template": "metal"})
    await world.status(made, phase=WorkerPhase.READY)
    tab = await screen.signed_in("/workers/w1")
    await tab.run(click("Drain"))
    await tab.until(
        "location.pathname === '/act/drain/workers/w1' && !!document.querySelector('form.asked')"
    )
    await tab.run("document.querySelector('[name=reason]').value = 'a <b>disk'")
    await tab.run(click("Drain", "button"))
    await tab.until(f"{SAID}?.includes('Asked: w1 is to be empty by')")
    assert await tab.run("location.pathname + location.search") == "/workers/w1"
    found = await world.services.objects.get(Worker, "w1", "default")
    assert found is not None
    assert found.spec.drain is not None
    assert found.spec.drain.reason == "a <b>disk"
    await tab.run(click("Take it back"))
    await tab.until("location.pathname === '/act/cancel-drain/workers/w1'")
    await tab.until("!!document.querySelector('form.asked button')")
    await tab.run(click("Cancel drain", "button"))
    await tab.until(f"{SAID}?.includes('is open for sessions again')")
    await tab.go(f"{screen.url}/workers/w1")
    assert await tab.run(f"{SAID} ?? 'nothing'") == "nothing"


@pytest.mark.asyncio
async def test_a_page_of_an_earlier_server_keeps_what_was_typed(screen: Screen) -> None:
    """Back after an upgrade, a form that says something waits without the focus; an empty one renews."""
    await screen.browser.world.definition()
    tab = await screen.signed_in("/act/book/groups")
    assert await tab.run("document.querySelector('[name=zone]').value")
    version = json.dumps(await tab.run(SCRIPT) + "version.js")
    back = f"import({version}).then((version) => version.renewIfOld())"
    await tab.run(
        "window.stays = true; window.fetch = async () => ({ status: 404 });"
        "performance.now = () => 1e6;"
    )
    for name, filled, empty in (
        ("roster", "field.value = 'ada'", "field.value = ''"),
        ("full", "field.selectedIndex = 1", "field.selectedIndex = 0"),
    ):
        field = f"const field = document.querySelector('[name={name}]');"
        await tab.run(f"(() => {{ {field} {filled} }})(); document.activeElement.blur()")
        await tab.run(back)
        assert await tab.run("window.stays === true"), name
        await tab.run(f"(() => {{ {field} {empty} }})()")
    await tab.run(f"void {back}")
    await tab.until("document.readyState === 'complete' && window.stays !== true")


@pytest.mark.asyncio
async def test_two_quick_clicks_extend_once_and_the_end_of_a_visit_shows(screen: Screen) -> None:
    """A double click on the button of a form counts once; a banner counts down to the token's end."""
    world = screen.browser.world
    await world.definition()
    slot = {"start": "2026-11-28T09:00:00Z", "end": "2026-11-28T10:00:00Z"}
    await world.session("s1", owner="kim", slot=slot)
    end = world.clock.now() + timedelta(minutes=50)
    made = await screen.browser.tokens.create(ADMIN, role="user", owner="kim", expires=end)
    screen.browser.secrets["admin/"] = made.text
    tab = await screen.signed_in("/act/extend/sessions/s1")
    await tab.until("document.getElementById('ends').classList.contains('urgent')")
    assert " min" in await tab.run("document.getElementById('ends').innerText")
    await tab.run("for (let i = 0; i < 2; i++) document.querySelector('form.asked button').click()")
    await tab.until(f"{SAID}?.includes('Done: s1 ends')")
    found = await world.services.objects.get(Session, "s1", "default")
    assert found is not None
    assert found.spec.slot.end is not None
    assert f"{found.spec.slot.end:%H:%M}" == "10:30"
